"""Outputs of other tools as journals. Values that a text lacks stay unknown, they are not guessed.

A reader of lines, tables or matrices (``line_reader.py``) returns a ``ForeignRun`` (``run.py``):
rows as they were printed, and the information around them. Each has a chapter for a tool, or for
tools of one kind; ``formats.py`` lists them. ``importers.py`` finds the format of a text, or of a
program's traces, whose files, one for each rank, are one journal. ``assemble.py`` creates the
journal for all formats, with ``plausible.py``, and merges several texts of one run;
``cleaned_text.py`` reads numbers and names. ``runs_in_text.py`` finds the runs of a text, of which
there may be several.

Traces of torch.profiler (``kineto.py``) arrive piece by piece (``trace_events.py``) and become the
same ``ObservedProcess`` values as the plug-in's logs, see ``cclmark.profile``; ``trace_calls.py``
has what formats of traces share. Those of msprof (``msprof.py``) become timelines too, from the
tasks of devices (``device_tasks.py``): ``cclmark trace msprof`` has its options in
``msprof_options.py``, and its work in ``msprof_timeline.py``.

Texts may come from anywhere: the time of a pattern must be proportional to the length of the text.
How to add a format: docs/extend/add-an-importer.md.
"""
