"""Documents: what a run says, as data, and what turns them into text and pages.

``blocks.py`` what a document consists of, ``fields.py`` the fields of a kind's results,
``document_text.py`` and ``document_page.py`` the renderers. A kind composes its document once;
renderers know blocks only.
"""
