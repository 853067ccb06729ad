"""The fields of a kind's results: one table for CSV, JSON lines, Parquet, pages and Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from cclmark.report.charts.naming import Run
from cclmark.report.columns import Cell, Column, ColumnKind, Layout
from cclmark.report.formats.openmetrics import Metric, Series, labels_of
from cclmark.report.kinds.kind import RunLabels
from cclmark.results.schema import Header

# A value is in seconds; the end of the key is the unit of its column.
_UNITS = {"ms": 1e3}
_OF_CASE: Mapping[str, ColumnKind] = {
    **{"operation": "text", "ccl": "text", "ranks": "int", "dtype": "text", "reduction": "text"},
    **{"root": "int", "placement": "text", "size_bytes": "int", "count": "int"},
}


@dataclass(frozen=True)
class Field:
    """A quantity of a result.

    ``key``: the name of its column, with its unit at the end. ``of``: its value, times in seconds;
    None if it is unknown. ``gauge``: its help for Prometheus, empty if it is no gauge; ``label``:
    whether it distinguishes series there. ``on_page``: whether the table of a page has it.
    """

    key: str
    of: Callable[[Any], Cell]
    kind: ColumnKind = "float"
    gauge: str = ""
    label: bool = False
    on_page: bool = True

    def cell(self, result: Any) -> Cell:
        """The value in the unit of the key."""
        value = self.of(result)
        factor = _UNITS.get(self.key.rpartition("_")[2])
        return value * factor if factor is not None and isinstance(value, float) else value


def case_fields(path: str) -> list[Field]:
    """The fields of a case, from its operation to its count. ``path``: the attribute with it."""
    return [Field(key, attrgetter(f"{path}.{key}"), kind) for key, kind in _OF_CASE.items()]


def _itself(header: Header, result: Any) -> Iterable[Any]:
    return [result]


@dataclass(frozen=True)
class Fields:
    """The fields of a kind, in the order of the columns.

    ``gauges``: the beginning of the names of gauges; ``noun``: a result of the kind. ``rows``: what
    has the fields, one for each row of a table; pages have the first.
    """

    all: Sequence[Field]
    gauges: str = ""
    noun: str = ""
    rows: Callable[[Header, Any], Iterable[Any]] = _itself

    def layout(self) -> Layout:
        """The columns of machine-readable tables."""
        return Layout(
            [Column(one.key, one.kind) for one in self.all],
            lambda header: (
                lambda result: [
                    [one.cell(row) for one in self.all] for row in self.rows(header, result)
                ]
            ),
        )

    def page_columns(self) -> list[str]:
        """The columns of a page's table."""
        return [one.key for one in self.all if one.on_page]

    def page_cells(self, run: Run, result: Any) -> Mapping[str, Cell]:
        """The cells of a page's table."""
        row = next(iter(self.rows(run.journal.header, result)))
        return {one.key: one.cell(row) for one in self.all if one.on_page}

    def metrics(self) -> list[Metric]:
        """The gauges: those of fields, and whether a result is right."""
        found = [Metric(self._name(one), "seconds", one.gauge) for one in self.all if one.gauge]
        help = f"1 for a {self.noun} that was measured and not wrong, else 0."
        return [*found, Metric(f"{self.gauges}_ok", "", help)]

    def measure(self, series: Series, result: Any, run: RunLabels) -> None:
        """Sets the gauges of one result; those of an unmeasured one are left out."""
        labels = labels_of(
            [*((one.key, str(one.of(result))) for one in self.all if one.label), *run.where]
        )
        series.begin(labels)
        series.set(f"{self.gauges}_ok", labels, float(result.status == "ok"))
        if not result.is_measured:
            return
        for one in self.all:
            if one.gauge and isinstance(value := one.of(result), (int, float)):
                series.set(self._name(one), labels, value)

    def _name(self, one: Field) -> str:
        return f"{self.gauges}_{one.key.rpartition('_')[0]}_seconds"
