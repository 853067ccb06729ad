"""Reads from the tables, with as few statements as possible."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, func, or_, select

from cclmark.analysis.run_noise import OwnNoise, RunNoise, class_of
from cclmark.base.errors import UsageError
from cclmark.base.printable import printable
from cclmark.history.history_model import (
    Figure,
    FilterValues,
    RunFilter,
    SeriesKind,
    StoredRun,
    StoredSeries,
    Thing,
    UnknownRunError,
)
from cclmark.history.measured_noise import noise_of
from cclmark.history.tables import journals, labels, operations, results, runs, things
from cclmark.journal.item_results import AUTO, THROUGHPUT
from cclmark.work.cases import Case
from cclmark.work.transfers import Transfer

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


_UNSHOWN = ("digest", "size_bytes")
_COLUMNS = [column for column in runs.c if column.name not in _UNSHOWN]
_TIMES_S = (1e-15, 1e15)  # times outside this range are invalid
_PIECE_BYTES = 1 << 20
_MOST_HEADER_BYTES = 64 << 20  # for thousands of devices and their relations
_AT_ONCE = 500  # values in one list of a statement
_CASES = msgspec.json.Decoder(Case)
_TRANSFERS = msgspec.json.Decoder(Transfer)


def listed(
    connection: Connection, which: RunFilter, limit: int | None, skipped: int = 0
) -> tuple[list[StoredRun], int]:
    """The newest ``limit`` runs after the ``skipped`` newest, and the number of selected runs."""
    found = _runs(connection, which, limit, skipped)
    total = len(found)
    if skipped or (limit is not None and total == limit):
        query = select(func.count()).select_from(runs).where(*runs_of(which))
        total = connection.scalar(query) or 0
    numbers = [run.number for run in found]
    measured = _of_runs(connection, operations, numbers)
    marked = _of_runs(connection, labels, numbers)
    return [
        replace(
            run,
            operations=_column(measured.get(run.number, ()), 0),
            ccls=_column(measured.get(run.number, ()), 1),
            labels=_column(marked.get(run.number, ()), 0),
        )
        for run in found
    ], total


def number_of(connection: Connection, run: str, name: str) -> tuple[int, str]:
    """Number and id of the run whose id is ``run``, or of the only run whose id begins with it.

    ``name``: of the database. Raises UnknownRunError for no run, and for several.
    """
    unknown = UnknownRunError(f"no run {run!r} is in the history {name}: see cclmark history list")
    if not run or "\0" in run:  # PostgreSQL rejects NUL
        raise unknown
    query = select(runs.c.number, runs.c.run_id)
    exact = connection.execute(query.where(runs.c.run_id == run)).first()
    if exact is not None:
        return exact.number, exact.run_id
    # LIKE is not used, because SQLite limits the length of its patterns.
    begin = func.substr(runs.c.run_id, 1, len(run)) == run
    found = connection.execute(query.where(begin).order_by(runs.c.run_id).limit(4)).all()
    if not found:
        raise unknown
    if len(found) > 1:
        ids = ", ".join(row.run_id for row in found[:3]) + (", …" if len(found) > 3 else "")
        raise UnknownRunError(f"{run!r} matches {ids}: write more of the id", several=True)
    return found[0].number, found[0].run_id


def content_of(connection: Connection, number: int) -> bytes:
    """The journal of a run, as it was added. Raises UsageError for a damaged journal."""
    size_bytes = connection.scalar(select(runs.c.size_bytes).where(runs.c.number == number)) or 0
    content = bytearray()
    # At most one byte more than the correct size is unpacked, so that altered rows cannot fill the
    # memory.
    for piece in _unpacked(connection, number, size_bytes + 1):
        content += piece
        if len(content) > size_bytes:
            break
    if len(content) != size_bytes:
        raise _damaged(number)
    return bytes(content)


def first_line_of(connection: Connection, number: int) -> bytes:
    """The journal's header, read without most other lines. Raises UsageError for a damaged one."""
    line = bytearray()
    for piece in _unpacked(connection, number, _MOST_HEADER_BYTES):
        rest = piece if line else piece.lstrip()
        end = rest.find(b"\n")
        line += rest if end < 0 else rest[:end]
        if end >= 0 or len(line) >= _MOST_HEADER_BYTES:
            break
    if not line or len(line) >= _MOST_HEADER_BYTES:
        raise _damaged(number)
    return bytes(line).rstrip(b"\r")


def _unpacked(connection: Connection, number: int, most_bytes: int) -> Iterator[bytes]:
    """A journal in pieces, at most ``most_bytes`` in total. Raises UsageError for a damaged one."""
    query = select(journals.c.content).where(journals.c.run == number).order_by(journals.c.part)
    unpacker = zlib.decompressobj()
    left = most_bytes
    try:
        for part in connection.scalars(query):
            waiting = part
            while waiting and left > 0:
                piece = unpacker.decompress(waiting, min(left, _PIECE_BYTES))
                waiting = unpacker.unconsumed_tail
                left -= len(piece)
                if piece:
                    yield piece
    except zlib.error:
        raise _damaged(number) from None


def _damaged(number: int) -> UsageError:
    return UsageError(
        f"the journal of run {number} in the history is damaged: remove the run with cclmark "
        "history prune --run and add its file again"
    )


def choices_of(connection: Connection) -> FilterValues:
    """The existing values to filter by."""
    columns = (runs.c.hostname, runs.c.devices, operations.c.operation, operations.c.ccl)
    return FilterValues(
        *(
            printable(list(connection.scalars(select(column).distinct().order_by(column))))
            for column in (*columns, labels.c.label)
        )
    )


def series_of(
    connection: Connection, which: RunFilter
) -> tuple[list[StoredSeries], dict[int, StoredRun]]:
    """All series of valid times, and the selected runs by number, from the oldest on.

    The runs are without operations, ccls and labels. Results that a run carried over from another
    selected run count once.
    """
    chosen = {run.number: run for run in reversed(_runs(connection, which, None))}
    wanted = _things(connection, which)
    figures = _gathered(_rows(connection, which), chosen)
    places = {number: place for place, number in enumerate(chosen)}
    series = []
    of_auto = {run.number for run in chosen.values() if _is_auto(run.method)}

    @cache
    def own_noise(machine: str, method: str) -> OwnNoise:
        # Times of throughput and of auto may be in one series.
        usual, timing = noise_of(connection, machine, method), method.partition(",")[0]
        if timing != THROUGHPUT:
            return usual
        other = AUTO + method.removeprefix(THROUGHPUT)
        return {**noise_of(connection, machine, other), **usual}

    for (number, machine, method, kind), points in figures.items():
        thing, clock = wanted[number]
        points.sort(key=lambda point: places[point[0]])
        of_device = kind != "calls" and all(run in of_auto for run, *_ in points)
        noise = _noise(own_noise(machine, method), thing, kind)
        series.append(StoredSeries(thing, machine, method, clock, points, kind, of_device, noise))
    return series, chosen


def _noise(own: OwnNoise, thing: Thing, kind: SeriesKind) -> RunNoise | None:
    """The noise of a series: of the devices' times, or of calls where a run has no others."""
    call, device = (own.get(class_of(thing, device=of_device)) for of_device in (False, True))
    return call if kind == "calls" else device or call


def _runs(
    connection: Connection, which: RunFilter, limit: int | None, skipped: int = 0
) -> list[StoredRun]:
    """The selected runs without operations, ccls and labels, newest first."""
    query = select(*_COLUMNS).where(*runs_of(which))
    query = query.order_by(runs.c.started_at.desc(), runs.c.number.desc()).limit(limit)
    if skipped:
        query = query.offset(skipped)
    return [StoredRun(**printable(dict(row._mapping))) for row in connection.execute(query)]


def _rows(connection: Connection, which: RunFilter) -> Sequence[tuple[Any, ...]]:
    """Thing, run, whether carried, time and half-width of each valid result, and the device's time
    and half-width, None if unknown.
    """
    columns = (results.c.thing, results.c.run, results.c.carried, results.c.time_s)
    of_device = (results.c.device_time_s, results.c.device_half_width)
    query = select(*columns, results.c.half_width, *of_device).where(
        results.c.status == "ok",
        results.c.time_s.between(*_TIMES_S),
        or_(of_device[0].is_(None), of_device[0].between(*_TIMES_S)),
    )
    if conditions := runs_of(which):
        query = query.where(results.c.run.in_(select(runs.c.number).where(*conditions)))
    if conditions := things_of(which):
        query = query.where(results.c.thing.in_(select(things.c.number).where(*conditions)))
    # The driver's own rows: there may be a hundred thousand, and each conversion costs time.
    cursor = connection.execute(query.order_by(results.c.thing, results.c.run)).cursor
    assert cursor is not None
    return cursor.fetchall()


def _gathered(
    rows: Sequence[tuple[Any, ...]], chosen: dict[int, StoredRun]
) -> dict[tuple[int, str, str, SeriesKind], list[Figure]]:
    """The figures of each thing by machine, method and kind.

    A result has one figure, or two if it is launch-bound. If a thing is launch-bound in no run, its
    figures are the same with the timings auto and throughput, and have the method of throughput.
    """
    known = {run.run_id for run in chosen.values()}
    twice = {run.number for run in chosen.values() if run.continues in known}
    contexts: dict[tuple[str, str], int] = {}
    numbers = {
        run.number: contexts.setdefault((run.machine, run.method), len(contexts))
        for run in chosen.values()
    }
    of_auto = {run.number for run in chosen.values() if _is_auto(run.method)}
    plain: dict[int, int] = {}
    for (machine, method), context in list(contexts.items()):
        usual = THROUGHPUT + method.removeprefix(AUTO)
        plain[context] = (
            contexts.setdefault((machine, usual), len(contexts)) if _is_auto(method) else context
        )
    found: dict[tuple[int, int, SeriesKind], list[Figure]] = {}
    of_launches: set[tuple[int, int]] = set()
    for thing, run, carried, time_s, half_width, device_s, device_width in rows:
        if carried and run in twice:
            continue
        context = numbers[run]
        unknown = device_s is None
        if not unknown or run not in of_auto:
            judged = (run, time_s, half_width) if unknown else (run, device_s, device_width)
            found.setdefault((thing, context, "time"), []).append(judged)
        if run in of_auto and device_s != time_s:
            of_launches.add((thing, context))
            found.setdefault((thing, context, "calls"), []).append((run, time_s, half_width))
    names = list(contexts)
    series: dict[tuple[int, str, str, SeriesKind], list[Figure]] = {}
    for (thing, context, kind), points in found.items():
        named: SeriesKind = kind
        if kind == "time" and (thing, context) in of_launches:
            named = "device"
        of = context if (thing, context) in of_launches else plain[context]
        series.setdefault((thing, *names[of], named), []).extend(points)
    return series


def _is_auto(method: str) -> bool:
    return method.partition(",")[0] == AUTO


def _things(connection: Connection, which: RunFilter) -> dict[int, tuple[Thing, str]]:
    """The things by number, each with its clock."""
    columns = (things.c.number, things.c.kind, things.c.clock, things.c.document)
    found: dict[int, tuple[Thing, str]] = {}
    for number, kind, clock, document in connection.execute(
        select(*columns).where(*things_of(which))
    ):
        thing: Thing = (_CASES if kind == "case" else _TRANSFERS).decode(document)
        found[number] = (printable(thing), clock)
    return found


def _of_runs(
    connection: Connection, table: Table, numbers: Sequence[int]
) -> dict[int, list[tuple[str, ...]]]:
    """The rows of a table by run."""
    found: dict[int, list[tuple[str, ...]]] = {}
    for first in range(0, len(numbers), _AT_ONCE):
        query = select(table).where(table.c.run.in_(numbers[first : first + _AT_ONCE]))
        for run, *texts in connection.execute(query):
            found.setdefault(run, []).append(printable(tuple(texts)))
    return found


def _column(rows: Sequence[tuple[str, ...]], place: int) -> list[str]:
    return sorted({row[place] for row in rows})
