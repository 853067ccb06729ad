"""Runs over time, in SQLite or PostgreSQL. The only room that knows SQL.

``from cclmark.history.store import History`` opens one. That imports SQLAlchemy, which
takes its time: commands that need no history must not.
"""
