"""Runs that are drawn together, and names of their curves: only distinguishing properties."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cclmark.analysis.findings import OperationFindings, findings
from cclmark.base.grouping import by_key
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header
from cclmark.work.operations import moves_data

# The properties of a curve: the number of its run, its library, the number of ranks, whether it is
# in place.
CurveKey = tuple[int, str, int, bool]


@dataclass(frozen=True)
class NamedRun:
    """A journal and its name among others. ``notes``: finds references for its figures.

    ``path``: of its journal, empty if unknown.

    ``content``: the journal as it was read; empty if it was not read from a file. ``documents``:
    those composed so far, see document_of.
    """

    name: str
    journal: Journal
    notes: ReferenceNotes = field(default_factory=ReferenceNotes)
    content: bytes = b""
    path: str = ""
    documents: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def findings(self) -> list[OperationFindings]:
        """The findings on collectives of all ranks."""
        return findings([one for one in self.journal.cases if one.case.pair is None])


@dataclass(frozen=True)
class ChartGroup:
    """The contents of one pair of axes: results of one operation, type, reduction and root.

    ``dtype``: empty for a barrier, which moves no data. ``curves``: the results of each curve by
    size, in the order of the runs.
    """

    operation: str
    dtype: str
    reduction: str | None
    root: int | None
    curves: dict[CurveKey, dict[int, list[CaseResult]]]

    @property
    def key(self) -> str:
        """The key for file names."""
        words = [self.operation, self.dtype, self.reduction or ""]
        words.append("" if self.root is None else f"root{self.root}")
        return "-".join(filter(None, words))


_LEAST_REPEATS = 3  # two runs of a command are before and after a change
_OUTPUTS = ("--journal", "-j", "--output", "-o", "--label")


def with_repeats(runs: Sequence[NamedRun]) -> tuple[list[NamedRun], list[int]]:
    """Returns the runs, and for each the number of the run whose curves have its results too.

    At least three runs of the same command on the same machine are repeats, with one curve, named
    after the first of them.
    """
    alike = by_key((_repeated(run), number) for number, run in enumerate(runs))
    named, firsts = list(runs), list(range(len(runs)))
    for numbers in alike.values():
        if len(numbers) >= _LEAST_REPEATS:
            first = numbers[0]
            name = f"{runs[first].name} and {len(numbers) - 1} repeats"
            named[first] = replace(runs[first], name=name)
            for number in numbers:
                firsts[number] = first
    return named, firsts


def _repeated(run: NamedRun) -> Hashable:
    """What runs have in common that are repeats of each other."""
    header = run.journal.header
    words, is_value = [], False
    for word in header.command:
        if not is_value and word.partition("=")[0] not in _OUTPUTS:
            words.append(word)
        is_value = word in _OUTPUTS
    return (
        tuple(words),
        tuple(sorted(header.environment.items())),
        header.machine.hostname,
        header.machine.vendor_driver,
        tuple((one.name, one.version) for one in header.libraries),
        run.name if header.imported is not None else "",
    )


def groups_of(runs: Sequence[NamedRun], firsts: Sequence[int] = ()) -> list[ChartGroup]:
    """Groups all collectives of all ranks, in the order of their first measurement.

    ``firsts``: see ``with_repeats``; by default each run has its own curves.
    """
    found: dict[tuple[str, str, str | None, int | None], ChartGroup] = {}
    for number, run in zip(firsts or range(len(runs)), runs, strict=True):
        for result in run.journal.cases:
            case = result.case
            if case.pair is None:
                dtype = case.dtype if moves_data(case.operation) else ""
                key = case.operation, dtype, case.reduction, case.root
                curves = found.setdefault(key, ChartGroup(*key, {})).curves
                curve = curves.setdefault((number, case.ccl, case.ranks, case.in_place), {})
                curve.setdefault(case.size_bytes, []).append(result)
    return list(found.values())


def group_titles(groups: Sequence[ChartGroup]) -> list[str]:
    """Returns the operation of each group, and the properties that distinguish the group."""
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


def curve_names(curves: Iterable[CurveKey], runs: Sequence[NamedRun]) -> dict[CurveKey, str]:
    """Names curves by run, tool, ranks and placement, as far as the curves differ in them.

    The library is named if a run has curves of several. A run whose name contains its tool is not
    named by it again.
    """
    all_curves = list(curves)
    numbers, ranks, placed = ({curve[part] for curve in all_curves} for part in (0, 2, 3))
    library = len({curve[:2] for curve in all_curves}) > len(numbers)
    tools = {number: _tool(runs[number].journal.header) for number, *_ in all_curves}
    by_tool = len(set(tools.values())) > 1
    names = {}
    for curve in all_curves:
        number, ccl, count, in_place = curve
        name = runs[number].name
        words = [name if len(numbers) > 1 else ""]
        words.append(f"({tools[number]})" if by_tool and tools[number] not in name else "")
        words.append(ccl if library else "")
        words.append(f"{count} ranks" if len(ranks) > 1 else "")
        words.append(("in-place" if in_place else "out-of-place") if len(placed) > 1 else "")
        names[curve] = " ".join(filter(None, words)) or ccl
    return names


def _tool(header: Header) -> str:
    """Returns the tool without its version."""
    return "cclmark" if header.imported is None else header.imported.tool


def colours(curves: Iterable[CurveKey]) -> dict[CurveKey, tuple[int, bool]]:
    """Returns each curve's colour number and whether it is dashed; placements share a colour."""
    all_curves = list(curves)
    kinds = list(dict.fromkeys(curve[:3] for curve in all_curves))
    both = len({curve[3] for curve in all_curves}) > 1
    return {curve: (kinds.index(curve[:3]), both and curve[3]) for curve in all_curves}
