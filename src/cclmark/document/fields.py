"""The fields of a kind's results: one table for CSV, JSON lines, Parquet, pages and Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from cclmark.document.columns import Cell, Column, ColumnKind, Layout, csv_line
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.report_kind import RunLabels
from cclmark.journal.schema import Header, Profile

# A value is in seconds; the end of the key is the unit of its column.
_UNITS = {"ms": 1e3, "us": 1e6}
# The units of gauges, at the end of their names.
_GAUGE_UNITS = ("seconds", "bytes")


@cache
def value_at(path: str) -> Callable[[Any], Any]:
    """Returns the attribute at ``path``, such as ``result.summary.time_s``; None if a part is."""
    names = path.split(".")

    def value(one: Any) -> Any:
        for name in names:
            one = None if one is None else getattr(one, name)
        return one

    return value


@dataclass(frozen=True)
class Field:
    """A quantity of a result.

    ``key``: the name of its column, with its unit at the end. ``of``: its value, times in seconds;
    None if it is unknown; a text is the path of the attribute (``value_at``). ``gauge``: its help
    for Prometheus, empty if it is no gauge.
    ``gauge_name``: the end of the gauge's name if it does not follow from the key of a time.
    ``on_page``: whether the table of a page has this column. ``name``: of its column on pages and
    of its label, if not the key. ``in_tables``: whether machine-readable tables have it.
    """

    key: str
    of: Callable[[Any], Cell] | str
    kind: ColumnKind = "float"
    gauge: str = ""
    on_page: bool = True
    gauge_name: str = ""
    name: str = ""
    in_tables: bool = True

    @cached_property
    def value(self) -> Callable[[Any], Cell]:
        """Returns the value, times in seconds."""
        if not isinstance(self.of, str):
            return self.of
        of = value_at(self.of)

        def value_of(result: Any) -> Cell:
            value = of(result)
            return int(value) if isinstance(value, bool) else value

        return value_of

    @cached_property
    def cell(self) -> Callable[[Any], Cell]:
        """Returns the value in the unit of the key."""
        of, factor = self.value, _UNITS.get(self.key.rpartition("_")[2])
        if factor is None:
            return of

        def scaled(result: Any) -> Cell:
            value = of(result)
            return value * factor if isinstance(value, float) else value

        return scaled


def csv_lines(fields: Sequence[Field], rows: Iterable[Any]) -> Iterator[str]:
    """Yields the lines of a CSV file: the head, then the fields of each of ``rows``."""
    yield csv_line([one.key for one in fields])
    for row in rows:
        yield csv_line([one.cell(row) for one in fields])


def _gauge_unit(name: str) -> str:
    unit = name.rpartition("_")[2]
    return unit if unit in _GAUGE_UNITS else ""


def _itself(header: Header, result: Any) -> Iterable[Any]:
    return [result]


def _header(header: Header) -> Any:
    return header


@dataclass(frozen=True)
class Fields:
    """The fields of a kind, in the order of the columns.

    ``gauges``: the beginning of the names of gauges; ``labels``: the keys of the fields that
    distinguish their series; ``by_method``: whether the method of the run does too; ``noun``: a
    result of the kind, with its article, empty for results that cannot fail. ``rows``: what has the
    fields, one for each row of a table; pages have the first, or ``page_row``. ``known``: what
    ``rows`` gets in place of the header, computed once for a table. ``common``: the last
    columns of tables, equal in all rows, the fields of what ``common_of`` returns for the profile
    of a program.
    """

    all: Sequence[Field]
    gauges: str = ""
    labels: Sequence[str] = ()
    noun: str = ""
    rows: Callable[[Any, Any], Iterable[Any]] = _itself
    known: Callable[[Header], Any] = _header
    page_row: Callable[[Any], Any] | None = None
    common: Sequence[Field] = ()
    common_of: Callable[[Profile | None], Any] | None = None
    by_method: bool = False

    def layout(self) -> Layout:
        """The columns of machine-readable tables."""
        return Layout(
            [Column(one.key, one.kind) for one in (*self.all, *self.common) if one.in_tables],
            self._rows_in,
            common=None if self.common_of is None else self._common_cells,
        )

    def _rows_in(self, header: Header) -> Callable[[Any], list[list[Cell]]]:
        known, rows = self.known(header), self.rows
        cells = [one.cell for one in self.all if one.in_tables]
        return lambda result: [[cell(row) for cell in cells] for row in rows(known, result)]

    def _common_cells(self, profile: Profile | None) -> list[Cell]:
        assert self.common_of is not None
        whole = self.common_of(profile)
        return [one.cell(whole) for one in self.common]

    def page_columns(self) -> list[str]:
        """The columns of a page's table."""
        return [one.name or one.key for one in self.all if one.on_page]

    def page_cells(self, run: NamedRun) -> Callable[[Any], dict[str, Cell]]:
        """Returns a function that gives the cells of a result in a page's table, also for columns
        that only other kinds on the page have.
        """
        cells = [(one.name or one.key, one.cell) for one in self.all]
        known, rows, page_row = self.known(run.journal.header), self.rows, self.page_row

        def cells_of(result: Any) -> dict[str, Cell]:
            row = next(iter(rows(known, result))) if page_row is None else page_row(result)
            return {name: cell(row) for name, cell in cells}

        return cells_of

    def metrics(self) -> list[Metric]:
        """The gauges: times, then other fields, and whether a result is right."""
        gauges = sorted(
            (one for one in self.all if one.gauge), key=lambda one: self._unit(one) != "seconds"
        )
        found = [Metric(self._name(one), self._unit(one), one.gauge) for one in gauges]
        if not self.noun:
            return found
        help = f"1 for {self.noun} that was measured and not wrong, else 0."
        return [*found, Metric(f"{self.gauges}_ok", "", help)]

    def measure(self, series: Series, row: Any, run: RunLabels) -> None:
        """Sets the gauges of one row, which is a result unless ``rows`` differ; unknown values are
        left out.
        """
        by_key = {one.key: one for one in self.all}
        fields = (by_key[key] for key in self.labels)
        values = ((one.name or one.key, one.cell(row)) for one in fields)
        own = [(name, "" if value is None else str(value)) for name, value in values]
        labels = labels_of([*own, *(run.method if self.by_method else ()), *run.where])
        series.begin(labels)
        if self.noun:
            series.set(f"{self.gauges}_ok", labels, float(row.status == "ok"))
        for one in self.all:
            if one.gauge and isinstance(value := one.value(row), (int, float)):
                series.set(self._name(one), labels, float(value))

    def _unit(self, one: Field) -> str:
        return _gauge_unit(self._name(one))

    def _name(self, one: Field) -> str:
        own = one.gauge_name or f"{one.key.rpartition('_')[0]}_seconds"
        return f"{self.gauges}_{own}"
