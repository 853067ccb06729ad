"""What programs communicate: the observations of processes, and the profile made of them.

Imports: base, explain, journal, work.

Sources are logs of the plug-in that count calls (``profile_log.py``; engine/plugin/call_profile.cpp
counts in place in a mapped file, so logs stay small and those of killed processes are readable) and
traces of frameworks (``cclmark_importers/kineto.py``). Both become ``ObservedProcess`` values
(``observed.py``), from which ``profile_assembly.py`` creates the profile and its results.

- ``profile_log.py``: logs, and those of each run in a directory.
- ``repetitions.py``: steps and the most typical one.
- ``profile_gaps.py``: what is missing, and differences between processes.

``cclmark_programs/profile`` runs the program and reports, ``cclmark_programs/replay`` repeats
the step. Start with
``observed.py`` and ``profile_assembly.py``.
"""
