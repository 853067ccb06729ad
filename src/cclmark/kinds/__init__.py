"""Rooms of kinds of work.

A room has ``plan.py`` (items), ``result.py`` (what a journal keeps of them), ``run.py`` (what a
rank does), ``figures.py`` (what is computed from results) and ``document.py`` (everything that a
run says). ``kind.py`` has the record, which imports what measures and reports on demand;
``registry.py`` beside the rooms lists the records.
"""
