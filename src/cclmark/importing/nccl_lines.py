"""Restores lines of nccl-tests that mails, documents and shells have changed.

Boxes around lines are removed, and a comment that lost its ``#`` gets it back.
"""

from __future__ import annotations

import re

_STAMP = re.compile(r"\s\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
_BOX = "|│┃║"
_BLANK_BOX = str.maketrans(dict.fromkeys(_BOX, " "))
# The words that begin a comment which is read; a row begins with a number.
_COMMENT = re.compile(
    r"(?:size\s+count|bytes\s+N)\s+type\b|Rank\s+\d{1,7}\s.*\bdevice\b|nThread \d|Using devices\b"
    r"|Collective test (?:starting|concluded)|nccl-tests version\b|Blocking Enabled"
    r"|Out of bounds values\s*:|Avg bus bandwidth\s*:"
)
_ELLIPSIS = re.compile(r"[#\s\[(]*(?:\.\.\.|…)")
_HEAD = re.compile(r"#\s+(?:size\s+count|bytes\s+N)\s+type\b")


def plain_line(text: str) -> str:
    """Returns ``text`` without a box and ``-S``'s time of day, with ``#`` before a comment."""
    bare = text.strip()
    if bare[:1] in _BOX and bare:
        text = text.translate(_BLANK_BOX)
        bare = text.strip()
    if _COMMENT.match(bare) is not None:
        text = f"# {bare}"
    return _STAMP.sub("", text.rstrip())


def is_head(text: str) -> bool:
    """Whether a line in plain form is the head of a table."""
    return _HEAD.search(text) is not None


def is_ellipsis(text: str) -> bool:
    """Whether a line is an ellipsis for omitted lines."""
    return _ELLIPSIS.match(text) is not None
