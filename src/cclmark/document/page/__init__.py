"""The page: one HTML file without external resources.

``page.py`` assembles the template (``page.html.j2``), style, script, Plotly's script and the data,
which ``encode.py`` makes safe inside HTML. ``diagram.py`` and ``stage_bars.py`` compute coordinates
of drawings. A page consists of sections, which ``cclmark.report.run_page`` and
``cclmark.document.document_page`` compose. The template escapes all texts.
"""
