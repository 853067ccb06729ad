"""Messages that take much longer than messages of neighbouring sizes suggest.

Self-consistent performance guidelines (Träff, Gropp, Thakur: "Self-consistent MPI performance
guidelines", IEEE TPDS 21(5), 2010) require that a message takes no longer than its parts one after
another, and no longer than a larger message. The expected time between two sizes of a curve lies on
a straight line: a latency plus a time for each byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.irregularities import LEAST_DIP_BYTES, quiet_curves
from cclmark.results.item_results import CaseResult

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
