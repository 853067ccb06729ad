"""``cclmark rerun``: what a journal's run measured, once more."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.cli.options import SaysHelp


def rerun_command() -> click.Command:
    """The command."""
    return SaysHelp(
        "rerun",
        params=[
            click.Argument(["journal"], type=click.Path(path_type=Path)),
            click.Argument(["options"], nargs=-1, metavar="[-- OPTIONS]"),
            click.Option(
                ["--keep-environment"],
                is_flag=True,
                help="Set no variable that was set when the journal was written.",
            ),
        ],
        callback=_rerun,
        help="Run a journal's command again, say what differs here, and compare.\n\n"
        "OPTIONS replace those of the journal's command.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _rerun(journal: Path, options: tuple[str, ...], keep_environment: bool) -> None:
    from cclmark.cli.rerunning import rerun

    sys.exit(rerun(journal, options, keep_environment=keep_environment))
