"""Checks the results of a journal against references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cclmark.analysis.summary import judged_summary
from cclmark.journal.item_results import CaseResult, TransferResult
from cclmark.references.match import LEAST_JUDGED_BYTES, Match
from cclmark.work.cases import Case
from cclmark.work.operations import moves_data
from cclmark.work.sizes import format_size
from cclmark.work.transfers import Transfer

_BAD = ("wrong", "timeout", "died")


@dataclass(frozen=True)
class Checked:
    """A result compared with its reference.

    ``time_s`` and ``bandwidth`` (bytes per second): the measured figures that were compared, None
    without one.
    ``bad``: the reason why it fails whatever its figures are. ``unjudged``: the reason why its
    share decides nothing. Without either reason it is judged.
    """

    thing: Case | Transfer
    time_s: float | None
    bandwidth: float | None
    match: Match | None
    bad: str = ""
    unjudged: str = ""

    @property
    def by_device(self) -> bool:
        """Whether the figures are times of the devices, without launches."""
        return self.match is not None and self.match.by_device

    @property
    def judged(self) -> bool:
        """Whether its share decides whether it passes."""
        return not self.bad and not self.unjudged


def check_results(
    results: Sequence[CaseResult],
    transfers: Sequence[TransferResult],
    match_of: Callable[[CaseResult], Match | None],
    match_of_transfer: Callable[[TransferResult], Match | None],
    least_bytes: int | None,
) -> list[Checked]:
    """Checks all results in their order. Collectives below ``least_bytes`` are not judged.

    None: below LEAST_JUDGED_BYTES, except by times of devices.
    """
    found = [_of_case(result, match_of(result), least_bytes) for result in results]
    return found + [_of_transfer(result, match_of_transfer(result)) for result in transfers]


def below(checked: Sequence[Checked], least_share: float) -> list[Checked]:
    """The judged results whose share is below ``least_share``."""
    return [
        one
        for one in checked
        if one.judged and one.match is not None and one.match.share < least_share
    ]


def _of_case(result: CaseResult, match: Match | None, least_bytes: int | None) -> Checked:
    by_device = match is not None and match.by_device
    summary = judged_summary(result) if by_device else result.summary
    why = _unjudged(match)
    if least_bytes is None:
        least_bytes = 0 if by_device else LEAST_JUDGED_BYTES
    if match is not None and not why and result.case.size_bytes < least_bytes:
        why = f"smaller than {format_size(least_bytes)} (judged with -b)"
    if not moves_data(result.case.operation):
        why = "a barrier moves no data and has no reference"
    return Checked(
        thing=result.case,
        time_s=None if summary is None else summary.time_s,
        bandwidth=None if summary is None else summary.busbw_bytes_per_s,
        match=match if moves_data(result.case.operation) else None,
        bad=_bad(result.status),
        unjudged=result.status if result.status == "skipped" else why,
    )


def _of_transfer(result: TransferResult, match: Match | None) -> Checked:
    summary = result.summary
    return Checked(
        thing=result.transfer,
        time_s=None if summary is None else summary.time_s,
        bandwidth=None if summary is None else summary.bytes_per_s or None,
        match=match,
        bad=_bad(result.status),
        unjudged=result.status if result.status == "skipped" else _unjudged(match),
    )


def _bad(status: str) -> str:
    words = {"wrong": "wrong data", "timeout": "hung", "died": "a rank died"}
    return words[status] if status in _BAD else ""


def _unjudged(match: Match | None) -> str:
    if match is None:
        return "without a reference"
    return "; ".join(match.differences)
