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
_EXAMPLES = [
    ("cclmark trace all_reduce", "1 MiB on all accelerators, for Perfetto."),
    (
        "cclmark trace all_gather --devices host:2 -b 64K -n 5 --format chrome -O trace.json",
        "Five operations between two ranks of the host, for Chrome.",
    ),
]
_OF_COPIES = [
    ("cclmark trace p2p --pair 0-1 -b 16M", "Copies of 16 MiB from device 0 to device 1.")
]


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


def trace_command(name: str, summary: str, run: Action) -> click.Command:
    """Returns the command that traces one operation."""
    epilog = (
        f"{operations_in_help([_COPIES])}\n\nCopies between devices: see cclmark {name} {_COPIES} "
        "--help."
    )
    return command(
        *(name, summary, TraceFlags, run, _TraceCommand), examples=_EXAMPLES, epilog=epilog
    )


def _copies_command(run: Action) -> click.Command:
    from cclmark.cli.trace.copy_options import TraceCopiesFlags

    return command(
        _COPIES,
        "Record the copies of one transfer as a timeline for Perfetto, with a summary.",
        TraceCopiesFlags,
        run,
        examples=_OF_COPIES,
    )


@dataclass
class TraceFlags(groups.OneOfEachOptions):
    """The options of ``cclmark trace``, which runs one case."""

    without: ClassVar = (
        groups.SizeOptions,
        groups.TimingOptions,
        groups.LikeOptions,
        groups.SamplingOptions,
        groups.FaultOptions,
        groups.ReferenceOptions,
        groups.ResumeOptions,
        groups.SoakOptions,
        groups.ExplainOptions,
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
