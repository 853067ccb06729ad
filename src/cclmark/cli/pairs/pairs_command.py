"""``cclmark pairs``: collectives of every two devices."""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import command
from cclmark.cli.pairs.pair_options import PairFlags


def pairs_command(name: str) -> click.Command:
    """Returns the command."""
    return command(name, "Collectives of every pair of devices, as heat maps.", PairFlags, _measure)


def _measure(flags: PairFlags) -> None:
    from cclmark.cli.pairs.pairing import measure_pairs

    sys.exit(measure_pairs(flags))
