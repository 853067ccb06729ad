"""The network that a training job needs: ``cclmark need``.

Nothing is measured: results follow from formulas (``cclmark_planning.scale``), so the kind has no
runner. ``request.py`` turns options and journals of measured steps into jobs, ``figures.py``
computes what each requires, ``document.py`` composes everything that a run says.

Rooms imported: none; also the list of kinds. Start with ``plan.py``.
"""
