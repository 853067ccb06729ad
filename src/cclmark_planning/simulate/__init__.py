"""Collectives on a network that need not exist: ``cclmark simulate``.

Nothing is measured: times follow from flows that share links (``simulation.py``), so the kind has
no runner. ``graph.py`` makes a topology a graph of links with capacities, and routes flows;
``fair_rates.py`` divides links among flows by max-min fairness; ``schedules.py`` has the algorithms
of collectives as steps of flows. ``request.py`` turns options into simulations and computes them,
``figures.py`` compares their results, ``document.py`` composes everything that a run says.

Rooms imported: none; also the list of kinds. Start with ``plan.py``.
"""
