"""Formatting of numbers as ranges."""

from __future__ import annotations

from collections.abc import Sequence


def in_ranges(numbers: Sequence[int]) -> str:
    """Formats ascending numbers as ranges, for example ``0-3,7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
