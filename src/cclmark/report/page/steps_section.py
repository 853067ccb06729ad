"""The section of a page that compares the steps of trainings and of profiled programs."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.document.naming import Run
from cclmark.document.page.page import PageTable, Section
from cclmark.document.step_words import (
    STEPS_HEAD,
    STEPS_NUMERIC,
    STEPS_TITLE,
    notes_of_steps,
    steps_row,
)
from cclmark.kinds.registry import report_kind


def steps_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with a row for each run that has steps; none if there is only one."""
    named = []
    for run in runs:
        step_runs = report_kind(run.journal.kind).step_runs
        if step_runs is not None:
            named += [(run.name, one) for one in step_runs(run.journal)]
    if len({name for name, _ in named}) < 2:
        return []
    table = PageTable(
        STEPS_TITLE.capitalize(),
        STEPS_HEAD,
        [steps_row(name, one) for name, one in named],
        STEPS_NUMERIC,
        notes_of_steps(named),
    )
    return [Section("steps", "Steps", tables=[table])]
