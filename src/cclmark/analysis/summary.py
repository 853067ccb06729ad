"""Selects the figures of a case that are judged.

With ``--timing auto`` a case has two figures if the host takes longer to enqueue its operations
than the device to execute them: the cost of a call (``summary``), which depends on the process that
launches it, and the time of the devices (``device``), measured by replaying a graph. The latter is
judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.base.statistics import median
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Samples, Summary

# Operations that wait for the host follow each other as fast as the host enqueues them. A batch
# lasts a little longer than its enqueuing: its last operation still has to be executed.
_SHARE_OF_LAUNCHES = 0.85
#: The share from which launches may determine the time of another trial of the same case: another
#: process may launch more slowly, and another setting may need less of the device's time.
SHARE_OF_COMPARED_LAUNCHES = 0.3


def launches_determine(samples: Samples, share: float = _SHARE_OF_LAUNCHES) -> bool:
    """Whether the host takes as long to enqueue operations as the devices to execute them.

    Compares medians over samples, of the rank that takes longest. ``share``: of the time of the
    devices, from which enqueuing counts as long. False if times of devices are missing.
    """
    device_s: list[float] = []
    for row in samples.device_s:
        known = [time_s for time_s in row if time_s is not None]
        if not known or len(known) < len(row):
            return False
        device_s.append(max(known))
    enqueue_s = [max(row) for row in samples.enqueue_s]
    return bool(device_s) and median(enqueue_s) >= share * median(device_s)


def is_launch_bound(result: CaseResult) -> bool:
    """Whether launches determine the cost of a call, according to a run with ``auto``.

    Such a case also has the device's time, or the reason why it could not be measured.
    """
    return result.device is not None or bool(result.device_reason)


def largest_launch_bound(results: Sequence[CaseResult]) -> CaseResult | None:
    """The case with the largest message whose time is determined by launches; None without any."""
    bound = [result for result in results if is_launch_bound(result)]
    return max(bound, key=lambda result: result.case.size_bytes, default=None)


def judged_summary(result: CaseResult) -> Summary | None:
    """The summary that comparisons, references and thresholds judge; None without figures."""
    return result.device.summary if result.device is not None else result.summary


def converged(result: CaseResult) -> bool:
    """Whether the median, and the device time's median, reached the requested precision."""
    return result.converged and (result.device is None or result.device.converged)
