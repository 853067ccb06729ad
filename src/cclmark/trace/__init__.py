"""Timelines of runs: what ranks recorded, on one clock, as files for a trace viewer.

Imports: base, explain, work.

``rank_trace.py`` is what a rank records and sends; ``slot_tracks.py`` makes tracks of the
engine's records of slots (engine/ccl/slot_recorder.hpp), which ``shm`` and ``bridge`` have only
during ``Session::trace``. ``clocks.py`` converts times of all
ranks and devices to the first process's clock. ``timeline_assembly.py`` creates the timeline of a
traced case, with ``log_events.py`` for the plug-in's log, and ``copy_timeline.py`` that of copies.
``timeline.py`` is a timeline as values, and the time in a batch, from which the cost of tracing
follows; ``timeline_files.py`` writes it.
``case_steps.py`` finds the steps of a case from the best source: the log's lines on rings and
trees, or the plan of a call of the engine's libraries (``Call::steps``, which reads what the call
executes).

How traces are made: ``cli/trace``. Start with ``timeline_assembly.py``.
"""
