"""Outputs of other tools as journals. Values that a text lacks stay unknown, they are not guessed.

Imports: analysis, kinds, plan, profile, results.

``importers.py`` lists the formats, a file for each; ``traces.py`` lists those of programs' traces,
whose files, one for each rank, are one journal. A reader returns a ``ForeignRun`` (``run.py``):
rows as they were printed, and the information around them. ``assemble.py`` creates the journal for
all formats, with ``header.py`` and ``plausible.py``; ``cleaned_text.py`` and ``spelling.py`` read
numbers and names.

Traces of torch.profiler (``kineto.py``) arrive piece by piece (``trace_events.py``) and become the
same ``ObservedProcess`` values as the plug-in's logs, see ``cclmark.profile``.

Texts may come from anywhere: the time of a pattern must be proportional to the length of the text.
How to add a format: docs/extend/add-an-importer.md.
"""
