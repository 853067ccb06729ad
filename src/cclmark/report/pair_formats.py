"""Collectives of single pairs in other formats than the table: CSV and markdown."""

from __future__ import annotations

import msgspec

from cclmark.analysis.pairs import at_once, sweeps
from cclmark.plan.sizes import format_size
from cclmark.report.csv_format import COLUMNS, case_cells, csv_line
from cclmark.report.markdown import escape
from cclmark.report.matrix import figure, labels
from cclmark.report.pair_matrix import PairMatrix, at_once_lines, matrices_of, meaning_of, names_of
from cclmark.report.remarks import ending
from cclmark.report.text import BYTES_PER_GB
from cclmark.results.schema import CaseResult, Footer, Header


class PairCsv:
    """The columns of every CSV, with the two devices before and the pairs at work beside after."""

    def begin(self, header: Header) -> str:
        """The line with the names of the columns."""
        self._names = labels(header.devices)
        return csv_line(["first", "second", *COLUMNS, "beside", "at_once_ratio"])

    def case(self, result: CaseResult) -> str:
        """The line of one case."""
        assert result.case.pair is not None
        devices = [self._names[number] for number in result.case.pair]
        return csv_line([*devices, *case_cells(result), result.beside, result.at_once_ratio])

    def end(self, footer: Footer | None) -> str:
        """Nothing."""
        return ""


class PairMarkdown:
    """A table for each heat map, and one of the bandwidths against size."""

    def __init__(self) -> None:
        self._results: list[CaseResult] = []

    def begin(self, header: Header) -> str:
        """The machine in a sentence."""
        self._names = labels(header.devices)
        devices = escape(f"{len(header.devices)} x {header.devices[0].name}")
        return f"## Collectives of pairs\n\n{devices} on {escape(header.machine.hostname)}.\n"

    def case(self, result: CaseResult) -> str:
        """Nothing yet: a matrix is whole only when its last pair was measured."""
        self._results.append(msgspec.structs.replace(result, samples=None))
        return ""

    def end(self, footer: Footer | None) -> str:
        """All tables."""
        found = sweeps(self._results)
        names = names_of([sweep.series for sweep in found])
        lines: list[str] = []
        for sweep, name in zip(found, names, strict=True):
            lines += ["", f"### {escape(name)}", "", escape(meaning_of(sweep.series.operation))]
            for matrix in matrices_of(sweep):
                lines += ["", f"**{escape(matrix.title)}**", "", *self._table(matrix)]
        sizes = sorted({size for sweep in found for size in sweep.sizes})
        if len(sizes) > 1:
            lines += ["", "### Algorithm bandwidth against size", ""]
            lines += ["Median over the pairs, GB/s.", ""]
            rows = [[sweep.median_bytes_per_s(size) for sweep in found] for size in sizes]
            texts = [
                ["-" if one is None else figure(one / BYTES_PER_GB) for one in row] for row in rows
            ]
            lines += _markdown_table([format_size(size) for size in sizes], names, texts)
        wrong = sum(result.status == "wrong" for result in self._results)
        lines += ["", f"{len(self._results)} cases, {wrong} wrong."]
        together = at_once(self._results)
        if together is not None:
            lines += ["", *map(escape, at_once_lines(together))]
        message = escape(ending(footer))
        return "\n".join(lines + (["", message] if message else [])) + "\n"

    def _table(self, matrix: PairMatrix) -> list[str]:
        numbers = range(len(self._names))
        cells = [[_text(matrix, (row, column)) for column in numbers] for row in numbers]
        return _markdown_table(self._names, self._names, cells)


def _markdown_table(rows: list[str], columns: list[str], cells: list[list[str]]) -> list[str]:
    lines = [
        "| | " + " | ".join(map(escape, columns)) + " |",
        "|---" + "|---:" * len(columns) + "|",
    ]
    for name, row in zip(rows, cells, strict=True):
        lines.append(f"| **{escape(name)}** | " + " | ".join(map(escape, row)) + " |")
    return lines


def _text(matrix: PairMatrix, place: tuple[int, int]) -> str:
    value = matrix.value(place)
    return matrix.note(place) if value is None else figure(value)
