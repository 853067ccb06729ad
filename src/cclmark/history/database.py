"""Opens the database of a history, SQLite or PostgreSQL, and translates its errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from cclmark.base.errors import CclmarkError, MissingError, OutputError, UsageError
from cclmark.history.history_model import NoHistoryError

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
