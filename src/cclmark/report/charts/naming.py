"""Runs that are drawn together, and what to call their curves: only what tells them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cclmark.analysis.findings import OperationFindings, findings
from cclmark.plan.operations import moves_data
from cclmark.report.wording.reference_notes import ReferenceNotes
from cclmark.results.journal import Journal
from cclmark.results.kinds import CaseResult

# Of a curve: the number of its run, its library, how many ranks, whether it is in place.
Curve = tuple[int, str, int, bool]


@dataclass(frozen=True)
class Run:
    """A journal and what to call it among others. ``notes`` knows references for its figures."""

    name: str
    journal: Journal
    notes: ReferenceNotes = field(default_factory=ReferenceNotes)

    @cached_property
    def findings(self) -> list[OperationFindings]:
        """Of the collectives of all ranks."""
        return findings([one for one in self.journal.cases if one.case.pair is None])


@dataclass(frozen=True)
class Group:
    """What one pair of axes can hold: the results of one operation, type, reduction and root.

    ``dtype``: "" of a barrier, which moves nothing of any type.
    ``curves``: the results of each by size, in the order of the runs.
    """

    operation: str
    dtype: str
    reduction: str | None
    root: int | None
    curves: dict[Curve, dict[int, list[CaseResult]]]

    @property
    def key(self) -> str:
        """For names of files."""
        words = [self.operation, self.dtype, self.reduction or ""]
        words.append("" if self.root is None else f"root{self.root}")
        return "-".join(filter(None, words))


def groups_of(runs: Sequence[Run]) -> list[Group]:
    """All collectives of all ranks, in the order in which they were first measured."""
    found: dict[tuple[str, str, str | None, int | None], Group] = {}
    for number, run in enumerate(runs):
        for result in run.journal.cases:
            case = result.case
            if case.pair is None:
                dtype = case.dtype if moves_data(case.operation) else ""
                key = case.operation, dtype, case.reduction, case.root
                curves = found.setdefault(key, Group(*key, {})).curves
                curve = curves.setdefault((number, case.ccl, case.ranks, case.in_place), {})
                curve.setdefault(case.size_bytes, []).append(result)
    return list(found.values())


def group_titles(groups: Sequence[Group]) -> list[str]:
    """The operation of each, and what tells it from others of the same operation."""
    titles = []
    for group in groups:
        alike = [one for one in groups if one.operation == group.operation]
        words = [group.operation]
        if len({one.dtype for one in alike}) > 1:
            words.append(group.dtype)
        if len({one.reduction for one in alike}) > 1:
            words.append(group.reduction or "")
        if len({one.root for one in alike}) > 1:
            words.append(f"root {group.root}")
        titles.append(" ".join(filter(None, words)))
    return titles


def curve_names(curves: Iterable[Curve], runs: Sequence[Run]) -> dict[Curve, str]:
    """What to call each: its run where there are several, its library, ranks and placement where
    these tell curves of a run apart.
    """
    all_curves = list(curves)
    numbers = len({curve[0] for curve in all_curves})

    def tells(part: int) -> bool:
        return len({(curve[0], curve[part]) for curve in all_curves}) > numbers

    library, ranks = tells(1), tells(2)
    placed = len({curve[3] for curve in all_curves}) > 1
    names = {}
    for curve in all_curves:
        number, ccl, count, in_place = curve
        words = [runs[number].name if numbers > 1 else "", ccl if library else ""]
        words.append(f"{count} ranks" if ranks else "")
        words.append(("in-place" if in_place else "out-of-place") if placed else "")
        names[curve] = " ".join(filter(None, words)) or ccl
    return names


def colours(curves: Iterable[Curve]) -> dict[Curve, tuple[int, bool]]:
    """The number of each curve's colour, and whether it is dashed: placements share a colour."""
    all_curves = list(curves)
    kinds = list(dict.fromkeys(curve[:3] for curve in all_curves))
    both = len({curve[3] for curve in all_curves}) > 1
    return {curve: (kinds.index(curve[:3]), both and curve[3]) for curve in all_curves}
