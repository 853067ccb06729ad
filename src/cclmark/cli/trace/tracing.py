"""Traces one case: measures it, then records it with new ranks, and writes the timeline."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import IO

import msgspec

from cclmark.cli.collective.measuring import device_count, devices_text, request_of, stem_of
from cclmark.cli.options import TraceFlags
from cclmark.errors import (
    EXIT_DIED,
    EXIT_MISSING,
    EXIT_OK,
    EXIT_WRONG,
    MissingError,
    OutputError,
    UsageError,
)
from cclmark.launch.attempt import Attempt
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Outcome, Request, Surroundings
from cclmark.plan.cases import Case
from cclmark.plan.items import P2P
from cclmark.plan.operations import COLLECTIVES
from cclmark.plan.sizes import format_size
from cclmark.printable import plain, plain_lines
from cclmark.recording.joining import joined
from cclmark.rendezvous.messages import RankStatus
from cclmark.report.lists.trace_summary import missing_events, trace_summary
from cclmark.results.kinds import CaseResult, Result, TransferResult
from cclmark.results.schema import Condition, Explanation, Paths
from cclmark.signals import deferred
from cclmark.trace.assembly import CaseTimeline, assemble
from cclmark.trace.chrome_file import write_chrome
from cclmark.trace.perfetto_file import write_perfetto
from cclmark.trace.rank_trace import RankTrace
from cclmark.trace.slot_events import most_slot_events
from cclmark.trace.timeline import Timeline

_SLOWER = 10  # times an operation may take while it is traced before a rank counts as hung
_MEASURED_FOR_S = 0.3  # the time of an operation that is not traced, to compare with
Writer = Callable[[Timeline, IO[bytes]], None]
#: By the format: the end of the file's name, and the function that writes it.
WRITERS: dict[str, tuple[str, Writer]] = {
    "perfetto": (".pftrace", write_perfetto),
    "chrome": (".trace.json", write_chrome),
}


def trace(flags: TraceFlags) -> int:
    """Traces the case that the flags describe and returns the exit code. Raises CclmarkError."""
    if flags.operation == P2P:
        raise UsageError("p2p must follow trace, because its options differ: cclmark trace p2p …")
    if flags.operation not in COLLECTIVES:
        raise UsageError(
            f"unknown operation {flags.operation!r}: choose from {', '.join(COLLECTIVES)}"
        )
    most_slot_events()  # an invalid setting is an error before anything runs
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
    suffix, write = WRITERS[flags.format]
    path = file_for(flags.output, f"{stem_of(flags.operation, plan)}{suffix}")
    found = partial(_found, case, operations)
    return Tracing(request, operations, found).run(path, write)


@dataclass(frozen=True)
class Found:
    """What traces contain. ``lines``: the summary. ``problems``: the reasons of the exit code."""

    timeline: Timeline
    lines: list[str]
    exit_code: int
    problems: list[str]


class Tracing:
    """The two attempts of a trace, and what they say. A listener of both.

    ``found`` receives the traces and the time of an operation that is not traced.
    """

    def __init__(
        self,
        request: Request,
        operations: int,
        found: Callable[[list[RankTrace], float | None], Found],
    ) -> None:
        self._request = request
        self._operations = operations
        self._found = found
        self._traces: list[RankTrace] = []
        self._untraced_s: float | None = None
        self._reason = ""
        self._reason_code = EXIT_MISSING

    def run(self, path: Path, write: Writer) -> int:
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
        found = self._found(self._traces, self._untraced_s)
        _write(path, found.timeline, write)
        print("\n".join(map(plain, found.lines)))
        print(f"cclmark: trace {path} ({format_size(path.stat().st_size)})", file=sys.stderr)
        for text in found.problems:
            print(f"cclmark: {text}", file=sys.stderr)
        return found.exit_code

    def _fail(self, outcome: Outcome) -> int:
        message = outcome.message or f"nothing was traced: {self._reason}"
        print(f"cclmark: {plain_lines(message)}", file=sys.stderr)
        return outcome.exit_code or self._reason_code

    def started(self, surroundings: Surroundings) -> None:
        """Prints the libraries, once."""
        if self._untraced_s is None:
            for library in surroundings.libraries:
                text = f"{library.name} {library.version} {library.path}"
                print(f"cclmark: {plain(text)}", file=sys.stderr)
            for notice in surroundings.notices:
                self.notice(notice)

    def result(self, result: Result) -> None:
        """Keeps the time of the item, or the reason why it was not measured."""
        if isinstance(result, (CaseResult, TransferResult)) and result.summary is not None:
            self._untraced_s = result.summary.time_s
        else:
            self._reason = result.reason
            self._reason_code = EXIT_DIED if result.status == "timeout" else EXIT_MISSING

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


def _found(case: Case, operations: int, traces: list[RankTrace], untraced_s: float | None) -> Found:
    """What the traces of a case contain."""
    found = assemble(case.describe(), case.size_bytes, traces)
    found.timeline.facts["operations"] = operations
    if untraced_s is not None:
        found.timeline.facts["µs of an operation that is not traced"] = round(untraced_s * 1e6, 3)
    problems = _problems(found)
    exit_code = EXIT_MISSING if problems else EXIT_OK
    if any(rank.wrong for rank in found.ranks):
        exit_code = EXIT_WRONG
    lines = trace_summary(found, case, operations, untraced_s)
    return Found(found.timeline, lines, exit_code, problems)


def _problems(found: CaseTimeline) -> list[str]:
    """What is missing in the trace, in words."""
    problems = missing_events(found.ranks)
    for rank in found.ranks:
        # With one rank, libraries copy without a kernel that they report.
        if rank.log is not None and not rank.events.kinds and len(found.ranks) > 1:
            problems.append(
                f"rank {rank.rank}: the library loaded the plug-in and reported no event"
            )
    return problems


def file_for(output: Path | None, name: str) -> Path:
    """Returns ``output``, or a new file in cclmark-runs/. Raises UsageError if it is unwritable."""
    path = output or _new_file(name)
    _refuse_unwritable(path)
    return path


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


def _refuse_unwritable(path: Path) -> None:
    """Raises UsageError for a file that exists or cannot be created, before anything runs."""
    try:
        path.open("xb").close()
        path.unlink()
    except FileExistsError:
        raise UsageError(f"{path} exists already: choose another file with -O FILE") from None
    except OSError as error:
        raise UsageError(
            f"cannot write the trace {path}: {error.strerror}. Choose another file with -O FILE."
        ) from None


def _write(path: Path, timeline: Timeline, write: Writer) -> None:
    """Writes the file completely or not at all. Raises OutputError, MissingError."""
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("xb") as file:
            write(timeline, file)
        partial.rename(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(f"cannot write the trace {path}: {error.strerror}") from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
