"""``cclmark history``: runs in a database.

``command.py`` has the group of commands and their options, ``run.py`` what each does. Everything
about the database is in ``cclmark.history``, which is imported only when a command runs, because
SQLAlchemy takes long to import.
"""
