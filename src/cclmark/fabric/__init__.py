"""Networks between devices, and what flows of data take on them: nothing is measured.

``fabric_topology.py`` reads a topology and has its levels, without numpy. ``graph.py`` makes it a
graph of links with capacities, and routes flows. ``fair_rates.py`` divides links among flows by
max-min fairness. ``schedules.py`` has the algorithms of collectives as steps of flows,
``simulation.py`` the time of jobs on a fabric. All but the first require numpy and networkx, the
extra ``scale``.

Imports: base, scale, work. Start with ``fabric_topology.py``.
"""
