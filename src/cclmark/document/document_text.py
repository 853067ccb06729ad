"""Documents as text: for terminals, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from cclmark.document.blocks import (
    Bars,
    Document,
    Facts,
    Listing,
    RunContent,
    Stages,
    Table,
    unhandled,
)
from cclmark.document.chart_model import Chart, Heat
from cclmark.document.grid import heat_lines, usual_width
from cclmark.document.head import labelled, opening_lines
from cclmark.document.markdown import escape
from cclmark.document.naming import NamedRun
from cclmark.document.paint import Paint, unpainted
from cclmark.document.remarks import ending_line
from cclmark.document.report_kind import View
from cclmark.document.text import aligned
from cclmark.printable import plain
from cclmark.results.schema import Explanation, Footer, Header, Profile

Compose = Callable[[RunContent], Document]
Part = Callable[[Any], tuple[Hashable, int]]
_STYLES: Mapping[str, str] = {"bad": "red", "look": "yellow"}


def document_of(compose: Compose, run: NamedRun) -> Document:
    """Returns the document of a run."""
    journal = run.journal
    return compose(
        RunContent(journal.header, journal.results, journal.footer, run.notes, journal.profile)
    )


class DocumentText:
    """Writes the head, then the blocks of each part that is complete, then the rest at the end.

    ``part``: as that of ReportKind. A document without parts is written at the end.
    """

    def __init__(self, compose: Compose, view: View, part: Part | None = None) -> None:
        self._compose = compose
        self._view = view
        self._part = part
        self._header: Header | None = None
        self._profile: Profile | None = None
        self._results: list[Any] = []
        self._unwritten: list[Any] = []
        self._continued = ""

    def profile(self, profile: Profile) -> None:
        """Receives what a profile contains besides its operations."""
        self._profile = profile

    def begin(self, header: Header) -> str:
        """Returns the head: devices, links, libraries, the method."""
        self._header = header
        document = self._document([], None)
        lines = opening_lines(header, document.noun, document.method, self._paint)
        return "\n".join(self._head(document, lines)) + "\n"

    def add(self, result: Any) -> str:
        """Returns the blocks of the part that the result completes; empty if it completes none."""
        self._results.append(result)
        self._unwritten.append(result)
        if self._part is None:
            return ""
        key, number = self._part(result)
        parts = [(self._part(one)[0] == key, one) for one in self._unwritten]
        own = [one for is_own, one in parts if is_own]
        if len(own) < number:
            return ""
        self._unwritten = [one for is_own, one in parts if not is_own]
        document = self._document(own, None)
        return "".join(f"{line}\n" for line in (*self._blocks(document), *self._notes(document)))

    def explain(self, explanation: Explanation) -> None:
        """Adds what ran to the result of the item, if results of the kind have it."""
        for result in self._results:
            if result.index == explanation.index and hasattr(result, "explanation"):
                result.explanation = explanation

    def end(self, footer: Footer | None) -> str:
        """Returns the rest of the document."""
        whole = self._document(self._results, footer)
        is_begun = len(self._unwritten) < len(self._results)
        rest = self._document(self._unwritten, footer) if is_begun else whole
        lines = self._blocks(rest)
        if last := [*self._notes(rest), *self._statements(whole)]:
            lines += ["", *last]
        if (footer is None or footer.message) and not whole.states_end:
            lines += self._early(ending_line(footer))
        return "".join(f"{line}\n" for line in lines)

    def _document(self, results: Sequence[Any], footer: Footer | None) -> Document:
        assert self._header is not None
        return self._compose(
            RunContent(self._header, results, footer, self._view.references, self._profile)
        )

    def _notes(self, document: Document) -> Iterator[str]:
        for block in document.blocks:
            if isinstance(block, Table):
                yield from map(self._line, block.notes)

    def _statements(self, document: Document) -> Iterator[str]:
        subject = ""
        for one in document.findings:
            if one.subject not in ("", subject):
                yield self._line(f"{one.subject}:")
            subject = one.subject
            depth = 1 if subject else 0
            style = _STYLES.get(one.severity, "")
            yield self._line(one.sentence, style, depth)
            if one.advice:
                yield self._line(one.advice, style, depth + 1)
        for note in document.notes:
            yield self._line(note, "dim")
        if document.outcome:
            yield self._line(document.outcome, "red" if document.is_wrong else "")

    def _line(self, text: str, style: str = "", depth: int = 0) -> str:
        line = f"  {'  ' * depth}{text}"
        return self._paint(line, style) if style else line

    @property
    def _paint(self) -> Paint:
        return self._view.paint

    def _head(self, document: Document, lines: list[str]) -> list[str]:
        return lines

    def _blocks(self, document: Document) -> list[str]:
        found: list[str] = []
        for block in document.blocks:
            match block:
                case Table():
                    head, rows = self._lines_of(block)
                    title = f"  {plain(block.title)}"
                    if self._continues(block):
                        found += rows
                    elif block.belongs:
                        found += [self._paint(title, "dim"), head, *rows]
                    else:
                        found += ["", self._paint(title, "bold"), self._paint(head, "dim"), *rows]
                case Facts():
                    for label, text in block.rows:
                        found += labelled(label, [text])
                case Heat():
                    width = self._view.columns or usual_width()
                    title = self._paint(f"  {plain(block.title)}", "bold")
                    found += ["", title, *heat_lines(block, self._paint, width)]
                case Listing():
                    title = self._paint(f"  {plain(block.title)}", "bold")
                    found += ["", title, *(f"  {plain(line)}".rstrip() for line in block.lines)]
                case Bars() | Stages() | Chart():
                    pass  # tables have their figures
                case _:
                    unhandled(block)
        return found

    def _continues(self, table: Table) -> bool:
        """Whether the rows follow those of the table before it."""
        before, self._continued = self._continued, table.title if table.widths else ""
        return bool(before) and before == self._continued

    def _lines_of(self, table: Table) -> tuple[str, list[str]]:
        """The head, and the rows with what is below them."""
        shown, below = [table.head, *table.rows], [""] * len(table.rows)
        if table.is_last_below:
            shown, below = [cells[:-1] for cells in shown], [cells[-1] for cells in table.rows]
        head, *rows = aligned(shown, table.sides[: len(shown[0])], table.widths)
        indent = " " * (4 + max([*table.widths[:1], *(len(cells[0]) for cells in shown)]))
        found = []
        for place, (row, text) in enumerate(zip(rows, below, strict=True)):
            found.append(self._paint(row, "red") if place in table.wrong else row)
            found += [f"{indent}{line}" for line in filter(None, text.split("\n"))]
        return head, found

    def _early(self, reason: str) -> list[str]:
        return [self._paint(f"  ended early: {reason}", "red")]


class DocumentMarkdown(DocumentText):
    """The same as Markdown."""

    @property
    def _paint(self) -> Paint:
        return unpainted

    def _head(self, document: Document, lines: list[str]) -> list[str]:
        return [f"# {document.title}", "", "```text", *lines, "```"]

    def _line(self, text: str, style: str = "", depth: int = 0) -> str:
        return f"{'  ' * depth}- {escape(text)}"

    def _blocks(self, document: Document) -> list[str]:
        found: list[str] = []
        for block in document.blocks:
            match block:
                case Table():
                    if not self._continues(block):
                        found += ["", f"## {escape(block.title)}", "", *_head_of(block)]
                    found += map(_row, block.single_lines())
                case Facts():
                    found += ["", *(self._line(f"{label}: {text}") for label, text in block.rows)]
                case Heat():
                    head = (block.column_title, *block.columns)
                    rows = [[name, *own] for name, own in zip(block.rows, block.texts, strict=True)]
                    table = Table(block.title, head, rows, "<" + ">" * len(block.columns))
                    found += ["", f"## {escape(block.title)}", "", *_head_of(table)]
                    found += map(_row, table.single_lines())
                case Listing():
                    lines = [plain(line) for line in block.lines]
                    found += ["", f"## {escape(block.title)}", "", "```text", *lines, "```"]
                case Bars() | Stages() | Chart():
                    pass
                case _:
                    unhandled(block)
        return found

    def _early(self, reason: str) -> list[str]:
        return ["", f"Ended early: {reason}"]


def _head_of(table: Table) -> Iterator[str]:
    yield _row(table.head)
    yield f"|{'|'.join('---:' if side == '>' else '---' for side in table.sides)}|"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"
