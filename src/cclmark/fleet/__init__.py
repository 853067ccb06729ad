"""Slow parts of a fleet from tests of pairs: which pairs to test, and what the tests say.

``fleet_shape.py`` has nodes, racks and switches of devices, and the level of a pair,
``fleet_rounds.py`` the rounds of disjoint pairs. ``fleet_model.py`` fits effects of devices to the
rates of pairs, ``fleet_verdict.py`` names what is slow; both require numpy, the extra ``scale``.

Imports: base, fabric. Start with ``fleet_rounds.py``.
"""
