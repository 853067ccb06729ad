"""Outputs of other tools as journals. Values that a text lacks stay unknown, they are not guessed.

Imports: base, journal, profile, work.

The readers of formats are a package of their own, ``cclmark_importers``, whose list
``importers.py`` uses: it finds the format of a text, or of a program's traces, whose files, one
for each rank, are one journal. ``line_reader.py`` has what readers share; they return a
``ForeignRun`` (``run.py``). ``assemble.py`` creates the journal for all formats, with
``plausible.py``, and merges several texts of one run; ``cleaned_text.py`` reads numbers and names.
"""
