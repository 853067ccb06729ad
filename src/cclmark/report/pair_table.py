"""Collectives of single pairs for people: heat maps, all operations on a chart, what stands out."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import msgspec

from cclmark.analysis.pairs import Pair, PairSweep, at_once, pair_deviations, sweeps
from cclmark.analysis.statistics import median
from cclmark.plan.sizes import format_size
from cclmark.report.chart import MARKS, curves
from cclmark.report.grid import grid_lines, visible_width
from cclmark.report.head import method_of, opening_lines
from cclmark.report.matrix import figure, labels
from cclmark.report.paint import HEAT_STEPS, Paint, unpainted
from cclmark.report.pair_matrix import (
    PairMatrix,
    at_once_lines,
    matrices_of,
    meaning_of,
    names_of,
)
from cclmark.report.remarks import planned_results
from cclmark.report.text import BYTES_PER_GB, US_PER_S, plain
from cclmark.results.schema import CaseResult, Footer, Header

_WIDEST = 200  # characters of a line where nobody's terminal sets a limit
_BETWEEN = 4
_CELL = 9
_MOST_NAMED = 10


class PairTable:
    """Everything comes at the end: a matrix is whole only when its last pair was measured."""

    def __init__(
        self, *, paint: Paint = unpainted, most_devices: int = 32, width: int | None = None
    ) -> None:
        """``width``: of the terminal, in characters; None: what the environment says."""
        self._paint = paint
        self._most = most_devices
        self._width = width or shutil.get_terminal_size((_WIDEST, 24)).columns
        self._results: list[CaseResult] = []

    def begin(self, header: Header) -> str:
        """The devices, their links, the library, the method."""
        self._header = header
        self._names = labels(header.devices)
        lines = opening_lines(header, "device", method_of(header.settings), self._paint)
        return "\n".join(lines) + "\n"

    def case(self, result: CaseResult) -> str:
        """Nothing yet."""
        # Without the raw samples: there are many pairs.
        self._results.append(msgspec.structs.replace(result, samples=None))
        return ""

    def end(self, footer: Footer | None) -> str:
        """The heat maps, the chart and the summary."""
        found = sweeps(self._results)
        names = names_of([sweep.series for sweep in found])
        lines: list[str] = []
        for sweep, name in zip(found, names, strict=True):
            lines += self._heat_maps(sweep, name)
        lines += self._chart(found, names)
        lines.append("")
        for sweep, name in zip(found, names, strict=True):
            lines += self._range(sweep, name)
        lines += self._standing_out(found, names)
        lines += self._at_once()
        lines += self._checks()
        if footer is not None and footer.message:
            lines.append(self._paint(f"  ended early: {footer.message.splitlines()[0]}", "red"))
        return "\n".join(lines) + "\n"

    def _heat_maps(self, sweep: PairSweep, name: str) -> list[str]:
        lines = ["", f"{self._paint(name, 'bold')} · {sweep.series.ccl}"]
        lines.append(self._paint(f"  {meaning_of(sweep.series.operation)}", "dim"))
        lines += self._beside_each_other([self._grid(matrix) for matrix in matrices_of(sweep)])
        reasons = dict.fromkeys(
            f"{format_size(size)}: {plain(result.reason)}"
            for size, by_place in sweep.by_size.items()
            for result in by_place.values()
            if result.summary is None
        )
        lines += [self._paint(f"  n/a  {reason}", "yellow") for reason in reasons]
        return lines + self._mismatches(sweep)

    def _grid(self, matrix: PairMatrix) -> list[str]:
        numbers = range(len(self._names))
        cells = [[self._cell(matrix, (row, column)) for column in numbers] for row in numbers]
        return [
            self._paint(f"  {matrix.title}", "bold"),
            *grid_lines(
                self._names,
                self._names,
                cells,
                paint=self._paint,
                width=self._width,
                most=self._most,
            ),
        ]

    def _cell(self, matrix: PairMatrix, place: Pair) -> str:
        value, goodness = matrix.value(place), matrix.goodness(place)
        if value is None or goodness is None:
            note = matrix.note(place).rjust(_CELL)
            styles = {"WRONG": "red", "n/a": "yellow"}
            style = styles.get(note.strip())
            return self._paint(note, style) if style else note
        step = min(HEAT_STEPS - 1, int(goodness * HEAT_STEPS))
        return self._paint(figure(value).rjust(_CELL), f"heat{step}")

    def _beside_each_other(self, blocks: Sequence[list[str]]) -> list[str]:
        """Blocks of lines in a row as far as the terminal is wide enough, else below each other."""
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

    def _mismatches(self, sweep: PairSweep) -> list[str]:
        lines: dict[str, None] = {}
        for size, by_place in sweep.by_size.items():
            for result in by_place.values():
                findings = result.verification.findings if result.verification else []
                for found in findings:
                    assert result.case.pair is not None
                    text = (
                        f"  {format_size(size)} {self._pair(result.case.pair)}: "
                        f"{self._names[result.case.pair[found.rank]]} got {found.wrong} wrong, "
                        f"first at index {found.first_element}: expected {plain(found.expected)}, "
                        f"got {plain(found.actual)}"
                    )
                    lines[self._paint(text, "red")] = None
        return list(lines)

    def _pair(self, pair: Pair) -> str:
        return f"{self._names[pair[0]]}–{self._names[pair[1]]}"

    def _chart(self, found: Sequence[PairSweep], names: Sequence[str]) -> list[str]:
        """Every operation's bandwidth against size: the figures, and the same as curves."""
        sizes = sorted({size for sweep in found for size in sweep.sizes})
        if len(sizes) < 2:
            return []
        title = "Algorithm bandwidth against size, the median over the pairs [GB/s]"
        columns = [f"{mark} {name}" for mark, name in zip(MARKS, names, strict=False)]
        cells = []
        for size in sizes:
            values = [sweep.median_bytes_per_s(size) for sweep in found[: len(columns)]]
            cells.append(["-" if one is None else figure(one / BYTES_PER_GB) for one in values])
        lines = ["", self._paint(title, "bold")]
        lines += grid_lines(
            [format_size(size) for size in sizes],
            columns,
            cells,
            paint=self._paint,
            width=self._width,
            most=len(columns),
        )
        series = [
            {
                size: value / BYTES_PER_GB
                for size in sweep.sizes
                if (value := sweep.median_bytes_per_s(size))
            }
            for sweep in found
        ]
        short = {size: _short(size) for size in sizes}
        return [*lines, "", *curves(series, short, "GB/s", self._width)]

    def _range(self, sweep: PairSweep, name: str) -> list[str]:
        """The bandwidth at the largest and the time at the smallest size."""
        sizes = sweep.sizes
        if not sizes:
            return [f"  {self._paint(name, 'bold')}: nothing was measured"]
        rates = {
            place: one.algbw_bytes_per_s / BYTES_PER_GB
            for place, one in sweep.measured(sizes[-1]).items()
        }
        worst, best = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
        time_s = median([one.time_s for one in sweep.measured(sizes[0]).values()])
        return [
            f"  {self._paint(name, 'bold')}: {figure(median(list(rates.values())))} GB/s at "
            f"{format_size(sizes[-1])}, from {figure(rates[worst])} ({self._pair(worst)}) to "
            f"{figure(rates[best])} ({self._pair(best)}); {figure(time_s * US_PER_S)} µs at "
            f"{format_size(sizes[0])}"
        ]

    def _standing_out(self, found: Sequence[PairSweep], names: Sequence[str]) -> list[str]:
        relations = self._header.relations
        entries = [
            (one, name)
            for sweep, name in zip(found, names, strict=True)
            for one in pair_deviations(sweep, relations)
        ]
        if not entries:
            return []
        entries.sort(key=lambda entry: -entry[0].time_s / entry[0].usual_s)
        lines = [
            "",
            self._paint("  Pairs that stand out among those with the same kind of link:", "bold"),
        ]
        for one, name in entries[:_MOST_NAMED]:
            text = (
                f"  {self._pair(one.pair)}: {figure(one.time_s * US_PER_S)} µs, usual for "
                f"{plain(one.kind)} {figure(one.usual_s * US_PER_S)} "
                f"({one.time_s / one.usual_s - 1:+.0%}): {name}, {format_size(one.size_bytes)}"
            )
            lines.append(self._paint(text, "red" if one.time_s > one.usual_s else "green"))
        if len(entries) > _MOST_NAMED:
            lines.append(f"  and {len(entries) - _MOST_NAMED} more")
        return lines

    def _at_once(self) -> list[str]:
        """How many cases were measured with other pairs at work, and what that did to them."""
        found = at_once(self._results)
        if found is None:
            return []
        return ["", *(f"  {line}" for line in at_once_lines(found))]

    def _checks(self) -> list[str]:
        results = self._results
        planned = planned_results(self._header)
        checked = sum(result.verification is not None for result in results)
        wrong = sum(result.status == "wrong" for result in results)
        skipped = sum(result.status == "skipped" for result in results)
        unsettled = sum(not result.converged for result in results)
        text = f"  {checked} of {max(planned, len(results))} cases checked, {wrong} wrong"
        text += f", {skipped} skipped" if skipped else ""
        lines = [self._paint(text, "red") if wrong else text]
        if unsettled:
            settings = self._header.settings
            text = (
                f"  {unsettled} case{'s' * (unsettled > 1)} did not get to "
                f"±{settings.precision * 100:g} % within --max-time {settings.max_time_s:g} s"
            )
            lines.append(self._paint(text, "yellow"))
        return lines


def _short(size_bytes: int) -> str:
    """A size for the axis of a chart: 8, 128K, 4M."""
    return format_size(size_bytes).replace(" ", "").replace("iB", "").replace("B", "")
