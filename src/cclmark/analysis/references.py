"""Which reference a figure is to be held against, and what share of it was reached.

A reference must be of the same operation on the same kind of devices, and of a message of a like
size. What else is known to differ is named: a match without any difference is ``exact``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cclmark.analysis.reference_match import Match, bandwidth_of, library_name
from cclmark.plan.cases import Case
from cclmark.plan.device_names import is_known, kind_of
from cclmark.plan.sizes import format_size
from cclmark.results.reference import Reference
from cclmark.results.schema import Header, Summary

# From here on a larger message is hardly faster: beyond the ends of a curve, and with another
# number of devices of one host, only such figures are compared.
SATURATED_BYTES = 256 << 20
_WIDEST_GAP = (
    4.0  # between two sizes of a curve, for what lies between: a factor of 2 to one of them
)
_MOST_APART = 2.0
# Between two figures that differ by more there may be a change of algorithm: nothing is decided.
_STEEPEST = 1.2
# Below this the time is that of the processors that launch an operation.
_LAUNCH_BOUND_BYTES = 1 << 20
_BY_MULTICAST = ("all_reduce", "all_gather", "reduce_scatter")
# In place their outputs are copied aside first: see docs/methodology.md.
_STAGED_IN_PLACE = ("alltoall", "alltoallv", "sendrecv")
_LEAST_OF_OTHER_COUNT = 3  # two devices use one pair's links, whatever else there is


def nearest(
    references: Sequence[Reference], case: Case, summary: Summary, header: Header
) -> Match | None:
    """The reference for a case of the journal that begins with ``header``; None without a fair one.

    The operation and the kinds of devices are the same, and so are their number and that of hosts;
    the number may be another one within one host whose devices are joined by NVLink, for large
    messages without multicast, and is named then. The size is the same; or the figure lies between
    two of one curve that are at most a factor of 4 apart: the time is taken to be a straight line
    between them, which decides nothing where their bandwidths differ by more than a fifth; or,
    from 256 MiB on, it is the nearest within a factor of 2.
    """
    wanted = _Wanted.of(case, header)
    if wanted is None or summary.busbw_bytes_per_s <= 0:
        return None
    curves: dict[Reference, list[Reference]] = {}
    for one in references:
        if one.operation == case.operation and wanted.may_be_held_against(one):
            curves.setdefault(one.series(), []).append(one)
    best: tuple[tuple[object, ...], Match] | None = None
    for series, points in curves.items():
        point = _point(points, case.size_bytes)
        if point is None:
            continue
        if series.count != wanted.count and not _saturated(point.reference, case):
            continue
        match = Match(
            reference=point.reference,
            share=summary.busbw_bytes_per_s / point.bandwidth,
            bandwidth=point.bandwidth,
            time_s=summary.time_s * summary.busbw_bytes_per_s / point.bandwidth,
            size=point.words,
            alike=series.count == wanted.count and series.library in (case.ccl, ""),
            differences=(*wanted.differences(series), *point.doubts),
        )
        rank = (*wanted.rank(series, match), point.distance)
        if best is None or rank < best[0]:
            best = rank, match
    return None if best is None else best[1]


def kinds_of(header: Header, ranks: Iterable[int] | None = None) -> Counter[str]:
    """How many devices of which kind the run has, or those of ``ranks``."""
    wanted = None if ranks is None else set(ranks)
    return Counter(
        kind_of(device.name) for device in header.devices if wanted is None or device.rank in wanted
    )


def multicast_of(environment: Mapping[str, str]) -> bool | None:
    """Whether NCCL uses NVLink's multicast, as far as its variables tell: False or None."""
    if environment.get("NCCL_NVLS_ENABLE") == "0":
        return False
    algorithms = environment.get("NCCL_ALGO", "").upper()
    if algorithms and ("NVLS" in algorithms) == algorithms.startswith("^"):
        return False
    return None


@dataclass(frozen=True)
class _Wanted:
    """What a reference is asked for."""

    case: Case
    header: Header
    kinds: Counter[str]
    hosts: int
    multicast: bool | None

    @classmethod
    def of(cls, case: Case, header: Header) -> _Wanted | None:
        """None where nothing can be compared: unknown devices, parts of unlike sizes."""
        kinds = kinds_of(header, case.pair)
        uneven = case.matrix and header.settings.pattern != "uniform"
        if uneven or sum(kinds.values()) != case.ranks or not all(map(is_known, kinds)):
            return None
        ranks = range(case.ranks) if case.pair is None else case.pair
        hosts = {device.host for device in header.devices if device.rank in ranks}
        count = max(1, len(header.hosts) if case.pair is None else len(hosts))
        return cls(case, header, kinds, count, multicast_of(header.environment))

    @property
    def count(self) -> int:
        return self.case.ranks

    def may_be_held_against(self, one: Reference) -> bool:
        """Whether devices and hosts allow it, and the number of devices where it is another."""
        if {kind for kind, _ in one.devices} != set(self.kinds) or one.hosts != self.hosts:
            return False
        if dict(one.devices) == dict(self.kinds):
            return True
        return self._tolerates_count_of(one)

    def _tolerates_count_of(self, one: Reference) -> bool:
        """One host with NVLink, and no multicast: what that gains hangs on the number."""
        if self.hosts != 1 or len(self.kinds) != 1:
            return False
        if min(one.count, self.count) < _LEAST_OF_OTHER_COUNT:
            return False
        if self.case.operation in _BY_MULTICAST and (one.multicast, self.multicast) != (False,) * 2:
            return False
        joined = {link.device for link in self.header.links if link.kind == "NVLink"}
        return all(rank in joined for rank in range(self.count))

    def differences(self, series: Reference) -> list[str]:
        """What is known to differ, in words."""
        case, found = self.case, []
        if series.count != self.count:
            found.append(f"{series.count} devices there, {self.count} here")
        if series.library and series.library != case.ccl:
            found.append(f"{library_name(series.library)} there, {library_name(case.ccl)} here")
        if series.root not in (case.root, None):
            found.append(f"root {series.root} there, root {case.root} here")
        found += self._multicast(series)
        if case.operation in _STAGED_IN_PLACE and bool(series.in_place) != case.in_place:
            there = "in place" if series.in_place else "out of place"
            found.append(f"{there} there, {'in place' if case.in_place else 'out of place'} here")
        if self.hosts > 1 and not series.source.own:
            found.append("the network between the hosts may be another one")
        if series.kind == "floor":
            found.append("it is a floor, no measurement")
        if series.approximate:
            found.append("it is rounded or read off a plot")
        if self.header.settings.timing in ("blocking", "per-op", "graph"):
            found.append(f"timed by {self.header.settings.timing} here")
        if series.launch == "one thread" and case.size_bytes < _LAUNCH_BOUND_BYTES:
            found.append("one thread launched for all devices there")
        return found

    def _multicast(self, series: Reference) -> list[str]:
        if self.case.operation not in _BY_MULTICAST:
            return []
        if series.multicast is None:
            left_to_nccl = series.source.own and self.multicast is False
            return ["multicast left to NCCL there, off here"] if left_to_nccl else []
        if self.multicast is False and series.multicast:
            return ["multicast on there, off here"]
        if self.multicast is None and not series.multicast:
            return ["multicast off there, left to NCCL here"]
        return []

    def rank(self, series: Reference, match: Match) -> tuple[object, ...]:
        """Smaller is nearer: what differs first, then what is merely not told or not the same."""
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


@dataclass(frozen=True)
class _Point:
    """What a curve says for a size. ``distance`` to the figure, in powers of 2; ``doubts``: why it
    decides nothing.
    """

    reference: Reference
    bandwidth: float
    words: str
    distance: float
    doubts: tuple[str, ...] = ()


def _point(curve: Sequence[Reference], size_bytes: int) -> _Point | None:
    known = sorted(
        ((one.size_bytes, bandwidth, one) for one in curve if (bandwidth := bandwidth_of(one))),
        key=lambda entry: entry[0],
    )
    known = [entry for entry in known if entry[0] > 0]
    if not known or size_bytes <= 0:
        return None
    size, bandwidth, one = min(known, key=lambda entry: abs(math.log2(entry[0] / size_bytes)))
    distance = abs(math.log2(size / size_bytes))
    if distance == 0:
        return _Point(one, bandwidth, format_size(size), 0.0)
    below = [entry for entry in known if entry[0] < size_bytes][-1:]
    above = [entry for entry in known if entry[0] > size_bytes][:1]
    if below and above and above[0][0] / below[0][0] <= _WIDEST_GAP:
        (low, slower, _), (high, faster, _) = below[0], above[0]
        # A time is a latency and so much for every byte: between two sizes it is a straight line.
        share = (size_bytes - low) / (high - low)
        between = size_bytes / ((1 - share) * low / slower + share * high / faster)
        words = f"between {format_size(low)} and {format_size(high)}"
        steep = max(slower, faster) > _STEEPEST * min(slower, faster)
        doubts = ("the bandwidth changes much between the two sizes there",) if steep else ()
        return _Point(one, between, words, distance, doubts)
    if min(size, size_bytes) >= SATURATED_BYTES and distance <= math.log2(_MOST_APART):
        return _Point(one, bandwidth, format_size(size), distance)
    return None


def _saturated(one: Reference, case: Case) -> bool:
    return min(one.size_bytes, case.size_bytes) >= SATURATED_BYTES
