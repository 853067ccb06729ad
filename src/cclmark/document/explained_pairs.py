"""Executed algorithms between every two devices: by operation, as data and as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cclmark.document.blocks import Table
from cclmark.document.explained import (
    Choices,
    Entries,
    choices_of,
    head_of,
    title_and_sources,
)
from cclmark.document.text import counted
from cclmark.plan.cases import Case
from cclmark.results.item_results import CaseResult

_MOST_NAMED = 6  # pairs of a group
_MOST_GROUPS = 8
_HEAD = ("size", "what ran", "remarks")


@dataclass(frozen=True)
class PairsRan:
    """What ran for one operation between two devices.

    ``groups``: pairs with the same choices at all sizes, the most frequent choices first; the names
    are empty if all pairs agree. ``left``: the number of pairs with yet other choices.
    """

    title: str
    sources: str
    groups: list[tuple[str, Choices]]
    left: int

    @property
    def head(self) -> str:
        """The title with the sources."""
        return head_of(self.title, self.sources)

    @property
    def rest(self) -> str:
        """The pairs that are left, in words; empty if none are."""
        if not self.left:
            return ""
        return f"{counted(self.left, 'other pair')} with yet other choices: see the CSV"


def tables_of_pairs(results: Iterable[CaseResult], name_of: Callable[[Case], str]) -> list[Table]:
    """Returns a table for each operation and group of pairs; none without explanations.

    ``name_of``: names the two devices of a case, and the direction if it has a root.
    """
    tables = []
    for one in what_ran_between_pairs(results, name_of):
        for names, choices in one.groups:
            title = f"{one.head}: {names}" if names else one.head
            rows, remarks = choices.rows, "\n".join(choices.remarks)
            if remarks:
                with_remarks = [*((*row, "") for row in rows[:-1]), (*rows[-1], remarks)]
                tables.append(Table(title, _HEAD, with_remarks, "><<", is_last_below=True))
            else:
                tables.append(Table(title, _HEAD[:-1], rows, "><"))
        if one.rest:
            tables[-1] = replace(tables[-1], notes=[one.rest])
    return tables


def what_ran_between_pairs(
    results: Iterable[CaseResult], name_of: Callable[[Case], str]
) -> list[PairsRan]:
    """Returns what ran for each operation of the results with an explanation.

    ``name_of``: as for ``tables_of_pairs``.
    """
    sections: dict[tuple[object, ...], dict[str, Entries]] = {}
    for result in results:
        if result.explanation is None:
            continue
        case = result.case
        section = (case.operation, case.ccl, case.dtype, case.reduction)
        sizes = sections.setdefault(section, {}).setdefault(name_of(case), {})
        _, placed = sizes.setdefault(case.size_bytes, (case, {}))
        placed[case.placement] = result.explanation
    return [_ran(pairs) for pairs in sections.values()]


def _ran(pairs: dict[str, Entries]) -> PairsRan:
    every = [entry for sizes in pairs.values() for entry in sizes.values()]
    title, sources = title_and_sources(every, with_root=False)
    groups: dict[tuple[str, ...], tuple[Choices, list[str]]] = {}
    for name, sizes in sorted(pairs.items(), key=lambda one: _place(one[1])):
        choices = choices_of(sizes)
        groups.setdefault(tuple(choices.lines("")), (choices, []))[1].append(name)
    ordered = sorted(groups.values(), key=lambda group: -len(group[1]))
    if len(ordered) == 1:
        return PairsRan(title, sources, [("", ordered[0][0])], 0)
    shown = [(_named(names, len(pairs)), choices) for choices, names in ordered[:_MOST_GROUPS]]
    left = sum(len(names) for _, names in ordered[_MOST_GROUPS:])
    return PairsRan(title, sources, shown, left)


def _place(sizes: Entries) -> tuple[tuple[int, int], int]:
    """The key that sorts pairs by their devices, and directions by their root."""
    case, _ = next(iter(sizes.values()))
    assert case.pair is not None
    return case.pair, case.root or 0


def _named(names: list[str], pairs: int) -> str:
    """``2 of 6 pairs: DEV0–DEV1, DEV2–DEV3``."""
    shown = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        shown += f" and {len(names) - _MOST_NAMED} more"
    return f"{len(names)} of {pairs} pairs: {shown}"
