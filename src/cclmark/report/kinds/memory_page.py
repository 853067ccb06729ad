"""Memory on a page: the table of all ranks, and sentences on each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.memory_use import (
    GIVEN_BACK,
    listed_bytes,
    on_host,
    stage_called,
    stated_total,
    taken_by_library,
    taken_in,
)
from cclmark.plan.cases import Case
from cclmark.report.charts.naming import Run
from cclmark.report.columns import Cell
from cclmark.report.insights.insight_words import Insight
from cclmark.report.insights.soundness import of_completeness
from cclmark.report.kinds.case_columns import what_cells
from cclmark.report.kinds.memory_table import CaseTable, cases_of, tables_of_case, title_of_case
from cclmark.report.page.page import PageTable, Section
from cclmark.report.wording.memory_words import DEVICE_NOTE, PAGES_NOTE, memory_sentences
from cclmark.results.kinds import MemoryResult

_OF_CASE = (
    *("operation", "ccl", "ranks", "dtype", "reduction", "root", "placement", "size_bytes"),
    "count",
)


def cells_of_memory(run: Run, result: MemoryResult) -> Mapping[str, Cell]:
    """Returns what the library and the buffers take on one rank.

    A rank of the host has no memory of a device: the free memory is that of the whole host.
    """
    on_device = not on_host(result, run.journal.header.devices)
    taken = taken_by_library(result).values()
    end = stage_called(result, GIVEN_BACK)
    stated = [total for stage in result.stages if (total := stated_total(stage)) is not None]
    host = ("host", "shared host", "pinned host")
    return {
        **dict(zip(_OF_CASE, what_cells(result.memory.case), strict=True)),
        "rank": result.memory.rank,
        "status": result.status,
        "reason": result.reason,
        "library_device_bytes": sum(one.device_bytes for one in taken) if on_device else None,
        "library_rss_bytes": sum(one.rss_bytes for one in taken),
        "given_back_device_bytes": -taken_in(end).device_bytes if end and on_device else None,
        "stated_bytes": max(stated, default=None),
        "buffers_device_bytes": listed_bytes(result.buffers, "device") if on_device else None,
        "buffers_host_bytes": sum(listed_bytes(result.buffers, place) for place in host),
    }


def insights_on_memory(run: Run) -> list[Insight]:
    """Returns the sentences of each case, wrong outputs and missing results."""
    cases: dict[Case, list[MemoryResult]] = {}
    for result in run.journal.memories:
        cases.setdefault(result.memory.case, []).append(result)
    found = [
        Insight("bad", f"Wrong data in {case.describe()}.")
        for case, results in cases.items()
        if any(one.status == "wrong" for one in results)
    ]
    for case, results in cases.items():
        sentences = memory_sentences(results, run.journal.header)
        if sentences:
            found.append(Insight("note", f"{case.describe()}: {' '.join(sentences)}"))
    return [*found, *of_completeness(run.journal, [])]


def memory_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section for each run: the stages and the buffers of each case."""
    sections = []
    for number, run in enumerate(runs):
        header, cases = run.journal.header, cases_of(run.journal.memories)
        tables = []
        for case in cases:
            name = f"{title_of_case(case[0].memory.case)}: " if len(cases) > 1 else ""
            tables += [_page_table(one, name) for one in tables_of_case(case, header)]
        if tables:
            title = f"Memory ({run.name})" if len(runs) > 1 else "Memory"
            results = run.journal.memories
            on_devices = not all(on_host(one, header.devices) for one in results)
            words = [DEVICE_NOTE] * on_devices + [PAGES_NOTE]
            sections.append(Section(f"memory-{number}", title, words, tables=tables))
    return sections


def _page_table(table: CaseTable, name: str) -> PageTable:
    """Sizes of stages are aligned as numbers; the columns of buffers are of both kinds."""
    notes = [table.more] if table.more else []
    if not table.ranks:
        return PageTable(f"{name}buffers", table.head, table.rows, notes=notes)
    title = f"{name}stages of {table.ranks}"
    return PageTable(title, table.head, table.rows, len(table.head) - 2, notes)


def title_of_memory(runs: Sequence[Run]) -> str:
    """Returns the operations whose memory was read."""
    results = [result for run in runs for result in run.journal.memories]
    return f"memory of {', '.join(dict.fromkeys(one.memory.case.operation for one in results))}"
