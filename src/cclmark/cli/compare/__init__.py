"""``cclmark compare``: journals side by side, case by case.

``command.py`` has the options. ``run.py`` reads the journals, groups them into configurations,
passes them to ``cclmark.compare`` and chooses the exit code. Figures, words, page and gate are in
``cclmark.compare``; noise of earlier runs comes from ``cclmark.history``.
"""
