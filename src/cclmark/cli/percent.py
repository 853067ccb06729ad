"""Parses percentages as users write them."""

from __future__ import annotations

import re

from cclmark.errors import UsageError

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)", re.ASCII)
_MOST_PERCENT = 1000.0  # more is a typing error, and a check that cannot fail


def percent_of(option: str, text: str, example: str = "5%") -> float:
    """Returns the percentage in ``text`` of ``option``: 5% or 5; ``example`` is for messages.

    Raises UsageError, also for ambiguous values without a percent sign: 0.05 may mean 5 % or
    0.05 %, and more than 100 may mean bytes or microseconds.
    """
    read = _SHARE.fullmatch(text.strip())
    if read is None:
        raise UsageError(f"{option}: cannot read {text!r}: write a share such as {example}")
    percent = float(read[1])
    if 0 < percent < 1 and not read[2]:
        raise UsageError(
            f"{option} {text.strip()} is ambiguous, {percent * 100:g}% or {percent:g}%: write it "
            "with %"
        )
    if 100 < percent <= _MOST_PERCENT and not read[2]:
        raise UsageError(
            f"{option} {text.strip()}: this is {percent:g}%: write it with %, or write a share "
            f"such as {example}"
        )
    if percent > _MOST_PERCENT:
        raise UsageError(
            f"{option} {text.strip()}: the share must not exceed {_MOST_PERCENT:g}%: write a share "
            f"such as {example}"
        )
    return percent
