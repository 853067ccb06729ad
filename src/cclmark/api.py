"""The Python API: runs as values.

``measure`` and ``open`` return a ``Run``, ``compare`` two of them side by side. Nothing is printed,
drawn or started on import. The command line writes the same journals: a run of either is opened by
the other.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cclmark.comparison.figures import MARGIN, Compared, Side
from cclmark.comparison.words import (
    Comparison,
    comparison_lines,
    comparison_markdown,
    comparison_of,
    require_figures,
)
from cclmark.document.exporters import formats_of
from cclmark.document.insight_words import Insight
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.remarks import lacking
from cclmark.errors import CclmarkError, Followed, MissingError, RankError, UsageError
from cclmark.kinds.registry import KINDS, parse_journal, read_journal
from cclmark.launch.placement import STEP_VARIABLE, find_placement
from cclmark.plan.operations import COLLECTIVES
from cclmark.report.journal_text import replayed
from cclmark.report.overview import headline, insights, measured_words
from cclmark.results.item_results import Result
from cclmark.results.journal import Journal
from cclmark.results.schema import Header

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from cclmark.launch.coordinator import Coordinator
    from cclmark.options.flags import Flags

_MARKS = {"bad": "✗", "look": "!", "good": "✓", "note": "·"}


@dataclass(frozen=True, repr=False)
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
        """Whether the run ended early, or a part of its journal cannot be read."""
        return bool(lacking(self.journal))

    @cached_property
    def findings(self) -> Sequence[Insight]:
        """The findings, the most severe first: kind (bad, look, good, note), text and advice."""
        return insights(self._named)

    @property
    def formats(self) -> Sequence[str]:
        """The formats of ``text``."""
        return formats_of(KINDS[self.kind])

    def text(self, format: str = "table", *, columns: int | None = None) -> str:
        """The run as ``cclmark export --format`` writes it. ``columns``: the width of a table.

        Raises UsageError for a format that the kind of work does not have.
        """
        if format not in self.formats:
            raise UsageError(
                f"{self.name} has no format {format!r}: choose from {', '.join(self.formats)}"
            )
        return "".join(replayed(self.journal, format, columns=columns))

    def html(self, title: str = "") -> str:
        """The page of ``cclmark report``: one file without external resources.

        Raises MissingError if plotly is not installed.
        """
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
        return NamedRun(self.name, self.journal, ReferenceNotes())

    def __repr__(self) -> str:
        """The verdict: what was measured, the main figure, and what stands out."""
        return "\n".join(self._verdict())

    def _verdict(self) -> Iterator[str]:
        yield measured_words(self.journal)
        if figure := headline(self._named):
            yield f"  {figure}"
        for one in self.findings:
            yield f"  {_MARKS[one.kind]} {one.text}"

    def _repr_html_(self) -> str:
        """The verdict above the table of the run, for notebooks."""
        first, *rest = self._verdict()
        lines = "".join(f"<li>{escape(line.strip())}</li>" for line in rest)
        table = escape(self.text("table"))
        return f"<p><b>{escape(first)}</b></p><ul>{lines}</ul><pre>{table}</pre>"


@dataclass(frozen=True, repr=False)
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
        return "\n".join(comparison_lines(self.comparison)) + "\n"

    def markdown(self) -> str:
        """The same as Markdown."""
        return comparison_markdown(self.comparison)

    def __repr__(self) -> str:
        """The same as ``text``."""
        return self.text().rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text())}</pre>"


def open(path: str | os.PathLike[str]) -> Run:
    """Opens a journal, complete or truncated. Raises UsageError if it cannot be read."""
    place = Path(path)
    return Run(read_journal(place), place.stem, place)


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
    for run in (run for side in sides for run in side):
        require_figures(run.journal, run.name)
    there, here = (
        Side(side[0].name, [one.journal for one in side], [*_incomplete(side)]) for side in sides
    )
    return RunComparison(comparison_of(there, here, margin), (sides[0], sides[1]))


def _incomplete(side: Sequence[Run]) -> Iterator[str]:
    for one in side:
        yield from (f"{one.name}: {text}" for text in lacking(one.journal))


def measure(
    *operations: str,
    sizes: str = "",
    journal: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Run:
    """Measures collectives on the devices of this machine, and checks their output.

    ``operations``: ``all_reduce``, …; all collectives without any. ``sizes``: one size, a range
    (``8:1G``), or a range with its factor (``8:1G:4``). ``options``: those of ``cclmark
    all_reduce`` by name: ``devices="host:4"``, ``ccl="nccl,shm"``, ``dtype="bfloat16"``,
    ``count=2``, ``timing="graph"``, ``precision_percent=1.0``, …; ``measure_options()`` lists them.
    ``journal``: a new file that keeps the run.

    The ranks are processes of their own. Raises UsageError for invalid options, MissingError for
    devices or libraries that are not there, RankError if ranks fail before anything was measured. A
    run that failed later is returned: its findings say so.
    """
    names, flags = _checked(operations, sizes, options)
    if find_placement(os.environ) is not None:
        raise UsageError(
            "measure starts its ranks itself, and this process was started by a launcher: use "
            "cclmark.session, or run `cclmark` under the launcher and cclmark.open its journal"
        )
    from cclmark.launch.coordinator import coordinator_of_one
    from cclmark.launch.devices import choose_devices
    from cclmark.options.chosen_devices import devices_text
    from cclmark.recording.joining import devices_here

    devices = choose_devices(devices_text(flags), flags.count, devices_here)
    with _place_of(journal) as path, coordinator_of_one(devices) as coordinator:
        found = _recorded(names, flags, coordinator, path)
    return Run(found, _title(names), None if journal is None else path)


@contextmanager
def session(group: Any = None) -> Iterator[Session]:
    """Measures within a program that a launcher has started with several processes.

    ``group``: the process group of torch.distributed through which results are shared, by default a
    new one of gloo between all processes, which exists until the end of the context. The default
    group is not changed. All processes enter the context and call its methods alike.

    Raises UsageError if there is a launcher, but no process group.
    """
    placement = find_placement(os.environ)
    if placement is None or placement.processes == 1:
        yield Session(None, 0, 1)
        return
    try:
        import torch.distributed as dist
    except ImportError:
        raise UsageError(
            "cclmark.session shares results by torch.distributed: install torch"
        ) from None
    if not dist.is_available() or not dist.is_initialized():
        raise UsageError(
            f"{placement.launcher} started {placement.processes} processes: call "
            "torch.distributed.init_process_group before cclmark.session"
        )
    own = dist.new_group(backend="gloo") if group is None else group
    try:
        yield Session(own, placement.process, placement.processes)
    finally:
        if group is None:
            dist.destroy_process_group(own)


@dataclass(frozen=True)
class Session:
    """The processes of a program, which call each method together: see ``session``.

    ``rank``: the number of this process of ``size``.
    """

    _group: Any
    rank: int
    size: int

    def measure(
        self,
        *operations: str,
        sizes: str = "",
        journal: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Run:
        """Measures collectives between the devices of all processes, see ``cclmark.measure``.

        Collective: every process calls it with the same arguments, and every process gets the same
        run, or the same error. The ranks are processes beside those of the program, on the same
        devices. The first process keeps ``journal``.
        """
        names, flags = _checked(operations, sizes, options)
        if self._group is None:
            return measure(*operations, sizes=sizes, journal=journal, **options)
        with _place_of(journal) as path:
            answer = self._shared(lambda: self._first(names, flags, path))
        if isinstance(answer, CclmarkError):
            raise answer
        found = parse_journal(answer.splitlines(), _title(names))
        return Run(found, _title(names), None if journal is None or self.rank else path)

    def _first(self, names: Sequence[str], flags: Flags, path: Path) -> bytes | CclmarkError:
        """The journal, in the first process; the others do their part, and have none."""
        from cclmark.options.chosen_devices import device_count, devices_text
        from cclmark.recording.joining import joined

        # Processes of one launcher distinguish their runs by this number.
        step = os.environ.get(STEP_VARIABLE, "0")
        os.environ[STEP_VARIABLE] = str(int(step) + 1 if step.isdecimal() else 1)
        try:
            with joined(
                lambda: devices_text(flags), device_count(flags), flags.timeout_s
            ) as coordinator:
                _recorded(names, flags, coordinator, path)
                return path.read_bytes()
        except Followed:
            return b""
        except CclmarkError as error:
            return error

    def _shared(self, first: Callable[[], bytes | CclmarkError]) -> bytes | CclmarkError:
        """What the first process of the group has found, in all of them."""
        import torch.distributed as dist

        found = first()
        content = [(type(found).__name__, str(found)) if isinstance(found, Exception) else found]
        dist.broadcast_object_list(content, group=self._group, group_src=0)
        if isinstance(content[0], tuple):
            name, message = content[0]
            return next(one for one in _ERRORS if one.__name__ == name)(message)
        return content[0]


def _checked(
    operations: Sequence[str], sizes: str, options: Mapping[str, Any]
) -> tuple[list[str], Flags]:
    """The operations and the flags of a measurement. Raises UsageError."""
    from cclmark.kinds.collective.command import OperationFlags
    from cclmark.options.option_values import check_limits

    unknown = sorted(set(options) - set(measure_options()))
    if unknown:
        raise UsageError(
            f"measure has no option {', '.join(unknown)}: choose from "
            f"{', '.join(measure_options())}"
        )
    names = list(operations) or list(COLLECTIVES)
    for name in names:
        if name not in COLLECTIVES:
            raise UsageError(f"unknown operation {name!r}: choose from {', '.join(COLLECTIVES)}")
    flags = OperationFlags(**_sizes(sizes), **options)
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    return names, flags


def _title(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "collectives"


@contextmanager
def _place_of(journal: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The place of a journal; of one that is not kept, until the end of the context."""
    if journal is not None:
        yield Path(journal)
        return
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / f"{uuid.uuid4().hex}.jsonl"


def _recorded(names: Sequence[str], flags: Flags, coordinator: Coordinator, path: Path) -> Journal:
    """Measures and reads the journal. Raises the error of a run without results."""
    from cclmark.kinds.collective.kind import KIND
    from cclmark.options.case_request import request_of
    from cclmark.recording.recorder import measure_part

    request, _ = request_of(KIND, list(names), flags, coordinator)
    _, outcome = measure_part(request, path)
    coordinator.exit_code = outcome.exit_code
    failure = next((one for one in _ERRORS if one.exit_code == outcome.exit_code), None)
    found = read_journal(path) if path.exists() else None
    if found is None or (failure is not None and not found.results):
        raise (failure or RankError)(outcome.message)
    return found


_ERRORS: tuple[type[CclmarkError], ...] = (UsageError, MissingError, RankError, CclmarkError)
#: Options that belong to the terminal, or to a journal that is continued.
_OF_TERMINAL = frozenset(
    {"begin", "end", "factor", "format", "output", "references", "journal", "resume", "like"}
    | {"explain", "pieces", "duration", "summary_every", "npus"}
)


def measure_options() -> list[str]:
    """The options of ``measure`` by name, as ``cclmark all_reduce --help`` explains them."""
    from cclmark.kinds.collective.command import OperationFlags

    return [one.name for one in fields(OperationFlags) if one.name not in _OF_TERMINAL]


def _sizes(text: str) -> dict[str, Any]:
    """The flags of ``8``, ``8:1G`` or ``8:1G:4``. Raises UsageError."""
    parts = text.split(":") if text else []
    if len(parts) > 3 or not all(parts):
        raise UsageError(f"sizes={text!r}: write SIZE, BEGIN:END or BEGIN:END:FACTOR")
    flags: dict[str, Any] = dict(zip(("begin", "end"), [*parts, *parts[:1]][:2], strict=False))
    if len(parts) == 3:
        try:
            flags["factor"] = float(parts[2])
        except ValueError:
            raise UsageError(f"sizes={text!r}: the factor is a number, not {parts[2]}") from None
    return flags
