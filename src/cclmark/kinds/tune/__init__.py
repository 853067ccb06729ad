"""Settings that are proven to be faster: search, proof, artifacts.

``tuning.py`` connects the parts. The generator ``search.py`` requests cells (a choice and a size)
and receives their times; it measures nothing. A ``Target`` (``plan.py``) is a library with a way to
choose by operation and size: ``targets.py`` has NCCL with tuner tables for the plug-in, Open MPI
and MPICH with their files. It names the candidates and writes the files that select one choice or
deploy rules, so a candidate is loaded as the result will be. A tuner table is read when a
communicator is created, so all candidates of NCCL in a round share one set of processes; each of an
MPI has its own.

``proving.py`` measures what would be deployed, in new processes, next to the default and its
repetition, at all sizes of all operations; ``figures.py`` judges the rules, and if one is dropped
the others are measured again without it. Libraries whose variables hold for a process have an
``EnvironmentTarget``: ``environment_search.py`` searches among the candidates of their
``[[settings]]``.

Search and proof measure trials with a stage (``kinds/experiment/measured_trials.py``): the journal
contains them and at its end the result (``result.py``), and a resumed run repeats none. Ranks
measure the trials as those of an experiment.

Rooms imported: experiment, overlap. Start with ``tuning.py`` and ``plan.py``.
"""
