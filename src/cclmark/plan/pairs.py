"""Collectives of every two devices: each pair a communicator of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from cclmark.plan.cases import Case, Sweep
from cclmark.plan.transfers import disjoint_rounds

Pair = tuple[int, int]

PAIR_OPERATIONS = (
    *("all_gather", "all_reduce", "alltoall", "alltoallv", "broadcast", "reduce"),
    *("reduce_scatter", "sendrecv", "ping_pong"),
)


def pair_rounds(devices: int) -> list[list[Pair]]:
    """Every two of ``devices`` once, in rounds in which no device appears twice."""
    # Every second round of ordered pairs is the one before it the other way round.
    rounds = disjoint_rounds(devices)[::2]
    return [[(min(pair), max(pair)) for pair in pairs] for pairs in rounds]


@dataclass(frozen=True)
class PairPlan:
    """A sweep over two ranks, for each pair of ``devices``."""

    sweep: Sweep
    devices: int

    def cases(self) -> Iterator[Case]:
        """Every case once, those of a pair next to each other and in the same order for each."""
        of_two = list(self.sweep.cases())
        for pairs in pair_rounds(self.devices):
            for pair in pairs:
                for case in of_two:
                    yield msgspec.structs.replace(case, pair=pair)
