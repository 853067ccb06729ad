"""``cclmark tune``: settings that are proven to be faster, as files to deploy."""

from __future__ import annotations

import sys

import click

from cclmark.cli.operation_argument import operations_in_help
from cclmark.cli.options import command
from cclmark.cli.tune.tune_options import TuneFlags


def tune_command(name: str) -> click.Command:
    """Returns the command."""
    tune = command(
        name,
        "Search settings of a library that beat its default, prove them, and write their files.",
        TuneFlags,
        _tune,
    )
    tune.epilog = operations_in_help()
    return tune


def _tune(flags: TuneFlags) -> None:
    from cclmark.cli.tune.tuning_run import tune

    sys.exit(tune(flags))
