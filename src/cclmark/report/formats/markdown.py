"""Text in Markdown, for issues, wikis and pull requests."""

from __future__ import annotations

import re

from cclmark.printable import plain

# What Markdown, HTML or GitHub would read as more than text. Underscores inside words are none.
_SPECIAL = re.compile(r"[&<>|`*\[\]\\~#$!@]|(?<![^\W_])_|_(?![^\W_])|:(?=//)")


def escape(text: str) -> str:
    """``text`` so that it shows as it is, in a paragraph or a table cell, and does nothing else."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", plain(text))
