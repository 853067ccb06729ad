"""The history: runs with their journals, in a database, SQLite or PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from cclmark.analysis.run_noise import OwnNoise
from cclmark.base.errors import CclmarkError, MissingError, OutputError, UsageError
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

BUSY_S = 5.0  # the limit of a wait for another process's transaction
CONNECT_S = 5  # the limit for a server's answer
_LOCK = 0x63636C6D61726B  # of PostgreSQL: held by a connection that writes
_LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's error code for a lock timeout
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class Database:
    """A database by file name or URL. Nothing is opened before the first transaction.

    ``name`` is for messages and contains no password.
    """

    def __init__(self, place: str, *, busy_s: float = BUSY_S) -> None:
        """Raises UsageError for an invalid URL, MissingError without the server's driver."""
        self._url = _url(place)
        self._busy_s = busy_s
        self.is_file = self._url.get_backend_name() == "sqlite"
        self.path = Path(self._url.database or "") if self.is_file else None
        self.name = str(self.path) if self.path else _shown(self._url)
        self._engines: dict[bool, Engine] = {}
        if not self.is_file:
            self._engine(writing=False)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only connection. Raises NoHistoryError, UsageError for another file."""
        if self.path is not None and not _is_there(self.path):
            raise NoHistoryError(
                f"there is no history at {self.name}: cclmark history add JOURNAL creates one"
            )
        with self._told(), self._engine(writing=False).connect() as connection:
            if not self.is_file:
                connection.execute(text(_SNAPSHOT))
                self._limit_waiting(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in one transaction. No other transaction writes until it ends.

        Raises the errors of ``reading``, and an error if the database is not writable.
        """
        with self._told(), self._engine(writing=True).begin() as connection:
            if not self.is_file:
                self._limit_waiting(connection)
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            yield connection

    def _limit_waiting(self, connection: Connection) -> None:
        """Limits the wait for another connection's lock, which a server does not limit."""
        connection.execute(text(f"SET LOCAL lock_timeout = '{self._busy_s * 1e3:.0f}ms'"))

    def _engine(self, *, writing: bool) -> Engine:
        if writing not in self._engines:
            make = self._file_engine if self.is_file else self._server_engine
            self._engines[writing] = make(writing=writing)
        return self._engines[writing]

    def _file_engine(self, *, writing: bool) -> Engine:
        assert self.path is not None
        path = self.path.absolute()
        # Opened for writing if permitted, also to read: the unfinished transaction of a killed
        # process must be rolled back first.
        mode = "rwc" if writing else "rw" if _may_write(path) else "ro"
        address = f"file:{quote(str(path))}?mode={mode}"

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(
                address,
                uri=True,
                timeout=self._busy_s,
                isolation_level=None,
                check_same_thread=False,
            )

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

        # Python's module would begin transactions late, and not at all for changes of tables.
        @event.listens_for(engine, "connect")
        def _connected(connection: Any, record: object) -> None:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA query_only = {'OFF' if writing else 'ON'}")

        @event.listens_for(engine, "begin")
        def _begun(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

        return engine

    def _server_engine(self, *, writing: bool) -> Engine:
        try:
            return create_engine(self._url, poolclass=NullPool, hide_parameters=True)
        except ModuleNotFoundError as error:
            raise MissingError(
                f"{self.name} requires the Python package {error.name}, which is not installed: "
                "pip install 'cclmark[postgres]'"
            ) from None
        except (SQLAlchemyError, ImportError) as error:
            raise MissingError(f"cannot use {self.name}: {self._without_password(error)}") from None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Converts errors of the database to errors with a remedy."""
        try:
            yield
        except DBAPIError as error:
            raise self._complaint(error) from None
        except SQLAlchemyError as error:
            raise MissingError(
                f"the history {self.name}: {self._without_password(error)}"
            ) from None

    def _complaint(self, error: DBAPIError) -> CclmarkError:
        said = self._without_password(error.orig or error)
        if not self.is_file:
            return self._complaint_of_server(error, said)
        assert self.path is not None
        if "locked" in said or "busy" in said:
            return self._locked()
        if "not a database" in said:
            return UsageError(
                f"{self.name} is not a history of cclmark ({said}): set another file with --db"
            )
        if "malformed" in said:
            return MissingError(
                f"the history {self.name} is damaged ({said}): replace it with a backup"
            )
        if "readonly" in said or "unable to open" in said:
            return self._not_writable()
        return OutputError(f"the history {self.name}: {said}")

    def _locked(self) -> CclmarkError:
        return MissingError(
            f"the history {self.name} was locked by another process for more than "
            f"{self._busy_s:g} s: try again when it is done"
        )

    def _not_writable(self) -> CclmarkError:
        assert self.path is not None
        directory = self.path.absolute().parent
        if _is_there(f"{self.path}/."):
            return UsageError(f"{self.name} is a directory: set a file with --db")
        if not _is_there(directory):
            return MissingError(
                f"cannot open the history {self.name}: the directory {directory} does not exist"
            )
        return MissingError(f"cannot open the history {self.name}: this user may not write there")

    def _complaint_of_server(self, error: DBAPIError, said: str) -> CclmarkError:
        # The code is compared, because servers report texts in many languages.
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            return self._locked()
        return MissingError(f"the history {self.name}: {said}")

    def _without_password(self, error: BaseException) -> str:
        """The first line of a message, with the password replaced."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = lines[0] if lines else type(error).__name__
        for secret in filter(None, (self._url.password, *_words(self._url, "password"))):
            for written in (str(secret), quote(str(secret), safe=""), unquote(str(secret))):
                said = said.replace(written, "***")
        return said


def _is_there(path: Path | str) -> bool:
    """Whether it exists for this user. False for a name too long or a closed directory."""
    return os.access(path, os.F_OK)


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _url(place: str) -> URL:
    """The URL of a database by file name or URL. Raises UsageError."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return URL.create("sqlite", database=place)
    if scheme == "postgres":
        scheme = "postgresql"
    shown = f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
    try:
        url = make_url(f"{scheme}://{rest}")
    except (ArgumentError, ValueError):
        raise UsageError(
            f"cannot read the address {shown}: write postgresql://user@host:5432/database"
        ) from None
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError(f"{shown} contains no file: write sqlite:///PATH, or the path alone")
        return URL.create("sqlite", database=url.database)
    if url.get_backend_name() != "postgresql":
        raise UsageError(
            f"a history requires SQLite or PostgreSQL, not {url.get_backend_name()}: use a file, "
            "or postgresql://user@host/database"
        )
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(CONNECT_S)})
    return url


def _shown(url: URL) -> str:
    """The address of a server without secrets: without the password and the options."""
    host = url.host or ", ".join(_words(url, "host")) or "(local)"
    user = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{user}{host}{port}/{url.database or ''}"


def _words(url: URL, option: str) -> tuple[str, ...]:
    """The values of ``option`` in the query of a URL."""
    value = url.query.get(option, ())
    return (value,) if isinstance(value, str) else tuple(value)


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
