"""Durations as users write them: 90, 45s, 30m, 12h, 2d."""

from __future__ import annotations

import re

from cclmark.errors import UsageError

_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd]?)", re.IGNORECASE | re.ASCII)
_LONGEST_S = 366 * 86400.0


def parse_duration(text: str) -> float:
    """Parses a duration to seconds.

    Raises UsageError for malformed text, for zero and for more than 366 days.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"cannot read the duration {text!r}: write 45s, 30m, 12h or 2d")
    duration_s = float(match[1]) * _UNITS_S[match[2].lower()]
    if not 0 < duration_s <= _LONGEST_S:
        raise UsageError(f"the duration {text!r} must be above 0 and at most 366d")
    return duration_s
