"""Charts of copies between devices: their connections, and a heat map for each matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cclmark.analysis.copies import outliers_of
from cclmark.analysis.statistics import median
from cclmark.analysis.transfer_results import Deviation, figures
from cclmark.document.cells import extremes, least_span
from cclmark.document.chart_model import Chart, ChartCurve, Heat, Lines, key_of
from cclmark.document.deviations import relative
from cclmark.document.matrix import Matrix, MatrixCell, MatrixCollector
from cclmark.document.text import BYTES_PER_GB, figure
from cclmark.plan.pair_cases import Pair
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.results.journal import Journal
from cclmark.results.schema import Relation


def transfer_charts(journal: Journal) -> list[Chart]:
    """Returns a heat map for each matrix of copies, and the medians over sizes or blocks."""
    collector = MatrixCollector(journal.header, shares=True)
    matrices: list[Matrix] = []
    for result in journal.transfers:
        matrices += collector.add(result)
    matrices += collector.finish()
    courses = (
        _course(journal, "size_bytes", "message size", lambda transfer: transfer.size_bytes),
        _course(journal, "blocks", "thread blocks", lambda transfer: transfer.blocks),
    )
    charts: list[Chart] = [course for course in courses if course is not None]
    kinds = {(one.first, one.second): one for one in journal.header.relations}
    usual = {
        (one.transfer.series(), one.pair): one
        for one in outliers_of(journal.transfers, journal.header).far
    }
    keys: set[str] = set()
    for matrix in matrices:
        if any(cell.value is not None for cell in matrix.cells.values()):
            key = key_of(f"p2p {matrix.title}", keys)
            charts.append(_transfer_heat(key, matrix, kinds, usual))
    return charts


def _transfer_heat(
    key: str,
    matrix: Matrix,
    kinds: Mapping[Pair, Relation],
    usual: Mapping[tuple[Transfer, Pair], Deviation],
) -> Heat:
    rows = matrix.rows or list(dict.fromkeys(row for row, _ in matrix.cells))
    columns = matrix.columns
    cells = [[matrix.cells.get((row, column)) for column in columns] for row in rows]
    values = [[None if cell is None else cell.value for cell in line] for line in cells]

    def far(cell: MatrixCell) -> Deviation | None:
        if matrix.figure not in ("bandwidth", "latency"):
            return None
        return usual.get((cell.result.transfer.series(), cell.judged_pair))

    def text(cell: MatrixCell | None, place: tuple[str, str]) -> str:
        if cell is None:  # x on the diagonal, as for collectives of pairs
            return "x" if place[0] == place[1] else ""
        if cell.value is None:
            return cell.note or "?"
        found = far(cell)
        mark = "" if found is None else " ▼" if found.worse else " ▲"
        return figure(cell.value) + mark

    def words(cell: MatrixCell | None) -> str:
        if cell is None or cell.value is None:
            return "" if cell is None else cell.note or "?"
        link, found = kinds.get(cell.pair), far(cell)
        said = [f"{figure(cell.value)} {matrix.unit}"]
        said += [link.kind] if link is not None else []
        if found is not None:
            latency = found.transfer.measure == "latency"
            share = relative(found.value, found.usual, lower_is_better=latency)
            said.append(f"{share} than usual for {found.kind}")
        return ", ".join(said)

    title = f"{matrix.title[0].upper()}{matrix.title[1:]}"
    return Heat(
        key=key,
        title=title,
        says=f"{title}. {extremes(values, matrix.unit, rows, columns)}",
        column_title="",
        unit=matrix.unit,
        rows=rows,
        columns=columns,
        values=values,
        texts=[
            [text(cell, (row, column)) for column, cell in zip(columns, line, strict=True)]
            for row, line in zip(rows, cells, strict=True)
        ],
        hover=[[words(cell) for cell in line] for line in cells],
        higher_is_better=matrix.figure in ("bandwidth", "utilisation"),
        least_span=least_span(values),
        notes=[part for part in matrix.meaning.split("; ") if part],
    )


def _course(
    journal: Journal, key: str, x_title: str, of: Callable[[Transfer], int]
) -> Lines | None:
    """Returns the median over the pairs by the swept parameter; None if nothing was swept."""
    found: dict[Transfer, dict[int, list[float]]] = {}
    for result in journal.transfers:
        transfer = result.transfer
        if transfer.measure == "latency" or transfer.host_memory:
            continue
        alike = msgspec.structs.replace(transfer.series(), **{key: 0})
        values = [value for _, value in figures(result)]
        found.setdefault(alike, {}).setdefault(of(transfer), []).extend(values)
    series: list[ChartCurve] = []
    for alike, by_value in found.items():
        known = {value: rates for value, rates in sorted(by_value.items()) if rates and value}
        if len(known) > 1:
            words = [alike.measure, "" if alike.scope == "pairs" else alike.scope]
            words += [alike.direction, alike.means]
            words.append(f"{alike.blocks} blocks" if alike.blocks else "")
            words.append(format_size(alike.size_bytes) if alike.size_bytes else "")
            series.append(
                ChartCurve(
                    name=" ".join(filter(None, words)),
                    x=list(known),
                    y=[median(rates) / BYTES_PER_GB for rates in known.values()],
                    low=[min(rates) / BYTES_PER_GB for rates in known.values()],
                    high=[max(rates) / BYTES_PER_GB for rates in known.values()],
                    colour=len(series),
                )
            )
    if not series:
        return None
    return Lines(
        key=f"p2p-by-{key.replace('_', '-')}",
        title=f"Copies against {x_title}: median over the pairs",
        says=f"Bandwidth of copies between devices against {x_title}, the median over the pairs "
        "with the slowest and the fastest pair as a band.",
        x_title=x_title,
        y_title="bandwidth [GB/s]",
        series=series,
        x_kind="bytes" if key == "size_bytes" else "number",
    )
