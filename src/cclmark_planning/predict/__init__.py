"""Times on more nodes than were measured: ``cclmark predict``.

Nothing is measured: results follow from the runs that are read, by the fits of
``cclmark_planning.scale``. ``curves.py`` reads journals and tables, ``measured_runs.py`` finds
those that belong together, ``predictions.py`` predicts and decides where nothing can be said,
``figures.py`` computes errors of predicted counts that were measured, ``document.py`` composes
everything that a run says. With ``--model`` and ``--job`` the work is that of the room ``scaling``.

Rooms imported: scaling, tables; also the list of kinds. Start with ``plan.py``.
"""
