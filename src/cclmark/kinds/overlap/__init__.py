"""Overlaps: a collective and a compute at the same time, and each alone.

An overlap is a trial with a compute (``plan.py``); the launch of experiments and
``rank/item_loop.py`` serve it too. ``run.py`` measures: ``Session::run_beside`` runs spans of
operations on two streams (engine/measure/concurrency.cpp), and ``figures.py`` selects the spans
that count. A ``Compute`` (engine/compute) is a matrix product through cuBLASLt, which is opened at
run time, or on the host a loop, or a triad; each checks its own output.

``document.py`` composes everything that a run says. The figures are separate from it because tune
computes them too (``kinds/tune/tuning.py``).

Rooms imported: none. Start with ``document.py``.
"""
