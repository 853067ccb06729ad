"""``cclmark export``: journals in formats for other programs.

``command.py`` has the options. ``run.py`` reads the journals and writes them with
``cclmark.report.exports``, which lists the formats.
"""
