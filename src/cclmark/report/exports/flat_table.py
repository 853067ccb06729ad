"""A flat table, and the columns that identify the run of a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cclmark.document.columns import Cell, Column, Layout, Row, columns
from cclmark.document.step_words import STEP_RUN_FIELDS
from cclmark.errors import UsageError
from cclmark.kinds.registry import report_kind
from cclmark.results.journal import Journal
from cclmark.results.schema import Header


@dataclass(frozen=True)
class FlatTable:
    """Columns and rows. Rows are created while they are read, because raw samples may be many.

    ``exact``: numbers are written with all their digits.
    """

    columns: Sequence[Column]
    rows: Iterator[Row]
    exact: bool = False


_OF_RUN = "run_id started_at host device source"
RUN_COLUMNS = columns(_OF_RUN, texts=_OF_RUN)
_STEP_COLUMNS = [
    Column("kind", "text"),
    *(Column(one.key, one.kind) for one in STEP_RUN_FIELDS),
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


def chosen_table(journals: Sequence[tuple[str, Journal]], name: str) -> FlatTable:
    """Returns the table ``cases``, ``samples`` or ``steps`` of journals, each with its name.

    ``cases`` of different kinds that have steps is ``steps``. Raises UsageError for journals of
    other different kinds, and if a kind has no samples or steps.
    """
    kinds = {title: report_kind(journal.kind) for title, journal in journals}
    have_steps = all(kind.step_runs is not None for kind in kinds.values())
    if name == "steps" and not have_steps:
        lack = ", ".join(title for title, kind in kinds.items() if kind.step_runs is None)
        raise UsageError(f"{lack}: only trainings and profiles have steps; use --table cases")
    is_mixed = len({id(kind.exported) for kind in kinds.values()}) > 1
    if name == "steps" or (name == "cases" and is_mixed and have_steps):
        return FlatTable(
            [*RUN_COLUMNS, *_STEP_COLUMNS], _step_rows([journal for _, journal in journals])
        )
    layouts = {id(kind.exported): kind for kind in kinds.values()}
    if len(layouts) > 1:
        told = ", ".join(f"{title} contains {kind.noun}" for title, kind in kinds.items())
        raise UsageError(
            f"one table contains one kind of results, but {told}: export them separately"
        )
    kind = next(iter(kinds.values()))
    layout = kind.samples if name == "samples" else kind.exported
    runs = [journal for _, journal in journals]
    if layout is None or (name == "samples" and not any(map(_has_samples, runs))):
        raise UsageError(f"{', '.join(kinds)}: no raw samples recorded; use --table cases")
    return FlatTable([*RUN_COLUMNS, *layout.columns], _rows(runs, layout), exact=layout.exact)


def _step_rows(journals: Sequence[Journal]) -> Iterator[Row]:
    for journal in journals:
        step_runs = report_kind(journal.kind).step_runs
        for one in step_runs(journal) if step_runs is not None else ():
            cells = (field.cell(one) for field in STEP_RUN_FIELDS)
            yield [*run_cells(journal.header), journal.kind, *cells]


def _has_samples(run: Journal) -> bool:
    return any(getattr(result, "samples", None) is not None for result in run.results)


def _rows(journals: Sequence[Journal], layout: Layout) -> Iterator[Row]:
    for journal in journals:
        run = run_cells(journal.header)
        rows_of = layout.rows_of(journal.header, journal.profile)
        for result in journal.results:
            for cells in rows_of(result):
                yield [*run, *cells]
