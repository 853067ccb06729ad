"""``cclmark pairs``: collectives of every two devices."""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import command
from cclmark.cli.pair_options import PairFlags


def pairs_command() -> click.Command:
    """The command."""
    return command(
        "pairs", "Collectives of every pair of devices, as heat maps.", PairFlags, _measure
    )


def _measure(flags: PairFlags) -> None:
    from cclmark.cli.pairing import measure_pairs

    sys.exit(measure_pairs(flags))
