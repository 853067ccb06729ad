"""Replays: the communication of a step of a profiled program, repeated.

Start with ``document.py``, which composes everything that a run of replays says. ``figures.py``
computes it from the results: pure functions. ``references.py``: the gain at the bandwidth of
references. The room imports the core only: analysis, plan, references, report, results.
"""
