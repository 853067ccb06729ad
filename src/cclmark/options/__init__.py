"""Options that several commands have, and what becomes of them.

Imports: base, journal, launch, rank, recording, work.

``command.py`` declares options and their groups, ``click_command.py`` makes a click command of
them; ``groups.py`` has the groups, and ``types.py`` the
types, which parse and check a value where it enters; ``printed_help.py`` prints the help, also of
the list of commands. These are imported for ``--help``, so they import nothing that computes.

What options become, imported when a command runs: ``case_request.py`` (the request of a command
that measures cases), ``varied.py`` (the variants of ``--vary``, the runs of train and replay),
``environment_file.py`` (files of variables, which tune writes and train reads). ``python_call.py``
makes a command line of a call of ``cclmark.measure``, and a call of a command line.

Messages name options as a user types them, and the remedy. Start with ``groups.py``.
"""
