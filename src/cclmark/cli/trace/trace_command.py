"""``cclmark trace``: a timeline of one operation on all ranks."""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import TraceFlags, command


def trace_command(name: str) -> click.Command:
    """Returns the command that traces one operation."""
    return command(
        name,
        "Record one operation on all ranks as a timeline for Perfetto, with a summary.",
        TraceFlags,
        _trace,
    )


def _trace(flags: TraceFlags) -> None:
    from cclmark.cli.trace.tracing import trace

    sys.exit(trace(flags))
