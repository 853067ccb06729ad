"""``cclmark info``: the devices and libraries of this machine, and why others are missing.

``command.py`` has the options. ``run.py`` prints what ``cclmark.run.probe`` and
``cclmark.run.ccl_capabilities`` find; these open devices and libraries, so they are imported only
when the command runs.
"""
