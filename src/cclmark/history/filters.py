"""Converts filters that users write."""

from __future__ import annotations

from cclmark.history.history_model import RunFilter
from cclmark.history.moments import moment


def filter_of(
    machine: str = "",
    device: str = "",
    operation: str = "",
    ccl: str = "",
    label: str = "",
    since: str = "",
    until: str = "",
) -> RunFilter:
    """The filter for options of a command or fields of a form.

    Raises UsageError for an invalid time.
    """
    return RunFilter(
        *(machine, device, operation, ccl, label),
        since=moment(since) if since else "",
        until=moment(until, after=True) if until else "",
    )
