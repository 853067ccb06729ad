"""``cclmark report``: one HTML file, or pictures, from journals.

``command.py`` has the options. ``run.py`` reads the journals and writes the page of
``cclmark.report.page`` or the pictures of ``cclmark.report.charts``.
"""
