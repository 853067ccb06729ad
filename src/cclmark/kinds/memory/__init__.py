"""The memory of operations: what a library takes in each stage, and every buffer.

A result is one rank's memory for one case (``plan.py``: ``RankMemories``). ``run.py`` reads the
memory of process and device before and after each stage. ``figures.py`` attributes it to cclmark
and the library: pure functions of the results. ``document.py`` composes everything that a run
says.

Rooms imported: none. Start with ``document.py``.
"""
