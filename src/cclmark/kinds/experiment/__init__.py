"""Experiments: settings compared with the default, round after round.

An item, a trial, is a case with a variant and a round (``plan.py``, ``work/variants.py``).
``launch/launching.py`` runs several attempts: in each round one for every set of variables
with which ranks must be started, each round beginning with another one. Variants that differ only
in a communicator share an attempt; ``rank/item_loop.py`` creates a communicator for each. The
recorder receives all attempts as one run. A variant whose attempt fails is recorded and not
measured again; a failure of the default ends the run.

``figures.py`` computes ratios and verdicts from the results of a journal, so that tables, pages and
exports show the same. ``measured_trials.py`` measures trials whose choice depends on earlier ones
(tune, and ``bisection.py`` for ``--bisect``): the journal contains them, and a resumed run
receives the same times and requests the same trials.

Rooms imported: none; but the list of kinds, to read the journal of an interrupted run. Start with
``plan.py`` and ``figures.py``.
"""
