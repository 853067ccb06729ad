"""Compares two runs of a kind whose results follow from formulas: exactly, without noise.

What the two runs assume differently comes first, then the figures of the items that both have.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.base.version import VERSION
from cclmark.comparison.figures import Side
from cclmark.document.blocks import Block, Document, Facts, Table, TableColumn, table_of
from cclmark.document.columns import Cell, Column
from cclmark.document.insight_words import amount
from cclmark.document.page.page_model import Page, Rows, Section
from cclmark.document.report_kind import ComputedFigure, ComputedFigures
from cclmark.document.text import three_digits
from cclmark.kinds.registry import report_kind


@dataclass(frozen=True)
class FigureChange:
    """A figure of an item of both sides. Cells are in the unit of its key, None if unknown.

    ``intervals``: between which the figure is expected on each side, None where it is exact.
    """

    figure: ComputedFigure
    before: Cell
    after: Cell
    texts: tuple[str, str]
    intervals: tuple[tuple[float, float] | None, tuple[float, float] | None] = (None, None)

    def is_slower(self, margin: float) -> bool:
        """Whether it is a time that grew by ``margin`` or more, and beyond both intervals."""
        before, after = self.intervals
        if before is not None and after is not None and after[0] <= before[1]:
            return False
        return self.figure.is_time and self.ratio is not None and self.ratio >= 1 + margin

    @property
    def ratio(self) -> float | None:
        """The figure after over the one before; None without one, or if that is 0."""
        if not isinstance(self.before, int | float) or not isinstance(self.after, int | float):
            return None
        return self.after / self.before if self.before else None


@dataclass(frozen=True)
class ItemChange:
    """An item of both sides, in words. ``is_main``: whether texts show it."""

    what: str
    is_main: bool
    figures: Sequence[FigureChange]

    @property
    def changed(self) -> list[FigureChange]:
        """The figures that differ."""
        return [one for one in self.figures if one.before != one.after]


@dataclass(frozen=True)
class ComputedComparison:
    """The differences of two runs. ``inputs``: what they stand on, before and after, by name.

    ``only``: the items of one side without figures, of before and of after. ``noun``: of items.
    """

    before: Side
    after: Side
    inputs: Sequence[tuple[str, str, str]]
    items: Sequence[ItemChange]
    only: tuple[Sequence[ItemChange], Sequence[ItemChange]]
    noun: str

    @property
    def title(self) -> str:
        """Names both sides."""
        return f"{self.after.name} against {self.before.name}"


def computed_figures(side: Side) -> ComputedFigures | None:
    """By what the runs of a side are compared if they are computed; None if they are measured."""
    return report_kind(side.runs[0].kind).computed


def compare_computed(before: Side, after: Side) -> ComputedComparison:
    """Compares ``after`` with ``before``.

    Raises UsageError for several runs of a side, for another kind on a side, and if the sides have
    no item in common.
    """
    kinds = [report_kind(side.runs[0].kind) for side in (before, after)]
    figures = kinds[0].computed
    if figures is None or kinds[0] is not kinds[1]:
        raise UsageError(
            f"{before.name} contains {kinds[0].noun}, and {after.name} contains {kinds[1].noun}: "
            "these are not compared. Use two journals of the same kind"
        )
    for side in (before, after):
        if len(side.runs) > 1:
            raise UsageError(
                f"{side.name}: {kinds[0].noun} are computed and have no noise: use one journal for "
                "each side"
            )
    sides = [side.runs[0].results for side in (before, after)]
    then, now = ({figures.key(one): one for one in results} for results in sides)
    common = [(then[key], now[key]) for key in then if key in now]
    only = (_only(figures, then, now), _only(figures, now, then))
    if not common:
        raise UsageError(
            f"{before.name} and {after.name} have nothing in common: {main_words(only[0])} before, "
            f"{main_words(only[1])} after"
        )
    inputs = [dict(figures.inputs(results)) for results in sides]
    names = dict.fromkeys([*inputs[0], *inputs[1]])
    changed = [(name, inputs[0].get(name, "-"), inputs[1].get(name, "-")) for name in names]
    return ComputedComparison(
        before,
        after,
        [one for one in changed if one[1] != one[2]],
        [_item(figures, one, other) for one, other in common],
        only,
        kinds[0].noun,
    )


def _only(
    figures: ComputedFigures, own: dict[Hashable, Any], other: dict[Hashable, Any]
) -> list[ItemChange]:
    items = [one for key, one in own.items() if key not in other]
    return [ItemChange(plain(figures.words(one)), figures.is_main(one), ()) for one in items]


def main_words(items: Sequence[ItemChange]) -> str:
    """The items that texts show, in words."""
    return ", ".join(one.what for one in items if one.is_main)


def _item(figures: ComputedFigures, before: Any, after: Any) -> ItemChange:
    changes = [
        FigureChange(
            *(one, one.field.cell(before), one.field.cell(after)),
            (one.text(before), one.text(after)),
            (one.interval(before), one.interval(after)),
        )
        for one in figures.figures
    ]
    return ItemChange(plain(figures.words(before)), figures.is_main(before), changes)


def is_slower(comparison: ComputedComparison, margin: float) -> list[ItemChange]:
    """The items that texts show whose time grew by ``margin`` or more, see FigureChange.is_slower.

    Raises UsageError if no item has a time on both sides.
    """
    shown = [one for one in comparison.items if one.is_main]
    if not any(one.figure.is_time and one.ratio for item in shown for one in item.figures):
        figures = computed_figures(comparison.before)
        assert figures is not None
        raise UsageError(f"--fail-if-slower: no time on both sides: {figures.without_time}")
    return [item for item in shown if any(one.is_slower(margin) for one in item.figures)]


def computed_document(comparison: ComputedComparison) -> Document:
    """Composes everything that a comparison says."""
    items, noun = comparison.items, comparison.noun
    shown = [one for one in items if one.is_main]
    changed = sum(bool(one.changed) for one in shown)
    what = f"{amount(len(shown), noun.removesuffix('s'), noun)} on both sides"
    outcome = f"{what}: {changed} differ" if changed else f"{what}: all figures are equal"
    hidden = sum(bool(one.changed) for one in items if not one.is_main)
    has_intervals = any(any(one.intervals) for item in shown for one in item.figures)
    notes = [
        "after / before: of the middles of intervals; where these overlap, no difference is known"
        if has_intervals
        else "after / before: of figures that are computed, so that any difference is exact"
    ]
    if hidden:
        notes.append(f"{amount(hidden, 'variant')} differ, too: --format json lists them")
    return Document(
        comparison.title, "", blocks=[*_blocks(comparison)], outcome=outcome, notes=notes
    )


_FIGURES = (
    TableColumn("figure", lambda one: one.figure.title),
    TableColumn("before", lambda one: one.texts[0], ">"),
    TableColumn("after", lambda one: one.texts[1], ">"),
    TableColumn("after / before", lambda one: _ratio_text(one.ratio), ">"),
)
_INPUTS = (
    TableColumn("differs", lambda one: plain(one[0])),
    TableColumn("before", lambda one: plain(one[1])),
    TableColumn("after", lambda one: plain(one[2])),
)


def _ratio_text(ratio: float | None) -> str:
    return "-" if ratio is None else three_digits(ratio)


def _blocks(comparison: ComputedComparison) -> Iterator[Block]:
    if comparison.inputs:
        yield table_of("what the runs assume", _INPUTS, comparison.inputs)
    only = [
        (f"only {side}", words)
        for side, items in zip(("before", "after"), comparison.only, strict=True)
        if (words := main_words(items))
    ]
    if only:
        yield Facts(only)
    for one in comparison.items:
        if one.is_main:
            yield table_of(one.what, _FIGURES, one.figures)


def computed_json(comparisons: Sequence[ComputedComparison]) -> str:
    """The complete comparisons, one object for each second side; figures in units of their keys."""
    found = [
        {
            "before": one.before.name,
            "after": one.after.name,
            "differences": [
                {"name": name, "before": before, "after": after}
                for name, before, after in one.inputs
            ],
            "only_before": [item.what for item in one.only[0]],
            "only_after": [item.what for item in one.only[1]],
            "items": [
                {
                    "what": item.what,
                    "figures": {
                        figure.figure.field.key: {
                            "before": figure.before,
                            "after": figure.after,
                            "ratio": figure.ratio,
                        }
                        for figure in item.figures
                    },
                }
                for item in one.items
            ],
        }
        for one in comparisons
    ]
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


_COLUMNS = (
    Column("after", "text", "Name of the second side."),
    Column("item", "text", "What was computed."),
    Column("figure", "text", "What was compared of it."),
    Column("before", "float", "The figure before."),
    Column("after_value", "float", "The figure after."),
    Column("ratio", "float", "The figure after over the one before."),
)


def computed_page(comparisons: Sequence[ComputedComparison]) -> Page:
    """Creates the page of one or more comparisons with a common side before."""
    documents = [*map(computed_document, comparisons)]
    sections = []
    for number, document in enumerate(documents):
        blocks = document.blocks
        sections.append(
            Section(
                f"figures-{number}",
                document.title,
                words=[document.outcome, *document.notes],
                tables=[one for one in blocks if isinstance(one, Table)],
                facts=[one for one in blocks if isinstance(one, Facts)],
            )
        )
    rows = [
        [
            one.after.name,
            item.what,
            *(figure.figure.field.key, figure.before, figure.after, figure.ratio),
        ]
        for one in comparisons
        for item in one.items
        for figure in item.figures
    ]
    return Page(
        title=", ".join(one.title for one in documents),
        subtitle="computed, not measured",
        lead=[],
        insights=[],
        sections=sections,
        rows=Rows(_COLUMNS, rows, "comparison.csv"),
        made_by=f"Made by cclmark {VERSION}.",
    )
