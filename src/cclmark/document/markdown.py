"""Markdown text for issues, wikis and pull requests."""

from __future__ import annotations

import re

from cclmark.printable import plain
from cclmark.results.schema import Header

# Characters with a meaning in Markdown, HTML or on GitHub. Underscores inside words have none.
_SPECIAL = re.compile(r"[&<>|`*\[\]\\~#$!@]|(?<![^\W_])_|_(?![^\W_])|:(?=//)")


def escape(text: str) -> str:
    """Escapes ``text``: paragraphs and table cells show it literally, without links or mentions."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", plain(text))


def notice_paragraph(header: Header) -> str:
    """Returns the notices of a run as a list, with the empty line before it; empty for none."""
    lines = [f"- {escape(notice)}\n" for notice in header.notices]
    return "\n" + "".join(lines) if lines else ""
