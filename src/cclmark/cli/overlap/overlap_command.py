"""``cclmark overlap``: collectives beside compute."""

from __future__ import annotations

import sys

import click

from cclmark.cli.operation_argument import operations_in_help
from cclmark.cli.options import command
from cclmark.cli.overlap.overlap_options import OverlapFlags


def overlap_command(name: str) -> click.Command:
    """Returns the command."""
    overlap = command(
        name,
        "Measure a collective and a matrix product alone and at once: the slow-down of each.",
        OverlapFlags,
        _measure,
    )
    overlap.epilog = operations_in_help()
    return overlap


def _measure(flags: OverlapFlags) -> None:
    from cclmark.cli.overlap.overlapping import measure_overlap

    sys.exit(measure_overlap(flags))
