"""Overlaps: a collective and a compute at the same time, and each alone.

``document.py`` composes everything that a run of overlaps says. The figures are in
cclmark.kinds.overlap.figures, since tune computes them too. The room imports the core only:
analysis, plan, report, results.
"""
