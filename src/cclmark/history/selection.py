"""Converts filters to conditions of statements. Text from a user is always a parameter."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select

from cclmark.history.history_model import RunFilter
from cclmark.history.tables import labels, operations, runs, things

SqlCondition = ColumnElement[bool]


def runs_of(which: RunFilter) -> list[SqlCondition]:
    """The conditions for runs; none for all runs."""
    found: list[SqlCondition] = []
    for column, part in ((runs.c.hostname, which.machine), (runs.c.devices, which.device)):
        if part:
            found.append(func.lower(column).contains(part.lower(), autoescape=True))
    for column, name in ((operations.c.operation, which.operation), (operations.c.ccl, which.ccl)):
        if name:
            found.append(runs.c.number.in_(select(operations.c.run).where(column == name)))
    if which.label:
        found.append(runs.c.number.in_(select(labels.c.run).where(labels.c.label == which.label)))
    if which.since:
        found.append(runs.c.started_at >= which.since)
    if which.until:
        found.append(runs.c.started_at < which.until)
    if which.number is not None:
        found.append(runs.c.number == which.number)
    return found


def things_of(which: RunFilter) -> list[SqlCondition]:
    """The conditions for the cases and transfers of these runs."""
    pairs = ((things.c.operation, which.operation), (things.c.ccl, which.ccl))
    return [column == name for column, name in pairs if name]
