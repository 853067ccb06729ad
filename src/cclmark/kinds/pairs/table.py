"""Text output for collectives of single pairs: heat maps, a chart of all operations, findings."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence

from cclmark.analysis.pair_results import PairSweep
from cclmark.document.grid import grid_lines, hidden_line, usual_width, visible_width
from cclmark.document.head import binding_lines, buffer_lines, method_of, opening_lines
from cclmark.document.markdown import escape
from cclmark.document.matrix import figure
from cclmark.document.paint import HEAT_STEPS, Paint, unpainted
from cclmark.document.remarks import ending
from cclmark.document.text import BYTES_PER_GB
from cclmark.kinds.pairs.summary import (
    GatheredPairs,
    PairMatrix,
    PairSummary,
    matrices_of,
    meaning_of,
)
from cclmark.plan.sizes import format_size
from cclmark.results.schema import Footer

_HEIGHT = 14
_AXIS = 11  # characters of the value axis
_LEAST_STEP, _MOST_STEP = 4, 9
MARKS = string.ascii_lowercase + string.ascii_uppercase


def curves(
    series: Sequence[Mapping[int, float]], names: Mapping[int, str], unit: str, width: int
) -> list[str]:
    """Returns the lines of a chart.

    Each of ``series`` maps places on the axis to positive values and is drawn with its letter of
    MARKS. Curves that meet share a cell; ``+`` stands for the letters that do not fit into it.
    ``names``: the labels of the axis, in order.

    Places that do not fit into ``width`` characters are left out at even intervals; the last one is
    kept.
    """
    values = [value for one in series for value in one.values() if value > 0]
    if not values or len(names) < 2:
        return []
    places = list(names)
    room = max(2, (width - _AXIS - 1) // _LEAST_STEP)
    stride = math.ceil(len(places) / room)
    places = places[::-stride][::-1]
    step = min(_MOST_STEP, max(_LEAST_STEP, (width - _AXIS - 1) // len(places)))
    low, high = math.log(min(values)), math.log(max(values))
    span = max(high - low, 1e-9)

    def row_of(value: float) -> int:
        return round((math.log(value) - low) / span * (_HEIGHT - 1))

    cells: dict[tuple[int, int], str] = {}
    for mark, one in zip(MARKS, series, strict=False):
        for place, value in one.items():
            if value > 0:
                key = row_of(value), place
                cells[key] = cells.get(key, "") + mark
    lines = []
    for row in reversed(range(_HEIGHT)):
        level = math.exp(low + span * row / (_HEIGHT - 1))
        texts = "".join(f"{_fit(cells.get((row, place), ''), step):>{step}}" for place in places)
        lines.append(f"{_level(level):>{_AXIS - 2}} │{texts}".rstrip())
    lines.append(" " * (_AXIS - 1) + "└" + "─" * (step * len(places)))
    labels = "".join(f"{names[place][: step - 1]:>{step}}" for place in places)
    lines.append(f"{unit:>{_AXIS}}{labels}")
    return lines


def _fit(text: str, step: int) -> str:
    return text if len(text) < step else text[: step - 2] + "+"


def _level(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


class PairMarkdown(GatheredPairs):
    """A table for each heat map, one of bandwidths by size, and the pairs that stand out."""

    def opening(self) -> str:
        """Returns the machine, the libraries and the method."""
        header = self._header
        devices = escape(f"{len(header.devices)} x {header.devices[0].name}")
        lines = ["## Collectives of pairs", "", f"{devices} on {escape(header.machine.hostname)}."]
        lines += [
            f"Library: {escape(f'{one.name} {one.version}, {one.path}')}."
            for one in header.libraries
        ]
        lines += [f"Method: {escape(method_of(header))}."]
        lines += [f"Buffers: {escape(line)}." for line in buffer_lines(header)]
        lines += [f"Binding: {escape(line)}." for line in binding_lines(header)]
        lines += [f"Notice: {escape(notice)}." for notice in header.notices]
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns all tables."""
        named, summary = self.gathered()
        lines: list[str] = []
        for sweep, name in named:
            lines += ["", f"### {escape(name)}", "", escape(meaning_of(sweep.series.operation))]
            for matrix in matrices_of(sweep):
                lines += ["", f"**{escape(matrix.title)}**", "", *self._table(matrix)]
            remarks = [*summary.mismatches(sweep), *summary.skipped(sweep)]
            lines += ["", *(f"- {escape(text)}" for text in remarks)] if remarks else []
        lines += self._against_size(named)
        if explained := summary.explained():
            lines += ["", "### What ran", "", *(f"    {line}" for line in explained)]
        lines += ["", "### Summary", ""]
        lines += [f"- {escape(name)}: {escape(summary.course(sweep))}" for sweep, name in named]
        lines += [f"- stands out: {escape(text)}" for _, text in summary.standing_out()]
        remarks = [*summary.at_once(), summary.outcome(), summary.unsettled(), ending(footer)]
        lines += [f"- {escape(text)}" for text in remarks if text]
        return "\n".join(lines) + "\n"

    def _table(self, matrix: PairMatrix) -> list[str]:
        numbers = range(len(self._names))
        cells = [
            [
                figure(matrix.values[row, column])
                if (row, column) in matrix.values
                else matrix.note((row, column))
                for column in numbers
            ]
            for row in numbers
        ]
        return _markdown_table(self._names, self._names, cells)

    @staticmethod
    def _against_size(named: Sequence[tuple[PairSweep, str]]) -> list[str]:
        courses = [{point.size_bytes: point for point in sweep.measured} for sweep, _ in named]
        sizes = sorted({size for course in courses for size in course})
        if len(sizes) < 2:
            return []
        texts = [
            [
                figure((course[size].bytes_per_s or 0.0) / BYTES_PER_GB) if size in course else "-"
                for course in courses
            ]
            for size in sizes
        ]
        lines = ["", "### Algorithm bandwidth against size", ""]
        lines += ["Of the median time over the pairs, GB/s.", ""]
        rows = [format_size(size) for size in sizes]
        return lines + _markdown_table(rows, [name for _, name in named], texts)


def _markdown_table(
    rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[str]]
) -> list[str]:
    lines = [
        "| | " + " | ".join(map(escape, columns)) + " |",
        "|---" + "|---:" * len(columns) + "|",
    ]
    for name, row in zip(rows, cells, strict=True):
        lines.append(f"| **{escape(name)}** | " + " | ".join(map(escape, row)) + " |")
    return lines


_BETWEEN = 4
_CELL = 9
_MOST_CURVES = 12  # more would not be distinguishable
_NOTE_STYLES = {"WRONG": "red", "hung": "red", "died": "red", "n/a": "yellow"}


class PairTable(GatheredPairs):
    """Matrices with rows and columns of devices, a chart, and a summary."""

    def __init__(
        self, *, paint: Paint = unpainted, most_devices: int = 32, width: int | None = None
    ) -> None:
        """``width``: characters of a line; None: from the environment or the terminal."""
        super().__init__()
        self._paint = paint
        self._most = most_devices
        self._width = width or usual_width()

    def opening(self) -> str:
        """Returns the devices, their links, the library and the method."""
        method = method_of(self._header)
        return "\n".join(opening_lines(self._header, "device", method, self._paint)) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the heat maps, the chart and the summary."""
        named, summary = self.gathered()
        lines: list[str] = []
        for sweep, name in named:
            lines += self._heat_maps(sweep, name, summary)
        lines += self._chart(named)
        lines.append("")
        for sweep, name in named:
            lines.append(f"  {self._paint(name, 'bold')}: {summary.course(sweep)}")
        if explained := summary.explained():
            lines += ["", *explained]
        lines += self._standing_out(summary)
        lines += ["", *(f"  {line}" for line in summary.at_once())]
        outcome = f"  {summary.outcome()}"
        wrong = any(result.status == "wrong" for result in self._results)
        lines.append(self._paint(outcome, "red") if wrong else outcome)
        if summary.unsettled():
            lines.append(self._paint(f"  {summary.unsettled()}", "yellow"))
        if footer is not None and footer.message:
            ended = f"  ended early: {footer.message.splitlines()[0]}"
            lines.append(self._paint(ended, "red"))
        return "\n".join(lines) + "\n"

    def _heat_maps(self, sweep: PairSweep, name: str, summary: PairSummary) -> list[str]:
        lines = ["", f"{self._paint(name, 'bold')} · {sweep.series.ccl}"]
        lines.append(self._paint(f"  {meaning_of(sweep.series.operation)}", "dim"))
        matrices = matrices_of(sweep)
        lines += self._beside_each_other([self._grid(matrix) for matrix in matrices])
        lines += hidden_line(len(self._names), self._most, self._paint)
        lines += [self._paint(f"  {reason}", "yellow") for reason in summary.skipped(sweep)]
        return lines + [self._paint(f"  {line}", "red") for line in summary.mismatches(sweep)]

    def _grid(self, matrix: PairMatrix) -> list[str]:
        shown = range(min(len(self._names), self._most))
        names = self._names[: self._most]
        cells = [[self._cell(matrix, row, column) for column in shown] for row in shown]
        title = self._paint(f"  {matrix.title}", "bold")
        return [title, *grid_lines(names, names, cells, paint=self._paint, width=self._width)]

    def _cell(self, matrix: PairMatrix, row: int, column: int) -> str:
        value, goodness = matrix.values.get((row, column)), matrix.goodness((row, column))
        if value is None or goodness is None:
            note = matrix.note((row, column))
            style = _NOTE_STYLES.get(note)
            return self._paint(note.rjust(_CELL), style) if style else note.rjust(_CELL)
        step = min(HEAT_STEPS - 1, int(goodness * HEAT_STEPS))
        return self._paint(figure(value).rjust(_CELL), f"heat{step}")

    def _beside_each_other(self, blocks: Sequence[list[str]]) -> list[str]:
        """Arranges blocks of lines side by side if the terminal is wide enough, else stacked."""
        lines: list[str] = []
        row: list[str] = []
        for block in blocks:
            width = max(map(visible_width, block))
            taken = max(map(visible_width, row), default=0)
            if row and taken + _BETWEEN + width <= self._width and len(row) == len(block):
                pads = [" " * (taken + _BETWEEN - visible_width(line)) for line in row]
                row = [
                    left + pad + right for left, pad, right in zip(row, pads, block, strict=True)
                ]
            else:
                lines += row
                row = block
        return lines + row

    def _chart(self, named: Sequence[tuple[PairSweep, str]]) -> list[str]:
        """Returns the bandwidths of all operations by size, as figures and as curves."""
        courses = [
            {point.size_bytes: point.bytes_per_s / BYTES_PER_GB
             for point in sweep.measured if point.bytes_per_s}
            for sweep, _ in named
        ]  # fmt: skip
        sizes = sorted({size for course in courses for size in course})
        if len(sizes) < 2:
            return []
        drawn = len(named) <= _MOST_CURVES
        marks = MARKS if drawn else [""] * len(named)
        columns = [f"{mark} {name}".strip() for mark, (_, name) in zip(marks, named, strict=False)]
        cells = [
            [figure(course[size]) if size in course else "-" for course in courses]
            for size in sizes
        ]
        title = "Algorithm bandwidth against size, of the median time over the pairs [GB/s]"
        lines = ["", self._paint(title, "bold")]
        lines += grid_lines(
            [format_size(size) for size in sizes],
            columns,
            cells,
            paint=self._paint,
            width=self._width,
        )
        if not drawn:
            return lines
        short = {size: _short(size) for size in sizes}
        return [*lines, "", *curves(courses, short, "GB/s", self._width)]

    def _standing_out(self, summary: PairSummary) -> list[str]:
        found = summary.standing_out()
        if not found:
            return []
        head = "  Pairs that stand out among those with the same kind of link:"
        lines = ["", self._paint(head, "bold")]
        for one, text in found:
            lines.append(self._paint(f"  {text}", "red" if one.time_s > one.usual_s else "green"))
        return lines


def _short(size_bytes: int) -> str:
    """Formats a size for the axis of a chart: 8, 128K, 4M."""
    return format_size(size_bytes).replace(" ", "").replace("iB", "").replace("B", "")
