"""The process and the host to which each rank of a run belongs."""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.launch.coordinator import Coordinator


@dataclass(frozen=True)
class RankLayout:
    """The process of each rank and a number for its host, by rank."""

    process_of: list[int]
    host_of: list[int]


def lay_out(coordinator: Coordinator, ranks: int) -> RankLayout:
    """The layout of the ranks. A single process may hold all devices as one rank."""
    process_of = coordinator.process_of_rank if len(coordinator.joins) > 1 else [0] * ranks
    return RankLayout(process_of, [coordinator.host_of[process] for process in process_of])
