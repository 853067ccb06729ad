"""``cclmark train``: training steps, and what communication costs in them."""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import command
from cclmark.cli.train.train_options import TrainFlags


def train_command(name: str) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "Train a model with torch: tokens/s, MFU, compute, exposed and hidden communication, loss.",
        TrainFlags,
        _train,
    )


def _train(flags: TrainFlags) -> None:
    from cclmark.cli.train.training import measure_training

    sys.exit(measure_training(flags))
