"""Runs over time, in SQLite or PostgreSQL. Only this package contains SQL.

Imports: analysis, base, document, journal, kinds, work.

``cclmark.history.store.History`` opens a history. Importing it imports SQLAlchemy, which
takes time: commands without a history must not import it.

- ``tables.py``: the tables, and their migrations: every change of a table requires one.
- ``run_rows.py`` converts a journal to rows, which are a copy for queries; the journal itself is
  stored byte by byte.
- ``queries.py`` reads; text of a user is always a parameter of a statement.
- ``history_model.py``: the values that are stored and returned, without SQL.
- ``measured_noise.py``: the noise of a machine.
- ``lists.py``: changes over time as a document, and runs as a table, JSON and CSV.

Start with ``store.py``. Users' view: docs/reference/history.md.
"""
