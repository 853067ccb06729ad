"""Measures one item, then records it with new ranks, and writes its timeline."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import msgspec

from cclmark.cli.trace.new_files import written_whole
from cclmark.errors import (
    EXIT_DIED,
    EXIT_MISSING,
    EXIT_OK,
)
from cclmark.launch.attempt import Attempt
from cclmark.launch.request import Outcome, Request, Surroundings
from cclmark.plan.sizes import format_size
from cclmark.printable import plain, plain_lines
from cclmark.rendezvous.messages import RankStatus
from cclmark.results.kinds import CaseResult, Result, TransferResult
from cclmark.results.schema import Condition, Explanation, Paths
from cclmark.signals import deferred
from cclmark.trace.chrome_file import write_chrome
from cclmark.trace.perfetto_file import write_perfetto
from cclmark.trace.rank_trace import RankTrace
from cclmark.trace.timeline import Timeline

_SLOWER = 10  # times an operation may take while it is traced before a rank counts as hung
Writer = Callable[[Timeline, IO[bytes]], None]
#: By the format: the end of the file's name, and the function that writes it.
WRITERS: dict[str, tuple[str, Writer]] = {
    "perfetto": (".pftrace", write_perfetto),
    "chrome": (".trace.json", write_chrome),
}


@dataclass(frozen=True)
class Found:
    """What traces contain. ``lines``: the summary. ``problems``: the reasons of the exit code."""

    timeline: Timeline
    lines: list[str]
    exit_code: int
    problems: list[str]


class Tracing:
    """The two attempts of a trace, and what they say. A listener of both.

    ``found`` receives the traces, the time of an operation that is not traced, and the run's
    surroundings.
    """

    def __init__(
        self,
        request: Request,
        operations: int,
        found: Callable[[list[RankTrace], float | None, Surroundings], Found],
    ) -> None:
        self._request = request
        self._operations = operations
        self._found = found
        self._traces: list[RankTrace] = []
        self._untraced_s: float | None = None
        self._surroundings: Surroundings | None = None
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
        assert self._surroundings is not None  # its ranks have started
        found = self._found(self._traces, self._untraced_s, self._surroundings)
        with written_whole(path, "trace") as file:
            write(found.timeline, file)
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
        self._surroundings = surroundings
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
