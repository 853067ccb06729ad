"""The history in a browser: its runs, their reports, overlays, comparisons and trends.

All access is read only. The package depends on the history, the analysis and the reports, not on
the code that runs measurements. ``from cclmark_serve.app import make_app`` needs Starlette.

``command.py`` has the options of ``cclmark serve``; ``run.py`` opens the history and the address
and runs the server. ``app.py`` has the routes, and creates reports and comparisons from stored
journals, and the other pages with ``pages.py`` and ``templates/``, which have neither scripts nor
external resources. ``guard.py`` has the checks of every request, the time for it to arrive and the
headers of every response, ``parameters.py`` the parameters of a URL, all of which may be invalid.
Start with ``app.py``.
"""
