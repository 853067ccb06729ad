"""Which figure of a case is judged: the device's where launches determine the cost of a call.

With ``--timing auto`` a case whose operations take the host longer to enqueue than the device to
execute has two figures: the cost of a call (``summary``), which depends on the process that
launches it, and the time that the devices need (``device``), measured by replaying a graph.
"""

from __future__ import annotations

from cclmark.results.schema import CaseResult, Summary


def is_launch_bound(result: CaseResult) -> bool:
    """Whether launches determine the cost of a call, so that the device's time was measured too."""
    return result.device is not None


def judged_summary(result: CaseResult) -> Summary | None:
    """The summary that comparisons, references and thresholds judge; None without figures."""
    return result.device.summary if result.device is not None else result.summary


def converged(result: CaseResult) -> bool:
    """Whether the median of the judged summary reached the precision asked for."""
    return result.device.converged if result.device is not None else result.converged
