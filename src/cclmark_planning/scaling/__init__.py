"""The step of a training job on more GPUs and in other layouts: ``cclmark predict --model``, and of
a profiled program with more replicas: ``--job``.

Nothing is measured: steps follow from the formulas of ``cclmark need`` and from measured steps that
calibrate them. ``calibration.py`` reads measured steps and finds the rate of compute,
``profiles.py`` reads profiles, ``request.py`` turns options into jobs, ``figures.py`` computes
their steps and intervals, ``document.py`` composes everything that a run says.

Rooms imported: need, tables; also the list of kinds. Start with ``plan.py``.
"""
