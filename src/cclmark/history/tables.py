"""The tables of the history, and their migrations: every change of a table requires one.

Names begin with ``cclmark_``, because a PostgreSQL database may contain other tables. Integers have
64 bits, as in a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.types import TypeEngine

from cclmark.base.errors import UsageError

metadata = MetaData()

# SQLite counts a column automatically only if its type is INTEGER.
_Number = BigInteger().with_variant(Integer, "sqlite")


def _run(*, index: bool = False) -> Column[int]:
    """A column with the run of a row. The row is deleted with its run."""
    to_run = ForeignKey("cclmark_runs.number", ondelete="CASCADE")
    return Column("run", _Number, to_run, nullable=False, index=index)


def _columns(kind: TypeEngine[Any], *names: str, nullable: bool = False) -> Iterator[Column[Any]]:
    """Columns of one type."""
    return (Column(name, kind, nullable=nullable) for name in names)


schema = Table("cclmark_schema", metadata, Column("version", Integer, nullable=False))

# ``started_at`` is UTC in ISO 8601, so that it sorts in the order of time. ``machine`` is equal for
# two runs on one machine, ``method`` for two runs that were measured alike.
runs = Table(
    "cclmark_runs",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("digest", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    *_columns(
        Text(), "source", "added_at", "started_at", "hostname", "devices", "machine", "method"
    ),
    *_columns(Text(), "command", "libraries", "driver", "cclmark_version"),
    *_columns(BigInteger(), "cases", "not_ok", "damaged_lines"),
    Column("exit_code", BigInteger),
    Column("continues", Text, nullable=False),
    Index("cclmark_runs_started", "started_at"),
)

# The journal as it was added, compressed as a whole and cut into parts of a size that every
# database supports.
journals = Table(
    "cclmark_journals",
    metadata,
    _run(),
    Column("part", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    UniqueConstraint("run", "part"),
)

labels = Table(
    "cclmark_labels",
    metadata,
    _run(),
    Column("label", Text, nullable=False),
    UniqueConstraint("run", "label"),
)

# The operations and libraries of a run, which are sufficient for filters and lists.
operations = Table(
    "cclmark_operations",
    metadata,
    _run(),
    Column("operation", Text, nullable=False),
    Column("ccl", Text, nullable=False),
    UniqueConstraint("run", "operation", "ccl"),
)

# Every measured case and transfer, once for each clock, because times of two clocks are not
# comparable. ``document`` is the complete case or transfer as JSON.
things = Table(
    "cclmark_things",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("digest", Text, nullable=False, unique=True),
    *_columns(Text(), "kind", "clock", "operation", "ccl"),
    Column("ranks", BigInteger),
    Column("dtype", Text),
    Column("reduction", Text),
    Column("root", BigInteger),
    Column("placement", Text),
    Column("size_bytes", BigInteger, nullable=False),
    Column("first", BigInteger),
    Column("second", BigInteger),
    Column("document", Text, nullable=False),
)

# The noise from run to run of a machine with one method: the standard deviation of the logarithm of
# a median, by the class of a case (analysis.run_noise). ``runs``: the number of runs that measured
# it. The rows remain if these runs are removed.
noises = Table(
    "cclmark_noise",
    metadata,
    *_columns(Text(), "machine", "method", "clocked", "operation", "ccl", "band"),
    Column("deviation", Float(53), nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("measured_at", Text, nullable=False),
    UniqueConstraint("machine", "method", "clocked", "operation", "ccl", "band"),
)

# A row for each result of a run. ``carried``: measured by the run that this run continues.
# ``device_time_s``: the device's time, while ``time_s`` may be the cost of a call; null if unknown.
results = Table(
    "cclmark_results",
    metadata,
    _run(index=True),
    Column("thing", _Number, ForeignKey("cclmark_things.number"), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("cycle", BigInteger, nullable=False),
    Column("carried", Boolean, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("samples", BigInteger),
    *_columns(
        Float(53),
        *("time_s", "min_s", "p95_s", "p99_s", "max_s", "spread", "half_width"),
        *("device_time_s", "device_half_width", "algbw_bytes_per_s", "busbw_bytes_per_s"),
        nullable=True,
    ),
    Column("wrong", BigInteger),
    # The index contains all columns that a trend reads, so that it reads no rows.
    Index(
        "cclmark_results_trend",
        *("thing", "run", "status", "carried", "time_s", "half_width"),
        *("device_time_s", "device_half_width"),
    ),
)


Migration = Callable[[Connection], None]

# Every step from one version to the next is fixed SQL: a published step never changes.
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
# The spread of samples in the place of their coefficient of variation.
_FOURTH = (
    "ALTER TABLE cclmark_results RENAME COLUMN cv TO spread",
    "UPDATE cclmark_results SET spread = NULL",
)


def _step(statements: Sequence[str]) -> Migration:
    def run(connection: Connection) -> None:
        for statement in statements:
            connection.execute(text(statement))

    return run


# The first one creates the newest tables. Each other one changes the tables of the version before.
MIGRATIONS: Sequence[Migration] = (
    metadata.create_all,
    _step(_SECOND),
    _step(_THIRD),
    _step(_FOURTH),
)


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
    """Creates or migrates the tables to the newest version and returns their previous version.

    All steps are in the transaction of ``connection``: either all take effect or none. ``name`` is
    the database's name, for messages. Raises UsageError for tables of a newer version.
    """
    found = version_of(connection)
    refuse_newer(found, name, len(migrations))
    for step in migrations[found:] if found else migrations[:1]:
        step(connection)
    if found == 0:
        connection.execute(insert(schema).values(version=len(migrations)))
    elif found < len(migrations):
        connection.execute(update(schema).values(version=len(migrations)))
    return found
