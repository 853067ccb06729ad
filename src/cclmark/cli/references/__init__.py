"""``cclmark references``: published figures and accepted machines.

``command.py`` has the group of commands. ``run.py`` lists and checks references and adds a journal
to them; ``lists.py`` writes them as text, Markdown, CSV and JSON. Files, matching and checks are in
``cclmark.references``.
"""
