"""Runs ``cclmark memory``: flags to cases, cases to ranks, readings to journal and screen."""

from __future__ import annotations

import time
from dataclasses import replace

from cclmark.document.exporter import Exporter
from cclmark.document.exporters import exporter_of
from cclmark.document.paint import ansi, unpainted
from cclmark.document.report_kind import View
from cclmark.errors import UsageError
from cclmark.kinds.memory.command import MemoryFlags
from cclmark.kinds.memory.kind import KIND
from cclmark.kinds.memory.result import MemoryResult
from cclmark.launch.coordinator import Coordinator
from cclmark.options.case_request import request_of, stem_of
from cclmark.options.chosen_devices import wanted_of
from cclmark.recording.joining import joined
from cclmark.recording.output import Output
from cclmark.recording.recorder import record


def read_memory(flags: MemoryFlags) -> int:
    """Reads the memory for the operation of ``flags`` and returns the exit code.

    Raises CclmarkError before anything is started or written if the flags are invalid.
    """
    began_s = time.monotonic()
    with joined(wanted_of(flags, mixed=True)) as coordinator:
        coordinator.exit_code = _read(flags, coordinator, began_s)
        return coordinator.exit_code


def _read(flags: MemoryFlags, coordinator: Coordinator, began_s: float) -> int:
    sweep_flags = replace(flags, end=flags.begin if flags.end is None else flags.end)
    request, plan = request_of(KIND, [flags.operation], sweep_flags, coordinator)
    if len(plan.ccls) > 1:
        raise UsageError(
            f"--ccl {','.join(flags.ccl)}: memory is read for one library, because several "
            "libraries in a process share memory"
        )
    return record(
        request,
        lambda output: _exporter(flags.format, output),
        began_s,
        output=flags.output,
        journal=flags.journal,
        stem=stem_of(f"memory-{flags.operation}", plan),
        resume=flags.resume,
    ).exit_code


def _exporter(format_name: str, output: Output) -> Exporter[MemoryResult]:
    return exporter_of(KIND, format_name, View(paint=ansi if output.takes_colours else unpainted))
