"""Finds irregularities of a sweep: dips of the bandwidth, noisy cases, costly placements.

Also the sizes at which the library's choice changes, which often explain them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Explanation, Summary
from cclmark.work.cases import Case
from cclmark.work.operations import info_of

_LEAST_DIP = 0.15  # of the bandwidth of a smaller message
LEAST_DIP_BYTES = 256 << 10  # below, latency dominates and launches change their level
NOISY_SPREAD = 0.10
_LEAST_OUTLIERS = 2
_LEAST_TAIL = 0.01  # of the samples
_LEAST_PLACEMENT = 0.10
_LEAST_PLACEMENT_BYTES = 1 << 20


MeasuredCurve = list[tuple[CaseResult, Summary]]


@dataclass(frozen=True)
class Dip:
    """A message with less bus bandwidth than the best of the smaller messages.

    ``share``: the difference, as a share of the bandwidth of ``best``.
    """

    at: CaseResult
    best: CaseResult
    share: float


@dataclass(frozen=True)
class PlacementGap:
    """The size at which placements differ most; ``ratio``: in-place over out-of-place time."""

    in_place: CaseResult
    ratio: float


def dips(results: Sequence[CaseResult]) -> list[Dip]:
    """The deepest dip of each curve, for sizes from 256 KiB and dips of at least 15 %.

    Only quiet cases are used: the best of noisy cases is best by chance, and makes all larger
    messages look slow.
    """
    found = []
    for curve in quiet_curves(results):
        deepest: Dip | None = None
        best: tuple[float, CaseResult] | None = None
        for result, summary in curve:
            rate = summary.busbw_bytes_per_s
            if best is not None and result.case.size_bytes >= LEAST_DIP_BYTES:
                share = 1 - rate / best[0]
                if share >= _LEAST_DIP and (deepest is None or share > deepest.share):
                    deepest = Dip(result, best[1], share)
            if rate > 0 and (best is None or rate > best[0]):
                best = rate, result
        if deepest is not None:
            found.append(deepest)
    return found


def noisy(results: Sequence[CaseResult]) -> list[CaseResult]:
    """The cases of which half of the samples differ by more than a tenth, the worst first."""
    known = [(spread_of(summary), result) for result, summary in _measured(results)]
    worst = sorted(known, key=lambda pair: -pair[0])
    return [result for spread, result in worst if spread > NOISY_SPREAD]


def tails(results: Sequence[CaseResult]) -> list[CaseResult]:
    """The cases of which at least 1 % of the samples are outliers, the longest sample first."""
    known = [
        (summary.max_s / summary.time_s, result)
        for result, summary in _measured(results)
        if summary.outliers >= max(_LEAST_OUTLIERS, _LEAST_TAIL * summary.samples)
    ]
    return [result for _, result in sorted(known, key=lambda pair: -pair[0])]


def spread_of(summary: Summary) -> float:
    """The spread of samples; 0 where it is unknown, as that of a single sample."""
    return summary.spread or 0.0


def placement_gaps(results: Sequence[CaseResult]) -> list[PlacementGap]:
    """The largest gap of each operation and library, from 1 MiB on and of at least 10 %."""
    by_case: dict[Case, dict[bool, tuple[CaseResult, Summary]]] = defaultdict(dict)
    for result, summary in _measured(results):
        case = result.case
        if info_of(case.operation).staged_in_place or spread_of(summary) > NOISY_SPREAD:
            continue  # the time of the staging copy is no finding
        if case.size_bytes >= _LEAST_PLACEMENT_BYTES and summary.time_s > 0:
            by_case[msgspec.structs.replace(case, in_place=False)][case.in_place] = result, summary
    worst: dict[tuple[str, str], PlacementGap] = {}
    for case, placed in by_case.items():
        if len(placed) < 2:
            continue
        ratio = placed[True][1].time_s / placed[False][1].time_s
        gap = PlacementGap(placed[True][0], ratio)
        key = case.operation, case.ccl
        if max(ratio, 1 / ratio) >= 1 + _LEAST_PLACEMENT and (
            key not in worst or _size_of(gap) > _size_of(worst[key])
        ):
            worst[key] = gap
    return list(worst.values())


def _size_of(gap: PlacementGap) -> float:
    return max(gap.ratio, 1 / gap.ratio)


def _measured(results: Sequence[CaseResult]) -> list[tuple[CaseResult, Summary]]:
    return [
        (result, result.summary)
        for result in results
        if result.summary is not None and result.status == "ok"
    ]


def quiet_curves(results: Sequence[CaseResult]) -> list[MeasuredCurve]:
    """The curves of quiet cases, by ascending size. Only the first of several cycles is used."""
    curves: dict[Case, dict[int, tuple[CaseResult, Summary]]] = defaultdict(dict)
    for result, summary in _measured(results):
        curves[result.case.series()].setdefault(result.case.size_bytes, (result, summary))
    return [
        [by_size[size] for size in sorted(by_size) if spread_of(by_size[size][1]) <= NOISY_SPREAD]
        for by_size in curves.values()
    ]


# Relative to the time that the neighbours suggest. In benchmarks/results, messages near NCCL's
# changes of protocol and algorithm, between 512 KiB and 8 MiB, take up to 1.46 times as long.
_LEAST_EXCESS = 1.5
# Between the neighbours: a straight line over wider steps is not meaningful.
_MOST_APART = 16
_LEAST_GAIN = 0.15  # of the time per byte, for another size to be the better choice


@dataclass(frozen=True)
class Kink:
    """A message that takes longer than its neighbours suggest.

    ``below`` and ``above`` are the results of the neighbouring sizes; ``expected_s`` is the time of
    ``at`` on a straight line between them.
    """

    at: CaseResult
    below: CaseResult
    above: CaseResult
    expected_s: float
    time_s: float

    @property
    def share(self) -> float:
        """The missing bandwidth, as a share of the expected bandwidth."""
        return 1 - self.expected_s / self.time_s


@dataclass(frozen=True)
class Alternative:
    """``number`` messages like ``result`` replace another message, and take ``time_s`` in total.

    ``number`` is below 1 for a larger message: the part of it that is required.
    """

    result: CaseResult
    number: float
    time_s: float


def kinks(results: Sequence[CaseResult]) -> list[Kink]:
    """The worst kink of each operation, library and number of ranks, the worst first.

    Only quiet cases from 256 KiB are used, with neighbours that are at most a factor of 16 apart.
    """
    worst: dict[tuple[str, str, int], Kink] = {}
    for curve in quiet_curves(results):
        for below, at, above in zip(curve, curve[1:], curve[2:], strict=False):
            sizes = [result.case.size_bytes for result, _ in (below, at, above)]
            if sizes[1] < LEAST_DIP_BYTES or sizes[2] > _MOST_APART * sizes[0]:
                continue
            part = (sizes[1] - sizes[0]) / (sizes[2] - sizes[0])
            expected_s = (1 - part) * below[1].time_s + part * above[1].time_s
            if expected_s <= 0 or at[1].time_s < _LEAST_EXCESS * expected_s:
                continue
            found = Kink(at[0], below[0], above[0], expected_s, at[1].time_s)
            case = found.at.case
            key = (case.operation, case.ccl, case.ranks)
            if key not in worst or found.share > worst[key].share:
                worst[key] = found
    return sorted(worst.values(), key=lambda one: -one.share)


def alternatives(at: CaseResult, results: Sequence[CaseResult]) -> list[Alternative]:
    """Other sizes of the same curve that move the bytes of ``at`` in at least 15 % less time.

    There are at most two: the best smaller size of which a whole number makes up the message, and
    the smallest larger size.
    """
    curve = next(
        (one for one in quiet_curves(results) if any(result is at for result, _ in one)), []
    )
    own = next((summary for result, summary in curve if result is at), None)
    if own is None:
        return []
    size, found = at.case.size_bytes, list[Alternative]()
    for result, summary in curve:
        if result.case.size_bytes <= 0:
            continue
        number = size / result.case.size_bytes
        time_s = number * summary.time_s
        if time_s <= (1 - _LEAST_GAIN) * own.time_s and (number < 1 or number.is_integer()):
            found.append(Alternative(result, number, time_s))
    smaller = min(
        (one for one in found if one.number > 1), key=lambda one: one.time_s, default=None
    )
    larger = next((one for one in found if one.number < 1), None)
    return [one for one in (smaller, larger) if one is not None]


@dataclass(frozen=True)
class ChoiceChange:
    """Two consecutive sizes of which the library chose a different kernel or protocol."""

    before: CaseResult
    after: CaseResult

    @property
    def size_bytes(self) -> int:
        """The first size with the new choice."""
        return self.after.case.size_bytes

    @property
    def words(self) -> str:
        """Both choices: ``ring LL → ring LL128``."""
        return f"{_explained(self.before).choice} → {_explained(self.after).choice}"

    @property
    def short(self) -> str:
        """Only what differs: ``LL → LL128``, or both choices if the kernel differs."""
        first, second = _explained(self.before), _explained(self.after)
        if first.kernel == second.kernel and first.protocol and second.protocol:
            return f"{first.protocol} → {second.protocol}"
        return self.words


def _explained(result: CaseResult) -> Explanation:
    assert result.explanation is not None
    return result.explanation


def choice_changes(results: Iterable[CaseResult]) -> list[ChoiceChange]:
    """The changes between consecutive explained sizes of ``results`` that are otherwise alike."""
    explained = sorted(
        (one for one in results if one.explanation is not None and one.explanation.choice),
        key=lambda one: one.case.size_bytes,
    )
    return [
        ChoiceChange(before, after)
        for before, after in pairwise(explained)
        if _explained(before).choice != _explained(after).choice
    ]
