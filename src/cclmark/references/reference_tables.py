"""Parses the tables of reference files: columns by name, or a matrix of pairs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial

import msgspec

from cclmark.errors import UsageError
from cclmark.plan.sizes import parse_size
from cclmark.plan.thresholds import meant
from cclmark.references.reference import Reference

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d{1,2})?", re.ASCII)
_NOTHING = ("-", "x")  # in a cell: unknown, or no such pair
_MOST = 1e18  # upper limit of any figure: an exabyte per second


def of_table(text: str, common: Reference) -> list[Reference]:
    """Parses the rows below the row of column names. Raises UsageError."""
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1)]
    rows = [(number, cells) for number, cells in lines if cells and not cells[0].startswith("#")]
    if len(rows) < 2:
        raise UsageError("figures: no row below the column names")
    names, found = rows[0][1], []
    for name in names:
        if name not in _COLUMNS:
            raise UsageError(
                f"figures: unknown column {name!r}{meant(name, _COLUMNS)} Known columns: "
                f"{', '.join(_COLUMNS)}."
            )
    if len(set(names)) < len(names):
        raise UsageError("figures: a column is repeated")
    for number, cells in rows[1:]:
        try:
            found.append(_row(dict(zip(names, cells, strict=True)), common))
        except ValueError:
            raise UsageError(
                f"figures: line {number} has {len(cells)} cells for {len(names)} columns: "
                f"{' '.join(cells)!r}"
            ) from None
        except UsageError as error:
            raise UsageError(f"figures: line {number}: {error}") from None
    return found


def _row(cells: dict[str, str], common: Reference) -> Reference:
    values: dict[str, object] = {}
    for name, cell in cells.items():
        field, read = _COLUMNS[name]
        if cell not in _NOTHING:
            if field in values:
                raise UsageError(f"{name} repeats the value of another column")
            try:
                values[field] = read(cell)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from None
    if not values.keys() & {"time_s", "algbw_bytes_per_s", "busbw_bytes_per_s"}:
        raise UsageError("no figure: write a time, an algbw_gbps or a busbw_gbps")
    start, end = values.pop("from", None), values.pop("to", None)
    if (start is None) != (end is None):
        raise UsageError("from and to require each other")
    if start is not None and end is not None:
        values["pair"] = (start, end)
    return msgspec.structs.replace(common, **values)


def of_matrix(
    text: str, unit: str, size_bytes: int, common: Reference, paths: list[list[str]]
) -> list[Reference]:
    """Parses a figure for each pair: the row is the device that copies, the column its peer.

    ``unit``: GB/s or us; ``paths``: the number of hops of each pair, empty if unknown. Raises
    UsageError.
    """
    cells = grid(text)
    if common.count and len(cells) != common.count:
        raise UsageError(f"matrix: {len(cells)} rows for {common.count} devices")
    fits = common.hosts == 1 and len(paths) == len(cells)
    found = []
    for start, row in enumerate(cells):
        for end, cell in enumerate(row):
            if cell in _NOTHING:
                continue
            try:
                value = _positive(cell, 1e9 if unit == "GB/s" else 1e-6)
            except UsageError as error:
                raise UsageError(f"matrix: row {start + 1}: {error}") from None
            path = paths[start][end] if fits else "-"
            figure = {"busbw_bytes_per_s" if unit == "GB/s" else "time_s": value}
            found.append(
                msgspec.structs.replace(
                    common,
                    size_bytes=size_bytes,
                    pair=(start, end),
                    hops=None if path in _NOTHING else _natural(path),
                    **figure,
                )
            )
    return found


def grid(text: str) -> list[list[str]]:
    """Splits a matrix into cells. Raises UsageError if it is not square."""
    rows = [line.split() for line in text.splitlines() if line.split()]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows):
            raise UsageError(
                f"matrix: row {number} has {len(row)} cells, but the matrix has {len(rows)} rows"
            )
    return rows


def _positive(text: str, unit: float) -> float:
    value = float(text) * unit if _NUMBER.fullmatch(text) else math.nan
    if not 0 <= value < _MOST:
        raise UsageError(f"cannot read the figure {text!r}")
    return value


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 8):
        raise UsageError(f"cannot read the number {text!r}")
    return int(text)


_COLUMNS: dict[str, tuple[str, Callable[[str], object]]] = {
    "size": ("size_bytes", parse_size),
    "time_s": ("time_s", partial(_positive, unit=1.0)),
    "time_us": ("time_s", partial(_positive, unit=1e-6)),
    "device_us": ("device_s", partial(_positive, unit=1e-6)),
    "algbw_gbps": ("algbw_bytes_per_s", partial(_positive, unit=1e9)),
    "busbw_gbps": ("busbw_bytes_per_s", partial(_positive, unit=1e9)),
    "from": ("from", _natural),
    "to": ("to", _natural),
    "hops": ("hops", _natural),
}
