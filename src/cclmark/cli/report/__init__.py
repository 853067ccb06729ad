"""``cclmark report``: one HTML file, or pictures, from journals.

``command.py`` has the options. ``run.py`` reads the journals and writes the page of
``report/run_page.py`` or the pictures of ``report/pictures.py``.
"""
