"""The section of a page on a trace: where it is, its summary, and the stages as bars."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.document.naming import Run
from cclmark.document.page.page import Section
from cclmark.document.page.stage_bars import stage_bars
from cclmark.kinds.registry import report_kind
from cclmark.results.schema import Trace

_OPEN = {
    "perfetto": "Open it at https://ui.perfetto.dev, which reads it in the browser and uploads "
    "nothing.",
    "chrome": "Open it at https://ui.perfetto.dev or in chrome://tracing.",
}


def trace_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section for each trace."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        what = report_kind(run.journal.kind).traced
        for trace in run.journal.traces:
            words = [_place(trace)]
            footer = run.journal.footer
            if footer is not None:
                words += [f"{problem}." for problem in footer.problems]
            bars = [stage_bars("Stages", what, trace.stages)] if trace.stages else []
            sections.append(
                Section(
                    f"trace{mark}",
                    f"Timeline{name}",
                    words,
                    bars=bars,
                    listing="\n".join(trace.summary),
                )
            )
    return sections


def _place(trace: Trace) -> str:
    """Where the timeline is."""
    what = f"The timeline of {trace.operations} operations after the measurement"
    if not trace.file:
        return f"{what} could not be written."
    return f"{what} is in the file {trace.file}. {_OPEN.get(trace.format, '')}".rstrip()
