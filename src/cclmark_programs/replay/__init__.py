"""Replays: the communication of a step of a profiled program, repeated.

``program_step.py`` creates the step from a profile's journal and refuses one that would hang
(``deadlocks.py``). All variants have the same step, so it is not part of the items: each rank
receives its own calls as the attachment of its job. ``run.py`` creates the communicators of the
step's groups and times ``StepReplay`` (engine/measure/step_replay.cpp). ``request.py`` also
chooses what ranks do between the calls.

``figures.py`` computes the step with each variant beside the program itself; ``document.py``
composes everything that a run says, with the gain at the bandwidth of references.

Rooms imported: none; also the list of kinds, to read the profile's journal. Start with
``program_step.py`` and ``document.py``.
"""
