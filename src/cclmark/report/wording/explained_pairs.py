"""What the library did between every two devices, as lines below the matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cclmark.plan.cases import Case
from cclmark.report.wording.explained import Entries, choice_lines, head_line
from cclmark.report.wording.text import counted
from cclmark.results.kinds import CaseResult

_MOST_NAMED = 6  # pairs of a group
_MOST_GROUPS = 8
_INDENT = "    "


def explained_pair_lines(
    results: Iterable[CaseResult], name_of: Callable[[Case], str]
) -> list[str]:
    """Returns a block for each operation; pairs with the same choices at all sizes share lines.

    ``name_of``: names the two devices of a case, and the direction if it has a root. Empty if no
    result has an explanation.
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
    lines: list[str] = []
    for pairs in sections.values():
        lines += _section_lines(pairs)
    return lines


def _section_lines(pairs: dict[str, Entries]) -> list[str]:
    every = [entry for sizes in pairs.values() for entry in sizes.values()]
    head = head_line(every, with_root=False)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, sizes in sorted(pairs.items(), key=lambda one: _place(one[1])):
        groups.setdefault(tuple(choice_lines(sizes)), []).append(name)
    if len(groups) == 1:
        return [head, *next(iter(groups))]
    lines = [head]
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    for choices, names in ordered[:_MOST_GROUPS]:
        lines.append(f"{_INDENT}{_named(names, len(pairs))}")
        lines += [_INDENT + line for line in choices]
    left = sum(len(names) for _, names in ordered[_MOST_GROUPS:])
    if left:
        lines.append(f"{_INDENT}{counted(left, 'other pair')} with yet other choices: see the CSV")
    return lines


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
