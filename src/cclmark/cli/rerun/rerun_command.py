"""``cclmark rerun``: repeats the measurement of a journal."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.cli.printed_help import SaysHelp


def rerun_command(name: str) -> click.Command:
    """Returns the command."""
    return _Rerun(
        name,
        params=[
            click.Argument(["journal"], type=click.Path(path_type=Path)),
            click.Argument(["options"], nargs=-1, metavar="[-- OPTIONS]"),
            click.Option(
                ["--keep-environment"],
                is_flag=True,
                help="Set no variable that was set when the journal was written.",
            ),
            click.Option(
                ["--elsewhere"],
                is_flag=True,
                help="Measure what this host has where the journal's devices are missing.",
            ),
        ],
        callback=_rerun,
        help="Run a journal's command again, say what differs here, and compare.\n\n"
        "OPTIONS replace those of the journal's command.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


class _Rerun(SaysHelp):
    """Reports where to put options of the command that is run again."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if {"--keep-environment", "--elsewhere"} & {*(error.possibilities or ())}:
                raise
            raise click.UsageError(
                f"No such option {error.option_name!r}: put -- in front of options of the "
                "journal's command, as in: cclmark rerun JOURNAL -- --ccl shm",
                ctx,
            ) from None


def _rerun(
    journal: Path, options: tuple[str, ...], keep_environment: bool, elsewhere: bool
) -> None:
    from cclmark.recording.rerunning import rerun

    sys.exit(rerun(journal, options, keep_environment=keep_environment, elsewhere=elsewhere))
