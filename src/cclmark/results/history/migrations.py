"""From each version of the tables to the next one, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, insert, inspect, select, text, update

from cclmark.errors import UsageError
from cclmark.results.history.tables import metadata, results, schema

Migration = Callable[[Connection], None]


def _first(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)


def _second(connection: Connection) -> None:
    """The device's time beside the cost of a call."""
    known = {column["name"] for column in inspect(connection).get_columns(results.name)}
    for column in (results.c.device_time_s, results.c.device_half_width):
        if column.name not in known:
            kind = column.type.compile(connection.dialect)
            connection.execute(text(f"ALTER TABLE {results.name} ADD COLUMN {column.name} {kind}"))
    for index in results.indexes:
        if index.name == "cclmark_results_trend":
            index.drop(connection, checkfirst=True)
            index.create(connection)


# The first creates the newest tables out of nothing. Each later one brings tables of the version
# before it up to date, and does nothing to those that are.
MIGRATIONS: Sequence[Migration] = (_first, _second)


def version_of(connection: Connection) -> int:
    """The version of the tables that are there; 0 where there are none."""
    if not inspect(connection).has_table(schema.name):
        return 0
    return connection.scalar(select(schema.c.version)) or 0


def refuse_newer(found: int, name: str, newest: int = len(MIGRATIONS)) -> None:
    """Raises UsageError for tables of a version that is yet to come."""
    if found > newest:
        raise UsageError(
            f"the history {name} has schema {found}, newer than {newest}: update cclmark"
        )


def migrate(connection: Connection, name: str, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Brings the tables to the newest version and returns the one that they had.

    All steps are in the transaction of ``connection``: either all are made or none. ``name`` is the
    database's, for messages. Raises UsageError for one of a newer version.
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
