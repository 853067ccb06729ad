"""From each version of the tables to the next one, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, insert, inspect, select, update

from cclmark.errors import UsageError
from cclmark.results.history.tables import metadata, schema

Migration = Callable[[Connection], None]


def _first(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)


# The first makes version 1 out of nothing, the second version 2 out of 1, and so on. One that was
# published is never changed: whatever it imports must stay what it was.
MIGRATIONS: Sequence[Migration] = (_first,)


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
