"""The history: runs with their journals, in a database."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, inspect, select

from cclmark.analysis.run_noise import OwnNoise
from cclmark.base.errors import MissingError, UsageError
from cclmark.history.database import Database
from cclmark.history.history_model import (
    Added,
    FilterValues,
    NoHistoryError,
    RunFilter,
    StoredRun,
    StoredSeries,
    now,
)
from cclmark.history.measured_noise import measure_noise, noise_of
from cclmark.history.queries import (
    choices_of,
    content_of,
    first_line_of,
    listed,
    number_of,
    series_of,
)
from cclmark.history.run_rows import DatabaseRow, JournalRows, machine_of, method_of, rows_of
from cclmark.history.tables import (
    MIGRATIONS,
    journals,
    labels,
    migrate,
    operations,
    refuse_newer,
    results,
    runs,
    things,
    version_of,
)
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header
from cclmark.kinds.registry import parse_journal

_PART_BYTES = 4 << 20
_AT_ONCE = 500  # values in one list of a statement


class History:
    """Runs and their journals. Each method is a separate transaction; threads may share a history.

    Every method raises MissingError if the database does not exist, is locked for too long or does
    not answer, and UsageError if it is no history, or one of a newer version of cclmark.
    """

    def __init__(self, place: str, *, read_only: bool = False) -> None:
        """``place``: the file of an SQLite database, or the URL of a PostgreSQL one.

        ``read_only``: nothing is changed, and a history of an older version is refused.
        """
        self._database = Database(place)
        self._read_only = read_only
        self._ready = False

    @property
    def name(self) -> str:
        """The name of the database, for messages."""
        return self._database.name

    @property
    def path(self) -> Path | None:
        """The file of the database; None on a server."""
        return self._database.path

    def begin(self) -> None:
        """Creates missing tables, and migrates older ones."""
        with self._writing():
            pass

    def add(
        self, content: bytes, name: str, marks: Sequence[str] = (), *, replace: bool = False
    ) -> Added:
        """Adds a journal, complete or truncated, with the labels ``marks``.

        A run that the history contains already is unchanged and gets the labels. With ``replace``,
        another journal of such a run replaces it, and the labels are kept. ``name`` is the origin
        of ``content``. Raises UsageError if it is no journal, if it is so damaged that no result is
        left, and without ``replace`` for another journal of a known run.
        """
        journal = parse_journal(content.splitlines(), name)
        damaged = journal.unread_lines
        if damaged and not journal.results:
            raise UsageError(f"{name}: no result can be read: damaged lines: {damaged}")
        rows = rows_of(journal, content, name)
        run_id, cases = str(rows.run["run_id"]), len(journal.results)
        with self._writing() as connection:
            query = select(runs.c.number, runs.c.digest).where(runs.c.run_id == run_id)
            known = connection.execute(query).first()
            if known is not None and known.digest == rows.run["digest"]:
                new = _label(connection, known.number, marks)
                return Added(run_id, known=True, cases=cases, labelled=new, damaged_lines=damaged)
            kept = [*marks]
            if known is not None:
                if not replace:
                    raise UsageError(
                        f"{name}: run {run_id} is in the history with another journal, for example "
                        "if the run continued: use --replace to store this one"
                    )
                query = select(labels.c.label).where(labels.c.run == known.number)
                kept = [*connection.scalars(query), *marks]
                _remove(connection, [known.number])
            _insert(connection, rows, content, kept)
            measure_noise(connection, str(rows.run["machine"]), str(rows.run["method"]))
            replaced = known is not None
            return Added(
                run_id, known=replaced, replaced=replaced, cases=cases, damaged_lines=damaged
            )

    def remove(self, numbers: Sequence[int]) -> None:
        """Removes runs by their numbers, with their journals and results."""
        with self._writing() as connection:
            _remove(connection, numbers)

    def runs(
        self, which: RunFilter, limit: int | None = None, skipped: int = 0
    ) -> tuple[list[StoredRun], int]:
        """The newest ``limit`` runs after the ``skipped`` newest, and the number of all."""
        with self._reading() as connection:
            return listed(connection, which, limit, skipped)

    def run(self, run: str) -> StoredRun:
        """The run by its id or the beginning. Raises UnknownRunError for none and for several."""
        with self._reading() as connection:
            number, _ = number_of(connection, run, self.name)
            return listed(connection, RunFilter(number=number), None)[0][0]

    def content(self, run: str) -> bytes:
        """The bytes of a run's journal, as they were added. ``run``: as for the method ``run``."""
        with self._reading() as connection:
            return content_of(connection, number_of(connection, run, self.name)[0])

    def journal(self, run: str) -> Journal:
        """The parsed journal of a run. ``run``: as for the method ``run``."""
        return parse_journal(self.content(run).splitlines(), f"run {run}")

    def headers(self, numbers: Sequence[int]) -> dict[int, Header]:
        """The headers of runs by their numbers, without reading all of their journals."""
        with self._reading() as connection:
            lines = {number: first_line_of(connection, number) for number in numbers}
        return {
            number: parse_journal([line], f"run {number}").header for number, line in lines.items()
        }

    def choices(self) -> FilterValues:
        """The existing values to filter by."""
        with self._reading() as connection:
            return choices_of(connection)

    def series(self, which: RunFilter) -> tuple[list[StoredSeries], dict[int, StoredRun]]:
        """All series of valid times, and the selected runs by number, from the oldest on.

        The runs are without operations, ccls and labels. Results that a run carried over from
        another selected run count once.
        """
        with self._reading() as connection:
            return series_of(connection, which)

    def own_noise(self, header: Header) -> OwnNoise:
        """The noise from run to run of a run's machine with its method; empty with too few runs."""
        machine, method = machine_of(header, header.run_id), method_of(header)
        with self._reading() as connection:
            return noise_of(connection, machine, method)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction on tables of the newest version. Raises UsageError if opened read-only."""
        if self._read_only:
            raise UsageError(f"the history {self.name} was opened read-only")
        with self._database.writing() as connection:
            if not self._ready:
                if version_of(connection) == 0:
                    _require_room(connection, self._database)
                if 0 < migrate(connection, self.name) < len(MIGRATIONS):
                    measure_noise(connection)
            yield connection
        self._ready = True

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A read-only transaction on one state of the tables, which have the newest version."""
        if not self._ready:
            self._check()
        with self._database.reading() as connection:
            yield connection

    def _check(self) -> None:
        """Checks the version once, and migrates older tables."""
        with self._database.reading() as connection:
            found = version_of(connection)
        refuse_newer(found, self.name)
        if found == 0:
            raise NoHistoryError(
                f"{self.name} contains no history yet: cclmark history add JOURNAL creates one"
            )
        if found < len(MIGRATIONS) and self._read_only:
            raise MissingError(
                f"the history {self.name} has the older schema {found}: cclmark history list "
                "updates it"
            )
        if found < len(MIGRATIONS):
            self.begin()
        self._ready = True


def _require_room(connection: Connection, database: Database) -> None:
    """Raises UsageError for a file that is a database of another program."""
    others = inspect(connection).get_table_names() if database.is_file else []
    if others:
        raise UsageError(
            f"{database.name} is a database of another program, for example with a table "
            f"{others[0]!r}: set another file with --db"
        )


def _insert(
    connection: Connection, rows: JournalRows, content: bytes, marks: Sequence[str]
) -> None:
    """Adds a run with all its rows."""
    values = {**rows.run, "added_at": now()}
    number = connection.scalar(insert(runs).values(values).returning(runs.c.number))
    packed = zlib.compress(content, 6)
    parts = [packed[at : at + _PART_BYTES] for at in range(0, len(packed), _PART_BYTES)]
    _insert_all(
        connection,
        journals,
        [{"run": number, "part": part, "content": piece} for part, piece in enumerate(parts)],
    )
    unique = dict.fromkeys(marks)
    _insert_all(connection, labels, [{"run": number, "label": label} for label in unique])
    _insert_all(connection, operations, [{"run": number, **row} for row in rows.operations])
    numbers = _things(connection, rows.things)
    _insert_all(
        connection,
        results,
        [{**row, "run": number, "thing": numbers[str(row["thing"])]} for row in rows.results],
    )


def _label(connection: Connection, number: int, marks: Sequence[str]) -> tuple[str, ...]:
    """Adds the labels that the run does not have, and returns them."""
    known = set(connection.scalars(select(labels.c.label).where(labels.c.run == number)))
    new = tuple(label for label in dict.fromkeys(marks) if label not in known)
    _insert_all(connection, labels, [{"run": number, "label": label} for label in new])
    return new


def _insert_all(connection: Connection, table: Any, rows: Sequence[Any]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _things(connection: Connection, rows: Sequence[DatabaseRow]) -> dict[str, int]:
    """The numbers of things by digest. New things are added."""
    digests = [str(row["digest"]) for row in rows]
    known = _numbers(connection, digests)
    new = [row for row in rows if row["digest"] not in known]
    _insert_all(connection, things, new)
    return {**known, **_numbers(connection, [str(row["digest"]) for row in new])}


def _numbers(connection: Connection, digests: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for first in range(0, len(digests), _AT_ONCE):
        some = digests[first : first + _AT_ONCE]
        query = select(things.c.digest, things.c.number).where(things.c.digest.in_(some))
        found.update((row.digest, row.number) for row in connection.execute(query))
    return found


def _remove(connection: Connection, numbers: Sequence[int]) -> None:
    """Removes runs with all their rows, and things without a remaining result."""
    for first in range(0, len(numbers), _AT_ONCE):
        some = numbers[first : first + _AT_ONCE]
        connection.execute(delete(runs).where(runs.c.number.in_(some)))
    used = select(results.c.thing).where(results.c.thing == things.c.number).exists()
    connection.execute(delete(things).where(~used))
