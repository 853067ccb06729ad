"""The page: one HTML file without external resources.

``page.py`` assembles the template (``page.html.j2``), style, script, Plotly's script and the data,
which it makes safe inside HTML. ``drawings.py`` computes coordinates of drawings. A page consists
of sections, which ``cclmark.report.run_page`` composes. The template escapes all texts.
"""
