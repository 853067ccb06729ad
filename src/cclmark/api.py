"""The Python API: runs as values.

``measure`` and ``open`` return a ``Run``, ``compare`` two of them side by side. Nothing is printed,
drawn or started on import. The command line writes the same journals: a run of either is opened by
the other.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cclmark.base.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_WRONG,
    CclmarkError,
    Followed,
    MissingError,
    OutputError,
    RankError,
    RefusedError,
    UsageError,
)
from cclmark.base.signals import within_program
from cclmark.comparison.comparison_document import comparison_document
from cclmark.comparison.figures import MARGIN, Compared, Side
from cclmark.comparison.words import Comparison, comparison_of, require_figures
from cclmark.document.blocks import Finding
from cclmark.document.document_text import MarkdownLines, TextLines
from cclmark.document.exporters import formats_of
from cclmark.document.naming import NamedRun
from cclmark.document.remarks import lacking
from cclmark.document.report_kind import View
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import Journal
from cclmark.journal.page_journals import stem_of
from cclmark.journal.schema import Header
from cclmark.kinds.registry import KINDS, parse_journal, read_journal
from cclmark.launch.placement import STEP_VARIABLE, find_placement
from cclmark.recording.caller import Caller, called_by, in_python
from cclmark.report.exports import replayed
from cclmark.report.overview import headline, insights, measured_words, verdict, verdict_rows

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from cclmark.options.command import Action

#: Of a row that has no figures, although it was to be measured.
_FAILED = ("timeout", "died", "error", "failed")
_MARKS = {"bad": "✗", "look": "!", "unknown": "?", "good": "✓", "note": "·"}


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """What a journal holds: its header, its results, and what they mean.

    ``name``: in comparisons and pages. ``path``: the journal; None if it was not kept.
    """

    journal: Journal
    name: str
    path: Path | None = None

    @property
    def header(self) -> Header:
        """The command, the machine, devices, links, libraries and settings."""
        return self.journal.header

    @property
    def kind(self) -> str:
        """The kind of work: ``collective``, ``p2p``, ``overlap``, …"""
        return self.journal.kind

    @property
    def rows(self) -> Sequence[Result]:
        """The typed results, in the order of their measurement. Times are in seconds, sizes bytes.

        For collectives: ``row.case`` (operation, size_bytes, dtype, …), ``row.summary`` (time_s,
        busbw_bytes_per_s, …; None if it was not measured), ``row.samples``, ``row.verification``.
        """
        return self.journal.results

    @property
    def partial(self) -> bool:
        """Whether the run ended early, an item failed, or a line of the journal is unreadable."""
        failed = any(row.status in _FAILED for row in self.rows)
        return failed or bool(lacking(self.journal))

    @cached_property
    def findings(self) -> Sequence[Finding]:
        """The findings, the most severe first: id, severity, sentence, evidence, see Finding."""
        return insights(self._named)

    @property
    def formats(self) -> Sequence[str]:
        """The formats of ``text``."""
        return formats_of(KINDS[self.kind])

    def text(
        self, format: str = "table", *, columns: Sequence[str] = (), width: int | None = None
    ) -> str:
        """The run as ``cclmark export --format`` writes it.

        ``columns``: a row for each result with these fields; empty for the whole run. ``width``:
        characters of a line of a table. Raises UsageError for a format that the kind of work does
        not have, and for unknown fields.
        """
        if format not in self.formats:
            raise UsageError(
                f"{self.name} has no format {format!r}: choose from {', '.join(self.formats)}"
            )
        path = "" if self.path is None else str(self.path)
        view = View(columns=width, fields=columns)
        with in_python({"--columns": "columns="}):
            return "".join(replayed(self.journal, format, view, path=path))

    def html(self, title: str = "") -> str:
        """The page of ``cclmark report``, one file."""
        from cclmark.document.page.page import render
        from cclmark.report.run_page import page_of

        return render(page_of([self._named], title))

    def compare(self, other: Run, *, margin: float = MARGIN) -> RunComparison:
        """The times of ``other`` beside those of this run, see ``cclmark.compare``."""
        return compare(self, other, margin=margin)

    def to_arrow(self, table: str = "cases") -> pyarrow.Table:
        """The rows as ``cclmark export --format parquet`` writes them.

        ``table``: ``cases``, ``samples`` for the raw times, or ``steps``. Raises MissingError
        without pyarrow, UsageError for a table that the kind does not have.
        """
        from cclmark.report.exports import arrow_table, chosen_table

        return arrow_table(chosen_table([(self.name, self.journal)], table))

    def to_pandas(self, table: str = "cases") -> pandas.DataFrame:
        """The same as a frame of pandas. Raises MissingError without pyarrow or pandas."""
        try:
            import pandas  # noqa: F401 - which pyarrow imports without a message of ours
        except ImportError:
            raise MissingError("to_pandas needs pandas: pip install pandas") from None
        return self.to_arrow(table).to_pandas()

    def to_polars(self, table: str = "cases") -> polars.DataFrame:
        """The same as a frame of polars. Raises MissingError without pyarrow or polars."""
        try:
            import polars
        except ImportError:
            raise MissingError("to_polars needs polars: pip install polars") from None
        frame: polars.DataFrame = polars.from_arrow(self.to_arrow(table))
        return frame

    @property
    def _named(self) -> NamedRun:
        return NamedRun(self.name, self.journal, path="" if self.path is None else str(self.path))

    def __repr__(self) -> str:
        """The verdict: what was measured, the main figure, and what stands out."""
        return "\n".join(self._verdict())

    def _verdict(self) -> Iterator[str]:
        yield measured_words(self.journal)
        run = self._named
        for label, text in verdict_rows(run, verdict(run), on_page=False):
            yield f"  {label}: {text}"
        if figure := headline(self._named):
            yield f"  {figure}"
        for one in self.findings:
            yield f"  {_MARKS[one.severity]} {one.sentence}"

    def _repr_html_(self) -> str:
        """The verdict above the table of the run, for notebooks."""
        first, *rest = self._verdict()
        lines = "".join(f"<li>{escape(line.strip())}</li>" for line in rest)
        table = escape(self.text("table"))
        return f"<p><b>{escape(first)}</b></p><ul>{lines}</ul><pre>{table}</pre>"


@dataclass(frozen=True, repr=False, eq=False)
class RunComparison:
    """The times of runs before and after a change, judged by their noise.

    ``comparison``: figures and words, as ``cclmark compare`` prints them.
    """

    comparison: Comparison
    sides: tuple[Sequence[Run], Sequence[Run]] = field(default=((), ()))

    @property
    def rows(self) -> Sequence[Compared]:
        """The cases of both sides: ratio (after over before), low, high and verdict."""
        return self.comparison.found

    def text(self) -> str:
        """What ``cclmark compare`` prints."""
        return TextLines(View()).whole(comparison_document(self.comparison))

    def markdown(self) -> str:
        """The same as Markdown."""
        return MarkdownLines(View()).whole(comparison_document(self.comparison))

    def __repr__(self) -> str:
        """The same as ``text``."""
        return self.text().rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text())}</pre>"


def open(path: str | os.PathLike[str]) -> Run:
    """Opens a journal, complete or truncated, or the page of a report.

    ``path``: ``"PAGE.html#RUN"`` for one of the runs of a page with several. Raises UsageError if
    it cannot be read.
    """
    place = Path(path)
    return Run(read_journal(place), stem_of(str(place)), place)


def compare(
    before: Run | Sequence[Run], after: Run | Sequence[Run], *, margin: float = MARGIN
) -> RunComparison:
    """Compares the times of runs before and after a change.

    Several runs of a side are one: their noise from run to run is known then. ``margin``: the
    largest difference that does not matter, as a share. Raises UsageError for runs without times.
    """
    sides = tuple([one] if isinstance(one, Run) else list(one) for one in (before, after))
    if not all(sides):
        raise UsageError("each side of a comparison needs at least one run")
    if not all(isinstance(one, Run) for side in sides for one in side):
        raise UsageError("compare takes runs: cclmark.open(path) makes one of a journal")
    for run in (run for side in sides for run in side):
        require_figures(run.journal, run.name)
    there, here = (
        Side(side[0].name, [one.journal for one in side], [*_incomplete(side)]) for side in sides
    )
    return RunComparison(comparison_of(there, here, margin), (sides[0], sides[1]))


def _incomplete(side: Sequence[Run]) -> Iterator[str]:
    for one in side:
        yield from (f"{one.name}: {text}" for text in lacking(one.journal))


@dataclass(frozen=True)
class _Call:
    """A call of ``measure``. ``words``: the command line that measures the same.

    ``names``: of its arguments, by the options of the command.
    """

    path: str
    words: Sequence[str]
    flags: Any
    run: Action
    journal: str | os.PathLike[str] | None
    names: Mapping[str, str]

    @classmethod
    def of(
        cls,
        arguments: Sequence[str],
        sizes: str | int,
        journal: str | os.PathLike[str] | None,
        options: Mapping[str, Any],
    ) -> _Call:
        """The call with its checked options. Raises UsageError."""
        from cclmark.cli.commands import measuring_command
        from cclmark.options.python_call import argument_names, parsed_call

        path, command, rest, options = measuring_command(arguments, options)
        words, flags = parsed_call(path, command, rest, sizes, options)
        return cls(path, words, flags, command.run, journal, argument_names(command))

    def recorded(self, path: Path, step: int | None = None) -> Journal:
        """Measures and reads the journal. Raises the error of a run without figures."""
        caller = Caller(self.words, step, is_silent=True)
        try:
            with in_python(self.names), within_program(), called_by(caller):
                recorded: Any = self.run(replace(self.flags, journal=path))
        except CclmarkError as error:
            if error.exit_code == EXIT_INTERRUPTED:
                raise KeyboardInterrupt(str(error)) from None
            raise
        code, message = recorded.exit_code, recorded.outcome.message
        if code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt(message)
        journal = read_journal(path) if path.exists() else None
        rows = [] if journal is None else journal.results
        is_measured = any(row.is_measured for row in rows)
        if journal is None or (code not in (EXIT_OK, EXIT_WRONG) and not is_measured):
            footer = journal and journal.footer
            reasons = [*(footer.problems if footer else ()), *(row.reason for row in rows)]
            message = message or "; ".join(dict.fromkeys(filter(None, reasons)))
            kind = next((one for one in _ERRORS.values() if one.exit_code == code), RankError)
            raise kind(message or "nothing was measured")
        return journal

    def run_of(self, journal: Journal, *, kept: bool = True) -> Run:
        """The run of the journal. ``kept``: this process keeps it."""
        if self.journal is None:
            return Run(journal, self.path)
        place = Path(self.journal)
        return Run(journal, place.stem, place if kept else None)


def measure(
    *arguments: str,
    sizes: str | int = "",
    journal: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Run:
    """Measures on the devices of this machine what a command measures, and checks the output.

    ``arguments``: operations of collectives, ``all_reduce``, …, all of them without any; or another
    command of ``cclmark`` that measures, and its arguments: ``"p2p"``, ``"overlap", "all_reduce"``,
    ``"torch objects"``, … ``sizes``: one size, a range (``8:1G``; an empty part is the default), or
    a range with its factor (``8:1G:4``). ``options``: those of the command by name, see
    ``measure_options``: ``devices="host:4"``, ``ccl="nccl,shm"``, ``dtype="bfloat16"``,
    ``count=2``, ``timing="graph"``, ``precision_percent=1.0``, … ``journal``: a new file that keeps
    the run.

    The ranks are processes of their own. Raises UsageError for invalid options, MissingError for
    devices or libraries that are not there, RankError if ranks fail before anything was measured. A
    run that failed later is returned: its findings say so. Raises KeyboardInterrupt if it is
    interrupted; what was measured is in ``journal``.
    """
    call = _Call.of(arguments, sizes, journal, options)
    if find_placement(os.environ) is not None:
        raise UsageError(
            "measure starts its ranks itself, and this process was started by a launcher: use "
            "cclmark.session, or run `cclmark` under the launcher and cclmark.open its journal"
        )
    with _journal_path(journal) as path:
        return call.run_of(call.recorded(path))


@contextmanager
def session(group: Any = None) -> Iterator[Session]:
    """Measures within a program that a launcher has started with several processes.

    ``group``: the process group of torch.distributed through which results are shared, by default a
    new one of gloo between all processes, which exists until the end of the context. The default
    group is not changed. All processes enter the context and call its methods alike.

    Raises UsageError if there is a launcher, but no process group.
    """
    placement = find_placement(os.environ)
    dist = sys.modules.get("torch.distributed")
    is_joined = dist is not None and dist.is_available() and dist.is_initialized()
    if placement is None:
        if is_joined and dist is not None and dist.get_world_size() > 1:
            raise UsageError(
                "this process is one of several, but the variables of no launcher say so: start "
                "the program with torchrun, mpirun or srun"
            )
        yield Session(None, 0, 1)
        return
    if not is_joined or dist is None:
        raise UsageError(
            f"{placement.launcher} started {placement.processes} processes: call "
            "torch.distributed.init_process_group before cclmark.session"
        )
    own = dist.new_group(backend="gloo") if group is None else group
    try:
        place = dist.get_rank(own), dist.get_world_size(own)
        if place != (placement.process, placement.processes):
            raise UsageError(
                f"this is process {placement.process} of {placement.processes} of "
                f"{placement.launcher}, and rank {place[0]} of {place[1]} of the group: they have "
                "to be the same"
            )
        yield Session(own, *place)
    finally:
        if group is None:
            dist.destroy_process_group(own)


class Session:
    """The processes of a program, whose methods all call together. ``rank``: of ``size``."""

    def __init__(self, group: Any, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._group = group
        self._steps = 0

    def measure(
        self,
        *arguments: str,
        sizes: str | int = "",
        journal: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Run:
        """Measures between the devices of all processes, see ``cclmark.measure``.

        Collective: every process calls it with the same arguments, and every process gets the same
        run, or the same error. The ranks are processes beside those of the program, on the same
        devices. The first process keeps ``journal``. Raises UsageError for commands that a launcher
        cannot start.
        """
        if self._group is None:
            return measure(*arguments, sizes=sizes, journal=journal, **options)
        error, call = "", None
        try:
            call = _Call.of(arguments, sizes, journal, options)
        except UsageError as refusal:
            error = str(refusal)
        self._agree(error, repr(call and (call.words, journal)))
        assert call is not None  # else all processes have raised the error
        self._steps += 1
        with _journal_path(journal) as path:
            recorded = self._broadcast(lambda: self._recorded(call, path))
        return call.run_of(parse_journal(recorded.splitlines(), "run"), kept=self.rank == 0)

    def _agree(self, error: str, request: str) -> None:
        """Raises UsageError in all processes if one has an error, or if their requests differ."""
        answers = [json.loads(one) for one in self._gathered(json.dumps([error, request]).encode())]
        for rank, (text, _) in enumerate(answers):
            if text:
                raise UsageError(f"process {rank}: {text}")
        for rank, (_, other) in enumerate(answers):
            if other != answers[0][1]:
                raise UsageError(
                    f"process {rank} called measure with other arguments than process 0: call it "
                    "alike in all processes"
                )

    def _recorded(self, call: _Call, path: Path) -> bytes:
        """The journal, in the first process; the others do their part, and have none."""
        step = os.environ.get(STEP_VARIABLE, "")
        first = int(step) if step.isdecimal() else 0
        try:
            call.recorded(path, first + self._steps)
            return path.read_bytes()
        except Followed as end:
            if end.exit_code == EXIT_INTERRUPTED:
                raise KeyboardInterrupt from None
            return b""

    def _broadcast(self, content_of: Callable[[], bytes]) -> bytes:
        """What the first process has, in all of them, or the error that it has instead."""
        content, failure = b"", None
        try:
            content = content_of()
        except BaseException as error:  # the other processes wait for an answer
            failure = error
        name = type(failure).__name__ if isinstance(failure, CclmarkError) else "RankError"
        if isinstance(failure, KeyboardInterrupt):
            name = KeyboardInterrupt.__name__
        own = ["", ""] if failure is None else [name, str(failure) or type(failure).__name__]
        answers = [json.loads(one) for one in self._gathered(json.dumps(own).encode())]
        if failure is not None and not isinstance(failure, CclmarkError):
            raise failure
        for name, message in answers:
            if name == KeyboardInterrupt.__name__:
                raise KeyboardInterrupt(message)
            if name:
                raise _ERRORS.get(name, RankError)(message)
        return self._gathered(content)[0]

    def _gathered(self, content: bytes) -> list[bytes]:
        """The content of every process, as bytes: nothing is unpickled."""
        import torch
        import torch.distributed as dist

        length = torch.tensor([len(content)])
        lengths = [torch.zeros_like(length) for _ in range(self.size)]
        dist.all_gather(lengths, length, group=self._group)
        longest = max(int(one) for one in lengths)
        own = torch.zeros(max(longest, 1), dtype=torch.uint8)
        if content:
            own[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        all_of_them = [torch.zeros_like(own) for _ in range(self.size)]
        dist.all_gather(all_of_them, own, group=self._group)
        return [
            bytes(one[: int(size)].tolist()) for one, size in zip(all_of_them, lengths, strict=True)
        ]


@contextmanager
def _journal_path(journal: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The place of a journal; of one that is not kept, until the end of the context."""
    if journal is not None:
        yield Path(journal)
        return
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / f"{uuid.uuid4().hex}.jsonl"


_ERRORS: dict[str, type[CclmarkError]] = {
    one.__name__: one for one in (UsageError, MissingError, RankError, RefusedError, OutputError)
}


def measure_options(command: str = "all_reduce") -> dict[str, str]:
    """The options of ``measure`` for a command by name, with their command-line option and help."""
    from cclmark.cli.commands import measuring_command
    from cclmark.options.python_call import named_options

    _, found, _, _ = measuring_command([command], {})
    return {
        name: f"{', '.join(one.opts)}: {one.help}"
        for name, one in named_options(found).items()
        if not one.hidden
    }
