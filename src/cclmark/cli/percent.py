"""Shares as users write them."""

from __future__ import annotations

import re

from cclmark.errors import UsageError

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)", re.ASCII)
_MOST_PERCENT = 1000.0  # more is a slip, and a check that cannot fail


def percent_of(option: str, text: str, example: str = "5%") -> float:
    """The percent that ``option`` says as ``text``: 5% or 5; ``example`` is for messages.

    Raises UsageError, also without a sign where 0.05 may stand for 5 % or for 0.05 %, and where
    more than 100 may stand for bytes or microseconds.
    """
    read = _SHARE.fullmatch(text.strip())
    if read is None:
        raise UsageError(f"{option}: cannot read {text!r}: write a share such as {example}")
    percent = float(read[1])
    if 0 < percent < 1 and not read[2]:
        raise UsageError(
            f"{option} {text.strip()}: is that {percent * 100:g}% or {percent:g}%? Write it with %"
        )
    if 100 < percent <= _MOST_PERCENT and not read[2]:
        raise UsageError(
            f"{option} {text.strip()}: that would be {percent:g}%: write it with % if it is meant, "
            f"or a share such as {example}"
        )
    if percent > _MOST_PERCENT:
        raise UsageError(
            f"{option} {text.strip()}: more than {_MOST_PERCENT:g}% is never reached: write a "
            f"share such as {example}"
        )
    return percent
