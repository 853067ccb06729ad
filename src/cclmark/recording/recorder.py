"""Records results as they arrive: each is written to the journal first, then to the screen."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO, cast

from cclmark.base.errors import (
    EXIT_DIED,
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    EXIT_WRONG,
    UnreadError,
)
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain, printable
from cclmark.base.signals import deferred
from cclmark.base.standard_error import tell
from cclmark.base.version import VERSION
from cclmark.document.exporter import Exporter
from cclmark.document.report_kind import View
from cclmark.document.text import clock_text, counted
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import JournalWriter
from cclmark.journal.machine import kept_environment, readable
from cclmark.journal.sample_times import with_short_figures
from cclmark.journal.schema import (
    SCHEMA_VERSION,
    Condition,
    Explanation,
    Footer,
    Header,
    Paths,
    Predecessor,
    Trace,
    time_text,
)
from cclmark.journal.surroundings import surroundings_changed
from cclmark.launch.debugging import debugged
from cclmark.launch.launching import explain_items, launch_items, starts_of
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.recording.caller import caller
from cclmark.recording.output import Output, print_lines, refuse_to_lose
from cclmark.recording.resuming import InPlan, Repetition, Resumed
from cclmark.recording.run_files import new_journal
from cclmark.rendezvous.messages import RankStatus
from cclmark.work.items import Item
from cclmark.work.variants import Varied

_START_S = 2.0  # of ranks, usually; for the plan of --dry-run
_NO_VIEW = View()
_ERASE = "\r\x1b[K"
_DUMB = ("", "dumb", "unknown")  # values of TERM: terminals that obey no control sequences


class StatusLine:
    """The line on ``stream``. Shows nothing on a stream that is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_watched = stream.isatty() and os.environ.get("TERM", "") not in _DUMB
        self._shown = ""

    def show(self, text: str) -> None:
        """Replaces the line by ``text``, cut to the width of the terminal."""
        if not self.is_watched:
            return
        width = shutil.get_terminal_size().columns - 1  # a full line would begin another
        text = plain(text)[:width]
        if text != self._shown:
            self._write(_ERASE + text)
            self._shown = text

    def clear(self) -> None:
        """Removes the line before other output is printed."""
        if self._shown:
            self._write(_ERASE)
            self._shown = ""

    def _write(self, text: str) -> None:
        # A terminal that has gone ends the run elsewhere.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


_PATIENCE_S = 0.5  # a shorter pause needs no explanation
#: The seconds between lines of progress where there is no terminal; 0 for none.
EVERY = "CCLMARK_PROGRESS_S"
_USUAL_EVERY_S = 20.0


def every_s() -> float:
    """The seconds between lines of progress; infinite for none."""
    try:
        found_s = float(os.environ.get(EVERY, _USUAL_EVERY_S))
    except ValueError:
        return _USUAL_EVERY_S
    return found_s if found_s > 0 else math.inf


class Progress:
    """How far a run is: a line on a terminal when nothing was printed for a while, else a new line
    every 20 seconds.
    """

    def __init__(
        self,
        cases: Sequence[Item],
        cycles: int,
        began_s: float,
        stream: TextIO,
        *,
        is_hidden: bool = False,
    ) -> None:
        """``cases`` are of one cycle; ``cycles`` is 0 for a run without end."""
        self._cases = cases
        self._stream = stream
        self._every_s = math.inf if is_hidden else every_s()
        self._next_s = time.monotonic() + self._every_s
        self._first_s: float | None = None  # when the first case began
        self._planned = len(cases) * cycles
        self._done = 0
        self._began_s = began_s
        self._line = StatusLine(stream)
        # A pager on standard output owns the screen: nothing may be drawn over it.
        is_shown = self._line.is_watched and sys.stdout.isatty() and not is_hidden
        self._watched = is_shown and not debugged().name
        self._quiet_since_s = time.monotonic()

    def show(self, rank_status: RankStatus) -> None:
        """Shows the progress of rank 0."""
        now_s = time.monotonic()
        if self._first_s is None and rank_status.case_index >= 0:
            self._first_s = now_s
        if not self._line.is_watched:
            self._report(rank_status, now_s)
        elif self._watched and now_s - self._quiet_since_s >= _PATIENCE_S:
            self._line.show(self.describe(rank_status))

    def _report(self, rank_status: RankStatus, now_s: float) -> None:
        """Prints a new line after each interval."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        with suppress(OSError, ValueError):  # whoever read it has gone
            print(f"cclmark: {self._remaining(now_s)}{plain(rank_status.phase)}", file=self._stream)
            self._stream.flush()

    def _remaining(self, now_s: float) -> str:
        """The cases that are done, and when the others are expected to be."""
        took = clock_text(now_s - self._began_s)
        if not self._done or self._first_s is None:
            return f"{took}  "
        if self._done >= self._planned:  # also of a run without end, and of an adaptive one
            return f"{took}  {counted(self._done, 'case')} done  "
        left_s = (now_s - self._first_s) / self._done * (self._planned - self._done)
        end = datetime.now().astimezone() + timedelta(seconds=left_s)
        return (
            f"{took}  {self._done} of {self._planned} cases done, about {clock_text(left_s)} left, "
            f"until {end:%H:%M:%S}  "
        )

    def advance(self) -> None:
        """Counts a completed case."""
        self._done += 1

    @property
    def is_incomplete(self) -> bool:
        """Whether planned cases are missing; False for a run without end."""
        return self._done < self._planned

    def describe(self, rank_status: RankStatus) -> str:
        """Returns the time since the run began, the number of the case, and its phase.

        The most important part comes first: a terminal may be too narrow for the whole line.
        """
        words = [clock_text(time.monotonic() - self._began_s)]
        text = rank_status.phase
        if 0 <= rank_status.case_index < len(self._cases):
            number = self._done + 1
            if self._planned:
                # The last result may arrive before rank 0 reports its next phase.
                words.append(f"case {min(number, self._planned)} of {self._planned}")
            else:
                words.append(f"case {number}")
            text = f"{self._cases[rank_status.case_index].describe()}: {text}"
            if rank_status.batches:
                text += f", batch {rank_status.batches}"
        return "  ".join([*words, text])

    def clear(self) -> None:
        """Removes the line before other output is printed."""
        self._line.clear()
        self._quiet_since_s = time.monotonic()


_MOST_DOUBTS = 3


class Earlier(Protocol):
    """What an earlier run has measured, as far as the header of a run that continues it has it."""

    @property
    def header(self) -> Header:
        """The header of the earlier run."""

    @property
    def predecessor(self) -> Predecessor:
        """The predecessor for the header of this run."""

    def notices(self) -> list[str]:
        """Notices about what this run did not measure."""


class Recorder(Listener):
    """Receives the events of a run."""

    def __init__(
        self,
        journal: JournalWriter,
        output: Output,
        exporter_for_run: Callable[[], Exporter[Any]],
        request: Request,
        began_s: float,
        resumed: Resumed | None = None,
        repetition: Repetition | None = None,
        *,
        explain: bool = False,
        earlier: Earlier | None = None,
        is_quiet: bool = False,
    ) -> None:
        """``exporter_for_run``: creates the exporter, once the ranks were launched: they load their
        libraries while this process imports the modules of the format. ``explain``: explanations
        of the results follow. ``earlier``: trials that the measuring of an adaptive run reports
        again.
        """
        super().__init__()
        self._earlier = earlier
        self._is_quiet = is_quiet
        self._explains = explain
        self._explanations: dict[int, Explanation] = {}
        self._shows_later = False
        self._to_show: list[Result] = []
        self._repetition = repetition
        self._journal = journal
        self._output = output
        self._request = request
        self._resumed = resumed
        self._carried = resumed.in_plan() if resumed is not None else InPlan([], 1)
        self._exporter_for_run = exporter_for_run
        self._began_s = began_s
        self._started_at = time_text()
        self._notices: list[str] = []
        self._introduced = False
        self._wrong = False
        self._hung: dict[str, None] = {}
        #: The indices of the measured items.
        self.measured: set[int] = set()
        self._reasons: dict[str, None] = {}
        cycles = request.settings.cycles
        self._progress = Progress(
            request.items, cycles, began_s, sys.stderr, is_hidden=is_quiet or caller().is_silent
        )

    @cached_property
    def _exporter(self) -> Exporter[Any]:
        exporter = self._exporter_for_run()
        exporter.journal_path = shlex.quote(str(self._journal.path))
        return exporter

    def launched(self) -> None:
        """Creates the exporter."""
        _ = self._exporter

    def started(self, surroundings: Surroundings) -> None:
        """Writes the header, and the results that another run has measured before."""
        request = self._request
        placement = request.coordinator.placement if request.coordinator is not None else None
        header = Header(
            schema_version=SCHEMA_VERSION,
            run_id=uuid.uuid4().hex,
            cclmark_version=VERSION,
            started_at=self._started_at,
            command=[*map(readable, caller().command)]
            if self._repetition is None
            else self._repetition.command,
            machine=surroundings.machine,
            devices=surroundings.devices,
            links=surroundings.links,
            libraries=surroundings.libraries,
            environment=kept_environment(os.environ),
            settings=request.settings,
            relations=surroundings.relations,
            notices=surroundings.notices + self._notices,
            planned_cases=len(request.items),
            plan=request.outline,
            directory=readable(str(Path.cwd())),
            launcher=surroundings.launcher,
            launched=placement.processes if placement is not None else 0,
            hosts=surroundings.hosts,
        )
        news: list[str] = []
        continued = self._resumed or self._earlier
        if continued is not None:
            header.continues = continued.predecessor
            news += continued.notices() + surroundings_changed(continued.header, header)
        if self._repetition is not None:
            header.repeats = self._repetition.predecessor
            news += self._repetition.notices
            news += surroundings_changed(self._repetition.header, header)
        header.notices += news
        self._journal.write(header)
        self._introduced = True
        self._shows_later = self._explains and not self._exporter.explains_at_end
        if self._resumed is not None:  # before anything is printed, which may fail
            for result in self._resumed.remainder.carried:
                self._keep(result)
        beginning = self._exporter.begin(printable(header))
        self._print(beginning)
        shown = " ".join(beginning.split())
        is_silent = isinstance(self._exporter, Silent)
        for text in () if is_silent else (*self._request.warnings, *news):
            if " ".join(plain(text).split()) not in shown:  # not every format shows them
                self._progress.clear()
                tell(text)
        if self._resumed is not None:
            for result in self._carried.before_place(self._resumed.remainder.pending[0]):
                self._show(result)

    def result(self, result: Result) -> None:
        """Writes one result, and shows it after the carried results that precede it in the plan."""
        result = with_short_figures(result)  # what is shown is what the journal has
        self._keep(result)
        for one in [*self._carried.before(result), result]:
            self._show(one)

    def _keep(self, result: Result) -> None:
        self._journal.write(result)
        self._progress.advance()
        self._wrong |= result.status in ("wrong", "failed")
        if result.status in ("timeout", "died") and not self._request.kind.in_rounds:
            self._hung[result.reason] = None
        if result.is_measured:
            self.measured.add(result.index)
        else:
            self._reasons[result.reason] = None

    def _show(self, result: Result) -> None:
        if self._shows_later:
            self._to_show.append(result)
        else:
            self._print(self._exporter.add(printable(result)))

    def explanation(self, explanation: Explanation) -> None:
        """Writes what the library did for a case."""
        self._journal.write(explanation)
        self._explanations[explanation.index] = explanation
        self._exporter.explain(printable(explanation))

    def paths(self, paths: Paths) -> None:
        """Writes how a library connects the ranks."""
        self._journal.write(paths)
        self._exporter.connect(printable(paths))

    def trace(self, trace: Trace) -> None:
        """Writes what was traced."""
        self._journal.write(trace)

    @property
    def unexplained(self) -> set[int]:
        """The indices of the measured items that neither this run nor an earlier one explained."""
        carried = self._resumed.remainder.carried if self._resumed is not None else []
        known = {one.index for one in carried if one.explanation is not None}
        return self.measured - known - self._explanations.keys()

    def _show_explained(self) -> None:
        """Shows the results that waited for their explanations."""
        self._shows_later = False
        for result in self._to_show:
            if (found := self._explanations.get(result.index)) is not None:
                result.explain(found)
            self._show(result)
        self._to_show.clear()

    def condition(self, condition: Condition) -> None:
        """Writes the state of a device."""
        self._journal.write(condition)
        self._exporter.observe(printable(condition))

    def notice(self, text: str) -> None:
        """Keeps the notice for the header, or prints it at once after the header.

        Later attempts of a run repeat what the header contains: that is not printed again.
        """
        if self._introduced and text not in self._notices:
            self._progress.clear()
            tell(text)
        elif not self._introduced:
            self._notices.append(text)

    def progress(self, rank_status: RankStatus) -> None:
        """Shows the progress of the run on a terminal."""
        self._progress.show(rank_status)

    def finish(self, outcome: Outcome, *, quiet: bool = False, can_resume: bool = False) -> int:
        """Writes the footer, prints the path of the journal and returns the exit code.

        ``quiet``: neither messages nor the path are printed, as for a silent caller.
        ``can_resume``: whether the command has ``--resume``.
        """
        code = outcome.exit_code
        if code == EXIT_OK and self._hung:
            code = EXIT_DIED
        if code == EXIT_OK and self._wrong:
            code = EXIT_WRONG
        problems = [*outcome.problems, *self._doubts()]
        if code == EXIT_OK and problems:
            code = EXIT_MISSING
        if code == EXIT_OK and (self._output.failure or not self.measured):
            code = EXIT_MISSING
        footer = Footer(
            ended_at=time_text(),
            exit_code=code,
            duration_s=time.monotonic() - self._began_s,
            message=outcome.message,
            phases_s=outcome.phases_s,
            problems=problems,
            found=dict(outcome.found),
        )
        self._progress.clear()
        if self._introduced:
            self._journal.write(footer)
            try:
                for result in self._carried.rest():
                    self._show(result)
                self._show_explained()
                self._print(self._exporter.end(printable(footer)))
            except UnreadError:
                code = EXIT_INTERRUPTED  # the output has the reason, the journal the results
        if quiet or caller().is_silent:
            return code
        self._print_messages(outcome, problems, code, can_resume=can_resume)
        return code

    def _print_messages(
        self, outcome: Outcome, problems: Sequence[str], code: int, *, can_resume: bool
    ) -> None:
        """Prints what the output lacks, the path of the journal, and how to continue the run."""
        messages = [outcome.message, *problems, *self._hung, self._output.failure]
        if code == EXIT_MISSING and not self.measured:
            messages += [f"nothing was measured: {reason}" for reason in self._reasons]
        messages += self._unshown()
        for message in dict.fromkeys(messages):
            if message:
                tell(message)
        if self._introduced:
            path = self._journal.path
            if not self._is_quiet:
                tell(f"journal {path}", is_whole=True)
            ended_early = code in (EXIT_INTERRUPTED, EXIT_DIED) and self._progress.is_incomplete
            if can_resume and ended_early:
                tell(
                    f"the same command with --resume {shlex.quote(str(path))}, and another "
                    "--journal if it has one, measures what is missing"
                )

    def _doubts(self) -> list[str]:
        """Why explanations are doubtful, each with the number of its cases."""
        if not self._explains:
            return []
        reasons = Counter(one.reason for one in self._explanations.values() if one.is_doubtful)
        texts = [
            f"what ran in {counted(number, 'case')} is not certain: {reason}"
            for reason, number in reasons.items()
        ]
        more = len(texts) - _MOST_DOUBTS
        return texts[:_MOST_DOUBTS] + ([f"and {more} more: see the table"] if more > 0 else [])

    def _unshown(self) -> list[str]:
        """Returns the notices of the exporter, except reasons that are printed already."""
        if not self._introduced:
            return []
        printed = [*self._hung, *(self._reasons if not self.measured else [])]
        return [
            text
            for text in self._exporter.notices()
            if not any(reason and reason in text for reason in printed)
        ]

    def close(self) -> None:
        """Closes the journal; removes it if it has no header."""
        self._progress.clear()
        self._journal.close(keep=self._introduced)

    def _print(self, text: str) -> None:
        if text:
            self._progress.clear()
            self._output.write(text)


class Recorded(NamedTuple):
    """How a run ended. ``exit_code``: also by the results. ``results``: of a silent run."""

    exit_code: int
    outcome: Outcome
    results: Sequence[Result] = ()


class OutputFlags(Protocol):
    """The options ``--format``, ``-O`` and ``--journal``. Some commands also have ``--resume``."""

    format: str
    output: Path | None
    journal: Path | None


def record(
    request: Request,
    flags: OutputFlags | None = None,
    stem: str = "",
    *,
    view: View = _NO_VIEW,
    exporter_for: Callable[[View], Exporter[Any]] | None = None,
    journal: Path | None = None,
    began_s: float | None = None,
    explain: bool = False,
) -> Recorded:
    """Runs ``request``, with its results in a journal and on the screen.

    Without ``--journal``, the journal gets a new name that contains ``stem``. Results in the
    journal of ``--resume`` are not measured again. ``view``: how results are shown, without the
    colours and columns of the output; ``exporter_for``: creates the exporter, by default that of
    the kind and ``--format``. ``journal``: in place of ``--journal``. ``began_s``: the beginning of
    a run without a coordinator, by default now; a part of a run, without ``flags``, begins now.
    ``explain``: afterwards, observe what the libraries do for the measured cases. Without
    ``flags``, nothing is printed, neither results nor messages, as for a silent caller.

    Raises UsageError if one of these files cannot be used.
    """
    request = replace(request, explained=explain)
    if request.coordinator is not None and flags is not None:
        began_s = request.coordinator.began_s
    elif began_s is None:
        began_s = time.monotonic()
    output = None if flags is None else flags.output
    resume: Path | None = getattr(flags, "resume", None)
    is_within = flags is None
    silent = Silent() if is_within or caller().is_silent else None

    def exporter_of_run(view: View) -> Exporter[Any]:
        if silent is not None or flags is None:
            return silent or Silent()
        if exporter_for is not None:
            return exporter_for(view)
        from cclmark.document.exporters import exporter_of  # see Recorder

        return exporter_of(request.kind, flags.format, view)

    if getattr(flags, "dry_run", False):
        print_lines(planned_lines(request))
        return Recorded(EXIT_OK, Outcome(EXIT_OK))
    resumed = Resumed.read(resume, request) if resume is not None else None
    refuse_to_lose(output, [resume] if resume is not None else [])
    printed = Output(output, is_wide=getattr(flags, "wide", False))
    view = replace(
        view,
        paint=printed.view.paint,
        columns=printed.columns,
        fields=getattr(flags, "columns", ()),
        numbers=getattr(flags, "numbers", False),
    )
    if view.fields:
        exporter_of_run(view)  # which raises an error while nothing has been written
    try:
        if resumed is not None:
            if not resumed.remainder.pending:
                code = _print_again(resumed, exporter_of_run(view), printed)
                return Recorded(code, Outcome(code))
            request = replace(
                request, pending=resumed.remainder.pending, carried=resumed.remainder.carried
            )
        place = journal or (flags and flags.journal) or new_journal(stem)
        with recording(
            *(place, printed, partial(exporter_of_run, view), request, began_s, resumed, explain),
            within=is_within,
            is_quiet=getattr(flags, "quiet", False),
        ) as recorder:
            outcome = launch_items(request, recorder)
            if explain and outcome.exit_code == EXIT_OK:
                wanted = recorder.unexplained if request.explains_at_end else recorder.measured
                outcome = explain_items(request, wanted, recorder, outcome)
            code = recorder.finish(outcome, quiet=is_within, can_resume=hasattr(flags, "resume"))
            return Recorded(code, outcome, () if silent is None else silent.results)
    finally:
        printed.close()


@contextlib.contextmanager
def recording(
    journal: Path,
    output: Output,
    exporter_for_run: Callable[[], Exporter[Any]],
    request: Request,
    began_s: float,
    resumed: Resumed | None = None,
    explain: bool = False,
    *,
    within: bool = False,
    earlier: Earlier | None = None,
    is_quiet: bool = False,
) -> Iterator[Recorder]:
    """A recorder with the new file ``journal``. Raises UsageError if it cannot be created.

    On a signal, the ranks' supervisor ends the run, so that the journal is kept. ``within``: the
    run is a part of another one, which alone repeats a journal's run.
    """
    repetition = None if within else Repetition.at_hand()
    with deferred():
        written = JournalWriter(journal)
        if repetition is not None:
            repetition.journal = written.path
        recorder = Recorder(
            *(written, output, exporter_for_run, request, began_s, resumed, repetition),
            explain=explain,
            earlier=earlier,
            is_quiet=is_quiet,
        )
        with contextlib.closing(recorder):
            yield recorder


def _print_again(resumed: Resumed, exporter: Exporter[Any], output: Output) -> int:
    """Shows a complete journal; writes no new one."""
    output.write(exporter.begin(printable(resumed.header)))
    for result in resumed.in_plan().rest():
        output.write(exporter.add(printable(result)))
    output.write(exporter.end(printable(resumed.footer)))
    for text in exporter.notices():
        tell(text)
    tell(f"{resumed.path} is already complete; nothing to measure")
    return EXIT_MISSING if output.failure else resumed.exit_code()


def planned_lines(request: Request) -> list[str]:
    """Returns what would be measured, and how long it takes at most."""
    items = list(getattr(request.items, "distinct", request.items))
    settings, number, usual_s = request.settings, len(items), request.kind.usual_s
    cycles = f" in each of {counted(settings.cycles, 'cycle')}" if settings.cycles > 1 else ""
    cycles = " again and again, without end" if not settings.cycles else cycles
    time_text = "how long each takes depends on the machine"
    is_sampled = request.kind.report().has_times or request.kind.requires_variant
    if usual_s and settings.iterations is None:
        time_text = f"about {clock_text(number * usual_s + _START_S)} on a host of two processors"
    elif settings.max_time_s and is_sampled and settings.iterations is None:
        time_text = f"each is measured for at most {settings.max_time_s:g} s"
        if settings.cycles:
            longest_s = settings.max_time_s * number * settings.cycles
            time_text += f", all of them for at most {clock_text(longest_s)}"
    if request.kind.in_rounds:
        rounds = by_key((item.round, item) for item in cast("Sequence[Varied]", items))
        starts = sum(starts_of(own).processes for own in rounds.values())
        time_text += f"; ranks start {counted(starts, 'time')}, which takes seconds each"
    return [
        f"{counted(number, 'case')}{cycles}; {time_text}",
        *(f"  {plain(item.describe())}" for item in items),
    ]


def unused(directory: Path, stem: str) -> Path:
    """A new name for such a journal, beside those of interrupted runs: ``stem``, ``stem-1``, …"""
    names = (f"{stem}{f'-{number}' if number else ''}.jsonl" for number in count())
    return next(path for name in names if not (path := directory / name).exists())


class Silent(Exporter[Result]):
    """A format without text, which keeps the results."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    def begin(self, header: Header) -> str:
        """Returns nothing."""
        return ""

    def add(self, result: Result) -> str:
        """Keeps the result."""
        self.results.append(result)
        return ""

    def end(self, footer: Footer | None) -> str:
        """Returns nothing."""
        return ""
