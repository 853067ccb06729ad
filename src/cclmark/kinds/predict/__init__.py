"""Times on more nodes than were measured: ``cclmark predict``.

Nothing is measured: results follow from the runs that are read, by the fits of ``cclmark.scale``.
``curves.py`` reads journals and tables, ``request.py`` turns options into predictions and decides
where none is possible, ``figures.py`` computes errors of predicted counts that were measured,
``document.py`` composes everything that a run says. With ``--model`` the work is that of the room
``scaling``.

Rooms imported: scaling; also the list of kinds. Start with ``plan.py``.
"""
