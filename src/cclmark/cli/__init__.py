"""The command line: the table of commands, and a package for each command outside the rooms.

``main.py`` is the entry point; start with ``commands.py``, which lists all commands, those of rooms
(``kinds/*/command.py``) included. It imports a command only when the command is called or its help
is printed, because the imports and options of all commands would take most of the time of
``cclmark --help``. ``cclmark.measure`` finds the commands that measure there, too.

In each package ``command.py`` defines the options and imports nothing that computes; its callback
imports ``run.py``, which connects the packages below. What is computed, written and drawn belongs
to these packages. May import every other package; no other package imports this one.
"""
