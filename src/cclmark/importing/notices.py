"""Notices about the rows of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_NAMED = 8


def left_out(what: str, lines: Sequence[int]) -> str:
    """Returns the notice about figures that are left out, one for each of ``lines``.

    A matrix has several on a line. ``what``: for example ``figures of 0``.
    """
    distinct = sorted(set(lines))
    shown = ", ".join(str(number) for number in distinct[:_MOST_NAMED])
    if len(distinct) > _MOST_NAMED:
        shown += f" and {len(distinct) - _MOST_NAMED} more"
    place = "lines" if len(distinct) > 1 else "line"
    return f"{what} are left out: {len(lines)}, on {place} {shown}"


@dataclass
class Notices:
    """Notices about rows, each with the first line and the number of rows."""

    found: dict[str, list[int]] = field(default_factory=dict)

    def add(self, kind: str, line: int) -> None:
        """Adds a notice about ``line``."""
        self.found.setdefault(kind, []).append(line)

    def sentences(self) -> list[str]:
        """Returns a sentence for each kind of notice."""
        return [f"{_lines(lines)}: {kind}" for kind, lines in self.found.items()]


def _lines(numbers: Sequence[int]) -> str:
    distinct = sorted(set(numbers))
    if len(distinct) == 1:
        return f"line {distinct[0]}"
    return f"{len(distinct)} lines from {distinct[0]} to {distinct[-1]}"
