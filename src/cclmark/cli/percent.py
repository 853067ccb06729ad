"""Shares as users write them."""

from __future__ import annotations

import re

from cclmark.errors import UsageError

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%?", re.ASCII)


def percent_of(option: str, text: str) -> float:
    """The percent that ``option`` says as ``text``: 5% or 5. Raises UsageError."""
    read = _SHARE.fullmatch(text.strip())
    if read is None:
        raise UsageError(f"{option}: cannot read {text!r}: write a share such as 5%")
    return float(read[1])
