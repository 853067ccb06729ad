"""The section of a page on what the libraries did: choices, predictions, connections."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from cclmark.document.cells import device_names
from cclmark.document.connection_words import (
    connections_of,
    ring_text,
    transport_groups,
    tree_text,
)
from cclmark.document.device_labels import way_between
from cclmark.document.explained import Choices, what_ran
from cclmark.document.explained_pairs import what_ran_between_pairs
from cclmark.document.naming import Run
from cclmark.document.page.diagram import Diagram, DiagramLayout, DiagramLine
from cclmark.document.page.page import PageFacts, PageTable, Section
from cclmark.document.text import counted
from cclmark.document.why import predictions
from cclmark.kinds.experiment.document import size_text, variant_name
from cclmark.kinds.experiment.figures import experiment_of
from cclmark.kinds.experiment.result import TrialResult
from cclmark.results.journal import Journal
from cclmark.results.schema import Explanation, Header, Paths

_MOST_RANKS = 64  # in a drawing
_MOST_SHAPES = 4  # rings, and trees, that are drawn
_MOST_TRANSPORTS = 6
_SIZES = ("size", "what ran")
_UNKNOWN = "unknown"


def ran_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section for each run in which something was explained."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        tables = [
            *_choice_tables(run.journal),
            *_variant_tables(run.journal),
            *_prediction_tables(run.journal),
        ]
        facts, diagrams = _connections(run.journal)
        if tables or facts:
            words = [
                "From a separate pass with new ranks after measuring: timed operations were not "
                "observed. Choices made by a setting are marked; those of a library that "
                "reports nothing are unknown."
            ]
            sections.append(
                Section(
                    f"what-ran{mark}",
                    f"What ran{name}",
                    words,
                    tables=tables,
                    facts=facts,
                    diagrams=diagrams,
                )
            )
    return sections


def _choice_tables(journal: Journal) -> list[PageTable]:
    cases = journal.cases
    tables = [
        PageTable(one.head, _SIZES, one.choices.rows, notes=one.choices.remarks)
        for one in what_ran(case for case in cases if case.case.pair is None)
    ]
    names = device_names(journal.header)
    pairs = what_ran_between_pairs(
        (case for case in cases if case.case.pair is not None),
        lambda case: way_between(case, names),
    )
    for one in pairs:
        rows = [row for names, choices in one.groups for row in _rows_of_pairs(names, choices)]
        remarks = [
            f"{names}: {remark}" if names else remark
            for names, choices in one.groups
            for remark in choices.remarks
        ]
        notes = [*remarks, one.rest] if one.rest else remarks
        tables.append(PageTable(one.head, ("pairs", *_SIZES), rows, notes=notes))
    return tables


def _variant_tables(journal: Journal) -> list[PageTable]:
    """What ran with each variant at each size, a table for each operation; none if unknown."""
    experiment = experiment_of(journal.of(TrialResult), journal.header.settings.timing)
    tables = []
    for cases in experiment.groups:
        rows: list[list[str]] = []
        for variant in experiment.variants:
            found = [experiment.compared.get((variant, case)) for case in cases]
            if variant == experiment.variants[0]:
                usual = [_ran(one.usual if one else None) for one in found]
                rows += [["default", *usual]] if any(usual) else []
            ran = [_ran(one.explanation if one else None) for one in found]
            rows.append([variant_name(variant), *ran])
        if any(cell not in ("", _UNKNOWN) for row in rows for cell in row[1:]):
            head = ["variant", *map(size_text, cases)]
            tables.append(PageTable(cases[0].series().group_words(), head, rows))
    return tables


def _ran(explanation: Explanation | None) -> str:
    return "" if explanation is None else explanation.choice_with_channels or _UNKNOWN


def _rows_of_pairs(names: str, choices: Choices) -> list[tuple[str, str, str]]:
    return [(names or "all pairs", *row) for row in choices.rows]


def _prediction_tables(journal: Journal) -> list[PageTable]:
    return [
        PageTable(one.title, one.head, one.rows, len(one.head), one.remarks)
        for one in predictions(case for case in journal.cases if case.case.pair is None)
    ]


def _connections(journal: Journal) -> tuple[list[PageFacts], list[Diagram]]:
    facts, diagrams = [], []
    for paths in journal.paths:
        found = connections_of(journal.header, paths)
        title = f"Connections of {found.ccl}" + ("" if found.reason else f" ({found.source})")
        rows = [("unknown", found.reason)] if found.reason else list(found.parts)
        rows += [("warning", text) for text in found.warnings]
        if rows:
            facts.append(PageFacts(title, rows))
        if not found.reason:
            diagrams += diagrams_of(journal.header, paths)
    return facts, diagrams


def diagrams_of(header: Header, paths: Paths) -> list[Diagram]:
    """Returns drawings of the transports, rings and trees; none for one or too many ranks."""
    hosts = {device.rank: device.host for device in header.devices}
    if not 1 < len(hosts) <= _MOST_RANKS:
        return []
    layout = DiagramLayout(hosts)
    found = []
    if groups := transport_groups(paths):
        shown = list(groups.items())[:_MOST_TRANSPORTS]
        words = "; ".join(f"{name} between {counted(len(of), 'pair')}" for name, of in shown)
        found.append(
            layout.drawn(
                f"{paths.ccl}: transport between ranks",
                f"The transport between every two ranks: {words}.",
                [DiagramLine(*pair, look) for look, (_, of) in enumerate(shown) for pair in of],
                [(look, name) for look, (name, _) in enumerate(shown)],
            )
        )
    for ring in paths.rings[:_MOST_SHAPES]:
        ways = pairwise([*ring.ranks, ring.ranks[0]])
        found.append(
            layout.drawn(
                f"{paths.ccl}: ring of {counted(ring.channels, 'channel')}",
                f"A ring of ranks: {ring_text(ring)}.",
                [DiagramLine(*way, arrow=True) for way in ways],
            )
        )
    for tree in paths.trees[:_MOST_SHAPES]:
        found.append(
            layout.drawn(
                f"{paths.ccl}: tree of {counted(tree.channels, 'channel')}, towards its root",
                f"A tree of ranks: {tree_text(tree)}.",
                [
                    DiagramLine(rank, parent, arrow=True)
                    for rank, parent in enumerate(tree.parents)
                    if parent >= 0
                ],
            )
        )
    return found
