"""Collectives of single pairs as Markdown and CSV."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.pair_results import PairSweep
from cclmark.plan.sizes import format_size
from cclmark.document.markdown import escape
from cclmark.report.kinds.matrix import figure
from cclmark.report.kinds.pair_matrix import PairMatrix, matrices_of, meaning_of
from cclmark.report.kinds.pair_summary import GatheredPairs
from cclmark.document.head import binding_lines, buffer_lines, method_of
from cclmark.document.remarks import ending
from cclmark.document.text import BYTES_PER_GB
from cclmark.results.schema import Footer


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
