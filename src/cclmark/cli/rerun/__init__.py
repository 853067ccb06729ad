"""``cclmark rerun``: a journal's command once more, and the comparison of both runs.

``command.py`` has the options. ``rerunning.py`` reads the journal as it was written, sets its
variables, checks that its devices are here, invokes its command in this process, and compares the
two journals.
"""
