"""Values of options that several commands have: sizes, durations, limits."""

from __future__ import annotations

import os
import sys

from cclmark.errors import EXIT_OK, Followed, UsageError
from cclmark.launch.placement import LAUNCHER_VARIABLE, find_placement
from cclmark.plan.sizes import parse_duration, parse_size


def leave_it_to_the_first() -> None:
    """Raises Followed in all processes of a host but the first, which reports for the host."""
    try:
        placement = find_placement(os.environ)
    except UsageError as error:
        print(f"cclmark: {error}", file=sys.stderr)  # the host can still be reported
        return
    if placement is None:
        return
    if placement.process > 0:
        raise Followed(EXIT_OK)
    print(
        f"cclmark: {placement.launcher} started {placement.processes} processes; this output "
        f"describes the host of the first one. With {LAUNCHER_VARIABLE}=none each process "
        "describes its own host",
        file=sys.stderr,
    )


_LONGEST_S = 1e6


def check_limits(precision_percent: float, max_time_s: float, timeout_s: float) -> None:
    """Raises UsageError for an invalid precision or time."""
    for name, value in (
        ("--precision", precision_percent),
        ("--max-time", max_time_s),
        ("--timeout", timeout_s),
    ):
        if not 0 < value < _LONGEST_S:
            raise UsageError(f"{name} must be above 0 and less than {_LONGEST_S:g}, not {value:g}")


def duration_of(flag: str, text: str) -> float:
    """Parses a duration in seconds, 0 if empty. Raises UsageError, which names the flag."""
    try:
        return parse_duration(text) if text else 0.0
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None


def size_of(flag: str, text: str) -> int:
    """Parses the size given with ``flag``. Raises UsageError, which names the flag."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None
