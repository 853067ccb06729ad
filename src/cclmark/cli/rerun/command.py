"""``cclmark rerun``: repeats the measurement of a journal."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.options.printed_help import SaysHelp

_EXAMPLES = [
    ("cclmark rerun run.jsonl", "The same measurement again, compared with the journal."),
    ("cclmark rerun run.jsonl -- --ccl shm -e 1M", "With another library and smaller sizes."),
]


def rerun_command(name: str, summary: str) -> click.Command:
    """Returns the command."""
    return _Rerun(
        name,
        params=[
            click.Argument(["journal"], type=click.Path(path_type=Path)),
            click.Argument(["options"], nargs=-1, metavar="[-- OPTIONS]"),
            click.Option(
                ["--keep-environment"],
                is_flag=True,
                help="Do not set the environment variables of the journal.",
            ),
            click.Option(
                ["--elsewhere"],
                is_flag=True,
                help="Measure the devices of this host if the journal's devices are missing.",
            ),
        ],
        callback=_rerun,
        examples=_EXAMPLES,
        help=f"{summary}\n\nOPTIONS replace the options of the journal's command.",
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
                f"No such option {error.option_name!r}: put -- before options of the journal's "
                "command: cclmark rerun JOURNAL -- --ccl shm",
                ctx,
            ) from None


def _rerun(
    journal: Path, options: tuple[str, ...], keep_environment: bool, elsewhere: bool
) -> None:
    from cclmark.cli.rerun.rerunning import rerun

    sys.exit(rerun(journal, options, keep_environment=keep_environment, elsewhere=elsewhere))
