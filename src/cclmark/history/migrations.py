"""Creates the tables, or migrates them from each version to the next, in one transaction.

New tables are those of tables.py. Every step from one version to the next is fixed SQL: a published
step never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, insert, inspect, select, text, update

from cclmark.base.errors import UsageError
from cclmark.history.tables import metadata, schema

Migration = Callable[[Connection], None]

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
        for statement in statements:
            connection.execute(text(statement))

    return run


# The first one creates the newest tables. Each other one changes the tables of the version before.
MIGRATIONS: Sequence[Migration] = (metadata.create_all, _step(_SECOND), _step(_THIRD))


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
