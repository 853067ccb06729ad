"""``cclmark info``: the devices and libraries of this machine, and why others are missing.

``command.py`` has the options. ``run.py`` prints what ``cclmark.rank.probe`` finds: it opens
devices and libraries, so it is imported only when the command runs.
"""
