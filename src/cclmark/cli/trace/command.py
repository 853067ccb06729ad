"""``cclmark trace``: a timeline of one operation on all ranks, or of copies between devices."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cclmark.cli.operation_argument import operations_in_help
from cclmark.cli.options import (
    GroupedCommand,
    TraceFlags,
    command,
)

if TYPE_CHECKING:
    from cclmark.cli.trace.copy_options import TraceCopiesFlags

_COPIES = "p2p"


class _TraceCommand(GroupedCommand):
    """The command for operations. ``trace p2p`` has the options of ``cclmark p2p`` instead."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parses the arguments by the options of the command that they name."""
        if args[:1] == [_COPIES]:
            copies = _copies_command()
            return copies.make_context(f"{info_name} {_COPIES}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def trace_command(name: str) -> click.Command:
    """Returns the command that traces one operation."""
    trace = command(
        name,
        "Record one operation on all ranks as a timeline for Perfetto, with a summary.",
        TraceFlags,
        _trace,
        _TraceCommand,
    )
    trace.epilog = (
        f"{operations_in_help([_COPIES])}\n\nCopies between devices: see cclmark {name} {_COPIES} "
        "--help."
    )
    return trace


def _copies_command() -> click.Command:
    from cclmark.cli.trace.copy_options import TraceCopiesFlags

    return command(
        _COPIES,
        "Record the copies of one transfer as a timeline for Perfetto, with a summary.",
        TraceCopiesFlags,
        _trace_copies,
    )


def _trace(flags: TraceFlags) -> None:
    from cclmark.cli.trace.run import trace

    sys.exit(trace(flags))


def _trace_copies(flags: TraceCopiesFlags) -> None:
    from cclmark.cli.trace.run import trace_copies

    sys.exit(trace_copies(flags))
