"""The steps of an operation as CSV: a line for each."""

from __future__ import annotations

from collections.abc import Iterator

from cclmark.explain.steps.step import Place
from cclmark.report.formats.csv_format import csv_line
from cclmark.report.lists.step_table import Links, Relations
from cclmark.trace.case_steps import CaseSteps

_COLUMNS = (
    *("stage", "phase", "source", "destination", "size_bytes", "action", "chunk", "path"),
    *("transport", "relation", "reads", "reads_offset_bytes", "writes", "writes_offset_bytes"),
    *("combines", "combines_offset_bytes", "origin"),
)


def step_file(found: CaseSteps, relations: Relations) -> Iterator[str]:
    """Yields the lines of the file."""
    yield csv_line(_COLUMNS)
    links = Links(found.transports, relations)
    for step in found.steps:
        yield csv_line(
            [
                *(step.stage, step.phase, step.source, step.destination, step.size_bytes),
                *(step.action, step.chunk, step.path or None),
                *(links.transport(step), links.relation(step)),
                *_place(step.reads),
                *_place(step.writes),
                *_place(step.combines),
                found.origin,
            ]
        )


def _place(place: Place | None) -> tuple[str | None, int | None]:
    return (None, None) if place is None else (place.buffer, place.offset_bytes)
