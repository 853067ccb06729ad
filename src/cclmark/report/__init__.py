"""Journals as texts, pages, pictures and files of several journals.

Imports: analysis, document, kinds, plan, results.

``journal_text.py`` writes a journal as its run did, or in another format; ``overview.py`` describes
a run in sentences. ``page/`` composes the page of one or several journals, ``exports/`` flat tables
for other programs, ``charts/`` picture files, ``insights/`` the statements about several runs.

What a single kind says is not here but in the document of its room, and what all kinds share in
``cclmark.document``. No module here asks for a kind by its name: it reads ``report_kind(name)``.
Start with ``journal_text.py`` and ``page/run_page.py``.
"""
