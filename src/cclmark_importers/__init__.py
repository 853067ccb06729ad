"""Readers of other tools' outputs: a chapter for each tool, or for tools of one kind.

``formats.py`` lists them; ``importers.py`` finds the format of a text, or of a program's traces,
whose files, one for each rank, are one journal, and returns the journal. A reader of lines, tables
or matrices returns rows as they were printed, with the information around them
(``cclmark.importing.run.ForeignRun``); ``cclmark.importing`` makes journals of them for all
formats. Traces of torch.profiler (``kineto.py``) arrive piece by piece (``trace_events.py``) and
become the same ``ObservedProcess`` values as the plug-in's logs, see ``cclmark.profile``;
``trace_calls.py`` has what formats of traces share.

Texts may come from anywhere: the time of a pattern must be proportional to the length of the text.
How to add a format: docs/extend/add-an-importer.md.
"""
