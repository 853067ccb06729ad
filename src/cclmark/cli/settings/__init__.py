"""``cclmark settings``: the settings of a library.

``command.py`` has the options. ``run.py`` lists the settings of the library's file
(``cclmark.work.library_settings``) with the values that a new process would use and their origin
(``cclmark.rank.effective_settings``).
"""
