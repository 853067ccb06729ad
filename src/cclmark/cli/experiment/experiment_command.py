"""``cclmark experiment``: settings compared with the default."""

from __future__ import annotations

import sys

import click

from cclmark.cli.experiment.experiment_options import ExperimentFlags
from cclmark.cli.operation_argument import operations_in_help
from cclmark.cli.options import command


def experiment_command(name: str) -> click.Command:
    """Returns the command."""
    experiment = command(
        name,
        "Compare settings of a library with its default, round by round: speed-ups with intervals.",
        ExperimentFlags,
        _measure,
    )
    experiment.epilog = operations_in_help()
    return experiment


def _measure(flags: ExperimentFlags) -> None:
    from cclmark.cli.experiment.experimenting import measure_experiment

    sys.exit(measure_experiment(flags))
