"""``cclmark replay``: the communication of a profiled program, without the program."""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import command
from cclmark.cli.replay.replay_options import ReplayFlags


def replay_command(name: str) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "Repeat the communication of a step of a profiled program, verified, with any library or "
        "setting.",
        ReplayFlags,
        _replay,
    )


def _replay(flags: ReplayFlags) -> None:
    from cclmark.cli.replay.replaying import measure_replays

    sys.exit(measure_replays(flags))
