"""Runs ``cclmark profile``: options to a request, its result to a file or a standard stream."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from cclmark.document.exporters import exporter_of
from cclmark.document.paint import ansi, unpainted
from cclmark.document.report_kind import View
from cclmark.errors import UsageError
from cclmark.kinds.profile.kind import KIND
from cclmark.kinds.profile.profiling import ProfileRequest, profile
from cclmark.recording.output import Output
from cclmark.recording.run_files import new_journal


def profile_program(
    program: Sequence[str],
    logs: Path | None,
    read: Path | None,
    run: str,
    calls: int,
    kernel_times: bool,
    format: str,
    output: Path | None,
    journal: Path | None,
) -> int:
    """Profiles a program, or reads the logs of one, and returns the exit code.

    Raises CclmarkError before anything is started or written if the options are invalid.
    """
    if read is not None and (program or logs is not None):
        raise UsageError(
            "--read reads the logs of an earlier run: leave out the command and --logs"
        )
    if read is None and not program:
        raise UsageError(
            "the program to profile is missing: cclmark profile [OPTIONS] -- COMMAND..."
        )
    if run and read is None:
        raise UsageError("--run chooses among the runs of --read DIR")
    request = ProfileRequest(program, read or logs, calls, kernel_times, run)
    to_error = output is None and read is None
    with contextlib.closing(Output(output)) as printed:
        coloured = printed.takes_colours and not to_error
        code = profile(
            request,
            journal or new_journal("profile"),
            exporter_of(KIND, format, View(paint=ansi if coloured else unpainted)),
            _print_error if to_error else printed.write,
            to_error=to_error,
        )
    if printed.failure:
        print(f"cclmark: {printed.failure}", file=sys.stderr)
    return code


def _print_error(text: str) -> None:
    sys.stderr.write(text)
