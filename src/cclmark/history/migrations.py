"""Migrates the tables from each version to the next, in one transaction.

Every step is fixed SQL and independent of tables.py, which contains the newest tables: a published
step never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, insert, inspect, select, text, update

from cclmark.errors import UsageError
from cclmark.history.tables import schema

Migration = Callable[[Connection], None]

# Each database's types of an automatically counted number, a reference to such a number, and bytes.
_TYPES = {
    "sqlite": {"counted": "INTEGER", "number": "INTEGER", "bytes": "BLOB"},
    "postgresql": {"counted": "BIGSERIAL", "number": "BIGINT", "bytes": "BYTEA"},
}
_TO_RUN = "FOREIGN KEY (run) REFERENCES cclmark_runs (number) ON DELETE CASCADE"
_FIRST = (
    "CREATE TABLE cclmark_schema (version INTEGER NOT NULL)",
    """
    CREATE TABLE cclmark_runs (
        number {counted} NOT NULL PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        digest TEXT NOT NULL,
        size_bytes BIGINT NOT NULL,
        source TEXT NOT NULL,
        added_at TEXT NOT NULL,
        started_at TEXT NOT NULL,
        hostname TEXT NOT NULL,
        devices TEXT NOT NULL,
        machine TEXT NOT NULL,
        method TEXT NOT NULL,
        command TEXT NOT NULL,
        libraries TEXT NOT NULL,
        driver TEXT NOT NULL,
        cclmark_version TEXT NOT NULL,
        cases BIGINT NOT NULL,
        not_ok BIGINT NOT NULL,
        damaged_lines BIGINT NOT NULL,
        exit_code BIGINT,
        continues TEXT NOT NULL
    )
    """,
    "CREATE INDEX cclmark_runs_started ON cclmark_runs (started_at)",
    f"""
    CREATE TABLE cclmark_journals (
        run {{number}} NOT NULL,
        part INTEGER NOT NULL,
        content {{bytes}} NOT NULL,
        UNIQUE (run, part),
        {_TO_RUN}
    )
    """,
    f"""
    CREATE TABLE cclmark_labels (
        run {{number}} NOT NULL,
        label TEXT NOT NULL,
        UNIQUE (run, label),
        {_TO_RUN}
    )
    """,
    f"""
    CREATE TABLE cclmark_operations (
        run {{number}} NOT NULL,
        operation TEXT NOT NULL,
        ccl TEXT NOT NULL,
        UNIQUE (run, operation, ccl),
        {_TO_RUN}
    )
    """,
    """
    CREATE TABLE cclmark_things (
        number {counted} NOT NULL PRIMARY KEY,
        digest TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        clock TEXT NOT NULL,
        operation TEXT NOT NULL,
        ccl TEXT NOT NULL,
        ranks BIGINT,
        dtype TEXT,
        reduction TEXT,
        root BIGINT,
        placement TEXT,
        size_bytes BIGINT NOT NULL,
        first BIGINT,
        second BIGINT,
        document TEXT NOT NULL
    )
    """,
    f"""
    CREATE TABLE cclmark_results (
        run {{number}} NOT NULL,
        thing {{number}} NOT NULL,
        position BIGINT NOT NULL,
        cycle BIGINT NOT NULL,
        carried BOOLEAN NOT NULL,
        status TEXT NOT NULL,
        reason TEXT NOT NULL,
        samples BIGINT,
        time_s FLOAT(53),
        min_s FLOAT(53),
        p95_s FLOAT(53),
        p99_s FLOAT(53),
        max_s FLOAT(53),
        cv FLOAT(53),
        half_width FLOAT(53),
        algbw_bytes_per_s FLOAT(53),
        busbw_bytes_per_s FLOAT(53),
        wrong BIGINT,
        {_TO_RUN},
        FOREIGN KEY (thing) REFERENCES cclmark_things (number)
    )
    """,
    "CREATE INDEX ix_cclmark_results_run ON cclmark_results (run)",
    """
    CREATE INDEX cclmark_results_trend
    ON cclmark_results (thing, run, status, carried, time_s, half_width)
    """,
)
# Adds columns for the device's time, besides the cost of a call.
_SECOND = (
    "ALTER TABLE cclmark_results ADD COLUMN device_time_s FLOAT(53)",
    "ALTER TABLE cclmark_results ADD COLUMN device_half_width FLOAT(53)",
    "DROP INDEX IF EXISTS cclmark_results_trend",
    """
    CREATE INDEX cclmark_results_trend
    ON cclmark_results (
        thing, run, status, carried, time_s, half_width, device_time_s, device_half_width
    )
    """,
)
# Adds the noise from run to run of machines.
_THIRD = (
    """
    CREATE TABLE cclmark_noise (
        machine TEXT NOT NULL,
        method TEXT NOT NULL,
        clocked TEXT NOT NULL,
        operation TEXT NOT NULL,
        ccl TEXT NOT NULL,
        band TEXT NOT NULL,
        deviation FLOAT(53) NOT NULL,
        runs BIGINT NOT NULL,
        measured_at TEXT NOT NULL,
        UNIQUE (machine, method, clocked, operation, ccl, band)
    )
    """,
)


def _step(statements: Sequence[str]) -> Migration:
    def run(connection: Connection) -> None:
        types = _TYPES[connection.dialect.name]
        for statement in statements:
            connection.execute(text(statement.format(**types)))

    return run


# The first step creates the tables. Each other step changes the tables of the previous version.
MIGRATIONS: Sequence[Migration] = (_step(_FIRST), _step(_SECOND), _step(_THIRD))


def version_of(connection: Connection) -> int:
    """The version of the existing tables; 0 without tables."""
    if not inspect(connection).has_table(schema.name):
        return 0
    return connection.scalar(select(schema.c.version)) or 0


def refuse_newer(found: int, name: str, newest: int = len(MIGRATIONS)) -> None:
    """Raises UsageError for tables of a version newer than ``newest``."""
    if found > newest:
        raise UsageError(
            f"the history {name} has schema {found}, newer than {newest}: update cclmark"
        )


def migrate(connection: Connection, name: str, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Migrates the tables to the newest version and returns their previous version.

    All steps are in the transaction of ``connection``: either all take effect or none. ``name`` is
    the database's name, for messages. Raises UsageError for tables of a newer version.
    """
    found = version_of(connection)
    refuse_newer(found, name, len(migrations))
    for step in migrations[found:]:
        step(connection)
    if found == 0:
        connection.execute(insert(schema).values(version=len(migrations)))
    elif found < len(migrations):
        connection.execute(update(schema).values(version=len(migrations)))
    return found
