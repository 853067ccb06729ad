"""The memory of operations: what a library takes in each stage, and every buffer.

Start with ``document.py``, which composes everything that a run says. ``figures.py`` computes it
from the results: pure functions. The room imports the core only: plan, report, results.
"""
