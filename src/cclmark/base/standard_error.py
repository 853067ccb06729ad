"""Messages for the user of the command line, on standard error, and how lines are folded."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

_COLUMNS = 100  # of a line where there is no terminal
_NARROWEST = 40  # characters of a line of prose
_HANGING = 4  # of a message's further lines


def tell(text: str, *, is_whole: bool = False) -> None:
    """Prints ``cclmark: TEXT`` on standard error, without characters that control a terminal.

    Lines are folded between words. ``is_whole``: they are not, because programs look for them.
    """
    from cclmark.base.printable import plain_lines  # a refused option needs no msgspec

    lines = f"cclmark: {plain_lines(text)}"
    if is_whole:
        print(lines, file=sys.stderr, flush=True)
    else:
        print_folded(lines, _HANGING)


def print_folded(text: str, hanging: int = 2) -> None:
    """Prints lines on standard error, folded to its width."""
    width = columns_of_lines(is_terminal=sys.stderr.isatty())
    print(folded(text, width, hanging), file=sys.stderr, flush=True)


def columns_of_lines(*, is_terminal: bool = False, is_wide: bool = False) -> int | None:
    """The characters of a line: those of the terminal, COLUMNS, or 100; None for any number."""
    if is_wide:
        return None
    if is_terminal:
        return shutil.get_terminal_size(fallback=(_COLUMNS, 24)).columns
    named = os.environ.get("COLUMNS", "")
    return int(named) if named.isascii() and named.isdigit() and int(named) else _COLUMNS


def filled(line: str, width: int, hanging: int = 2) -> str:
    """Returns the line in several of at most ``width`` characters, with a hanging indent.

    Words are not divided. ``hanging``: how much further than the first line the others begin.
    """
    if len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())] + " " * hanging
    return textwrap.fill(
        line,
        max(width, _NARROWEST),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def folded(text: str, width: int | None, hanging: int = 2) -> str:
    """Returns a text with its lines of at most ``width`` characters, None for any."""
    if width is None:
        return text
    return "\n".join(filled(line, width, hanging) for line in text.split("\n"))
