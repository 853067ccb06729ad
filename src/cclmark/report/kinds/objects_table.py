"""Text output of object calls: a table for each pair of calls, and remarks."""

from __future__ import annotations

from cclmark.printable import plain
from cclmark.document.markdown import escape
from cclmark.document.head import opening_lines
from cclmark.report.wording.object_words import (
    HEAD,
    SIDES,
    WIDTHS,
    cells_of,
    early_end,
    flag_lines,
    group_title,
    method_of_objects,
    outcome_of,
    remarks_of,
    wrong_lines,
)
from cclmark.document.paint import Paint, unpainted
from cclmark.kinds.objects.result import ObjectResult
from cclmark.results.schema import Footer, Header

_MOST_WRONG = 8


class ObjectTable:
    """Prints a line for each call as soon as it has been measured."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        self._paint = paint
        self._results: list[ObjectResult] = []
        self._group = ""

    def begin(self, header: Header) -> str:
        """Returns the devices, torch with the backend, and the method."""
        lines = opening_lines(header, "rank", method_of_objects(header), self._paint)
        return "\n".join(lines) + "\n"

    def add(self, result: ObjectResult) -> str:
        """Returns a line, after the head of a new group."""
        self._results.append(result)
        title = group_title(result.call)
        lines = []
        if title != self._group:
            self._group = title
            head = _line(list(HEAD))
            lines += ["", self._paint(f"  {plain(title)}", "bold"), self._paint(head, "dim")]
        line = _line(cells_of(result))
        lines.append(self._paint(line, "red") if result.status == "wrong" else line)
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the flag in words, remarks, and what was checked."""
        results = self._results
        lines = ["", *(f"  {line}" for line in flag_lines(results))]
        lines += [f"  {self._paint(line, 'yellow')}" for line in remarks_of(results)]
        wrong = wrong_lines(results)
        lines += [f"  {self._paint(line, 'red')}" for line in wrong[:_MOST_WRONG]]
        outcome = f"  {outcome_of(results)}"
        lines.append(self._paint(outcome, "red") if wrong else outcome)
        if early := early_end(footer):
            lines.append(self._paint(f"  {early}", "red"))
        return "\n".join(lines) + "\n"


class ObjectMarkdown:
    """The same as Markdown tables."""

    def __init__(self) -> None:
        self._results: list[ObjectResult] = []
        self._group = ""

    def begin(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        lines = opening_lines(header, "rank", method_of_objects(header), unpainted)
        return "\n".join(["# Objects and tensors", "", "```text", *lines, "```", ""])

    def add(self, result: ObjectResult) -> str:
        """Returns a row, after the head of a new group."""
        self._results.append(result)
        title = group_title(result.call)
        lines = []
        if title != self._group:
            self._group = title
            lines += ["", f"## {escape(title)}", ""]
            lines += [f"| {' | '.join(HEAD)} |", f"|{'---:|' * len(HEAD)}"]
        lines.append(f"| {' | '.join(map(escape, cells_of(result)))} |")
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the remarks, and what was checked."""
        results = self._results
        notes = [*flag_lines(results), *remarks_of(results), *wrong_lines(results)[:_MOST_WRONG]]
        lines = ["", *(f"- {escape(note)}" for note in [*notes, outcome_of(results)])]
        if early := early_end(footer):
            lines += ["", escape(early)]
        return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    parts = zip(cells, SIDES, WIDTHS, strict=True)
    return "  " + "  ".join(f"{cell:{side}{width}}" for cell, side, width in parts)
