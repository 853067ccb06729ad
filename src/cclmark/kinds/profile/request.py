"""Runs ``cclmark profile``: options to a request, its result to a file or a standard stream."""

from __future__ import annotations

import contextlib
import sys

from cclmark.document.exporters import exporter_of
from cclmark.document.paint import ansi, unpainted
from cclmark.document.report_kind import View
from cclmark.errors import UsageError
from cclmark.kinds.profile.command import ProfileFlags
from cclmark.kinds.profile.kind import KIND
from cclmark.kinds.profile.profiling import ProfileRequest, profile
from cclmark.recording.output import Output
from cclmark.recording.run_files import new_journal


def profile_program(flags: ProfileFlags) -> int:
    """Profiles a program, or reads the logs of one, and returns the exit code.

    Raises CclmarkError before anything is started or written if the options are invalid.
    """
    read, output = flags.read, flags.output
    if read is None and not flags.program:
        raise UsageError(
            "the program to profile is missing: cclmark profile [OPTIONS] -- COMMAND..."
        )
    request = ProfileRequest(
        flags.program, read or flags.logs, flags.calls, not flags.no_kernel_times, flags.run
    )
    to_error = output is None and read is None
    with contextlib.closing(Output(output)) as printed:
        coloured = printed.takes_colours and not to_error
        code = profile(
            request,
            flags.journal or new_journal("profile"),
            exporter_of(KIND, flags.format, View(paint=ansi if coloured else unpainted)),
            _print_error if to_error else printed.write,
            to_error=to_error,
        )
    if printed.failure:
        print(f"cclmark: {printed.failure}", file=sys.stderr)
    return code


def _print_error(text: str) -> None:
    sys.stderr.write(text)
