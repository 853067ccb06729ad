"""``cclmark serve``: the history in a browser.

``command.py`` has the options. ``run.py`` opens the history and the address and runs the server.
The site itself is in ``cclmark.serve``.
"""
