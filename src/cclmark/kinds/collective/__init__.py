"""Collectives between all ranks: ``cclmark all_reduce``, ``collectives``, ``explain``.

Items and results are in ``work/cases.py`` and ``journal/item_results.py``, because other kinds use
them too; ``rank/measure.py`` measures a case. ``run.py`` runs all cases, in cycles during a soak,
and reads the conditions of devices; ``trace.py`` records one case for ``cclmark trace``.

``document.py`` composes what a run says and has the record for reports, ``findings.py`` what stands
out, ``charts.py`` the curves of several runs on a page, ``soak.py`` what a soak says and
its charts over time, from the drift in ``figures.py``.
``formats.py`` lists the formats of other tools: ``nccl_tests.py``, and ``line_formats.py`` for
FlagCX and hccl_test.

Rooms imported: pieces (``--pieces``). Start with ``request.py`` and ``run.py``.
"""
