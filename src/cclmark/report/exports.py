"""The formats of ``cclmark export``."""

from __future__ import annotations

import io
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from cclmark.base.errors import MissingError, UsageError
from cclmark.document.columns import Cell, Column, Layout, Row, csv_line, places_of
from cclmark.document.device_labels import device_labels
from cclmark.document.exporter import Exporter
from cclmark.document.exporters import exporter_of, formats_of
from cclmark.document.openmetrics import Metric, RunLabels, Series, labels_of, lines_of
from cclmark.document.reference_notes import Load, ReferenceNotes, no_references
from cclmark.document.report_kind import View
from cclmark.document.step_words import STEP_RUN_FIELDS
from cclmark.document.text import counted
from cclmark.document.verdict import JOURNAL
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header, Settings
from cclmark.kinds.collective.formats import CASE_FORMATS
from cclmark.kinds.registry import KINDS, report_kind

_UNVIEWED = View()


def replayed(
    journal: Journal,
    format: str,
    view: View = _UNVIEWED,
    references: Load = no_references,
    path: str = "",
) -> Iterator[str]:
    """Yields the text in ``format``, one of formats_of the journal's kind, piece by piece.

    ``references`` loads the references compared with the peaks of tables. ``path``: of the journal,
    empty if it has no file. Raises UsageError for an
    inconsistent journal.
    """
    view = replace(view, journal=journal, references=ReferenceNotes(references))
    try:
        exporter = exporter_of(KINDS[journal.kind], format, view)
        exporter.journal_path = shlex.quote(path) if path else JOURNAL
        yield from _pieces(journal, exporter)
    except (LookupError, ArithmeticError, ValueError, AssertionError) as error:
        raise UsageError(
            f"the journal of run {journal.header.run_id} cannot be shown as {format}: its "
            f"content is inconsistent ({type(error).__name__}: {error})"
        ) from None


def unshown(journal: Journal, format: str) -> list[str]:
    """Returns the findings for which the text in ``format`` has no place."""
    documents = ("table", "markdown", "json", "csv")
    if format in documents or format not in formats_of(KINDS[journal.kind]):
        return []
    exporter = exporter_of(KINDS[journal.kind], format, View(journal))
    for _ in _pieces(journal, exporter):
        pass
    return exporter.notices()


def _pieces(journal: Journal, exporter: Exporter[Any]) -> Iterator[str]:
    for paths in journal.paths:
        exporter.connect(paths)
    if journal.profile is not None:
        exporter.profile(journal.profile)
    yield exporter.begin(journal.header)
    for condition in journal.conditions:
        exporter.observe(condition)
    for result in journal.results:
        yield exporter.add(result)
    yield exporter.end(journal.footer)


@dataclass(frozen=True)
class FlatTable:
    """Columns and rows. Rows are created while they are read, because raw samples may be many.

    ``exact``: numbers are written with all their digits.
    """

    columns: Sequence[Column]
    rows: Iterator[Row]
    exact: bool = False

    def chosen(self, names: Sequence[str]) -> FlatTable:
        """The table with only these columns, in this order; all without any. Raises UsageError."""
        if not names:
            return self
        places = places_of(names, self.columns)
        return replace(
            self,
            columns=[self.columns[place] for place in places],
            rows=([row[place] for place in places] for row in self.rows),
        )


#: The first columns of every table.
RUN_COLUMNS = [
    Column("run_id", "text", "Of the run; empty in journals of early versions."),
    Column("started_at", "text", "ISO 8601, UTC unless it has another zone."),
    Column("host", "text", "Hosts, separated by commas."),
    Column("device", "text", "Names of devices, kinds separated by plus signs."),
    Column("source", "text", "Tool that measured: cclmark 0.1.0, nccl-tests 2.19.6."),
]
#: Those of ``--table steps`` after them.
STEP_COLUMNS = [
    Column("kind", "text", "train or profile."),
    *(one.column for one in STEP_RUN_FIELDS),
]


def run_cells(header: Header) -> list[Cell]:
    """Returns a cell for each of RUN_COLUMNS."""
    source = f"cclmark {header.cclmark_version}"
    if header.imported is not None:
        source = header.imported.source
    return [header.run_id, header.started_at, hosts_of(header), devices_of(header), source]


def hosts_of(header: Header) -> str:
    """Returns the host's name, or several names separated by commas."""
    names = [host.machine.hostname for host in header.hosts] or [header.machine.hostname]
    return ",".join(dict.fromkeys(names))


def devices_of(header: Header) -> str:
    """Returns the devices' name, or the names of several kinds joined by plus signs."""
    return " + ".join(dict.fromkeys(device.name for device in header.devices))


#: The tables of journals.
TABLES = ("cases", "samples", "steps")


def chosen_table(journals: Sequence[tuple[str, Journal]], name: str) -> FlatTable:
    """Returns the table ``cases``, ``samples`` or ``steps`` of journals, each with its name.

    ``cases`` of different kinds that have steps is ``steps``. Raises UsageError for journals of
    other different kinds, and if a kind has no samples or steps.
    """
    if name not in TABLES:
        raise UsageError(f"no table has the name {name!r}: choose from {', '.join(TABLES)}")
    kinds = {title: report_kind(journal.kind) for title, journal in journals}
    have_steps = all(kind.step_runs is not None for kind in kinds.values())
    if name == "steps" and not have_steps:
        lack = ", ".join(title for title, kind in kinds.items() if kind.step_runs is None)
        raise UsageError(f"{lack}: only trainings and profiles have steps; use the table cases")
    is_mixed = len({id(kind.exported_layout) for kind in kinds.values()}) > 1
    if name == "steps" or (name == "cases" and is_mixed and have_steps):
        return FlatTable(
            [*RUN_COLUMNS, *STEP_COLUMNS], _step_rows([journal for _, journal in journals])
        )
    layouts = {id(kind.exported_layout): kind for kind in kinds.values()}
    if len(layouts) > 1:
        told = ", ".join(f"{title} contains {kind.noun}" for title, kind in kinds.items())
        raise UsageError(
            f"one table contains one kind of results, but {told}: export them separately"
        )
    kind = next(iter(kinds.values()))
    layout = kind.samples if name == "samples" else kind.exported_layout
    runs = [journal for _, journal in journals]
    results = (result for run in runs for result in run.results)
    has_samples = any(getattr(one, "samples", None) is not None for one in results)
    if layout is None or (name == "samples" and not has_samples):
        raise UsageError(f"{', '.join(kinds)}: no raw samples recorded; use the table cases")
    return FlatTable([*RUN_COLUMNS, *layout.columns], _rows(runs, layout), exact=layout.exact)


def _step_rows(journals: Sequence[Journal]) -> Iterator[Row]:
    for journal in journals:
        step_runs = report_kind(journal.kind).step_runs
        for one in step_runs(journal) if step_runs is not None else ():
            cells = (field.cell(one) for field in STEP_RUN_FIELDS)
            yield [*run_cells(journal.header), journal.kind, *cells]


def _rows(journals: Sequence[Journal], layout: Layout) -> Iterator[Row]:
    for journal in journals:
        run = run_cells(journal.header)
        rows_of = layout.rows_of(journal.header, journal.profile)
        for result in journal.results:
            for cells in rows_of(result):
                yield [*run, *cells]


_GROUP = 65536  # rows held in memory as cells at a time


def parquet(table: FlatTable) -> bytes:
    """Returns the content of the file. Raises MissingError if pyarrow is not installed."""
    pa = _pyarrow()
    import pyarrow.parquet as pq

    file = io.BytesIO()
    with pq.ParquetWriter(file, _schema(pa, table)) as writer:
        for part in _parts(pa, table):
            writer.write_table(part)
    return file.getvalue()


def arrow_table(table: FlatTable) -> Any:
    """Returns the table of pyarrow. Raises MissingError if pyarrow is not installed."""
    pa = _pyarrow()
    parts = [*_parts(pa, table)]
    return pa.concat_tables(parts) if parts else _schema(pa, table).empty_table()


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingError(
            "Parquet needs pyarrow: pip install 'cclmark[parquet]', or pip install pyarrow"
        ) from None
    return pa


def _schema(pa: Any, table: FlatTable) -> Any:
    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return pa.schema(
        [
            pa.field(one.name, types[one.kind], metadata={"unit": one.unit, "help": one.help})
            for one in table.columns
        ]
    )


def _parts(pa: Any, table: FlatTable) -> Iterator[Any]:
    schema = _schema(pa, table)
    for rows in _groups(table.rows):
        arrays = [
            pa.array([_value(row[place], column) for row in rows], schema.field(place).type)
            for place, column in enumerate(table.columns)
        ]
        yield pa.Table.from_arrays(arrays, schema=schema)


def _groups(rows: Iterator[Row]) -> Iterator[Sequence[Row]]:
    while group := list(islice(rows, _GROUP)):
        yield group


def _value(cell: Cell, column: Column) -> Any:
    """Converts the cell to its column's type; null if it is empty or not a number."""
    if cell is None or (column.kind == "text" and cell == ""):
        return None
    if column.kind == "bool":
        return bool(cell)
    if column.kind == "float":
        return float(cell) if math.isfinite(float(cell)) else None
    return cell


# In the order of the output. docs/reference/prometheus.md lists them.
_OF_RUNS = (
    Metric("cclmark_run_timestamp_seconds", "seconds", "When the run began, since 1970."),
    Metric("cclmark_run_duration_seconds", "seconds", "How long the run took."),
    Metric("cclmark_run_exit_code", "", "Exit code of the run."),
)
METRICS: dict[str, Metric] = {
    one.name: one
    for one in (*(one for kind in KINDS for one in report_kind(kind).fields.metrics), *_OF_RUNS)
}


def _timing(settings: Settings) -> str:
    """Returns the timing of a series: auto adds another series to that of throughput."""
    return "throughput" if settings.timing == "auto" else settings.timing


def prometheus(journals: Sequence[Journal]) -> str:
    """Returns the text of a complete scrape."""
    return "".join(lines_of(_series_of(journals)))


def replaced_runs(journals: Sequence[NamedJournal]) -> list[str]:
    """The named runs whose figures ``prometheus`` leaves out: newer ones have their labels."""
    ordered = sorted(journals, key=lambda one: _began_s(one[1].header) or 0.0)
    replaced = _series_of([journal for _, journal in ordered]).replaced
    return [
        f"{name}: the figures of {counted(replaced[number], 'label set')} are left out, because a "
        "newer run has the same: export the runs to separate files to keep both"
        for number, (name, _) in enumerate(ordered, start=1)
        if replaced[number]
    ]


def _series_of(journals: Sequence[Journal]) -> Series:
    series = Series([*METRICS.values()])
    for journal in sorted(journals, key=lambda one: _began_s(one.header) or 0.0):
        _add(series, journal)
    return series


def _add(series: Series, journal: Journal) -> None:
    """Adds a run and its results."""
    header, settings = journal.header, journal.header.settings
    series.begin_run()
    ranks = settings.across_ranks
    # The slowest rank is the default; imported runs need not contain it.
    method = [
        ("timing", _timing(settings)),
        ("across_ranks", "" if ranks == "max" else ranks),
        ("cache", "" if settings.cache == "cold" else settings.cache),
        ("barrier", "" if settings.barrier == "own" else settings.barrier),
        ("clock", "" if settings.clock == "auto" else settings.clock),
    ]
    where = [("host", hosts_of(header)), ("device", devices_of(header))]
    host_ranks = {device.rank for device in header.devices if device.runtime == "host"}
    of_run = RunLabels(where, method, device_labels(header.devices), host_ranks)
    set_gauges = report_kind(journal.kind).set_gauges
    for result in journal.results:
        set_gauges(series, result, of_run)
    if not journal.results:
        return
    labels = labels_of([*where, ("kind", KINDS[journal.kind].listed_as)])
    series.begin(labels)
    series.set("cclmark_run_timestamp_seconds", labels, _began_s(header))
    if journal.footer is not None:
        series.set("cclmark_run_exit_code", labels, journal.footer.exit_code)
        if header.imported is None:
            series.set("cclmark_run_duration_seconds", labels, journal.footer.duration_s)


def _began_s(header: Header) -> float | None:
    """Returns seconds since 1970; None if the journal has no date. A date without a zone is UTC."""
    try:
        began = datetime.fromisoformat(header.started_at.replace("Z", "+00:00"))
    except ValueError:
        return None
    if began.tzinfo is None:
        began = began.replace(tzinfo=timezone.utc)
    return began.timestamp()


# A journal and its name in messages.
NamedJournal = tuple[str, Journal]
_REPLAYED = ("table", "json", "pccl", "markdown", *CASE_FORMATS)
TABULAR = ("csv", "parquet")
EXPORTS = (*_REPLAYED, *TABULAR, "prometheus")


def export_content(
    journals: Sequence[NamedJournal],
    format: str,
    table: str = "cases",
    references: Load = no_references,
    columns: Sequence[str] = (),
    width: int | None = None,
    *,
    numbers: bool = False,
) -> bytes:
    """Returns the content of a file in ``format``, one of EXPORTS.

    ``table``: cases, samples or steps, of TABULAR formats. ``references``: compared with peaks.
    ``columns``: the names of those to write, empty for all. ``width``: of the lines of tables.
    ``numbers``: see View.
    Raises UsageError for journals that the format cannot represent, and MissingError.
    """
    if columns and format not in (*TABULAR, "table", "markdown"):
        raise UsageError(f"--columns: {format} has no columns to choose")
    if format == "prometheus":
        return prometheus([journal for _, journal in journals]).encode()
    if format == "parquet":
        return parquet(chosen_table(journals, table).chosen(columns))
    if format == "csv":
        flat = chosen_table(journals, table).chosen(columns)
        lines = [csv_line([column.name for column in flat.columns])]
        lines += [csv_line(row, exact=flat.exact) for row in flat.rows]
        return "".join(lines).encode()
    if format == "json" and len(journals) > 1:
        raise UsageError(
            "json contains one complete run: export the journals one by one, or use csv or "
            "parquet, which support several"
        )
    for name, journal in journals:
        possible = formats_of(KINDS[journal.kind])
        if format not in possible:
            others = ", ".join(dict.fromkeys([*possible, *TABULAR]))
            raise UsageError(
                f"{name} contains {report_kind(journal.kind).noun}, not supported by {format}: "
                f"choose from {others}, prometheus"
            )
    view = View(fields=columns, columns=width, numbers=numbers)
    return "\n".join(
        "".join(replayed(journal, format, view, references, path)) for path, journal in journals
    ).encode()
