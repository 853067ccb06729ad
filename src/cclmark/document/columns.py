"""Columns of machine-readable tables, and rows of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cclmark.results.schema import Header, Profile

Cell = str | int | float | None
Row = Sequence[Cell]
ColumnKind = Literal["text", "int", "float", "bool"]


@dataclass(frozen=True)
class Column:
    """A column. ``name`` ends in a unit; ``kind`` is the type of the non-empty cells."""

    name: str
    kind: ColumnKind


@dataclass(frozen=True)
class Layout:
    """A table of results. ``exact``: numbers are written with all their digits.

    ``rows_in`` receives the header of a journal and returns a function that converts a result to
    its rows, each with a cell for every column. ``common``: returns the last cells of all rows,
    from the profile of a program; ``rows_in`` leaves them out.
    """

    columns: Sequence[Column]
    rows_in: Callable[[Header], Callable[[Any], Iterable[Row]]]
    exact: bool = False
    common: Callable[[Profile | None], Row] | None = None

    def rows_of(self, header: Header, profile: Profile | None) -> Callable[[Any], Iterable[Row]]:
        """Returns a function that converts a result to its complete rows."""
        rows = self.rows_in(header)
        if self.common is None:
            return rows
        last = self.common(profile)
        return lambda result: ([*row, *last] for row in rows(result))


def columns(
    names: str | Sequence[str], *, texts: str = "", whole: str = "", flags: str = ""
) -> list[Column]:
    """Creates columns from names separated by blanks. Names in no other list hold numbers."""
    kinds: dict[str, ColumnKind] = dict.fromkeys(texts.split(), "text")
    kinds |= dict.fromkeys(whole.split(), "int")
    kinds |= dict.fromkeys(flags.split(), "bool")
    listed = names.split() if isinstance(names, str) else names
    return [Column(name, kinds.get(name, "float")) for name in listed]
