"""Runs ``cclmark memory``: flags to cases, cases to ranks, readings to journal and screen."""

from __future__ import annotations

from dataclasses import replace

from cclmark.base.errors import UsageError
from cclmark.kinds.memory.command import MemoryFlags
from cclmark.kinds.memory.kind import KIND
from cclmark.launch.coordinator import Coordinator
from cclmark.options.case_request import request_of, stem_of, wanted_of
from cclmark.recording.joining import run_joined
from cclmark.recording.recorder import Recorded, record


def read_memory(flags: MemoryFlags) -> Recorded:
    """Reads the memory for the operation of ``flags``."""
    return run_joined(wanted_of(flags, mixed=True), lambda coordinator: _read(flags, coordinator))


def _read(flags: MemoryFlags, coordinator: Coordinator) -> Recorded:
    sweep_flags = replace(flags, end=flags.begin if flags.end is None else flags.end)
    request, plan = request_of(KIND, [flags.operation], sweep_flags, coordinator)
    if len(plan.ccls) > 1:
        raise UsageError(
            f"--ccl {','.join(flags.ccl)}: memory is read for one library, because several "
            "libraries in a process share memory"
        )
    return record(request, flags, stem_of(plan, "memory-"))
