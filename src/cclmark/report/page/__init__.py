"""Pages of runs: the sections around the results of a kind.

``run_page.py`` composes the page of one journal or of several side by side, from
``cclmark.report.overview``, the document of the kind, its sections and charts, and from
``ran_section.py`` (what libraries did), ``steps_section.py``, ``trace_section.py``,
``machine_section.py`` and ``page_rows.py`` (the table of all results). ``cclmark.document.page``
turns sections into HTML.
"""
