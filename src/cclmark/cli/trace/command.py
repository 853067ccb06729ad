"""``cclmark trace``: a timeline of one operation on all ranks, or of copies between devices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click

from cclmark.options import groups
from cclmark.options.command import OUTPUT, Action, GroupedCommand, changed, command, option
from cclmark.options.groups import (
    one_operation,
    operations_in_help,
    placement_option,
)
from cclmark.options.types import WholeNumber

_COPIES = "p2p"


class _TraceCommand(GroupedCommand):
    """The command for operations. ``trace p2p`` has the options of ``cclmark p2p`` instead."""

    @property
    def commands(self) -> dict[str, click.Command]:
        """The command for copies by its name."""
        return {_COPIES: _copies_command(self.run)}

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parses the arguments by the options of the command that they name."""
        if args[:1] == [_COPIES]:
            copies = self.commands[_COPIES]
            return copies.make_context(f"{info_name} {_COPIES}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def _copies_command(run: Action) -> click.Command:
    from cclmark.cli.trace.copy_options import TraceCopiesFlags

    return command(
        _COPIES,
        "Record the copies of one transfer as a timeline for Perfetto, with a summary.",
        TraceCopiesFlags,
        run,
    )


@dataclass
class TraceFlags(groups.OneOfEachOptions):
    """The options of ``cclmark trace``, which runs one case."""

    command_type: ClassVar = _TraceCommand
    examples: ClassVar = [
        ("cclmark trace all_reduce", "1 MiB on all accelerators, for Perfetto."),
        (
            "cclmark trace all_gather --devices host:2 -b 64K -n 5 --format chrome -O trace.json",
            "Five operations between two ranks of the host, for Chrome.",
        ),
    ]
    epilog: ClassVar = (
        f"{operations_in_help([_COPIES])}\n\nCopies between devices: see cclmark trace {_COPIES} "
        "--help."
    )
    without: ClassVar = (
        groups.SizeOptions,
        groups.TimingOptions,
        groups.LikeOptions,
        groups.SamplingOptions,
        groups.FaultOptions,
        groups.ColumnOptions,
        groups.ReferenceOptions,
        groups.ResumeOptions,
        groups.SoakOptions,
        groups.ExplainOptions,
        groups.ConditionOptions,
    )

    operation: str = one_operation([_COPIES])
    begin: int = changed(groups.SizeOptions, "begin", 1 << 20, help="The size [1M].")
    placement: str = placement_option()
    iterations: int = changed(
        groups.CountOptions,
        "iterations",
        20,
        type=WholeNumber(least=1, most=100_000),
        help="How many operations are traced [20].",
    )
    warmup: int | None = changed(groups.CountOptions, "warmup", help="Operations before them [5].")
    files: ClassVar = ("output", "format")
    output: Path | None = changed(
        groups.FileOptions, "output", help="The trace [a new file in cclmark-runs/]."
    )
    format: str = changed(
        groups.FormatOptions,
        "format",
        "perfetto",
        type=click.Choice(["perfetto", "chrome"]),
        help="The format of the trace [perfetto].",
    )
    steps: bool = option(
        "--steps",
        title=OUTPUT,
        default=False,
        is_flag=True,
        help="The steps of the algorithm: a table, and all of them as CSV next to the trace.",
    )
