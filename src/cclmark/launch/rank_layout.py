"""The process and the host to which each rank of a run belongs."""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.launch.crew import Crew


@dataclass(frozen=True)
class RankLayout:
    """The process of each rank and a number for its host, by rank."""

    process_of: list[int]
    host_of: list[int]


def lay_out(crew: Crew, ranks: int) -> RankLayout:
    """The layout of the ranks. A single process may hold all devices as one rank."""
    process_of = crew.process_of_rank if len(crew.joins) > 1 else [0] * ranks
    return RankLayout(process_of, [crew.host_of[process] for process in process_of])
