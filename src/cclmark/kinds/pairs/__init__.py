"""Collectives between every two ranks: ``cclmark pairs``.

Items and results are those of collectives, with a pair (``work/pair_cases.py``). ``run.py``
measures in rounds in which no device appears twice, see "Pairs at once" in docs/methodology.md. A
library that fails for one pair may work for another, so new ranks continue after failures.

``plan.py``: the cases of every pair; ``figures.py``: sweeps, and pairs that stand out.

Rooms imported: collective (what documents of cases share, the choice of libraries). Start with
``run.py``.
"""
