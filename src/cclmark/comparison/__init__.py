"""Comparison of runs: two configurations, each with one or several runs.

Imports: analysis, base, document, journal, kinds, work.

Start with ``figures.py``: it pairs the cases of both sides and separates differences from the noise
of runs (``analysis/ratio.py``, ``analysis/run_noise.py``). ``words.py`` has the comparison as a
value, its JSON, and whether it passes the gate of CI; ``comparison_document.py`` composes its
document, from which terminal, Markdown and ``comparison_page.py`` follow. Only results with times
are compared this way (``Journal.timed``); ``computed.py`` has the differences of runs that follow
from formulas.
"""
