"""Notices about the rows of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


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
