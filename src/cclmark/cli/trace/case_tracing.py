"""Traces one case of a collective."""

from __future__ import annotations

import time
from functools import partial

from cclmark.cli.case_request import request_of, stem_of
from cclmark.cli.chosen_devices import device_count, devices_text
from cclmark.cli.operation_argument import known_operation
from cclmark.cli.options import TraceFlags
from cclmark.cli.trace.new_files import file_for
from cclmark.cli.trace.step_listing import StepListing
from cclmark.cli.trace.tracing import WRITERS, Files, TraceContents, Tracing
from cclmark.errors import MissingError, UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Surroundings
from cclmark.plan.cases import Case
from cclmark.plan.items import P2P
from cclmark.recording.joining import joined
from cclmark.recording.run_files import new_journal
from cclmark.report.lists.trace_problems import trace_problems
from cclmark.report.lists.trace_summary import trace_summary
from cclmark.trace.rank_trace import RankTrace
from cclmark.trace.slot_events import most_slot_events
from cclmark.trace.timeline_assembly import assemble

_MEASURED_FOR_S = 0.3  # the time of an operation that is not traced, to compare with


def trace(flags: TraceFlags) -> int:
    """Traces the case that the flags describe and returns the exit code. Raises CclmarkError."""
    began_s = time.monotonic()
    if flags.operation == P2P:
        raise UsageError("p2p must follow trace, because its options differ: cclmark trace p2p …")
    known_operation(flags.operation, [P2P])
    most_slot_events()  # an invalid setting is an error before anything runs
    operations = flags.iterations
    assert operations is not None  # has a default
    # The measurement before the trace stops by itself.
    flags.iterations, flags.end, flags.max_time_s = None, flags.begin, _MEASURED_FOR_S
    with joined(
        lambda: devices_text(flags), device_count(flags), flags.timeout_s, mixed=True
    ) as coordinator:
        coordinator.exit_code = _trace(flags, operations, coordinator, began_s)
        return coordinator.exit_code


def _trace(flags: TraceFlags, operations: int, coordinator: Coordinator, began_s: float) -> int:
    request, plan = request_of([flags.operation], flags, coordinator)
    if len(request.planned) != 1:
        raise UsageError(
            f"these options describe {len(request.planned)} cases: a trace contains one. Choose "
            "one library, type, reduction and root"
        )
    case = request.planned[0]
    assert isinstance(case, Case)
    if request.starts_ranks_once:
        raise MissingError(
            "the MPI of this launcher does not support a second process for a rank, which a trace "
            "requires: run cclmark trace without the launcher"
        )
    suffix, _ = WRITERS[flags.format]
    stem = stem_of(flags.operation, plan)
    path = file_for(flags.output, stem, suffix)
    steps = StepListing(case, path) if flags.steps else None
    files = Files(path, flags.format, flags.journal or new_journal(f"trace-{stem}"))
    found = partial(_found, case, operations, steps)
    return Tracing(request, operations, found).run(files, began_s)


def _found(
    case: Case,
    operations: int,
    steps: StepListing | None,
    traces: list[RankTrace],
    untraced_s: float,
    surroundings: Surroundings,
) -> TraceContents:
    """Contents of the traces of a case."""
    found = assemble(case.describe(), case.size_bytes, traces)
    found.timeline.facts["operations"] = operations
    found.timeline.facts["µs of an operation that is not traced"] = round(untraced_s * 1e6, 3)
    problems = trace_problems(found)
    lines = trace_summary(found, case, operations, untraced_s)
    if steps is not None:
        step_lines, failure = steps.write(traces, found, surroundings)
        lines += ["", *step_lines]
        problems += [failure] if failure else []
    stages = {one.rank: one.stages for one in found.ranks}
    is_wrong = any(rank.wrong for rank in found.ranks)
    return TraceContents(found.timeline, lines, stages, is_wrong, problems)
