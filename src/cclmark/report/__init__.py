"""Journals as texts, pages, pictures and files of several journals.

Imports: analysis, base, document, journal, kinds, work.

``exports.py`` writes a journal as its run did, or in another format, and flat tables of several for
other programs. ``overview.py`` describes runs in sentences. ``run_page.py`` composes the page of
one or several journals, with what programs read in it; ``pictures.py`` writes charts as files.

What a single kind says is not here but in the document of its room, and what all kinds share in
``cclmark.document``. No module here asks for a kind by its name: it reads ``report_kind(name)``.
Start with ``exports.py`` and ``run_page.py``.
"""
