"""The page: one HTML file without external resources.

``page_model.py`` is the content of a page as data. ``page.py`` decides what stands where, and
assembles the template (``page.html.j2``), style, script, drawings and the data. ``chart_svg.py``
draws charts, ``drawings.py`` computes coordinates of diagrams. A page consists of sections, which
``cclmark.report.run_page`` composes. The template escapes all texts.
"""
