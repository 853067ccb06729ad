"""``cclmark suite``: an acceptance suite.

``command.py`` has the options. ``run.py`` runs the commands of the suite as child processes, one
after the other, and passes their journals to ``cclmark.suites``, which judges them. Suites,
thresholds and verdicts are in ``cclmark.suites`` and ``cclmark.work.thresholds``.
"""
