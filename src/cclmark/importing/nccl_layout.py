"""Reads the column layout of nccl-tests' tables, of all versions, from the table's own head.

2017: ``bytes N type op``, times in milliseconds, ``res``. 2019: ``size count type``, with ``redop``
and ``root`` only if the operation has them, microseconds, ``error``. Since 2.13: ``size count
type redop root`` always, and ``#wrong``. 2024 had another bandwidth for a while, 2.19 has columns
of single iterations (-I) and a time of day (-S). rccl-tests can leave the out-of-place half out,
and ends rows with the algorithm, the protocol and the number of channels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(
    r"#\s+(?:size\s+count|bytes\s+N)\s+type\b.*\btime\b.*|#\s+size\s+count\s+.*cputime.*"
)
_PLACEMENTS = re.compile(r"\b(out-of-place|in-place)\b")
_GAP = re.compile(r"\s{24,}")  # in place of a missing out-of-place half
_MILLISECOND_S = 1e-3
_TAIL = ("algo", "proto", "nchannels")
_UNITS = re.compile(r"#?\s*(?:\([^()]{1,24}\)\s*)+")
_UNIT = re.compile(r"\((?P<unit>[munpµμ]?s|[mun]?sec|[KMGT]i?B|[KMGT]?i?[Bb](?:/s|ps))\)")
_NAMES = {"bytes": "size", "N": "count", "op": "redop", "cputime": "time", "#wrong": "wrong"}


@dataclass(frozen=True)
class NcclTestsLayout:
    """The columns before the figures, the columns of each placement, and the present placements.

    ``tail``: the number of columns after them. ``time_unit_s``: the unit of times.
    """

    lead: tuple[str, ...]
    part: tuple[str, ...]
    in_place: tuple[bool, ...]
    time_unit_s: float
    tail: int = 0

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return len(self.lead) + len(self.part) * len(self.in_place) + self.tail

    def words(self, line: str) -> list[str]:
        """Returns the columns of the row on ``line``; a blank reduction is ``none``."""
        words = line.split()
        if "redop" in self.lead:
            place = self.lead.index("redop")
            if len(words) > place and not words[place][:1].isalpha():
                words.insert(place, "none")
        return words

    def halves(self, line: str) -> tuple[bool, ...]:
        """Returns the placements of the row on ``line``, which may lack its out-of-place half."""
        short = len(self.words(line)) == self.columns - len(self.part)
        if short and len(self.in_place) == 2 and _GAP.search(line.lstrip()):
            return self.in_place[1:]
        return self.in_place


def other_unit(line: str, layout: NcclTestsLayout) -> tuple[str, str] | None:
    """Returns a unit on the line below a head, and the unit that the rows are read with.

    Returns None if all units are the same, and for any other line.
    """
    if _UNITS.fullmatch(line.strip()) is None:
        return None
    time = "ms" if layout.time_unit_s == _MILLISECOND_S else "us"
    for found in _UNIT.finditer(line):
        unit = found["unit"].replace("µ", "u").replace("μ", "u")
        due = "GB/s" if unit.endswith(("/s", "ps")) else "B" if unit.endswith("B") else time
        if unit != due:
            return unit, due
    return None


def read_layout(line: str, before: str) -> NcclTestsLayout | None:
    """Reads the layout from the head on ``line``, with the placements from the line before it.

    Returns None if it is not a head, has no times, or has unequal halves.
    """
    if _HEAD.fullmatch(line.strip()) is None:
        return None
    names = [_NAMES.get(name, name) for name in line.strip().removeprefix("#").split()]
    if names[-1] == "timestamp":
        names.pop()
    starts = [number for number, name in enumerate(names) if name == "time"]
    if not starts:
        return None
    first, end = starts[0], len(names)
    while end > first and names[end - 1] in _TAIL:
        end -= 1
    size = (end - first) // len(starts)
    part = tuple(names[first : first + size])
    lead = names[:first]
    if names[first:end] != list(part) * len(starts) or len(set(lead)) < first:
        return None
    if not {"size", "count", "type"} <= set(lead):
        return None
    placements = [found == "in-place" for found in _PLACEMENTS.findall(before)]
    if len(placements) != len(starts):
        placements = [False, True][: len(starts)]
    unit_s = _MILLISECOND_S if "res" in part else 1e-6
    return NcclTestsLayout(tuple(lead), part, tuple(placements), unit_s, len(names) - end)
