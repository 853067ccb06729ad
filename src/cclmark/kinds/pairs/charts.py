"""Charts of collectives of pairs: heat maps of each operation, and all operations by size."""

from __future__ import annotations

from cclmark.analysis.pair_results import sweeps
from cclmark.document.cells import device_names, extremes, least_span
from cclmark.document.chart_model import Chart, ChartCurve, Heat, Lines, key_of
from cclmark.document.matrix import figure
from cclmark.document.text import BYTES_PER_GB
from cclmark.kinds.pairs.summary import PairMatrix, matrices_of, meaning_of, names_of
from cclmark.plan.pair_cases import Pair
from cclmark.plan.sizes import format_size
from cclmark.results.journal import Journal


def pair_charts(journal: Journal) -> list[Chart]:
    """Returns heat maps of each operation, and a chart of all medians by size."""
    results = [one for one in journal.cases if one.case.pair is not None]
    found = sweeps(results)
    names = names_of([sweep.series for sweep in found])
    charts: list[Chart] = []
    curves = []
    for number, (sweep, name) in enumerate(zip(found, names, strict=True)):
        points = [point for point in sweep.measured if point.bytes_per_s]
        if len(points) > 1:
            curves.append(
                ChartCurve(
                    name=name,
                    x=[point.size_bytes for point in points],
                    y=[(point.bytes_per_s or 0.0) / BYTES_PER_GB for point in points],
                    colour=number,
                )
            )
    if curves:
        charts.append(
            Lines(
                key="pairs-bandwidth",
                title="Pairs: algorithm bandwidth, median over all pairs",
                says="Algorithm bandwidth of each operation between two devices, the median over "
                "all pairs, against message size.",
                x_title="message size",
                y_title="algorithm bandwidth [GB/s]",
                series=curves,
            )
        )
    devices = device_names(journal.header)
    kinds = {(one.first, one.second): one.kind for one in journal.header.relations}
    keys: set[str] = set()
    for sweep, name in zip(found, names, strict=True):
        for matrix in matrices_of(sweep):
            if matrix.values:
                charts.append(
                    _pair_heat(matrix, name, sweep.series.operation, devices, kinds, keys)
                )
    return charts


def _pair_heat(
    matrix: PairMatrix,
    name: str,
    operation: str,
    devices: list[str],
    kinds: dict[Pair, str],
    keys: set[str],
) -> Heat:
    numbers = range(len(devices))
    unit = "GB/s" if matrix.figure == "bandwidth" else "µs"
    values = [[matrix.values.get((row, column)) for column in numbers] for row in numbers]
    texts = [
        [
            matrix.note((row, column)) if value is None else figure(value)
            for column, value in enumerate(line)
        ]
        for row, line in enumerate(values)
    ]
    hover = [
        [
            text if value is None else f"{text} {unit}, {kinds.get((row, column), '?')}"
            for column, (value, text) in enumerate(zip(line, shown, strict=True))
        ]
        for row, (line, shown) in enumerate(zip(values, texts, strict=True))
    ]
    title = f"{name} between pairs: {matrix.title}"
    return Heat(
        key=key_of(f"pairs {name} {matrix.figure} {format_size(matrix.point.size_bytes)}", keys),
        title=title,
        says=f"{title}. {extremes(values, unit, devices, devices)}",
        column_title="",
        unit=unit,
        rows=devices,
        columns=devices,
        values=values,
        texts=texts,
        hover=hover,
        higher_is_better=matrix.figure == "bandwidth",
        least_span=least_span(values),
        notes=[meaning_of(operation)],
    )
