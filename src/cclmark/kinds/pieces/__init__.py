"""Messages in pieces: one message in one call against the same message in several calls.

``--pieces`` of a collective: ``plan.py`` divides the message, ``run.py`` times the divisions in
alternating rounds (engine/measure/piecewise_call.cpp), ``figures.py`` computes their ratios, and
``document.py`` composes everything that a run says. There is no command: the options are those of
collectives, whose room checks them.

Rooms imported: none. Start with ``plan.py``.
"""
