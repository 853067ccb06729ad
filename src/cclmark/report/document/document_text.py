"""Documents as text: for terminals, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cclmark.printable import plain
from cclmark.report.charts.chart_model import Chart
from cclmark.report.charts.naming import Run
from cclmark.report.document.blocks import Bars, Document, Facts, RunContent, Table, unhandled
from cclmark.report.formats.markdown import escape
from cclmark.report.kinds.kind import View
from cclmark.report.wording.head import labelled, opening_lines
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.remarks import ending_line
from cclmark.report.wording.text import aligned
from cclmark.results.schema import Explanation, Footer, Header

Compose = Callable[[RunContent], Document]
_STYLES: Mapping[str, str] = {"bad": "red", "look": "yellow"}


def document_of(compose: Compose, run: Run) -> Document:
    """Returns the document of a run."""
    journal = run.journal
    return compose(RunContent(journal.header, journal.results, journal.footer, run.notes))


class DocumentText:
    """Gathers the results of a run and writes its document at the end, after the head."""

    def __init__(self, compose: Compose, view: View) -> None:
        self._compose = compose
        self._view = view
        self._header: Header | None = None
        self._results: list[Any] = []

    def begin(self, header: Header) -> str:
        """Returns the head: devices, links, libraries, the method."""
        self._header = header
        document = self._document(None)
        lines = opening_lines(header, "rank", document.method, self._paint)
        return "\n".join(self._head(document, lines)) + "\n"

    def add(self, result: Any) -> str:
        """Keeps the result."""
        self._results.append(result)
        return ""

    def explain(self, explanation: Explanation) -> None:
        """Adds what ran to the result of the item, if results of the kind have it."""
        for result in self._results:
            if result.index == explanation.index and hasattr(result, "explanation"):
                result.explanation = explanation

    def end(self, footer: Footer | None) -> str:
        """Returns the document."""
        lines = self._lines(self._document(footer))
        if footer is None or footer.message:
            lines += self._early(ending_line(footer))
        return "\n".join(lines) + "\n"

    def _document(self, footer: Footer | None) -> Document:
        assert self._header is not None
        return self._compose(RunContent(self._header, self._results, footer, self._view.references))

    @property
    def _paint(self) -> Paint:
        return self._view.paint

    def _head(self, document: Document, lines: list[str]) -> list[str]:
        return lines

    def _lines(self, document: Document) -> list[str]:
        found: list[str] = []
        for block in document.blocks:
            match block:
                case Table():
                    rows = aligned([block.head, *block.rows], block.sides)
                    title = f"  {plain(block.title)}"
                    if block.belongs:
                        found += [self._paint(title, "dim"), *rows]
                    else:
                        found += ["", self._paint(title, "bold"), self._paint(rows[0], "dim")]
                        found += rows[1:]
                case Facts():
                    for label, text in block.rows:
                        found += labelled(label, [text])
                case Bars() | Chart():
                    pass  # tables have their figures
                case _:
                    unhandled(block)
        found += [""] if found else []
        found += [f"  {note}" for note in _notes(document)]
        for one in document.findings:
            line = f"  {one.sentence}"
            style = _STYLES.get(one.severity)
            found.append(line if style is None else self._paint(line, style))
        if document.outcome:
            line = f"  {document.outcome}"
            found.append(self._paint(line, "red") if document.is_wrong else line)
        return found

    def _early(self, reason: str) -> list[str]:
        return [self._paint(f"  ended early: {reason}", "red")]


class DocumentMarkdown(DocumentText):
    """The same as Markdown."""

    @property
    def _paint(self) -> Paint:
        return unpainted

    def _head(self, document: Document, lines: list[str]) -> list[str]:
        return [f"# {document.title}", "", "```text", *lines, "```", ""]

    def _lines(self, document: Document) -> list[str]:
        found: list[str] = []
        for block in document.blocks:
            match block:
                case Table():
                    found += [f"## {escape(block.title)}", "", *_table(block), ""]
                case Facts():
                    found += [
                        *(f"- {escape(f'{label}: {text}')}" for label, text in block.rows),
                        "",
                    ]
                case Bars() | Chart():
                    pass
                case _:
                    unhandled(block)
        sentences = [one.sentence for one in document.findings]
        lines = (*_notes(document), *sentences, document.outcome)
        return [*found, *(f"- {escape(line)}" for line in lines)]

    def _early(self, reason: str) -> list[str]:
        return ["", f"Ended early: {reason}"]


def _notes(document: Document) -> Iterator[str]:
    for block in document.blocks:
        if isinstance(block, Table):
            yield from block.notes


def _table(table: Table) -> Iterator[str]:
    yield _row(table.head)
    yield f"|{'|'.join('---:' if side == '>' else '---' for side in table.sides)}|"
    yield from map(_row, table.rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"
