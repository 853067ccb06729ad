"""The fields of a kind's results: one table for CSV, Parquet, pages and Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from operator import attrgetter
from typing import Any

from cclmark.document.columns import Cell, Column, ColumnKind, Direction, Layout, csv_line
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import Labels, Metric, RunLabels, Series, labels_of
from cclmark.document.text import BYTES_PER_GB
from cclmark.journal.schema import Header, Profile

# A value is in seconds or bytes per second; the end of the key is the unit of its column: factor
# and divisor.
_SCALES = {"ms": (1e3, 1.0), "us": (1e6, 1.0), "gbps": (1.0, BYTES_PER_GB)}
# The units of gauges, at the end of their names.
_GAUGE_UNITS = ("bytes_per_second", "seconds", "bytes", "samples", "elements")


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

    ``key``: the name of its column, with its unit at the end. ``help``: what it is, a complete
    sentence. ``of``: its value, in seconds or bytes per second; None if it is unknown; a text is
    the path of the attribute (``value_at``). ``unit``, ``direction``: as those of Column.
    ``gauge``: the end of its gauge's name for Prometheus, in base units; empty if it is no gauge.
    ``on_page``: whether the table of a page has this column. ``name``: of its column on pages and
    of its label, if not the key. ``in_tables``: whether machine-readable tables have it.
    """

    key: str
    help: str
    of: Callable[[Any], Cell] | str
    kind: ColumnKind = "float"
    unit: str = ""
    direction: Direction = ""
    gauge: str = ""
    on_page: bool = True
    name: str = ""
    in_tables: bool = True

    @cached_property
    def column(self) -> Column:
        """The column of machine-readable tables."""
        return Column(self.key, self.kind, self.help, self.unit, self.direction)

    @property
    def page_column(self) -> Column:
        """The column of the table of a page."""
        return replace(self.column, name=self.name or self.key)

    @cached_property
    def value(self) -> Callable[[Any], Cell]:
        """Returns the value, in seconds or bytes per second."""
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
        of, scale = self.value, _SCALES.get(self.key.rpartition("_")[2])
        if scale is None:
            return of
        factor, divisor = scale

        def scaled(result: Any) -> Cell:
            value = of(result)
            return value * factor / divisor if isinstance(value, float) else value

        return scaled


#: A field that pages leave out.
TableField = partial(Field, on_page=False)


def fields_at(path: str, *rows: tuple[str, ColumnKind, str]) -> list[Field]:
    """The fields that are attributes of the object at ``path``: key, kind and help of each."""
    return [Field(key, help, attrgetter(f"{path}.{key}"), kind) for key, kind, help in rows]


def csv_lines(fields: Sequence[Field], rows: Iterable[Any]) -> Iterator[str]:
    """Yields the lines of a CSV file: the head, then the fields of each of ``rows``."""
    yield csv_line([one.key for one in fields])
    for row in rows:
        yield csv_line([one.cell(row) for one in fields])


def _gauge_unit(name: str) -> str:
    return next((unit for unit in _GAUGE_UNITS if name.endswith(f"_{unit}")), "")


@dataclass(frozen=True)
class Fields:
    """The fields of a kind, in the order of the columns.

    ``gauges``: the beginning of the names of gauges; ``labels``: the keys of the fields that
    distinguish their series; ``by_method``: whether the method of the run does too; ``noun``: a
    result of the kind, with its article, empty for results that cannot fail; ``ok``: the end of the
    name of the gauge that says whether it is ``right``. ``rows``: what has the
    fields, one for each row of a table; pages have the first, or ``page_row``. ``known``: what
    ``rows`` gets in place of the header, computed once for a table. ``common``: the last
    columns of tables, equal in all rows, the fields of what ``common_of`` returns for the profile
    of a program.
    """

    all: Sequence[Field]
    gauges: str = ""
    labels: Sequence[str] = ()
    noun: str = ""
    ok: str = "ok"
    right: str = "that was measured and not wrong"
    rows: Callable[[Any, Any], Iterable[Any]] = lambda header, result: [result]
    known: Callable[[Header], Any] = lambda header: header
    page_row: Callable[[Any], Any] | None = None
    common: Sequence[Field] = ()
    common_of: Callable[[Profile | None], Any] | None = None
    by_method: bool = False

    @cached_property
    def layout(self) -> Layout:
        """The columns of machine-readable tables."""
        return Layout(
            [one.column for one in (*self.all, *self.common) if one.in_tables],
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

    @property
    def page_columns(self) -> list[Column]:
        """The columns of a page's table."""
        return [one.page_column for one in self.all if one.on_page]

    def page_cells(self, run: NamedRun) -> Callable[[Any], dict[str, Cell]]:
        """The cells of a result in a page's table, also for columns of other kinds only."""
        cells = [(one.name or one.key, one.cell) for one in self.all]
        known, rows, page_row = self.known(run.journal.header), self.rows, self.page_row

        def cells_of(result: Any) -> dict[str, Cell]:
            row = next(iter(rows(known, result))) if page_row is None else page_row(result)
            return {name: cell(row) for name, cell in cells}

        return cells_of

    @cached_property
    def metrics(self) -> list[Metric]:
        """The gauges: times, then other fields, and whether a result is right."""
        names = {self.gauge_of(one): one.help for one in self.all if one.gauge}
        found = [Metric(name, _gauge_unit(name), help) for name, help in names.items()]
        found.sort(key=lambda one: one.unit != "seconds")
        if not self.noun:
            return found
        help = f"1 for {self.noun} {self.right}, else 0."
        return [*found, Metric(self.ok_gauge, "", help)]

    def labels_of(self, row: Any, run: RunLabels, *more: tuple[str, str]) -> Labels:
        """The labels of the series of a row. ``more``: those that no field has."""
        by_key = {one.key: one for one in self.all}
        fields = (by_key[key] for key in self.labels)
        values = ((one.name or one.key, one.cell(row)) for one in fields)
        own = [(name, "" if value is None else str(value)) for name, value in values]
        return labels_of([*own, *more, *(run.method if self.by_method else ()), *run.where])

    def measure(self, series: Series, row: Any, run: RunLabels) -> None:
        """Sets the gauges of one row, see ``rows``; unknown values are left out."""
        labels = self.labels_of(row, run)
        series.begin(labels)
        if self.noun:
            series.set(self.ok_gauge, labels, float(row.status == "ok"))
        self.set_gauges(series, row, labels)

    def set_gauges(
        self, series: Series, row: Any, labels: Labels, without: Collection[str] = ()
    ) -> None:
        """Sets the gauges of the fields, but for those of the keys ``without``."""
        for one in self.all:
            value = one.value(row) if one.gauge and one.key not in without else None
            if isinstance(value, (int, float)):
                series.set(self.gauge_of(one), labels, float(value))

    @property
    def ok_gauge(self) -> str:
        """The name of the gauge that says whether a result is right."""
        return f"{self.gauges}_{self.ok}"

    def gauge_of(self, one: Field) -> str:
        """The name of the gauge of a field."""
        return f"{self.gauges}_{one.gauge}"
