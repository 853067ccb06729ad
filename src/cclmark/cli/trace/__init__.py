"""``cclmark trace``: a timeline of one operation on all ranks, of copies, or of msprof's files.

One attempt measures the case; a second one, with new processes, traces it. Its ranks record their
phases as stages, the times of each call, readings of the device's clock, and the plug-in's log
(``kinds/collective/trace.py``, ``kinds/p2p/trace.py``), and what is known of the operation's steps
(``kinds/collective/trace.py``). Each rank sends this compressed, in pieces (``Traced``), and a
process that holds several devices sends a trace for each. The first process creates timeline and
steps (``cclmark.trace``).

``command.py`` has the options of all commands, with ``copy_options.py`` those of ``trace p2p``.
Start with ``run.py``, which does the above; ``summary.py`` writes stages, skew and waits, and the
output of ``--steps``. Both kinds of item come from their rooms.

``trace msprof`` runs nothing: ``cclmark_importers.msprof_timeline`` reads the files of Ascend's
profiler, and writes their tables.
"""
