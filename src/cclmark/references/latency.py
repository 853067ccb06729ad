"""Decides whether the time of a small message is plausible compared with a reference.

The cost of a call with a small message depends on the processor that launches it, and references
come from other processors: nccl-tests itself takes from 8.3 to 11 µs for 8 bytes on one machine,
with a thread or a process for each device. The accepted band is therefore wide. The device's own
time, if it was measured, depends only on the device and the library, and the band is narrow if the
reference contains it too.
"""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.references.match import Match
from cclmark.results.item_results import CaseResult

_MOST_TIMES_CALL = 2.0  # the reference's time, for the cost of a call
_MOST_TIMES_DEVICE = 1.5  # for the device's own time beside the cost of a call
_MOST_TIMES_DEVICES = 1.1  # if both are times of devices


@dataclass(frozen=True)
class LatencyVerdict:
    """A small message compared with its reference.

    ``ratio`` is the judged time over the reference's, ``most`` the largest plausible ratio.
    ``time_s`` is the judged time, ``by_device`` whether it is the device's own time.
    """

    match: Match
    time_s: float
    ratio: float
    most: float
    by_device: bool

    @property
    def slow(self) -> bool:
        """Whether the time is longer than the band allows."""
        return self.ratio > self.most


def latency_verdict(
    result: CaseResult, time_s: float, match: Match | None
) -> LatencyVerdict | None:
    """Judges ``time_s`` of ``result`` by its reference, ``match``.

    None for a message that is large enough to be judged by bandwidth, and without a reference that
    was measured under the same conditions.
    """
    if match is None or not match.small or not match.exact or not match.alike or match.time_s <= 0:
        return None
    by_device = match.by_device or result.device is not None
    most = _MOST_TIMES_DEVICE if by_device else _MOST_TIMES_CALL
    return LatencyVerdict(
        match=match,
        time_s=time_s,
        ratio=time_s / match.time_s,
        most=_MOST_TIMES_DEVICES if match.by_device else most,
        by_device=by_device,
    )
