"""Memory on a page: the table of all ranks, and sentences on each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.memory_use import (
    GIVEN_BACK,
    listed_bytes,
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
from cclmark.report.wording.memory_words import memory_sentences
from cclmark.results.kinds import MemoryResult

_OF_CASE = (
    *("operation", "ccl", "ranks", "dtype", "reduction", "root", "placement", "size_bytes"),
    "count",
)


def cells_of_memory(run: Run, result: MemoryResult) -> Mapping[str, Cell]:
    """Returns what the library and the buffers take on one rank."""
    taken = taken_by_library(result).values()
    end = stage_called(result, GIVEN_BACK)
    stated = [total for stage in result.stages if (total := stated_total(stage)) is not None]
    host = ("host", "shared host", "pinned host")
    return {
        **dict(zip(_OF_CASE, what_cells(result.memory.case), strict=True)),
        "rank": result.memory.rank,
        "status": result.status,
        "reason": result.reason,
        "library_device_bytes": sum(one.device_bytes for one in taken),
        "library_rss_bytes": sum(one.rss_bytes for one in taken),
        "given_back_device_bytes": None if end is None else -taken_in(end).device_bytes,
        "stated_bytes": max(stated, default=None),
        "buffers_device_bytes": listed_bytes(result.buffers, "device"),
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


def title_of_memory(runs: Sequence[Run]) -> str:
    """Returns the operations whose memory was read."""
    results = [result for run in runs for result in run.journal.memories]
    return f"memory of {', '.join(dict.fromkeys(one.memory.case.operation for one in results))}"
