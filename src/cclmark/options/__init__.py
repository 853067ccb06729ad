"""Options that several commands have, and what becomes of them.

Imports: analysis, launch, plan, references, results, run, recording.

``flags.py`` defines options as fields of a dataclass; ``command`` makes a click command of it, and
``changed`` takes over an option with other text or default. ``numbers.py`` and
``option_values.py`` have the types and values of options, ``printed_help.py`` the help. These are
imported for ``--help``, so they import nothing that computes.

What options become, imported when a command runs: ``case_request.py`` (the request of a command
that measures cases), ``chosen_devices.py``, ``chosen_libraries.py``, ``varied.py`` (the variants of
``--vary``), ``like.py`` (methods of other programs), ``computes.py``, ``step_options.py`` and
``step_runs.py`` (train, replay), ``torch_devices.py``, ``usual_references.py``,
``environment_file.py`` (files of variables, which tune writes and train reads).

Messages name options as a user types them, and the remedy. Start with ``flags.py``.
"""
