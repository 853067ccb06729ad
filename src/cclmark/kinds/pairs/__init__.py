"""Collectives between every two ranks: ``cclmark pairs``.

Items are cases of collectives with a pair (``work/cases.py``), results those of
``journal/item_results.py``. ``run.py`` measures in rounds in which no device appears twice, see
"Pairs at once" in docs/methodology.md. A library that fails for one pair may work for another, so
new ranks continue after failures.

Read ``plan.py`` (the cases of every pair), ``run.py``, ``figures.py`` (sweeps, and pairs that stand
out), ``document.py``; for options ``command.py`` and ``request.py``. The columns of CSV and of the
page's table are ``PAIR_FIELDS`` in document/case_fields.py.

Rooms imported: collective (the choice of libraries).
"""
