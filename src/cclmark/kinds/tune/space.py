"""The variants of a search by their coordinates: which ones lie around a good one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Space:
    """``coordinates``: for each variant the index of its value of every setting.

    ``ordered``: for every setting whether its values have an order, as numbers of channels do. A
    variant without coordinates, for example the default, has no neighbours.
    """

    coordinates: Mapping[int, tuple[int, ...]]
    ordered: tuple[bool, ...]

    def around(self, variant: int, tried: Collection[int]) -> list[int]:
        """The variants to try next, near ``variant`` and different from it in one setting.

        Of a setting with an order, the value in the middle between this variant's and the nearest
        tried one, in both directions: repeated, it reaches the adjacent values. Of a setting
        without an order, all values.
        """
        if variant not in self.coordinates:
            return []
        found: list[int] = []
        for axis, ordered in enumerate(self.ordered):
            line = self._line(variant, axis)
            if not ordered:
                found += [one for one in line if one not in tried and one != variant]
                continue
            place = line.index(variant)
            for side in (line[:place][::-1], line[place + 1 :]):
                gap = _until_tried(side, tried)
                if gap:
                    found.append(gap[len(gap) // 2])
        return found

    def _line(self, variant: int, axis: int) -> list[int]:
        """The variants that differ from ``variant`` in this setting alone, in its order."""
        own = self.coordinates[variant]
        return self._lines[axis][own[:axis] + own[axis + 1 :]]

    @cached_property
    def _lines(self) -> list[dict[tuple[int, ...], list[int]]]:
        """For each setting the variants by their other coordinates, in its order."""
        found = []
        for axis in range(len(self.ordered)):
            lines: dict[tuple[int, ...], list[int]] = {}
            by_value = sorted((place[axis], one) for one, place in self.coordinates.items())
            for _, one in by_value:
                own = self.coordinates[one]
                lines.setdefault(own[:axis] + own[axis + 1 :], []).append(one)
            found.append(lines)
        return found


def _until_tried(side: Collection[int], tried: Collection[int]) -> list[int]:
    gap: list[int] = []
    for one in side:
        if one in tried:
            break
        gap.append(one)
    return gap
