"""Runs over time, in SQLite or PostgreSQL. Only this package contains SQL.

``cclmark.history.store.History`` opens a history. Importing it imports SQLAlchemy, which
takes time: commands without a history must not import it.
"""
