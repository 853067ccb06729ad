"""``cclmark trace``: a timeline of one operation on all ranks, or of copies between devices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from cclmark.options.flags import (
    AUTO_PLACEMENT,
    ONE_LIBRARY,
    ONE_REDUCTION,
    ONE_TYPE,
    OUTPUT,
    PLACEMENT_HELP,
    Action,
    Flags,
    GroupedCommand,
    argument,
    changed,
    command,
    option,
)
from cclmark.options.numbers import WholeNumber
from cclmark.options.operation_argument import operations_in_help

if TYPE_CHECKING:
    pass


_COPIES = "p2p"


class _TraceCommand(GroupedCommand):
    """The command for operations. ``trace p2p`` has the options of ``cclmark p2p`` instead."""

    run: Action

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parses the arguments by the options of the command that they name."""
        if args[:1] == [_COPIES]:
            copies = _copies_command(self.run)
            return copies.make_context(f"{info_name} {_COPIES}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def trace_command(name: str, run: Action) -> click.Command:
    """Returns the command that traces one operation."""
    trace = command(
        name,
        "Record one operation on all ranks as a timeline for Perfetto, with a summary.",
        TraceFlags,
        run,
        _TraceCommand,
    )
    assert isinstance(trace, _TraceCommand)
    trace.run = run
    trace.epilog = (
        f"{operations_in_help([_COPIES])}\n\nCopies between devices: see cclmark {name} {_COPIES} "
        "--help."
    )
    return trace


def _copies_command(run: Action) -> click.Command:
    from cclmark.cli.trace.copy_options import TraceCopiesFlags

    return command(
        _COPIES,
        "Record the copies of one transfer as a timeline for Perfetto, with a summary.",
        TraceCopiesFlags,
        run,
    )


@dataclass
class TraceFlags(Flags):
    """The options of ``cclmark trace``, which runs one case."""

    without: ClassVar[frozenset[str]] = frozenset(
        {
            *(
                "end",
                "step",
                "factor",
                "explain",
                "duration",
                "summary_every",
                "like",
                "cycles",
                "inject",
            ),
            *("timing", "group", "blocking", "graph", "across", "cache", "barrier", "clock"),
            *("references", "resume", "precision_percent", "max_time_s"),
        }
    )

    operation: str = argument("OPERATION")
    begin: str = changed(
        Flags.__dataclass_fields__["begin"], "1M", help="The size [1M].", shown="1M"
    )
    placement: str = changed(
        Flags.__dataclass_fields__["placement"],
        AUTO_PLACEMENT,
        type=click.Choice([AUTO_PLACEMENT, "out-of-place", "in-place"]),
        help=PLACEMENT_HELP,
    )
    dtype: str = changed(
        Flags.__dataclass_fields__["dtype"],
        metavar="TYPE",
        help=ONE_TYPE,
    )
    reduction: str = changed(
        Flags.__dataclass_fields__["reduction"],
        metavar="OP",
        help=ONE_REDUCTION,
    )
    root: str | None = changed(Flags.__dataclass_fields__["root"], help="Root [0].")
    ccl: str = changed(
        Flags.__dataclass_fields__["ccl"],
        metavar="NAME",
        help=ONE_LIBRARY,
    )
    iterations: int | None = changed(
        Flags.__dataclass_fields__["iterations"],
        20,
        type=WholeNumber(least=1, most=100_000),
        help="How many operations are traced [20].",
    )
    warmup: int | None = changed(
        Flags.__dataclass_fields__["warmup"], help="Operations before them [5]."
    )
    output: Path | None = changed(
        Flags.__dataclass_fields__["output"],
        help="The trace [a new file in cclmark-runs/].",
    )
    format: str = changed(
        Flags.__dataclass_fields__["format"],
        "perfetto",
        type=click.Choice(["perfetto", "chrome"]),
        help="The format of the trace [perfetto].",
    )
    steps: bool = option(
        OUTPUT,
        "--steps",
        default=False,
        is_flag=True,
        help="The steps of the algorithm: a table, and all of them as CSV next to the trace.",
    )
