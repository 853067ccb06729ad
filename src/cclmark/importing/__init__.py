"""Outputs of other tools as journals. Values that a text lacks stay unknown, they are not guessed.

Imports: base, journal, profile, work.

What the readers of formats (``cclmark_importers``) share: ``line_reader.py`` has lines, tables and
matrices; readers return a ``ForeignRun`` (``run.py``). ``assemble.py`` creates the journal for all
formats, with ``plausible.py``, and merges several texts of one run; ``cleaned_text.py`` reads
numbers and names.
"""
