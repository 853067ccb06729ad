"""The output of ``cclmark plugin LOG...``."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.explain.calls import CommunicatorCalls
from cclmark.explain.operation import Operation, dtype_of
from cclmark.plan.operations import DTYPE_BYTES
from cclmark.plan.sizes import format_size

_HEADS = ("calls", "operation", "type", "count", "size", "kernel", "protocol", "channels")


def call_lines(communicators: Sequence[CommunicatorCalls]) -> list[str]:
    """Returns a table for each communicator: its operations and how often they ran."""
    lines: list[str] = []
    for one in communicators:
        ranks = f"{one.ranks} ranks" if one.ranks else "ranks unknown"
        logged = ", ".join(map(str, sorted(one.by_rank)))
        title = f"communicator {one.communicator:#x}: {ranks}, logs of rank {logged}"
        lines += ["", title] if lines else [title]
        rows = [_cells(operation, number) for operation, number in one.counts()]
        if rows:
            lines += _aligned([list(_HEADS), *rows])
    return lines


def _cells(one: Operation, number: int) -> list[str]:
    """``size`` is that of the elements in ``count``, not of all ranks together."""
    dtype = dtype_of(one.datatype)
    width = DTYPE_BYTES.get(dtype)
    name = one.function + (f" (peer {one.peer})" if one.peer >= 0 else "")
    return [
        str(number),
        name,
        dtype,
        str(one.count),
        format_size(one.count * width) if width else "-",
        one.kernel or "-",
        one.protocol or "-",
        str(one.channels or "-"),
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns lines with the texts to the left and the numbers to the right of their columns."""
    right = {"calls", "count", "size", "channels"}
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            f"{cell:>{width}}" if name in right else f"{cell:<{width}}"
            for name, cell, width in zip(_HEADS, row, widths, strict=True)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines
