"""Columns of tables for programs, and the rows that results become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cclmark.results.schema import Header

Cell = str | int | float | None
Row = Sequence[Cell]
ColumnKind = Literal["text", "int", "float", "bool"]


@dataclass(frozen=True)
class Column:
    """``name`` ends in a unit; ``kind`` is the type of the cells that are not empty."""

    name: str
    kind: ColumnKind


@dataclass(frozen=True)
class Layout:
    """A table of results. ``exact``: numbers are written with all of their digits.

    ``rows_in``: takes the header of a journal, and returns the function from one of its results to
    its rows, each with a cell for every column.
    """

    columns: Sequence[Column]
    rows_in: Callable[[Header], Callable[[Any], Iterable[Row]]]
    exact: bool = False


def columns(
    names: str | Sequence[str], *, texts: str = "", whole: str = "", flags: str = ""
) -> list[Column]:
    """Columns of these names, separated by blanks; those in no other list hold numbers."""
    kinds: dict[str, ColumnKind] = dict.fromkeys(texts.split(), "text")
    kinds |= dict.fromkeys(whole.split(), "int")
    kinds |= dict.fromkeys(flags.split(), "bool")
    listed = names.split() if isinstance(names, str) else names
    return [Column(name, kinds.get(name, "float")) for name in listed]
