"""Acceptance suites: what they contain, their checks, and how verdicts are written.

Imports: analysis, base, document, journal, kinds, work.

``suite.py`` reads a suite, commands with thresholds; the shipped ones are ``*.toml`` beside it.
``checks.py`` judges journals by the thresholds (``work/thresholds.py``). ``words.py`` writes
verdicts as text, Markdown and JUnit's XML. ``cli/suite`` runs
the commands. Start with ``checks.py``; users' view: docs/reference/suites.md.
"""
