"""Hosts and fleets: what is wrong with a host, and which part of a fleet is slow.

A room for each kind: ``doctor/`` judges what hosts say of themselves, by the checks in ``hosts/``;
``scan/`` tests pairs of devices in rounds, fits what each device costs, and names what is slow.

Start with ``hosts/check.py`` and ``scan/plan.py``.
"""
