"""Sums of a profile: operations of all groups together, and of each process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from cclmark.base.grouping import by_key
from cclmark.journal.item_results import ProfileResult
from cclmark.journal.schema import Profile, ProfiledChoice, ProfileFigures, ProfileProcess
from cclmark.work.profiled import ProfiledOperation


@dataclass
class OperationSum:
    """An operation in all groups of one size and name that call it.

    ``calls``, ``bytes``, ``total_s`` and others: by process. Times are None where none is known.
    """

    operation: ProfiledOperation
    groups: list[int] = field(default_factory=list)
    figures: list[ProfileFigures] = field(default_factory=list)
    choices: list[ProfiledChoice] = field(default_factory=list)

    def by_process(self) -> dict[int, list[ProfileFigures]]:
        """The figures of each process, which may be in several groups."""
        return by_key((one.process, one) for one in self.figures)

    @property
    def calls(self) -> tuple[int, int]:
        """The smallest and the largest number of calls of a process."""
        counts = [sum(one.calls for one in own) for own in self.by_process().values()]
        return min(counts), max(counts)

    @property
    def bytes(self) -> int:
        """The largest number of bytes of a process."""
        return max(sum(one.bytes for one in own) for own in self.by_process().values())

    @property
    def total_s(self) -> float | None:
        """The mean time of a process; None if it is not known of all timed calls."""
        if any(one.total_s is None and one.timed for one in self.figures):
            return None
        return self._mean([one.total_s for one in self.figures])

    @property
    def exposed_s(self) -> float | None:
        """The mean time of a process in which no other kernel ran."""
        return self._mean([one.exposed_s for one in self.figures])

    @property
    def median_s(self) -> float | None:
        """The median time of a call, averaged over processes."""
        known = [one.median_s for one in self.figures if one.median_s is not None]
        return sum(known) / len(known) if known else None

    @property
    def wait_share(self) -> float | None:
        """The share of the time of all processes in which they waited for another one."""
        compared = [one for one in self.figures if one.wait_s is not None and one.timed]
        if not compared:
            return None
        # Waiting is known of the compared calls only.
        total_s = sum((one.total_s or 0.0) * one.compared / one.timed for one in compared)
        return sum(one.wait_s or 0.0 for one in compared) / total_s if total_s else None

    @property
    def unreported(self) -> int:
        """The calls of all processes that were not reported as executed."""
        return sum(one.unreported for one in self.figures)

    def _mean(self, values: Sequence[float | None]) -> float | None:
        known = [one for one in values if one is not None]
        processes = len(self.by_process())
        return sum(known) / processes if known else None


def of_all_processes(result: ProfileResult) -> ProfileFigures:
    """The figures of an operation over all processes; the median is the mean of their medians."""
    medians = _known(result, "median_s")
    return ProfileFigures(
        process=0,
        calls=sum(one.calls for one in result.figures),
        bytes=sum(one.bytes for one in result.figures),
        total_s=_sum(result, "total_s"),
        median_s=sum(medians) / len(medians) if medians else None,
        wait_s=_sum(result, "wait_s"),
        exposed_s=_sum(result, "exposed_s"),
    )


def _sum(result: ProfileResult, name: str) -> float | None:
    return sum(known) if (known := _known(result, name)) else None


def _known(result: ProfileResult, name: str) -> list[float]:
    values = (getattr(one, name) for one in result.figures)
    return [one for one in values if one is not None]


@dataclass
class ProcessWait:
    """How long a process waited for others, and in how many calls it arrived last."""

    wait_s: float = 0.0
    compared: int = 0
    last: int = 0


def completed(profile: Profile | None, results: Sequence[ProfileResult]) -> Profile:
    """A profile with all processes of ``results``, also if its line of the journal is damaged."""
    found = profile if profile is not None else Profile("")
    figures = [one for result in results for one in result.figures]
    known = len(found.processes)
    number = min(1 + max((one.process for one in figures), default=-1), known + len(figures))
    others = [
        ProfileProcess(rank, "", 0, sum(one.calls for one in figures if one.process == rank), 0)
        for rank in range(known, number)
    ]
    return msgspec.structs.replace(found, processes=[*found.processes, *others])


def sums_of(results: Sequence[ProfileResult], profile: Profile | None) -> list[OperationSum]:
    """Adds up the same operations of groups of the same size and name, in their order."""
    found: dict[tuple[ProfiledOperation, str], OperationSum] = {}
    for result in results:
        number = result.profiled.group
        known = profile is not None and number < len(profile.groups)
        name = profile.groups[number].name if profile is not None and known else ""
        key = (msgspec.structs.replace(result.profiled, group=0), name)
        own = found.setdefault(key, OperationSum(result.profiled))
        own.groups.append(number)
        own.figures += result.figures
        own.choices = _added(own.choices, result.choices)
    return list(found.values())


def waits_of_processes(results: Sequence[ProfileResult]) -> dict[int, ProcessWait]:
    """What each process waited in all operations, by its number."""
    found: dict[int, ProcessWait] = {}
    for result in results:
        for one in result.figures:
            if one.wait_s is not None:
                own = found.setdefault(one.process, ProcessWait())
                own.wait_s += one.wait_s
                own.compared += one.compared
                own.last += one.last
    return found


def parts_of_time(one: ProfileProcess) -> list[tuple[str, float]]:
    """The parts of the span of a process with known communication, in seconds."""
    communication_s = one.communication_s or 0.0
    if one.compute_s is None or one.exposed_s is None:
        parts = [("communication", communication_s), ("other", one.span_s - communication_s)]
    else:
        overlapped_s = communication_s - one.exposed_s
        parts = [
            ("compute alone", one.compute_s - overlapped_s),
            ("overlapped communication", overlapped_s),
            ("exposed communication", one.exposed_s),
            ("no work of the device", one.span_s - one.compute_s - one.exposed_s),
        ]
    return [(name, max(0.0, time_s)) for name, time_s in parts]


def _added(
    choices: Sequence[ProfiledChoice], others: Sequence[ProfiledChoice]
) -> list[ProfiledChoice]:
    counts: dict[tuple[str, str, int], int] = {}
    for one in (*choices, *others):
        key = (one.kernel, one.protocol, one.channels)
        counts[key] = counts.get(key, 0) + one.calls
    ordered = sorted(counts.items(), key=lambda entry: -entry[1])
    return [ProfiledChoice(*key, calls) for key, calls in ordered]
