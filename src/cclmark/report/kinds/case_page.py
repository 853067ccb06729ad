"""Cases on a page: cells of the table of all results, and sections with charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from cclmark.analysis.limits import link_limit
from cclmark.document.chart_model import marked
from cclmark.report.charts.collective_charts import collective_charts
from cclmark.document.naming import Run, group_titles, groups_of
from cclmark.report.charts.pair_charts import pair_charts
from cclmark.document.columns import Cell
from cclmark.report.kinds.case_columns import COLUMNS, case_cells
from cclmark.document.page.page import Section
from cclmark.document.definitions import definition_lines, definitions_of
from cclmark.document.staging import STAGED_NOTE, staged_mark
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Header

_SLUG = str.maketrans({" ": "-", ".": "-"})


def cells_of_case(run: Run, result: CaseResult) -> Mapping[str, Cell]:
    """Returns the figures of a case, and their shares of the link limit and of references."""
    cells = dict(zip(COLUMNS, case_cells(result, run.journal.header), strict=True))
    cells |= _shares(run, result)
    if result.case.pair is not None:
        cells["pair"] = f"{result.case.pair[0]}-{result.case.pair[1]}"
    return cells


def _shares(run: Run, result: CaseResult) -> dict[str, Cell]:
    """Returns the shares of the link limit and of references."""
    header, cells = run.journal.header, dict[str, Cell]()
    limit = link_limit(header.links, header.hosts)
    if limit and result.summary is not None and result.summary.busbw_bytes_per_s:
        cells["of_link_limit_percent"] = result.summary.busbw_bytes_per_s / limit * 100
    match = run.notes.match(result, header)
    if match is not None:
        cells["of_reference_percent"] = match.share * 100
        cells["reference"] = match.words
    return cells


def notes_on_cases(results: Iterable[CaseResult]) -> list[str]:
    """Explains a mark in the table."""
    staged = any(map(staged_mark, results))
    return [f"Route “copy aside, then …”: {STAGED_NOTE}."] if staged else []


def title_of_cases(runs: Sequence[Run]) -> str:
    """Returns the operations of all runs."""
    results = chain.from_iterable(run.journal.cases for run in runs)
    operations = list(dict.fromkeys(result.case.operation for result in results))
    more = f" and {len(operations) - 3} more" if len(operations) > 3 else ""
    return ", ".join(operations[:3]) + more


def collective_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section for each operation, with the curves of all runs."""
    groups = groups_of(runs)
    sections = []
    for group, title in zip(groups, group_titles(groups), strict=True):
        charts = collective_charts(group, title, runs)
        if charts:
            curves = group.curves.values()
            results = (one for curve in curves for ones in curve.values() for one in ones)
            words = [f"In place, {STAGED_NOTE}."] if any(map(staged_mark, results)) else []
            words += _mixed([runs[number].journal.header for number, *_ in group.curves])
            sections.append(Section(group.key.translate(_SLUG), title, words, charts))
    return sections


def _mixed(headers: Iterable[Header]) -> list[str]:
    """Returns the definitions of the curves' times if there are several."""
    definitions = definitions_of(headers)
    if len(definitions) < 2:
        return []
    return [
        "The curves have different definitions of a time: compare only curves of one definition.",
        *(f"{line}." for line in definition_lines(definitions)),
    ]


def pair_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section for each run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        if charts := pair_charts(run.journal):
            sections.append(Section(f"pairs{mark}", f"Pairs{name}", charts=marked(charts, mark)))
    return sections
