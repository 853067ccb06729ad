"""The slow node, link, rail or switch of a fleet: ``cclmark scan``.

An item is a round of disjoint pairs or groups that are measured at once (``fleet_rounds.py`` has
the schedule, ``fleet_verdict.py`` the verdict). Rank 0 decides who meets whom, because the second
pass depends on the first. A host that stops answering is left out of the next attempt, and named.

``plan.py``: the rounds; ``run.py``: a round on a rank; ``decisions.py``: what rank 0 decides;
``host_state.py``: what a host says of itself; ``figures.py``: results as tests of the fleet;
``fleet_shape.py``: nodes, racks and switches of devices, and the level of a pair;
``fleet_model.py``: effects of devices, fitted to the rates of pairs; ``floors.py``: what a healthy
pair has, published or accepted; ``lists.py``: lists for schedulers.

Rooms imported: none. Start with ``plan.py``.
"""
