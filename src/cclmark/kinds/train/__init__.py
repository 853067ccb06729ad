"""Trainings: steps of a model that the ranks train, with and without communication.

Start with ``document.py``, which composes everything that a run of trainings says. ``figures.py``
computes it from the results: pure functions. The room imports the core only: analysis, plan,
report, results.
"""
