"""The cases that only one side of a comparison measured, by their sizes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

import msgspec

from cclmark.analysis.compare import Compared
from cclmark.plan.sizes import format_size
from cclmark.document.insight_words import amount, listed

_MOST_LISTED = 4  # sizes; more are a range
_MOST_LINES = 6


@dataclass
class _Group:
    """The cases that differ only in size and devices: sizes of each side, and numbers of cases."""

    before: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)
    common: int = 0
    only_before: int = 0
    only_after: int = 0

    def add(self, one: Compared) -> None:
        if one.absent != "before":
            self.before.add(one.size_bytes)
        if one.absent != "after":
            self.after.add(one.size_bytes)
        self.only_after += one.absent == "before"
        self.only_before += one.absent == "after"
        self.common += not one.absent


def coverage_lines(
    found: Sequence[Compared], libraries: tuple[str, str] | None, most: int = _MOST_LINES
) -> list[str]:
    """Returns a sentence for each kind of case that the two sides did not measure alike.

    ``libraries``: those of the two sides if a case of one is compared with a case of the other.
    ``most``: of the kinds; the number of the others follows.
    """
    groups: dict[str, _Group] = {}
    for one in found:
        thing = one.thing
        if libraries is not None and thing.ccl:
            thing = msgspec.structs.replace(thing, ccl=" → ".join(libraries))
        groups.setdefault(thing.group_words(), _Group()).add(one)
    shared, before, after = list[str](), list[str](), list[str]()
    for name, group in groups.items():
        if line := _line(name, group):
            of = after if not group.before else before if not group.after else shared
            of.append(line)
    # Of both sides in turn, so that both are among the first.
    turns = chain.from_iterable(zip_longest(before, after))
    lines = [*shared, *(line for line in turns if line is not None)]
    more = len(lines) - most
    if more <= 0:
        return lines
    return [*lines[:most], f"{amount(more, 'more kind')} of cases differ"]


def _line(name: str, group: _Group) -> str:
    """Returns the difference of a group; empty if both sides measured all of its cases."""
    if not group.only_before and not group.only_after:
        return ""
    if not group.after:
        return f"{name}: only before, {_sizes(group.before)}"
    if not group.before:
        return f"{name}: only after, {_sizes(group.after)}"
    if group.before != group.after:
        common = group.before & group.after
        return (
            f"sizes of {name}: {_sizes(group.before)} before, {_sizes(group.after)} after, "
            f"{amount(len(common), 'size') if common else 'no size'} in common"
        )
    only = [
        f"{amount(number, 'case')} only {side}"
        for number, side in ((group.only_before, "before"), (group.only_after, "after"))
        if number
    ]
    return f"{name}: {listed(only)}, {group.common:,} in common"


def _sizes(sizes: Collection[int]) -> str:
    """Returns few sizes, or the smallest and the largest of many with their number."""
    known = [format_size(size) for size in sorted(sizes)]
    if len(known) <= _MOST_LISTED:
        return listed(known)
    return f"{known[0]} to {known[-1]} ({len(known)} sizes)"
