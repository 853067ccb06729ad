"""What programs communicate: ``cclmark profile``.

Runs a program of the user whose processes load the plug-in by variables of the environment. No
rank of cclmark takes part, so the kind has no runner. ``request.py`` starts the program, reads the
logs and writes the journal; ``cclmark.profile`` has everything between logs and
results. Contexts of communicators in the plug-in (engine/plugin/contexts.hpp) are never freed,
because NCCL's proxy thread may report events of a communicator that is finalized.

``figures.py`` sums, ``document.py`` composes everything that a run says. The figures of a
step (``analysis/steps.py``) have the same columns as those of trainings.

Rooms imported: none; also the list of kinds. Start with ``request.py``.
"""
