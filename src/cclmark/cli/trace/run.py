"""Measures one item, then records it with new ranks, and writes its timeline."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from cclmark.base.errors import EXIT_OK, EXIT_WRONG, MissingError, OutputError, UsageError
from cclmark.base.printable import plain
from cclmark.base.standard_error import filled, folded
from cclmark.cli.trace.command import TraceFlags
from cclmark.cli.trace.copy_options import CopyPair, TraceCopiesFlags
from cclmark.cli.trace.summary import (
    copy_trace_summary,
    counted_copies,
    outstanding_of,
    step_file,
    step_lines,
    trace_problems,
    trace_summary,
)
from cclmark.document.head import LABEL_WIDTH, labelled
from cclmark.document.text import counted, format_time_us
from cclmark.document.verdict import RunVerdict
from cclmark.journal.item_results import CaseResult, Result, TransferResult
from cclmark.journal.schema import Trace, TracedStage
from cclmark.journal.topology import relations_between
from cclmark.kinds.collective import kind as collective
from cclmark.kinds.p2p.kind import KIND
from cclmark.kinds.p2p.request import devices_of, is_together, plans_of, settings_of
from cclmark.launch.attempt import run_attempt
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.devices import DeviceChoice
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.options.case_request import request_of, stem_of, wanted_of
from cclmark.rank import locate
from cclmark.recording.caller import caller, notice
from cclmark.recording.joining import first_of, run_joined
from cclmark.recording.output import Output, print_lines
from cclmark.recording.recorder import Recorded, Recorder, Silent, planned_lines, recording
from cclmark.recording.run_files import new_journal
from cclmark.recording.trace_files import file_for, steps_path, write_steps, written_whole
from cclmark.trace.case_steps import steps_of
from cclmark.trace.copy_timeline import assemble_copies
from cclmark.trace.rank_trace import RankTrace, Stage
from cclmark.trace.slot_tracks import most_slot_events
from cclmark.trace.timeline import Timeline
from cclmark.trace.timeline_assembly import CaseTimeline, assemble
from cclmark.trace.timeline_files import WRITERS
from cclmark.work.binding import Binding
from cclmark.work.cases import Case
from cclmark.work.items import P2P
from cclmark.work.sizes import format_size
from cclmark.work.transfers import Transfer

_MEASURED_FOR_S = 0.3  # the time of an operation that is not traced, to compare with


def trace(flags: TraceFlags) -> Recorded:
    """Traces the case that the flags describe. Raises CclmarkError."""
    if flags.operation == P2P:
        raise UsageError("p2p must follow trace, because its options differ: cclmark trace p2p …")
    most_slot_events()  # an invalid setting is an error before anything runs
    return run_joined(wanted_of(flags, mixed=True), lambda coordinator: _trace(flags, coordinator))


def _trace(flags: TraceFlags, coordinator: Coordinator) -> Recorded:
    operations = flags.iterations
    one_size = replace(flags, end=flags.begin)
    request, plan = request_of(collective.KIND, [flags.operation], one_size, coordinator)
    if len(request.planned) != 1:
        raise UsageError(
            f"these options describe {len(request.planned)} cases: a trace contains one. Choose "
            "one library, type, reduction and root"
        )
    # The measurement before the trace stops by itself.
    request.settings.iterations, request.settings.max_time_s = None, _MEASURED_FOR_S
    case = request.planned[0]
    assert isinstance(case, Case)
    if request.starts_ranks_once:
        raise MissingError(
            "the MPI of this launcher does not support a second process for a rank, which a trace "
            "requires: run cclmark trace without the launcher"
        )
    if flags.dry_run:
        return _dry_run(request, counted(operations, "operation"))
    suffix, _ = WRITERS[flags.format]
    stem = stem_of(plan)
    path = file_for(flags.output, stem, suffix)
    steps = StepListing(case, path) if flags.steps else None
    files = Files(path, flags.format, flags.journal or new_journal(f"trace-{stem}"))
    found = partial(_found, case, operations, steps)
    return Tracing(request, operations, found).run(files, coordinator.began_s)


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
    outstanding = outstanding_of(found)
    return TraceContents(found.timeline, lines, outstanding, stages, is_wrong, problems)


def _dry_run(request: Request, traced: str) -> Recorded:
    """Lists what would be measured before the trace, and what is traced."""
    print_lines([*planned_lines(request), f"then {traced} traced by new ranks"])
    return Recorded(EXIT_OK, Outcome(EXIT_OK))


_COPIES_MEASURED_FOR_S = 0.3  # the copies that are not traced, to compare with
_MOST_AT_ONCE = 100  # copies in a batch of the trace, and in a sample of the measurement
_MOST_LISTED = 8


def trace_copies(flags: TraceCopiesFlags) -> Recorded:
    """Traces the transfer that the flags describe."""
    began_s = time.monotonic()
    launched = first_of("trace p2p")
    if launched is not None:
        notice(
            f"{launched.launcher} started {launched.processes} processes; one of them "
            "traces all devices."
        )
    copies = flags.repeat
    assert copies is not None  # has a default
    scope = flags.scope[0] if flags.scope else "pairs"
    pair = flags.pair or _PAIRS.get(scope)
    if pair is not None:
        flags.scope = [pair.scope_for(scope)]
    devices = _devices(flags, pair)
    settings = settings_of(flags, devices.runtime)
    plans = plans_of(flags, devices, settings)
    transfer = _only([one for plan in plans for one in plan.transfers()], flags, pair)
    together = is_together(flags, devices.runtime, [transfer])
    settings = msgspec.structs.replace(
        settings,
        iterations=min(copies, _MOST_AT_ONCE),
        max_time_s=_COPIES_MEASURED_FOR_S,
        warmup=flags.warmup,
        bind=str(Binding.parse(flags.bind, 1 if together else len(devices.indices))),
    )
    request = Request(
        devices=devices,
        settings=settings,
        kind=KIND,
        planned=[transfer],
        together=together,
        ccl_wheels={"nvrtc": locate.wheel_files("nvrtc")},
    )
    if flags.dry_run:
        return _dry_run(request, counted_copies(copies))
    suffix, _ = WRITERS[flags.format]
    stem = f"p2p-{devices.runtime}-{len(devices.indices)}"
    path = file_for(flags.output, stem, suffix)
    files = Files(path, flags.format, flags.journal or new_journal(f"trace-{stem}"))
    return Tracing(request, copies, partial(_found_copies, transfer, copies)).run(files, began_s)


def _found_copies(
    transfer: Transfer,
    copies: int,
    traces: list[RankTrace],
    untraced_s: float,
    _surroundings: Surroundings,
) -> TraceContents:
    """Contents of the traces of a transfer."""
    found = assemble_copies(transfer, traces)
    found.timeline.facts["copies of each flow"] = copies
    found.timeline.facts["µs of a copy that is not traced"] = round(untraced_s * 1e6, 3)
    lines = copy_trace_summary(found, copies, untraced_s)
    return TraceContents(found.timeline, lines, "", found.stages, bool(found.wrong), [])


_PAIRS = {"pairs": CopyPair(0, 1), "local": CopyPair(0, 0), "host": CopyPair(None, 0)}


def _devices(flags: TraceCopiesFlags, pair: CopyPair | None) -> DeviceChoice:
    """The selected devices, without those that the pair does not require."""
    found = devices_of(flags, None)
    number = len(found.indices)
    if pair is None:
        return found
    if pair.devices > number:
        raise UsageError(
            f"the pair requires {pair.devices} devices, but there "
            f"{'is' if number == 1 else 'are'} only {number}: see --devices, -g and --pair, or use "
            "--scope local,host"
        )
    if flags.count is None and flags.scope[0] in ("pairs", "local", "host"):
        return replace(found, indices=found.indices[: pair.devices])
    return found


def _only(transfers: list[Transfer], flags: TraceCopiesFlags, pair: CopyPair | None) -> Transfer:
    """The one transfer that the options describe. Raises UsageError."""
    found = [
        one
        for one in dict.fromkeys(transfers)
        if (pair is None or pair.is_of(one))
        and one.numa in ("", "near")
        and one.host_memory in ("", flags.host_memory)
    ]
    if not found:
        raise UsageError(
            "these options describe no copy: peer access off requires --direction write and "
            "--engine CE; a copy within a device or with the host requires uniBw; the host's "
            "memory requires --direction write, and pageable memory --engine CE; --pair must be a "
            "flow of --scope"
        )
    if len(found) > 1:
        listed = [one.describe() for one in found[:_MOST_LISTED]]
        more = [f"and {len(found) - _MOST_LISTED} more"] if len(found) > _MOST_LISTED else []
        raise UsageError(
            f"these options describe {len(found)} transfers: a trace contains one. Choose one pair "
            "(--pair), direction, engine, kernel, scope and number of blocks:\n  "
            + "\n  ".join([*listed, *more])
        )
    return found[0]


_VIEWERS = {"perfetto": "https://ui.perfetto.dev", "chrome": "chrome://tracing"}
_SLOWER = 10  # times an operation may take while it is traced before a rank counts as hung
_NOT_STARTED = "no trace and no journal are written: it ended before all ranks had started"
_NOTHING_WRITTEN = "no trace was written: ranks send their recordings when they end"


@dataclass(frozen=True)
class TraceContents:
    """Contents of traces. ``lines``: the summary. ``problems``: what is missing, in words.

    ``outstanding``: what stands out most, empty for nothing. ``stages``: of each rank or device.
    ``is_wrong``: the check found wrong data.
    """

    timeline: Timeline
    lines: list[str]
    outstanding: str
    stages: Mapping[int, Sequence[Stage]]
    is_wrong: bool
    problems: list[str]


@dataclass(frozen=True)
class Files:
    """The files of a trace. ``format``: of the timeline."""

    timeline: Path
    format: str
    journal: Path


@dataclass(frozen=True)
class Tracing:
    """The two attempts of a trace.

    ``_found`` receives the traces, the time of an operation that is not traced, and the run's
    surroundings.
    """

    _request: Request
    _operations: int
    _found: Callable[[list[RankTrace], float, Surroundings], TraceContents]

    def run(self, files: Files, began_s: float) -> Recorded:
        """Measures, traces, writes both files and prints the summary."""
        output = Output(None)
        try:
            with recording(files.journal, output, Silent, self._request, began_s) as recorder:
                measured = _Measured(recorder)
                outcome = run_attempt(self._request, measured)
                if outcome.exit_code == EXIT_OK and measured.time_s is not None:
                    outcome = self._trace(files, output, measured, recorder)
                elif outcome.exit_code == EXIT_OK:
                    outcome = replace(outcome, message="nothing was traced")
                elif measured.surroundings is None:
                    message = f"{outcome.message}\n{_NOT_STARTED}".lstrip()
                    outcome = replace(outcome, message=message)
                return Recorded(recorder.finish(outcome), outcome)
        finally:
            output.close()

    def _trace(
        self, files: Files, output: Output, measured: _Measured, recorder: Recorder
    ) -> Outcome:
        settings, untraced_s = self._request.settings, measured.time_s
        assert untraced_s is not None
        assert measured.surroundings is not None  # its ranks have started
        timeout_s = settings.timeout_s + _SLOWER * self._operations * untraced_s
        traces: list[RankTrace] = []
        again = replace(
            self._request,
            settings=msgspec.structs.replace(settings, timeout_s=timeout_s),
            traced_operations=self._operations,
            traces=traces.append,
            warnings=(),
        )
        outcome = run_attempt(again, _Notices(recorder))
        if outcome.exit_code != EXIT_OK:
            return replace(outcome, message=f"{outcome.message}\n{_NOTHING_WRITTEN}".lstrip())
        found = self._found(traces, untraced_s, measured.surroundings)
        # The summary and the stages are kept even if the timeline cannot be written.
        title, *lines = found.lines
        if text := self._request.devices.notice:
            lines.insert(0, f"  notice     {text}")
        if not caller().is_silent:
            text = "\n".join(map(plain, [title, *lines]))
            output.write(f"{folded(text, output.columns)}\n")
        problems, name = found.problems, str(files.timeline)
        if failure := _failure_to_write(found.timeline, files):
            problems, name = [*problems, failure], ""
        elif not caller().is_silent:
            rows = _verdict(found, untraced_s, f"{_VIEWERS[files.format]}: open {name}").rows()
            lines = labelled([(label, plain(text)) for label, text in rows])
            columns = output.columns or sys.maxsize
            output.write("".join(f"{filled(one, columns, LABEL_WIDTH)}\n" for one in lines))
        recorder.trace(
            Trace(name, files.format, self._operations, _stages_of(found.stages), found.lines)
        )
        exit_code = EXIT_WRONG if found.is_wrong else outcome.exit_code
        return replace(outcome, exit_code=exit_code, problems=problems)


def _verdict(found: TraceContents, untraced_s: float, viewer: str) -> RunVerdict:
    what, _, _ = found.lines[0].rpartition(", ")
    time = f"{what} takes {format_time_us(untraced_s)} µs without tracing"
    if found.is_wrong:
        return RunVerdict("bad", "wrong", f"outputs contain wrong data; {time}", "", viewer, "")
    answer = f"{time} (nothing in this run judges it)"
    outstanding = found.outstanding or "nothing"
    return RunVerdict("unknown", "not judged", answer, outstanding, viewer, "")


def _failure_to_write(timeline: Timeline, files: Files) -> str:
    """Writes the timeline and reports its size; returns the reason if it cannot be written."""
    _, write = WRITERS[files.format]
    try:
        with written_whole(files.timeline, "trace") as file:
            write(timeline, file)
    except OutputError as error:
        return f"{error}: choose another file with -O FILE"
    size = format_size(files.timeline.stat().st_size)
    notice(f"trace {files.timeline} ({size})", is_whole=True)
    return ""


def _stages_of(stages: Mapping[int, Sequence[Stage]]) -> dict[int, list[TracedStage]]:
    begin_ns = min((stage.begin_ns for of_one in stages.values() for stage in of_one), default=0)
    return {
        number: [
            TracedStage(
                stage.name,
                (stage.begin_ns - begin_ns) * 1e-9,
                (stage.end_ns - stage.begin_ns) * 1e-9,
                stage.size_bytes,
            )
            for stage in of_one
        ]
        for number, of_one in stages.items()
    }


class _Notices(Listener):
    """Listens to the ranks that trace: the rest was reported when the item was measured."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def notice(self, text: str) -> None:
        self._recorder.notice(text)


class _Measured(_Notices):
    """Listens to the ranks that measure. ``time_s``: of the item, None if it was not measured."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.time_s: float | None = None
        self.surroundings: Surroundings | None = None

    def started(self, surroundings: Surroundings) -> None:
        """Writes the header of the journal and prints the libraries."""
        self.surroundings = surroundings
        self._recorder.started(surroundings)
        for library in surroundings.libraries:
            text = f"{library.name} {library.version} {library.path}"
            notice(plain(text))
        for text in () if caller().is_silent else surroundings.notices:
            self.notice(text)

    def result(self, result: Result) -> None:
        """Writes the result and keeps the time."""
        self._recorder.result(result)
        if isinstance(result, (CaseResult, TransferResult)) and result.summary is not None:
            self.time_s = result.summary.time_s


def _relations(surroundings: Surroundings) -> dict[tuple[int, int], str]:
    """How the devices of this host are connected; other hosts' are not known here."""
    here = surroundings.machine.hostname
    devices = [device for device in surroundings.devices if device.host == here]
    relations = relations_between(devices, surroundings.links, set())
    return {(one.first, one.second): one.kind for one in relations}


class StepListing:
    """The steps of the traced case."""

    def __init__(self, case: Case, trace_path: Path) -> None:
        """Raises UsageError if the file of the steps exists or cannot be created."""
        self._case = case
        self._path = steps_path(trace_path)

    def write(
        self, traces: Sequence[RankTrace], found: CaseTimeline, surroundings: Surroundings
    ) -> tuple[list[str], str]:
        """Writes the file if the steps are known.

        Returns the lines for the terminal, and the reason if the file cannot be written.
        """
        ordered = sorted(traces, key=lambda trace: trace.rank)
        tasks = {one.rank: one.events.tasks for one in found.ranks if one.log is not None}
        steps = steps_of(self._case, ordered, tasks, os.environ)
        relations = _relations(surroundings)
        failure = self._failure_to_write(step_file(steps, relations)) if steps.steps else ""
        return step_lines(steps, relations), failure

    def _failure_to_write(self, lines: Iterable[str]) -> str:
        try:
            write_steps(self._path, lines)
        except OutputError as error:
            return f"{error}: choose another file with -O FILE"
        return ""
