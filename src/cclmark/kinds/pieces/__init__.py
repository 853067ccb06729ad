"""Messages in pieces: one message in one call against many.

``document.py`` composes everything that a run says. The figures are in
cclmark.kinds.pieces.figures, since ranks compute them. The room imports the core only: plan,
report, results.
"""
