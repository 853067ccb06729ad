"""Collectives on a network that need not exist: ``cclmark simulate``.

Nothing is measured: times follow from flows that share links (``cclmark.fabric``), so the kind has
no runner. ``request.py`` turns options into simulations and computes them, ``figures.py`` compares
their results, ``document.py`` composes everything that a run says.

Rooms imported: none; also the list of kinds. Start with ``plan.py``.
"""
