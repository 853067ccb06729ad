"""Published figures and figures of the user's own machines, for comparison with results.

Imports: analysis, base, journal, work.

``reference_store.py`` finds the files: shipped ones (``data/``), in the user's data home and in
CCLMARK_REFERENCES. ``reference_files.py`` parses them to references (``reference.py``), and writes
the file of an accepted machine; ``reference_curves.py`` parses curves by size. ``matching.py`` and
``copy_matching.py`` select the nearest reference for a result, of the subjects in ``reference.py``;
``match.py`` is the outcome, judges small messages, and names features that the environment switches
off; ``reference_checks.py`` checks a journal.

A reference must state its conditions: an unknown condition is left out, never assumed. Start with
``matching.py``; to add a set: docs/extend/add-a-reference-set.md.
"""
