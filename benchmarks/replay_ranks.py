"""How long ``cclmark replay`` works on the step of a profile of many ranks before it starts.

python benchmarks/replay_ranks.py [RANKS:CALLS ...]

The profile is simulated: all ranks call the same collectives on two streams, at their own times,
once without and once with the times of other kernels beside each call.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Sequence
from itertools import product

from cclmark.journal.item_results import ProfileResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    Profile,
    ProfiledCall,
    ProfileFigures,
    ProfileGroup,
    ProfileProcess,
)
from cclmark.work.profiled import PLUG_IN, ProfiledOperation
from cclmark_programs.replay import program_step

_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
_USUAL = ("1000:1000", "2000:1000", "10000:1000")


def profile_of(ranks: int, calls: int, *, with_others: bool) -> Journal:
    """A profile with a step of so many calls of each rank.

    ``with_others``: it has the times of other kernels.
    """
    draw = random.Random(1)
    operations = [
        ProfiledOperation(name, "nccl", 0, ranks, "float32", 256, 1024, False)
        for name in _OPERATIONS
    ]
    windows = []
    for _ in range(ranks):
        at_s, window = 0.0, []
        for call in range(calls):
            time_s = draw.uniform(10e-6, 50e-6)
            beside_s = 0.5 * time_s if with_others else None
            place = call % len(operations)
            window.append(ProfiledCall(place, at_s, time_s, call % 2, beside_s=beside_s))
            at_s += time_s + 5e-6
        windows.append(window)
    profile = Profile(
        PLUG_IN,
        groups=[ProfileGroup("", "0", list(range(ranks)))],
        processes=[
            ProfileProcess(rank, "host", 1, 10, 10, steps=5, step_calls=calls)
            for rank in range(ranks)
        ],
        window=windows,
    )
    results = [
        ProfileResult(number, one, [ProfileFigures(0, 1, one.size_bytes)])
        for number, one in enumerate(operations)
    ]
    return Journal(header=None, results=results, profile=profile)  # type: ignore[arg-type]


def main(sizes: Sequence[str]) -> None:
    """Prints a line for each number of ranks and calls."""
    search = program_step.are_in_step
    spent_s = 0.0

    def timed(*arguments: object) -> bool:
        nonlocal spent_s
        began_s = time.perf_counter()
        found = search(*arguments)  # type: ignore[arg-type]
        spent_s = time.perf_counter() - began_s
        return found

    program_step.are_in_step = timed
    gc.disable()  # as cclmark replay does
    print("ranks  calls of each  others known  whole step s  search for deadlocks s  µs per call")
    for size, with_others in product(sizes or _USUAL, (False, True)):
        ranks, calls = map(int, size.split(":"))
        journal = profile_of(ranks, calls, with_others=with_others)
        began_s = time.perf_counter()
        program_step.step_of(journal, "profile")
        whole_s = time.perf_counter() - began_s
        each_us = whole_s / (ranks * calls) * 1e6
        known = "yes" if with_others else "no"
        figures = f"{whole_s:12.2f}  {spent_s:22.2f}  {each_us:11.2f}"
        print(f"{ranks:5d}  {calls:13d}  {known:>12}  {figures}")
        del journal


if __name__ == "__main__":
    main(sys.argv[1:])
