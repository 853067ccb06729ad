"""Tables that users write, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from cclmark.base.errors import UsageError
from cclmark.base.files import read_regular
from cclmark.base.printable import plain

_MOST_BYTES = 16 << 20
Row = TypeVar("Row")


def read_table(
    path: Path,
    where: str,
    columns: Collection[str],
    required: Collection[str],
    example: str,
    convert: Callable[[dict[str, str]], Row],
) -> list[Row]:
    """The rows of a table whose first line names some of ``columns``, at least the ``required``.

    ``where``: the table in messages. ``example``: such a first line. ``convert``: makes a row of
    cells by column; its UsageError or ValueError refuses the line. Raises UsageError.
    """
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{where}: cannot read the table: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{where}: the table is no text in UTF-8") from None
    rows = csv.DictReader(io.StringIO(text))
    head = [one.strip() for one in rows.fieldnames or ()]
    unknown = [one for one in head if one not in columns]
    if unknown or not {*required} <= {*head}:
        raise UsageError(
            f"{where}: the first line names the columns, for example {example}; all: "
            f"{', '.join(columns)}" + (f"; unknown: {plain(', '.join(unknown))}" if unknown else "")
        )
    found = []
    for number, cells in enumerate(rows, start=2):
        try:
            if None in cells:
                raise UsageError("the line has more cells than the first one")
            found.append(
                convert({key.strip(): (value or "").strip() for key, value in cells.items()})
            )
        except (UsageError, ValueError) as error:
            raise UsageError(f"{where}, line {number}: {plain(str(error))}") from None
    if not found:
        raise UsageError(f"{where}: the table has no row")
    return found


def whole_number(text: str, name: str, most: int) -> int:
    """The cell of column ``name`` as a number from 1 to ``most``. Raises UsageError."""
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= number <= most:
        raise UsageError(f"{name} {text!r}: write a number from 1 to {most:,}")
    return number
