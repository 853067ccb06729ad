"""``cclmark run``: an acceptance suite."""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import command
from cclmark.cli.suite.suite_options import SuiteFlags


def suite_command(name: str) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "Run an acceptance suite: commands with thresholds for their figures. SUITE is a TOML "
        "file or the name of a suite of cclmark.",
        SuiteFlags,
        _run,
    )


def _run(flags: SuiteFlags) -> None:
    from cclmark.cli.suite.suite_running import run_suite

    sys.exit(run_suite(flags))
