#!/usr/bin/env python3
"""Does nccl-tests gain as much from what `cclmark tune` found as cclmark reports?

    python benchmarks/tune_beside_nccl_tests.py --nccl-tests DIR --tuned DIR --journal FILE
        [--rounds 5] [--graphs N] [--out FILE.json]

--tuned is the directory that `cclmark tune` wrote on this machine, --journal its journal. The
programs of nccl-tests (DIR, built with MPI=1) run in turn by default and as tuned: with the
environment file, if there is one, and with the program changes of `tune --app-changes yes` at the
sizes that the last round of the proof measured with them (-R 1 registers the buffers, -R 2 puts
them into symmetric windows). --out is written after every round.
In each round the default runs before and after the tuned programs. Per operation and size: the
median of the ratios of both times in each round with the smallest and largest one, the same of the
default's first run over its second one, which is the noise, and the ratio from the proof of tune;
then the geometric means over the sizes with program changes and over the others.
nccl-tests must load the library that was tuned, for example by LD_LIBRARY_PATH: the files do not
apply to another version.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from fidelity import mpirun

from cclmark.journal.journal_file import Journal
from cclmark.kinds.experiment.measured_trials import compared_time
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.work.variants import REGISTRATION, Variant


def variables_of(path: Path) -> dict[str, str]:
    """The variables that a shell has after reading the file, none without a file."""
    if not path.exists():
        return {}
    script = f'. "{path}"; env -0'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    pairs = (line.partition("=") for line in done.stdout.split("\0") if line)
    return {name: value for name, _, value in pairs if os.environ.get(name) != value}


def check_library(output: str, expected: str) -> None:
    """Raises SystemExit if the output of nccl-tests names another version of the library."""
    found = re.search(r"nccl-library=(\d+)", output)
    if found is None:
        return  # of a version of nccl-tests that does not print it
    code = int(found[1])  # as ncclGetVersion gives it
    version = f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    if version != expected:
        sys.exit(f"nccl-tests loads NCCL {version}, the files are for {expected}: LD_LIBRARY_PATH?")


def times(
    args: argparse.Namespace,
    operation: str,
    more: dict[str, str],
    library: str,
    changes: str = "",
) -> dict[int, float]:
    """Out-of-place microseconds by size."""
    flags = f"-b {args.begin} -e {args.end} -f {args.factor} -n 20 -w 5 -c 0 -a 3".split()
    flags += changes.split()
    if args.graphs:
        flags += ["-G", str(args.graphs)]
    command = mpirun(args.ranks, args.nccl_tests / f"{operation}_perf", flags)
    done = subprocess.run(
        command, env={**os.environ, **more}, capture_output=True, text=True, timeout=120, check=True
    )
    check_library(done.stdout, library)
    rows = (line.split() for line in done.stdout.splitlines() if re.match(r"\s+\d+\s+\d+\s", line))
    return {int(row[0]): float(row[5]) for row in rows}


def flags_of(variant: Variant) -> str | None:
    """The flags of nccl-tests for the program changes of a variant, None if it lacks them."""
    flags = {"none": "", "local": "-R 1", "symmetric": "-R 2"}
    found = ""
    for one in variant.assignments:
        if one.name == REGISTRATION:
            found = flags[one.value]
        elif not one.is_variable:
            return None
    return found


def proven(journal: Journal) -> dict[tuple[str, int], tuple[Variant, float]]:
    """By operation and size: the tuned variant, and the default's time over its time.

    The ratio is the median over the rounds of the proof. A proof may be repeated with other rules;
    at each size the variant that was measured last counts.
    """
    rounds: dict[tuple[str, int, int], dict[str, float]] = defaultdict(dict)
    tuned: dict[tuple[str, int, int], Variant] = {}
    for one in journal.of(TrialResult):
        time_s = compared_time(one)
        if one.trial.stage == "proof" and time_s is not None and not one.trial.variant.control:
            name = "default" if one.trial.variant.is_default else "tuned"
            key = (one.trial.case.operation, one.trial.case.size_bytes, one.trial.round)
            rounds[key][name] = time_s
            if name == "tuned":
                tuned[key] = one.trial.variant
    last: dict[tuple[str, int], Variant] = {}
    for operation, size, number in sorted(tuned):
        last[operation, size] = tuned[operation, size, number]
    ratios: dict[tuple[str, int], list[float]] = defaultdict(list)
    for (operation, size, number), pair in rounds.items():
        if len(pair) == 2 and tuned[operation, size, number] == last[operation, size]:
            ratios[operation, size].append(pair["default"] / pair["tuned"])
    return {key: (last[key], median(values)) for key, values in ratios.items()}


def spread(values: list[float]) -> str:
    """The median with the smallest and the largest value."""
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--tuned", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--operations", default="all_reduce,all_gather,reduce_scatter")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--begin", default="1M")
    parser.add_argument("--end", default="1G")
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--graphs", type=int, default=0, help="nccl-tests' -G: replays of a graph")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    journal = read_journal(args.journal)
    library = journal.header.libraries[0].version
    ours = proven(journal)
    variables = variables_of(args.tuned / "environment.sh")
    changes = {key: flags_of(variant) for key, (variant, _) in ours.items()}
    if not variables and not any(changes.values()):
        sys.exit(f"{args.tuned} sets no variable, and {args.journal} has no program change")
    found: dict[str, dict[int, list[float]]] = {}
    noise: dict[str, dict[int, list[float]]] = {}
    for _ in range(args.rounds):
        for operation in args.operations.split(","):
            usual = times(args, operation, {}, library)
            flags = {changes.get((operation, size), "") for size in usual} - {None}
            if not variables:
                flags.discard("")
            tuned = {one: times(args, operation, variables, library, one) for one in flags}
            again = times(args, operation, {}, library)
            for size, time_us in usual.items():
                noise.setdefault(operation, {}).setdefault(size, []).append(time_us / again[size])
                if (by_size := tuned.get(changes.get((operation, size), ""))) is not None:
                    own = found.setdefault(operation, {}).setdefault(size, [])
                    own.append(time_us / by_size[size])
        if args.out is not None:
            content = {"gains": found, "default_against_itself": noise}
            args.out.write_text(json.dumps(content, indent=1) + "\n")
    for operation, by_size in found.items():
        medians = {size: median(values) for size, values in by_size.items()}
        for size in medians:
            text = f"{operation:16}{size:12}  {changes.get((operation, size), ''):5}"
            text += f"nccl-tests {spread(by_size[size])}"
            text += f"  default against itself {spread(noise[operation][size])}"
            own = ours.get((operation, size))
            print(text if own is None else f"{text}  cclmark {own[1]:.3f}")
        for name, changed in (("with program changes", True), ("without", False)):
            both = [one for one in medians if (operation, one) in ours]
            both = [one for one in both if bool(changes[operation, one]) == changed]
            if both:
                print(
                    f"{operation}, {len(both)} sizes {name}, geometric mean: nccl-tests "
                    f"{mean([medians[one] for one in both]):.3f}, cclmark "
                    f"{mean([ours[operation, one][1] for one in both]):.3f}"
                )


if __name__ == "__main__":
    main()
