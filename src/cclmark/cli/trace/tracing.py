"""Traces one case: measures it, then records it with new ranks, and writes the timeline."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

import msgspec

from cclmark.cli.collective.measuring import device_count, devices_text, request_of, stem_of
from cclmark.cli.options import TraceFlags
from cclmark.cli.trace.new_files import refuse_unwritable, written_whole
from cclmark.cli.trace.step_listing import StepListing
from cclmark.errors import (
    EXIT_MISSING,
    EXIT_OK,
    EXIT_WRONG,
    MissingError,
    UsageError,
)
from cclmark.launch.attempt import Attempt
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Outcome, Request, Surroundings
from cclmark.plan.cases import Case
from cclmark.plan.operations import COLLECTIVES
from cclmark.plan.sizes import format_size
from cclmark.printable import plain, plain_lines
from cclmark.recording.joining import joined
from cclmark.rendezvous.messages import RankStatus
from cclmark.report.lists.trace_summary import missing_events, trace_summary
from cclmark.results.kinds import CaseResult, Result
from cclmark.results.schema import Condition, Explanation, Paths
from cclmark.signals import deferred
from cclmark.trace.assembly import CaseTimeline, assemble
from cclmark.trace.chrome_file import write_chrome
from cclmark.trace.perfetto_file import write_perfetto
from cclmark.trace.rank_trace import RankTrace
from cclmark.trace.timeline import Timeline

_SLOWER = 10  # times an operation may take while it is traced before a rank counts as hung
_MEASURED_FOR_S = 0.3  # the time of an operation that is not traced, to compare with
_WRITERS: dict[str, tuple[str, Callable[[Timeline, IO[bytes]], None]]] = {
    "perfetto": (".pftrace", write_perfetto),
    "chrome": (".trace.json", write_chrome),
}


def trace(flags: TraceFlags) -> int:
    """Traces the case that the flags describe and returns the exit code. Raises CclmarkError."""
    if flags.operation not in COLLECTIVES:
        raise UsageError(
            f"unknown operation {flags.operation!r}: choose from {', '.join(COLLECTIVES)}"
        )
    operations = flags.iterations
    assert operations is not None  # has a default
    # The measurement before the trace stops by itself.
    flags.iterations, flags.end, flags.max_time_s = None, flags.begin, _MEASURED_FOR_S
    with joined(
        lambda: devices_text(flags), device_count(flags), flags.timeout_s, mixed=True
    ) as coordinator:
        coordinator.exit_code = _trace(flags, operations, coordinator)
        return coordinator.exit_code


def _trace(flags: TraceFlags, operations: int, coordinator: Coordinator) -> int:
    request, plan = request_of([flags.operation], flags, coordinator)
    if len(request.planned) != 1:
        raise UsageError(
            f"these options describe {len(request.planned)} cases: a trace contains one. Choose "
            "one library, type, reduction and root"
        )
    case = request.planned[0]
    assert isinstance(case, Case)
    if request.by_mpi and coordinator.placement is not None:
        raise MissingError(
            "the MPI of this launcher does not support a second process for a rank, which a trace "
            "requires: run cclmark trace without the launcher"
        )
    path = flags.output or _new_file(f"{stem_of(flags.operation, plan)}{_WRITERS[flags.format][0]}")
    refuse_unwritable(path)
    steps = StepListing(case, path) if flags.steps else None
    return _Tracing(request, case, operations, steps).run(path, _WRITERS[flags.format][1])


class _Tracing:
    """The two attempts of a trace, and what they say. A listener of both."""

    def __init__(
        self, request: Request, case: Case, operations: int, steps: StepListing | None
    ) -> None:
        self._steps = steps
        self._request = request
        self._case = case
        self._operations = operations
        self._traces: list[RankTrace] = []
        self._untraced_s: float | None = None
        self._reason = ""

    def run(self, path: Path, write: Callable[[Timeline, IO[bytes]], None]) -> int:
        """Measures, traces, writes the file, prints the summary; returns the exit code."""
        with deferred():
            outcome = Attempt(self._request, self).run()
            if outcome.exit_code != EXIT_OK or self._reason:
                return self._fail(outcome)
            settings = self._request.settings
            needed_s = _SLOWER * self._operations * (self._untraced_s or 0.0)
            again = replace(
                self._request,
                settings=msgspec.structs.replace(settings, timeout_s=settings.timeout_s + needed_s),
                traced_operations=self._operations,
                traces=self._traces.append,
                warnings=(),
            )
            outcome = Attempt(again, self).run()
        if outcome.exit_code != EXIT_OK:
            # What the ranks have recorded is sent at their end: there is nothing to write.
            return self._fail(outcome)
        found = assemble(self._case.describe(), self._case.size_bytes, self._traces)
        found.timeline.facts["operations"] = self._operations
        if self._untraced_s is not None:
            found.timeline.facts["µs of an operation that is not traced"] = round(
                self._untraced_s * 1e6, 3
            )
        with written_whole(path, "trace") as file:
            write(found.timeline, file)
        lines = trace_summary(found, self._case, self._operations, self._untraced_s)
        if self._steps is not None:
            lines += ["", *self._steps.write(self._traces, found)]
        print("\n".join(map(plain, lines)))
        print(f"cclmark: trace {path} ({format_size(path.stat().st_size)})", file=sys.stderr)
        return self._exit_code(found)

    def _exit_code(self, found: CaseTimeline) -> int:
        problems = missing_events(found.ranks)
        for rank in found.ranks:
            # With one rank, libraries copy without a kernel that they report.
            if rank.log is not None and not rank.events.kinds and len(found.ranks) > 1:
                problems.append(
                    f"rank {rank.rank}: the library loaded the plug-in and reported no event"
                )
        for text in problems:
            print(f"cclmark: {text}", file=sys.stderr)
        if any(rank.wrong for rank in found.ranks):
            return EXIT_WRONG
        return EXIT_MISSING if problems else EXIT_OK

    def _fail(self, outcome: Outcome) -> int:
        message = outcome.message or f"nothing was traced: {self._reason}"
        print(f"cclmark: {plain_lines(message)}", file=sys.stderr)
        return outcome.exit_code or EXIT_MISSING

    def started(self, surroundings: Surroundings) -> None:
        """Prints the libraries, once."""
        if self._steps is not None:
            self._steps.surroundings = surroundings
        if self._untraced_s is None:
            for library in surroundings.libraries:
                text = f"{library.name} {library.version} {library.path}"
                print(f"cclmark: {plain(text)}", file=sys.stderr)
            for notice in surroundings.notices:
                self.notice(notice)

    def result(self, result: Result) -> None:
        """Keeps the time of the case, or the reason why it was not measured."""
        if isinstance(result, CaseResult) and result.summary is not None:
            self._untraced_s = result.summary.time_s
        else:
            self._reason = result.reason

    def condition(self, condition: Condition) -> None:
        """Ignored: only soaks have conditions."""

    def explanation(self, explanation: Explanation) -> None:
        """Ignored: nothing is explained."""

    def paths(self, paths: Paths) -> None:
        """Ignored: nothing is explained."""

    def notice(self, text: str) -> None:
        """Prints a notice."""
        print(f"cclmark: {plain_lines(text)}", file=sys.stderr)

    def progress(self, rank_status: RankStatus) -> None:
        """Ignored: a trace takes seconds."""


def _new_file(name: str) -> Path:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    directory = Path("cclmark-runs")
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot create the directory {directory} for the trace: {error.strerror}. Choose "
            "another place with -O FILE."
        ) from None
    return directory / f"{stamp}-{name}"
