"""Common parts of heat maps of devices, and keys of charts."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.document.device_labels import labels
from cclmark.document.text import figure
from cclmark.results.schema import Header

_LEAST_SPAN = 0.20  # of the median: a narrower scale would turn noise into a pattern


def device_names(header: Header) -> list[str]:
    """Returns the names of rows and columns."""
    return labels(header.devices)


def _known(values: Sequence[Sequence[float | None]]) -> list[float]:
    return sorted(value for line in values for value in line if value is not None)


def least_span(values: Sequence[Sequence[float | None]]) -> float:
    """Returns the smallest range of a matrix's colour scale."""
    known = _known(values)
    return known[len(known) // 2] * _LEAST_SPAN if known else 0.0


def extremes(
    values: Sequence[Sequence[float | None]],
    unit: str,
    rows: Sequence[str],
    columns: Sequence[str],
) -> str:
    """Describes the smallest and the largest value with their places."""
    cells = [
        (value, f"{rows[row]}, {columns[column]}")
        for row, line in enumerate(values)
        for column, value in enumerate(line)
        if value is not None
    ]
    if not cells:
        return "There is no figure."
    low, high = min(cells), max(cells)
    return f"From {figure(low[0])} ({low[1]}) to {figure(high[0])} {unit} ({high[1]})."
