"""The communication of unmodified programs: what they call, and their calls repeated.

A room for each kind: ``profile/`` runs a program and reports its calls (``cclmark.profile`` reads
them); ``replay/`` repeats a step of it. ``chakra.py`` writes execution traces for simulators.

Start with ``profile/document.py`` and ``replay/plan.py``.
"""
