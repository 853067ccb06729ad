"""``cclmark rerun``: repeats the measurement of a journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import (
    JOURNAL,
    METHOD,
    OUTPUT,
    WHERE,
    GroupedCommand,
    argument,
    changed,
    flag,
)
from cclmark.options.groups import FileOptions


class _Rerun(GroupedCommand):
    """Reports where to put options of the command that is run again."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            own = {"--keep-environment", "--elsewhere", "--numbers", "--quiet", "--dry-run"}
            if own & {*(error.possibilities or ())}:
                raise
            raise click.UsageError(
                f"No such option {error.option_name!r}: put -- before options of the journal's "
                "command: cclmark rerun JOURNAL -- --ccl shm",
                ctx,
            ) from None


@dataclass
class RerunFlags:
    """The options of ``cclmark rerun``."""

    command_type: ClassVar = _Rerun
    examples: ClassVar = [
        ("cclmark rerun run.jsonl", "The same measurement again, compared with the journal."),
        ("cclmark rerun run.jsonl -- --ccl shm -e 1M", "With another library and smaller sizes."),
        ("cclmark rerun run.jsonl --elsewhere", "On the devices of another host."),
    ]
    about: ClassVar = f"{JOURNAL} OPTIONS replace the options of the journal's command."

    journal: Path = argument("JOURNAL", required=True, type=click.Path(path_type=Path))
    options: tuple[str, ...] = argument("[-- OPTIONS]", nargs=-1)
    keep_environment: bool = flag(
        "--keep-environment",
        title=METHOD,
        help="Do not set the environment variables of the journal.",
    )
    on_this_host: bool = flag(
        "--elsewhere",
        title=WHERE,
        help="Measure the devices of this host if the journal's devices are missing.",
    )
    numbers: bool = flag(
        "--numbers",
        title=OUTPUT,
        help="Print the ratios of all cases, not only of those that differ.",
    )
    quiet: bool = changed(FileOptions, "quiet")
    dry_run: bool = changed(FileOptions, "dry_run")
