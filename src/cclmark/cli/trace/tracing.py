"""Measures one item, then records it with new ranks, and writes its timeline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import msgspec

from cclmark.cli.trace.new_files import written_whole
from cclmark.errors import EXIT_OK, EXIT_WRONG, OutputError
from cclmark.launch.attempt import Attempt
from cclmark.launch.request import Outcome, Request, Surroundings
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.recording.output import Output
from cclmark.recording.recorder import Recorder, recording
from cclmark.rendezvous.messages import RankStatus
from cclmark.results.item_results import CaseResult, Result, TransferResult
from cclmark.results.schema import (
    Condition,
    Explanation,
    Footer,
    Header,
    Paths,
    Trace,
    TracedStage,
)
from cclmark.trace.chrome_file import write_chrome
from cclmark.trace.perfetto_file import write_perfetto
from cclmark.trace.rank_trace import RankTrace, Stage
from cclmark.trace.timeline import Timeline

_SLOWER = 10  # times an operation may take while it is traced before a rank counts as hung
_NOT_STARTED = "no trace and no journal are written: it ended before all ranks had started"
_NOTHING_WRITTEN = "no trace was written: ranks send their recordings when they end"
Writer = Callable[[Timeline, IO[bytes]], None]
#: By the format: the end of the file's name, and the function that writes it.
WRITERS: dict[str, tuple[str, Writer]] = {
    "perfetto": (".pftrace", write_perfetto),
    "chrome": (".trace.json", write_chrome),
}


@dataclass(frozen=True)
class TraceContents:
    """Contents of traces. ``lines``: the summary. ``problems``: what is missing, in words.

    ``stages``: of each rank or device. ``is_wrong``: the check found wrong data.
    """

    timeline: Timeline
    lines: list[str]
    stages: Mapping[int, Sequence[Stage]]
    is_wrong: bool
    problems: list[str]


@dataclass(frozen=True)
class Files:
    """The files of a trace. ``format``: of the timeline."""

    timeline: Path
    format: str
    journal: Path


class Tracing:
    """The two attempts of a trace.

    ``found`` receives the traces, the time of an operation that is not traced, and the run's
    surroundings.
    """

    def __init__(
        self,
        request: Request,
        operations: int,
        found: Callable[[list[RankTrace], float, Surroundings], TraceContents],
    ) -> None:
        self._request = request
        self._operations = operations
        self._found = found

    def run(self, files: Files, began_s: float) -> int:
        """Measures, traces, writes both files, prints the summary; returns the exit code."""
        output = Output(None)
        try:
            with recording(files.journal, output, _Silent(), self._request, began_s) as recorder:
                measured = _Measured(recorder)
                outcome = Attempt(self._request, measured).run()
                if outcome.exit_code == EXIT_OK and measured.time_s is not None:
                    outcome = self._trace(files, output, measured, recorder)
                elif outcome.exit_code == EXIT_OK:
                    outcome = replace(outcome, message="nothing was traced")
                elif measured.surroundings is None:
                    message = f"{outcome.message}\n{_NOT_STARTED}".lstrip()
                    outcome = replace(outcome, message=message)
                return recorder.finish(outcome)
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
        outcome = Attempt(again, _Notices(recorder)).run()
        if outcome.exit_code != EXIT_OK:
            return replace(outcome, message=f"{outcome.message}\n{_NOTHING_WRITTEN}".lstrip())
        found = self._found(traces, untraced_s, measured.surroundings)
        # The summary and the stages are kept even if the timeline cannot be written.
        title, *lines = found.lines
        if notice := self._request.devices.notice:
            lines.insert(0, f"  notice     {notice}")
        output.write("\n".join(map(plain, [title, *lines])) + "\n")
        problems, name = found.problems, str(files.timeline)
        if failure := _failure_to_write(found.timeline, files):
            problems, name = [*problems, failure], ""
        recorder.trace(
            Trace(name, files.format, self._operations, _stages_of(found.stages), found.lines)
        )
        exit_code = EXIT_WRONG if found.is_wrong else outcome.exit_code
        return replace(outcome, exit_code=exit_code, problems=problems)


def _failure_to_write(timeline: Timeline, files: Files) -> str:
    """Writes the timeline and reports its size; returns the reason if it cannot be written."""
    _, write = WRITERS[files.format]
    try:
        with written_whole(files.timeline, "trace") as file:
            write(timeline, file)
    except OutputError as error:
        return f"{error}: choose another file with -O FILE"
    size = format_size(files.timeline.stat().st_size)
    print(f"cclmark: trace {files.timeline} ({size})", file=sys.stderr)
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


class _Silent:
    """A format without text: a trace prints its summary itself."""

    def begin(self, header: Header) -> str:
        return ""

    def add(self, result: Result) -> str:
        return ""

    def end(self, footer: Footer | None) -> str:
        return ""


class _Notices:
    """Listens to the ranks that trace: the rest was reported when the item was measured."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def started(self, surroundings: Surroundings) -> None:
        pass

    def result(self, result: Result) -> None:
        pass

    def condition(self, condition: Condition) -> None:
        pass

    def explanation(self, explanation: Explanation) -> None:
        pass

    def paths(self, paths: Paths) -> None:
        pass

    def notice(self, text: str) -> None:
        self._recorder.notice(text)

    def progress(self, rank_status: RankStatus) -> None:
        pass


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
            print(f"cclmark: {plain(text)}", file=sys.stderr)
        for text in surroundings.notices:
            self.notice(text)

    def result(self, result: Result) -> None:
        """Writes the result and keeps the time."""
        self._recorder.result(result)
        if isinstance(result, (CaseResult, TransferResult)) and result.summary is not None:
            self.time_s = result.summary.time_s
