"""Text output of messages in pieces: a table for each message, and remarks."""

from __future__ import annotations

from cclmark.printable import plain
from cclmark.report.formats.markdown import escape
from cclmark.report.wording.head import opening_lines
from cclmark.report.wording.object_words import early_end
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.piece_words import (
    HEAD,
    SIDES,
    WIDTHS,
    cells_of,
    group_title,
    method_of_pieces,
    outcome_of,
    remarks_of,
    sentences_of,
    wrong_lines,
)
from cclmark.results.kinds import PieceResult
from cclmark.results.schema import Footer, Header

_MOST_WRONG = 8


class PieceTable:
    """Prints a table for each message as soon as it has been measured."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        self._paint = paint
        self._results: list[PieceResult] = []

    def begin(self, header: Header) -> str:
        """Returns the devices, the libraries and the method."""
        lines = opening_lines(header, "rank", method_of_pieces(header), self._paint)
        return "\n".join(lines) + "\n"

    def add(self, result: PieceResult) -> str:
        """Returns the table of a message."""
        self._results.append(result)
        lines = ["", self._paint(f"  {plain(group_title(result))}", "bold")]
        if not result.rows:
            lines.append(self._paint(f"  {result.status}: {plain(result.reason)}", "yellow"))
            return "\n".join(lines) + "\n"
        lines.append(self._paint(_line(list(HEAD)), "dim"))
        for row in result.rows:
            line = _line(cells_of(result.pieces.case, row))
            lines.append(self._paint(line, "red") if row.status == "wrong" else line)
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the ratios in words, remarks, and what was checked."""
        results = self._results
        lines = [""]
        lines += [f"  {line}" for result in results for line in sentences_of(result, results)]
        lines += [f"  {self._paint(line, 'yellow')}" for line in remarks_of(results)]
        wrong = wrong_lines(results)
        lines += [f"  {self._paint(line, 'red')}" for line in wrong[:_MOST_WRONG]]
        outcome = f"  {outcome_of(results)}"
        lines.append(self._paint(outcome, "red") if wrong else outcome)
        if early := early_end(footer):
            lines.append(self._paint(f"  {early}", "red"))
        return "\n".join(lines) + "\n"


class PieceMarkdown:
    """The same as Markdown tables."""

    def __init__(self) -> None:
        self._results: list[PieceResult] = []

    def begin(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        lines = opening_lines(header, "rank", method_of_pieces(header), unpainted)
        return "\n".join(["# Messages in pieces", "", "```text", *lines, "```", ""])

    def add(self, result: PieceResult) -> str:
        """Returns the table of a message."""
        self._results.append(result)
        lines = ["", f"## {escape(group_title(result))}", ""]
        if not result.rows:
            return "\n".join([*lines, escape(f"{result.status}: {result.reason}")]) + "\n"
        sides = {"<": "---", ">": "---:"}
        lines.append(f"| {' | '.join(HEAD)} |")
        lines.append(f"|{'|'.join(sides[side] for side in SIDES)}|")
        lines += [
            f"| {' | '.join(map(escape, cells_of(result.pieces.case, row)))} |"
            for row in result.rows
        ]
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the ratios in words, remarks, and what was checked."""
        results = self._results
        notes = [line for result in results for line in sentences_of(result, results)]
        notes += [*remarks_of(results), *wrong_lines(results)[:_MOST_WRONG], outcome_of(results)]
        lines = ["", *(f"- {escape(note)}" for note in notes)]
        if early := early_end(footer):
            lines += ["", escape(early)]
        return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    parts = zip(cells, SIDES, WIDTHS, strict=True)
    return "  " + "  ".join(f"{cell:{side}{width}}" for cell, side, width in parts)
