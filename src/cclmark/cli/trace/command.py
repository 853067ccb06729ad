"""``cclmark trace``: a timeline of an operation, of copies between devices, of msprof's files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click

from cclmark.options import groups
from cclmark.options.click_command import command, imported
from cclmark.options.command import OUTPUT, GroupedCommand, changed, flag
from cclmark.options.groups import one_operation, operations_in_help, placement_option
from cclmark.options.types import WholeNumber

_COPIES, _MSPROF = "p2p", "msprof"


class _TraceCommand(GroupedCommand):
    """The command for operations. ``trace p2p`` and ``trace msprof`` have other options instead."""

    @property
    def commands(self) -> dict[str, click.Command]:
        """The other commands by their names."""
        return {_COPIES: _copies_command(), _MSPROF: _msprof_command()}

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parses the arguments by the options of the command that they name."""
        # Not in ``commands`` first: that imports the options of all of them.
        if args and args[0] in (_COPIES, _MSPROF):
            other = self.commands[args[0]]
            return other.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def _copies_command() -> click.Command:
    from cclmark.cli.trace.copy_options import TraceCopiesFlags

    return command(
        _COPIES,
        "Record the copies of one transfer as a timeline for Perfetto, with a summary.",
        TraceCopiesFlags,
        imported("cclmark.cli.trace.run.trace_copies"),
    )


def _msprof_command() -> click.Command:
    from cclmark_importers.msprof_options import MsprofFlags

    return command(
        _MSPROF,
        "Convert timelines of msprof, Ascend's profiler, with a summary of operations and tasks.",
        MsprofFlags,
        imported("cclmark_importers.msprof_timeline.convert"),
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
        ("cclmark trace p2p --pair 0-1 -b 16M", "Copies of 16 MiB from device 0 to device 1."),
    ]
    epilog: ClassVar = (
        f"{operations_in_help([_COPIES])}\n\nCopies between devices: see cclmark trace {_COPIES} "
        f"--help. Timelines of Ascend's profiler: see cclmark trace {_MSPROF} --help."
    )
    usual: ClassVar = (
        *("begin", "iterations", "warmup", "count", "devices", "ccl", "dtype", "reduction"),
        *("steps", "format", "output", "root"),
    )
    without: ClassVar = {
        groups.SizeOptions: "cclmark trace records one size: set it with -b SIZE",
        **dict.fromkeys(
            (
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
            ),
            "cclmark trace records a timeline: cclmark all_reduce measures, and has this option",
        ),
    }

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
    steps: bool = flag(
        "--steps",
        title=OUTPUT,
        help="The steps of the algorithm: a table, and all of them as CSV next to the trace.",
    )
