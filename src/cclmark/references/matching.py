"""Selects the reference to compare a figure with, and computes the share that was reached.

A reference must have the same operation, the same kinds of devices and a similar size. Other known
differences are reported: a match without any difference is ``exact``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cclmark.journal.method import is_of_method, unusual_method
from cclmark.journal.schema import Header, Summary
from cclmark.references.match import LEAST_JUDGED_BYTES, Match, tool_difference
from cclmark.references.reference import Reference
from cclmark.references.reference_curves import SATURATED_BYTES, CurveGroup, groups_of
from cclmark.work.cases import Case
from cclmark.work.device_names import is_known, kind_of
from cclmark.work.libraries import title_of
from cclmark.work.library_settings import allows
from cclmark.work.operations import OPERATIONS, info_of

# Below this size the time depends on the processors that launch an operation.
_LAUNCH_BOUND_BYTES = 1 << 20
BY_MULTICAST = tuple(name for name, row in OPERATIONS.items() if row.multicast)
# The assumed values if a source reports no type or reduction.
_USUAL_DTYPES = ("float32", "float16", "bfloat16")
_USUAL_REDUCTIONS = ("sum",)
# These tools report the mean over ranks by default.
_MEANS_OVER_RANKS = ("nccl-tests", "rccl-tests")
_MEAN = "mean over ranks"
_LEAST_OF_OTHER_COUNT = 3  # two devices use only the links of one pair


class References:
    """References for the cases of one run. They are sorted once, because cases may be many."""

    def __init__(self, references: Iterable[Reference], header: Header) -> None:
        """``header``: of the run's journal."""
        self._groups = groups_of(references)
        self._run = _Run(header)
        self._fair: dict[tuple[object, ...], list[CurveGroup]] = {}

    def nearest(self, case: Case, summary: Summary, device: Summary | None = None) -> Match | None:
        """The reference for a case of the run; None if no reference is comparable.

        ``summary``: the cost of a call. ``device``: the time of the devices, if they were measured
        apart; it is compared with references that contain it too, others with ``summary``.

        The operation, the kinds of devices and the numbers of devices and hosts are the same. The
        number of devices may differ within one host whose devices are connected by NVLink, for
        large messages without multicast; this is reported as a difference. There are three
        possibilities for the size. It is the same. Or it lies between two sizes of one curve that
        are at most a factor of 4 apart: the time is interpolated linearly, and decides nothing if
        the bandwidths of the two differ by more than a fifth. Or, from 256 MiB on, it is the
        nearest size within a factor of 2.
        """
        if summary.busbw_bytes_per_s <= 0 or case.operation not in self._groups:
            return None
        wanted = self._run.wanted(case)
        if wanted is None:
            return None
        best: tuple[tuple[object, ...], Match] | None = None
        for group in self._groups_for(wanted):
            found = group.at(case.size_bytes, case.pair)
            if found is None:
                continue
            series, point = found
            if series.count != wanted.count and not _saturated(point.reference, case):
                continue
            own, expected = summary, point.bandwidth
            by_device = device is not None and point.by_device is not None
            if device is not None and point.by_device is not None:
                own, expected = device, point.by_device
            match = Match(
                reference=point.reference,
                share=own.busbw_bytes_per_s / expected,
                bandwidth=expected,
                time_s=own.time_s * own.busbw_bytes_per_s / expected,
                size=point.words,
                alike=series.count == wanted.count and series.library in (case.ccl, ""),
                differences=(*wanted.differences(series), *point.doubts),
                small=case.size_bytes < LEAST_JUDGED_BYTES,
                by_device=by_device,
            )
            rank = (*wanted.rank(series, match), point.distance)
            if best is None or rank < best[0]:
                best = rank, match
        return None if best is None else best[1]

    def _groups_for(self, wanted: _Wanted) -> list[CurveGroup]:
        """The groups with comparable devices and hosts: the same for all sizes and pairs."""
        case = wanted.case
        key = (case.operation, case.ranks, frozenset(wanted.kinds.items()), wanted.hosts)
        if key not in self._fair:
            self._fair[key] = [
                group
                for group in self._groups[case.operation]
                if wanted.may_be_held_against(group.series)
            ]
        return self._fair[key]


def kinds_of(header: Header, ranks: Iterable[int] | None = None) -> Counter[str]:
    """The number of devices of each kind in the run, or among ``ranks``."""
    wanted = None if ranks is None else set(ranks)
    return Counter(
        kind_of(device.name) for device in header.devices if wanted is None or device.rank in wanted
    )


def multicast_of(environment: Mapping[str, str], operation: str, hosts: int = 1) -> bool | None:
    """Whether NCCL uses NVLink's multicast: False if its variables exclude it, otherwise None."""
    if environment.get("NCCL_NVLS_ENABLE") == "0":
        return False
    if operation not in BY_MULTICAST:
        return None
    using = ["nvls"]
    if operation == "all_reduce" and hosts > 1:  # NCCL has no tree of them on one host
        using.append("nvlstree")
    chosen = [allows(environment.get("NCCL_ALGO", ""), operation, name) for name in using]
    return False if all(one is False for one in chosen) else None


class _Run:
    """The properties of a run's header that references are selected by, looked up once."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.kinds = kinds_of(header)
        told = header.imported.hosts if header.imported is not None else 0
        self._hosts = hosts = max(1, len(header.hosts), told)
        self.multicast = {
            operation: multicast_of(header.environment, operation, hosts)
            for operation in BY_MULTICAST
        }
        # For runs of another tool, hosts and variables may be unknown.
        imported = header.imported is not None
        self.multicast_is_known = not imported or bool(header.environment)
        self.joined = {link.device for link in header.links if link.kind == "NVLink"}
        self._methods: dict[str, list[str]] = {}
        self._uneven = header.settings.pattern != "uniform"
        self._by_rank = {device.rank: device for device in header.devices}
        named = all(device.host for device in header.devices)
        self._hosts_are_known = not imported or told > 0 or named

    def method(self, ccl: str) -> list[str]:
        """The unusual parts of the method that affect the times of a library, in words."""
        if ccl not in self._methods:
            self._methods[ccl] = unusual_method(self.header, ccl)
        return self._methods[ccl]

    def wanted(self, case: Case) -> _Wanted | None:
        """The properties to search for; None for unknown devices and for parts of unequal sizes."""
        kinds, hosts = self.kinds, self._hosts
        if case.pair is not None:
            own = [self._by_rank[rank] for rank in case.pair if rank in self._by_rank]
            kinds = Counter(kind_of(device.name) for device in own)
            hosts = max(1, len({device.host for device in own}))
        uneven = case.matrix and self._uneven
        if uneven or sum(kinds.values()) != case.ranks or not all(map(is_known, kinds)):
            return None
        return _Wanted(case, self, kinds, hosts, self._hosts_are_known)


@dataclass(frozen=True)
class _Wanted:
    """The properties that a reference must have. ``hosts``: their number, 1 if unknown."""

    case: Case
    run: _Run
    kinds: Counter[str]
    hosts: int
    hosts_are_known: bool

    @property
    def count(self) -> int:
        return self.case.ranks

    def may_be_held_against(self, one: Reference) -> bool:
        """Whether devices and hosts are comparable, and the number of devices if it differs."""
        if {kind for kind, _ in one.devices} != set(self.kinds) or one.hosts != self.hosts:
            return False
        if dict(one.devices) == dict(self.kinds):
            return True
        return self._tolerates_count_of(one)

    def _tolerates_count_of(self, one: Reference) -> bool:
        """Whether another number of devices is comparable: on one host with NVLink, and without
        multicast, whose gain depends on the number.
        """
        if self.hosts != 1 or len(self.kinds) != 1:
            return False
        if min(one.count, self.count) < _LEAST_OF_OTHER_COUNT:
            return False
        if (
            self.case.operation in BY_MULTICAST
            and (one.multicast, self.run.multicast[self.case.operation]) != (False,) * 2
        ):
            return False
        return all(rank in self.run.joined for rank in range(self.count))

    def differences(self, series: Reference) -> list[str]:
        """The known differences, in words."""
        case, found = self.case, []
        if series.count != self.count:
            found.append(f"{series.count} devices there, {self.count} here")
        if series.library and series.library != case.ccl:
            found.append(f"{title_of(series.library)} there, {title_of(case.ccl)} here")
        if series.root not in (case.root, None):
            found.append(f"root {series.root} there, root {case.root} here")
        found += self._multicast(series)
        if info_of(case.operation).staged_in_place and bool(series.in_place) != case.in_place:
            there = "in place" if series.in_place else "out of place"
            found.append(f"{there} there, {'in place' if case.in_place else 'out of place'} here")
        if self.hosts > 1 and not series.source.own:
            found.append("the network between the hosts may be another one")
        if series.kind == "floor":
            found.append("it is a floor, no measurement")
        if series.approximate:
            found.append("it is rounded or read off a plot")
        if not self.hosts_are_known:
            found.append("the number of hosts here is unknown")
        found += tool_difference(series, self.run.header)
        found += self._method(series)
        found += self._elements(series)
        if series.launch == "one thread" and case.size_bytes < _LAUNCH_BOUND_BYTES:
            found.append("one thread launched for all devices there")
        return found

    def _multicast(self, series: Reference) -> list[str]:
        if self.case.operation not in BY_MULTICAST:
            return []
        own = self.run.multicast[self.case.operation]
        if not self.run.multicast_is_known and series.multicast is not None:
            there = "on" if series.multicast else "off"
            return [f"multicast {there} there, unknown here"]
        if series.multicast is None:
            left_to_nccl = series.source.own and own is False
            return ["multicast left to NCCL there, off here"] if left_to_nccl else []
        if own is False and series.multicast:
            return ["multicast on there, off here"]
        if own is None and not series.multicast:
            return ["multicast off there, left to NCCL here"]
        return []

    def _method(self, series: Reference) -> list[str]:
        """What differs in the method and affects times; others' sources use the usual method."""
        there = [words for words in series.conditions.split(", ") if is_of_method(words)]
        there = there if series.source.own else []
        own = self.run.method(self.case.ccl)
        if series.tool.startswith(_MEANS_OVER_RANKS) and _MEAN in own:
            there.append(_MEAN)
        here = [f"{words} here" for words in own if words not in there]
        return here + [f"{words} there" for words in there if words not in own]

    def _elements(self, series: Reference) -> list[str]:
        """Differences of type and reduction, for operations that reduce elements."""
        case = self.case
        if case.operation not in OPERATIONS or not OPERATIONS[case.operation].reduces:
            return []
        found = []
        reduction = case.reduction or ""
        for there, here, usual in (
            (series.dtype, case.dtype, _USUAL_DTYPES),
            (series.reduction, reduction, _USUAL_REDUCTIONS),
        ):
            if there and there != here:
                found.append(f"{there} there, {here} here")
            elif not there and here not in usual:
                found.append(f"{here} here")
        return found

    def rank(self, series: Reference, match: Match) -> tuple[object, ...]:
        """The sort key, smaller is nearer: differences first, then unknown and other properties."""
        case = self.case
        return (
            abs(math.log(series.count / self.count)),
            len(match.differences),
            not series.source.own,
            series.pair not in (case.pair, None),
            not series.library,
            series.root is None and case.root is not None,
            series.launch == "one thread",
            series.in_place not in (case.in_place, None),
            series.dtype not in (case.dtype, ""),
            series.reduction not in (case.reduction or "", ""),
            series.in_place is None,
        )


def _saturated(one: Reference, case: Case) -> bool:
    return min(one.size_bytes, case.size_bytes) >= SATURATED_BYTES
