"""The fields of a kind's results: one table for CSV, JSON lines, Parquet, pages and Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cclmark.document.columns import Cell, Column, ColumnKind, Layout
from cclmark.document.naming import Run
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.report_kind import RunLabels
from cclmark.results.schema import Header

# A value is in seconds; the end of the key is the unit of its column.
_UNITS = {"ms": 1e3, "us": 1e6}


@dataclass(frozen=True)
class Field:
    """A quantity of a result.

    ``key``: the name of its column, with its unit at the end. ``of``: its value, times in seconds;
    None if it is unknown. ``gauge``: its help for Prometheus, empty if it is no gauge.
    ``gauge_name``: the end of the gauge's name if it is not the key of a time. ``on_page``: whether
    the table of a page has it.
    """

    key: str
    of: Callable[[Any], Cell]
    kind: ColumnKind = "float"
    gauge: str = ""
    on_page: bool = True
    gauge_name: str = ""

    def cell(self, result: Any) -> Cell:
        """The value in the unit of the key."""
        value = self.of(result)
        factor = _UNITS.get(self.key.rpartition("_")[2])
        return value * factor if factor is not None and isinstance(value, float) else value


def _itself(header: Header, result: Any) -> Iterable[Any]:
    return [result]


@dataclass(frozen=True)
class Fields:
    """The fields of a kind, in the order of the columns.

    ``gauges``: the beginning of the names of gauges; ``labels``: the keys of the fields that
    distinguish their series; ``noun``: a result of the kind, with its article. ``rows``: what has
    the fields, one for each row of a table; pages have the first.
    """

    all: Sequence[Field]
    gauges: str = ""
    labels: Sequence[str] = ()
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
        """The gauges: times, then other fields, and whether a result is right."""
        gauges = sorted(
            (one for one in self.all if one.gauge), key=lambda one: one.gauge_name != ""
        )
        found = [
            Metric(self._name(one), "" if one.gauge_name else "seconds", one.gauge)
            for one in gauges
        ]
        help = f"1 for {self.noun} that was measured and not wrong, else 0."
        return [*found, Metric(f"{self.gauges}_ok", "", help)]

    def measure(self, series: Series, result: Any, run: RunLabels) -> None:
        """Sets the gauges of one result; unknown values are left out."""
        by_key = {one.key: one for one in self.all}
        values = ((key, by_key[key].cell(result)) for key in self.labels)
        labels = labels_of(
            [*((key, "" if value is None else str(value)) for key, value in values), *run.where]
        )
        series.begin(labels)
        series.set(f"{self.gauges}_ok", labels, float(result.status == "ok"))
        for one in self.all:
            if one.gauge and isinstance(value := one.of(result), (int, float)):
                series.set(self._name(one), labels, value)

    def _name(self, one: Field) -> str:
        own = one.gauge_name or f"{one.key.rpartition('_')[0]}_seconds"
        return f"{self.gauges}_{own}"
