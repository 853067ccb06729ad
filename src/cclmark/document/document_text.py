"""Documents as text: for terminals, and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import zip_longest
from typing import Any, ClassVar

from cclmark.analysis.device_conditions import ConditionFigures
from cclmark.base.printable import plain
from cclmark.base.standard_error import filled
from cclmark.document.blocks import (
    Bars,
    Block,
    Document,
    Facts,
    Listing,
    RunContent,
    Severity,
    Stages,
    Table,
    unhandled,
)
from cclmark.document.chart_model import Chart, Heat, Lines
from cclmark.document.conditions import with_conditions
from cclmark.document.exporter import Exporter
from cclmark.document.grid import curve_lines, curve_table, heat_lines, usual_width
from cclmark.document.head import LABEL_WIDTH, host_lines, labelled, opening_lines
from cclmark.document.json_format import without_samples
from cclmark.document.naming import NamedRun
from cclmark.document.paint import Paint, unpainted
from cclmark.document.remarks import ending_line
from cclmark.document.report_kind import Reduce, Reduction, View
from cclmark.document.text import escape
from cclmark.document.verdict import RunVerdict, verdict_of
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Condition, Explanation, Footer, Header, Paths, Profile

STYLES: Mapping[Severity, str] = {"bad": "red", "look": "yellow", "unknown": "yellow"}
_GAP = "  "
# Characters of a column of texts that are wrapped: the fewest, and steps on the way to them.
_LEAST_TEXT = 16
_TEXTS = (30, 22, _LEAST_TEXT)
_NAME = -1  # in place of a column: the name of the group


def table_lines(table: Table, paint: Paint, width: int | None) -> tuple[list[str], list[str]]:
    """Returns the lines of the head of a table, and those of its rows.

    ``width``: of a line at most, None for any. Where it is less, columns are left out and the
    groups of a row are below each other, see Table.
    """
    first, *others = _Layout(table, paint, width).side_by_side()
    lines = first.all_lines()
    for layout in others:
        lines += ["", *layout.heads(), *layout.all_lines()]
    return first.heads(), lines


class _Layout:
    """The columns that lines have. ``_parts``: the columns of each line of a row."""

    def __init__(self, table: Table, paint: Paint, width: int | None) -> None:
        self._table = table
        self._paint = paint
        self._line_width = width
        self._is_last = True  # of tables side by side, which has what is not of a column
        self._count = len(table.head) - table.is_last_below
        self._widths = self._widths_of_columns(table.rows)
        # Parts that continue a table have the columns of the first one, whatever their cells are.
        self._decisive = self._widths_of_columns([]) if table.widths else self._widths
        self._lead = table.lead
        lead = [*range(self._lead)]
        groups = [
            [*range(first, first + table.groups.width)]
            for first in range(self._lead, self._count, table.groups.width or self._count)
        ]
        self._parts = [lead + [column for group in groups for column in group]]
        if width is not None and table.widths and not table.groups.names:
            self._wrap_last(width)
        if width is None or self._width(self._parts[0]) <= width:
            return
        if len(groups) > 1:
            name_width = max(map(len, (table.groups.title, *table.groups.short)))
            self._widths[_NAME] = self._decisive[_NAME] = name_width
        for column in (None, *table.optional):
            if column is not None:
                lead.remove(column)
            name = [_NAME] if len(groups) > 1 else []
            self._parts = [[*lead, *name, *group] for group in groups] or [lead]
            if self._width(self._parts[0]) <= width:
                return
        if not table.widths and len(groups) <= 1:
            self._narrow(width)

    def _wrap_last(self, width: int) -> None:
        """Wraps the last column of a part that continues a table, if it is a text."""
        *columns, last = self._parts[0]
        if self._table.sides[last] == "<":
            room = width - self._width(columns) - len(_GAP)
            self._widths[last] = max(min(self._widths[last], room), _LEAST_TEXT)

    def _narrow(self, width: int) -> None:
        """Wraps heads, then texts, the widest first, until lines are no longer than ``width``."""
        heads, columns = self._table.head, self._parts[0]
        words = {one: max(map(len, heads[one].split()), default=0) for one in columns}
        cells = {
            one: max((len(row[one]) for row in self._table.rows if len(row) > one), default=0)
            for one in columns
        }
        texts = [one for one in columns if self._table.sides[one] == "<"]
        least = {one: max(words[one], cells[one]) for one in columns}
        self._shrink(columns, least, width)
        whole = dict(self._widths)
        own = max(
            map(len, " ".join(row[columns[0]] for row in self._table.rows).split()), default=0
        )
        for limit, least_name in (*((one, own) for one in _TEXTS), (_LEAST_TEXT, 0)):
            least |= {one: max(words[one], min(cells[one], limit)) for one in texts}
            least[columns[0]] = max(least[columns[0]], least_name)
            self._shrink(columns, least, width)
        if self._width(columns) > width:  # see side_by_side
            self._widths.update(whole)

    def _shrink(self, columns: Sequence[int], least: Mapping[int, int], width: int) -> None:
        while (excess := self._width(columns) - width) > 0:
            possible = [one for one in columns if self._widths[one] > least[one]]
            if not possible:
                return
            widest, *others = sorted(possible, key=lambda one: -self._widths[one])
            next_width = max([least[widest], *(self._widths[one] - 1 for one in others[:1])])
            self._widths[widest] = max(min(next_width, self._widths[widest] - 1), least[widest])
            if self._width(columns) < width:  # no more than is needed
                self._widths[widest] += min(width - self._width(columns), excess)

    def side_by_side(self) -> list[_Layout]:
        """Layouts of as many columns as a line holds, each with the texts that name the rows."""
        (columns, *others), width = self._parts, self._line_width
        if width is None or others or self._table.widths or self._width(columns) <= width:
            return [self]
        found: list[_Layout] = []
        names = columns[:1]
        for column in columns[1:]:
            if self._table.sides[column] != "<" or self._width([*names, column]) > width / 2:
                break
            names.append(column)
        own = [*names]
        for column in columns[len(names) :]:
            if len(own) > len(names) and self._width([*own, column]) > width:
                found.append(self._of(own))
                own = [*names]
            own.append(column)
        for layout in found:
            layout._is_last = False
        return [*found, self._of(own)]

    def _of(self, columns: list[int]) -> _Layout:
        found = copy(self)
        found._parts, found._widths = [columns], dict(self._widths)
        found._decisive = found._widths
        if self._line_width is not None:
            found._narrow(self._line_width)
        return found

    def all_lines(self) -> list[str]:
        """The lines of all rows."""
        return [line for row in range(len(self._table.rows)) for line in self.lines(row)]

    def _widths_of_columns(self, rows: Sequence[Sequence[str]]) -> dict[int, int]:
        table = self._table
        full = [table.head, *(cells for cells in rows if len(cells) == len(table.head))]
        least = table.widths or [0] * self._count
        columns = zip(least[: self._count], zip(*full, strict=True), strict=False)
        return {
            column: max(width, *map(len, cells)) for column, (width, cells) in enumerate(columns)
        }

    def _width(self, columns: Sequence[int]) -> int:
        widths = [self._decisive[column] for column in columns]
        return len(_GAP) * len(widths) + sum(widths)

    @property
    def _is_stacked(self) -> bool:
        return _NAME in self._parts[0]

    def heads(self) -> list[str]:
        """The names of columns, below those of their groups."""
        table, columns = self._table, self._parts[0]
        head = self._wrapped(columns, table.head)
        if not table.groups.names or self._is_stacked:
            return head
        lead = [column for column in columns if column < self._lead]
        first = range(self._lead, self._lead + table.groups.width)
        width = self._width(first) - len(_GAP)
        names = "".join(f"{_GAP}{name:─^{width}}" for name in table.groups.names)
        return [" " * self._width(lead) + names, *head]

    def lines(self, row: int) -> list[str]:
        """The lines of a row: of each group that has cells, and what is below."""
        table, cells = self._table, self._table.rows[row]
        texts = (
            []
            if not (self._is_last and table.is_last_below)
            else [*filter(None, cells[-1].split("\n"))]
        )
        if len(cells) < len(table.head) and not self._is_last:
            return []
        if len(cells) < len(table.head):
            lead = [column for column in self._parts[0] if 0 <= column < len(cells) - 1]
            first, *more = self._folded(cells[-1], self._width(lead) + len(_GAP))
            indent = " " * (self._width(lead) + len(_GAP))
            reasons = [self._painted(row, len(table.head) - 1, one) for one in (first, *more)]
            lines = [f"{self._line(lead, cells, row):<{self._width(lead)}}{_GAP}{reasons[0]}"]
            return lines + [f"{indent}{one}" for one in reasons[1:]]
        found = [*self._parts_of(row)]
        if row in table.wrong:
            found = [self._paint(line, STYLES["bad"]) for line in found]
        indent = " " * (2 * len(_GAP) + self._widths[0])
        below = [one for text in texts for one in self._folded(text, len(indent))]
        return found + [f"{indent}{self._painted(row, self._count, text)}" for text in below]

    def _folded(self, text: str, indent: int) -> list[str]:
        """A text in lines that are no longer than those of the table, below each other."""
        if self._line_width is None or len(text) + indent <= self._line_width:
            return [text]
        return textwrap.wrap(text, max(self._line_width - indent, _LEAST_TEXT)) or [text]

    def _parts_of(self, row: int) -> Iterator[str]:
        cells = self._table.rows[row]
        if not self._is_stacked:
            yield from self._wrapped(self._parts[0], cells, row)
            return
        is_first = True
        for name, columns in zip(self._table.groups.short, self._parts, strict=True):
            own = columns[columns.index(_NAME) + 1 :]
            if any(cells[column] for column in own):
                lead = {} if is_first else dict.fromkeys(range(self._lead), "")
                yield self._line(columns, cells, row, {**lead, _NAME: name})
                is_first = False
        if is_first:
            yield self._line(self._parts[0], cells, row, {_NAME: ""})

    def _wrapped(
        self, columns: Sequence[int], cells: Sequence[str], row: int | None = None
    ) -> list[str]:
        """The lines of cells, of which those are wrapped that are longer than their column."""
        texts = {**dict(enumerate(cells)), _NAME: self._table.groups.title}
        if all(len(texts[one]) <= self._widths[one] for one in columns):
            return [self._line(columns, cells, row)]
        parts = [textwrap.wrap(texts[one], max(self._widths[one], 1)) for one in columns]
        if row is None:  # a head ends above its column
            deepest = max(map(len, parts))
            parts = [[""] * (deepest - len(one)) + one for one in parts]
        elif max(map(len, texts[columns[0]].split()), default=0) > self._widths[columns[0]]:
            # A name is not broken: it is searched for. The other cells are below it.
            parts = [[texts[columns[0]]], *(["", *one] for one in parts[1:])]
        return [
            self._line(columns, dict(zip(columns, texts, strict=True)), row)
            for texts in zip_longest(*parts, fillvalue="")
        ]

    def _line(
        self,
        columns: Sequence[int],
        cells: Sequence[str] | Mapping[int, str],
        row: int | None = None,
        instead: Mapping[int, str] | None = None,
    ) -> str:
        """``instead``: the texts of some columns in place of their cells."""
        sides, widths = self._table.sides, self._widths
        own = cells if isinstance(cells, Mapping) else dict(enumerate(cells))
        texts = {_NAME: self._table.groups.title, **own, **(instead or {})}
        found = [
            f"{texts[column]:{'<' if column == _NAME else sides[column]}{widths[column]}}"
            for column in columns
        ]
        if self._table.looks:
            found = [self._painted(row, *one) for one in zip(columns, found, strict=True)]
        return f"{_GAP}{_GAP.join(found)}".rstrip()

    def _painted(self, row: int | None, column: int, text: str) -> str:
        look = "" if row is None else self._table.look_of(row, column)
        style = "green" if look == "good" else STYLES.get(look, "") if look else ""
        return self._paint(text, style) if style else text


class TextLines:
    """The lines of a document, as ``view`` requests."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._continued = ""

    def whole(self, document: Document) -> str:
        """Returns a document that is not of one run, with the notes of each table below it."""
        lines = [self._paint(plain(document.title), "bold")]
        for block in document.all_blocks:
            lines += self.block_with_notes(block)
        if last := [*self.statements(replace(document, outcome=""))]:
            lines += ["", *last]
        if document.outcome:
            style = "red" if document.is_wrong else ""
            (verdict,) = labelled([("verdict", document.outcome)])
            lines += ["", self._folded(verdict, style, LABEL_WIDTH)]
        return "".join(f"{line}\n" for line in lines)

    def block_with_notes(self, block: Block) -> list[str]:
        """Returns the lines of a block; the notes of a table are below it."""
        notes = map(self._line, block.notes) if isinstance(block, Table) and block.notes else ()
        return [*self.blocks([block]), *self._below(notes)]

    def head(self, header: Header, document: Document) -> list[str]:
        """Returns the lines before the results of a run: devices, links, libraries, the method."""
        return opening_lines(header, document.noun, document.method, self._paint, self._columns)

    def notes(self, document: Document) -> Iterator[str]:
        """Yields the notes of all tables."""
        for block in document.blocks:
            if isinstance(block, Table):
                yield from map(self._line, block.notes)

    def statements(self, document: Document) -> Iterator[str]:
        """Yields figures, findings, notes and the outcome."""
        yield from map(self._line, document.figures)
        subject = ""
        for one in document.findings:
            if one.is_outcome:
                continue
            if one.subject not in ("", subject):
                yield self._line(f"{one.subject}:")
            subject = one.subject
            depth = 1 if subject else 0
            style = STYLES.get(one.severity, "")
            yield self._line(one.sentence, style, depth)
            if one.advice:
                yield self._line(one.advice, style, depth + 1)
        for note in document.notes:
            yield self._line(note, "dim")
        if document.outcome:
            yield self._line(document.outcome, "red" if document.is_wrong else "")

    def _below(self, notes: Iterable[str]) -> list[str]:
        """The notes of a table, below it."""
        return [*notes]

    def _line(self, text: str, style: str = "", depth: int = 0) -> str:
        return self._folded(f"  {'  ' * depth}{text}", style)

    @property
    def _paint(self) -> Paint:
        return self._view.paint

    @property
    def _columns(self) -> int | None:
        return self._view.columns

    def blocks(self, blocks: Sequence[Block]) -> list[str]:
        """Returns the lines of blocks."""
        found: list[str] = []
        chosen = self._chosen(blocks)
        for block in chosen:
            match block:
                case Table():
                    heads, rows = table_lines(block, self._paint, self._view.columns)
                    title = self._title(block.title)
                    if self._continues(block):
                        found += rows
                    elif block.belongs:
                        found += [self._paint(title, "dim"), *heads, *rows]
                    else:
                        heads = [self._paint(head, "dim") for head in heads]
                        found += ["", self._paint(title, "bold"), *heads, *rows]
                case Facts():
                    lines = [self._folded(line, "") for line in labelled(block.rows)]
                    found += [*([""] if found else []), *lines]
                case Heat():
                    found += self._heats(self._group_of(chosen, block))
                case Lines() if block.in_texts:
                    title = self._paint(self._title(block.title), "bold")
                    found += ["", title, *curve_lines(block, self._paint, self._width)]
                case Listing():
                    title = self._paint(self._title(block.title), "bold")
                    found += ["", title]
                    found += [self._folded(f"  {plain(one)}".rstrip(), "") for one in block.lines]
                case Bars() | Stages() | Chart():
                    pass  # tables have their figures
                case _:
                    unhandled(block)
        return found

    def _chosen(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """The blocks with numbers in place of words, if the view has them."""
        if not self._view.numbers:
            return blocks
        return [
            block.with_numbers() if isinstance(block, (Table, Heat)) else block for block in blocks
        ]

    def _title(self, title: str) -> str:
        return self._folded(f"  {plain(title)}", "")

    def _group_of(self, blocks: Sequence[Block], heat: Heat) -> list[Heat]:
        """The maps that are written with the first one of a group; none with the others."""
        heats = [heat]
        if heat.group:
            heats = [one for one in blocks if isinstance(one, Heat) and one.group == heat.group]
        is_shown = heat is heats[0] and (self._view.details or not heat.is_detail)
        return heats if is_shown else []

    def _heats(self, heats: Sequence[Heat]) -> list[str]:
        return heat_lines(heats, self._paint, self._columns, self._view.most_devices)

    @property
    def _width(self) -> int:
        return self._view.columns or usual_width()

    def _continues(self, table: Table) -> bool:
        """Whether the rows follow those of the table before it."""
        series = (table.series or table.title) if table.widths else ""
        before, self._continued = self._continued, series
        return bool(before) and before == self._continued

    def verdict(self, verdict: RunVerdict, rows: Sequence[tuple[str, str]]) -> list[str]:
        """Returns the rows of a verdict as lines, folded where they are long."""
        answer, *others = labelled(rows)
        style = STYLES.get(verdict.severity, "") if verdict.severity != "good" else "green"
        lines = [(answer, style or "bold"), *((line, "") for line in others)]
        return [self._folded(line, style, hanging=LABEL_WIDTH) for line, style in lines]

    def _folded(self, line: str, style: str, hanging: int = 2) -> str:
        if self._view.columns is not None:
            line = filled(line, self._view.columns, hanging)
        return self._paint(line, style) if style else line

    def early(self, reason: str) -> list[str]:
        """Returns why the run ended early."""
        return [self._folded(f"  ended early: {reason}", "red")]


class MarkdownLines(TextLines):
    """The same as Markdown."""

    def whole(self, document: Document) -> str:
        """Returns a document that is not of one run, its statements first and details last."""
        lines = [f"# {escape(document.title)}", "", *self.statements(document)]
        for block in sorted(
            document.all_blocks, key=lambda one: isinstance(one, Table) and one.is_detail
        ):
            lines += self.block_with_notes(block)
        return "".join(f"{line}\n" for line in lines)

    def head(self, header: Header, document: Document) -> list[str]:
        """Returns the same as a block of text, and the host."""
        lines = [*super().head(header, document), *host_lines(header)]
        return [f"# {document.title}", "", "```text", *lines, "```"]

    @property
    def _paint(self) -> Paint:
        return unpainted

    @property
    def _columns(self) -> int | None:
        return None

    def _below(self, notes: Iterable[str]) -> list[str]:
        found = [*notes]
        return ["", *found] if found else []

    def _line(self, text: str, style: str = "", depth: int = 0) -> str:
        return f"{'  ' * depth}- {escape(text)}"

    def blocks(self, blocks: Sequence[Block]) -> list[str]:
        """Returns the lines of blocks."""
        found: list[str] = []
        chosen = self._chosen(blocks)
        for block in chosen:
            match block:
                case Table() if block.is_detail:
                    summary = f"<details><summary>{escape(block.title)}</summary>"
                    table = (*_head_of(block), *_rows(block))
                    found += ["", summary, "", *table, "", "</details>"]
                case Table():
                    if not self._continues(block):
                        found += ["", f"## {escape(block.title)}", "", *_head_of(block)]
                    found += _rows(block)
                case Facts():
                    found += ["", *(self._line(f"{label}: {text}") for label, text in block.rows)]
                case Heat():
                    found += self._heats(self._group_of(chosen, block))
                case Lines() if block.in_texts:
                    found += _lines_of_table(curve_table(block))
                case Listing():
                    lines = [plain(line) for line in block.lines]
                    found += ["", f"## {escape(block.title)}", "", "```text", *lines, "```"]
                case Bars() | Stages() | Chart():
                    pass
                case _:
                    unhandled(block)
        return found

    def _heats(self, heats: Sequence[Heat]) -> list[str]:
        found: list[str] = []
        for number, heat in enumerate(heats):
            if number == 0:
                found += ["", f"## {escape(heat.group or heat.title)}"]
                found += ["", escape("; ".join(heat.meaning))] if heat.meaning else []
            head = (heat.column_title, *heat.columns)
            rows = [[name, *own] for name, own in zip(heat.rows, heat.texts, strict=True)]
            table = Table(heat.title, head, rows, "<" + ">" * len(heat.columns))
            found += ["", f"**{escape(heat.caption)}**"] if heat.group else []
            if heat.columns:
                found += ["", *_head_of(table), *_rows(table)]
            found += ["", *map(self._line, heat.reasons)] if heat.reasons else []
        return found

    def verdict(self, verdict: RunVerdict, rows: Sequence[tuple[str, str]]) -> list[str]:
        """Returns the same as a list."""
        return [f"- **{label}** {escape(text)}" for label, text in rows]

    def early(self, reason: str) -> list[str]:
        """Returns why the run ended early."""
        return ["", f"Ended early: {escape(reason)}"]


def _lines_of_table(table: Table) -> list[str]:
    return ["", f"## {escape(table.title)}", "", *_head_of(table), *_rows(table)]


def _head_of(table: Table) -> Iterator[str]:
    yield _row(table.full_head())
    yield f"|{'|'.join('---:' if side == '>' else '---' for side in table.sides)}|"


def _rows(table: Table) -> Iterator[str]:
    return (_row(cells) for _, cells in table.single_lines())


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


Compose = Callable[[RunContent], Document]
Part = Callable[[Any], tuple[Hashable, int]]


def document_of(compose: Compose, run: NamedRun) -> Document:
    """Returns the document of a run, composed once."""
    if compose not in run.documents:
        journal = run.journal
        conditions = ConditionFigures()
        for condition in journal.conditions:
            conditions.add(condition)
        content = RunContent(
            *(journal.header, journal.results, journal.footer, run.notes, journal.profile),
            paths=journal.paths,
            traces=journal.traces,
            conditions=conditions,
        )
        run.documents[compose] = with_conditions(compose(content), content)
    document: Document = run.documents[compose]
    return document


class DocumentText(Exporter[Any]):
    """Writes the head, then the blocks of each part that is complete, then the rest at the end.

    ``part``, ``in_order``, ``reduction`` and ``headline``: as those of ReportKind; without the last
    there is no verdict. A document without parts is written at the end. Without ``keeps_samples``,
    raw samples are not held in memory: results may be many.
    """

    explains_at_end = True
    #: Whether the verdict on a run that is complete opens the text.
    is_verdict_first: ClassVar[bool] = False
    renderer: ClassVar[type[TextLines]] = TextLines

    def __init__(
        self,
        compose: Compose,
        view: View,
        part: Part | None = None,
        *,
        in_order: bool = False,
        keeps_samples: bool = True,
        reduction: Reduce = lambda header: None,
        headline: Callable[[NamedRun], str] | None = None,
    ) -> None:
        self._headline = headline
        self._is_verdict_written = False
        self._reduce = reduction
        self._reduction: Reduction | None = None
        self._conditions = ConditionFigures()
        self._compose = compose
        self._view = view
        self._lines = self.renderer(view)
        self._part = part
        self._in_order = in_order
        self._keeps_samples = keeps_samples
        self._header: Header | None = None
        self._profile: Profile | None = None
        self._paths: list[Paths] = []
        self._explanations: dict[int, Explanation] = {}
        self._results: list[Any] = []
        self._unwritten: dict[Hashable, list[Any]] = {}

    def profile(self, profile: Profile) -> None:
        """Receives what a profile contains besides its operations."""
        self._profile = profile

    def observe(self, condition: Condition) -> None:
        """Receives the condition of a device."""
        self._conditions.add(condition)

    def connect(self, paths: Paths) -> None:
        """Receives the paths of a library for the end."""
        self._paths.append(paths)

    def begin(self, header: Header) -> str:
        """Returns the head: devices, links, libraries, the method; and the opening blocks."""
        self._header = header
        self._reduction = self._reduce(header)
        document = self._document([], None)
        if not document.in_parts:
            self._part = None
        lines = [*self._lines.head(header, document), *self._verdict_at_begin()]
        lines += self._lines.blocks(document.opening)
        return "".join(f"{line}\n" for line in lines)

    def add(self, result: Any) -> str:
        """Returns the blocks of parts that the result completes; empty if it completes none."""
        if not self._keeps_samples:
            result = without_samples(result)
        if self._reduction is not None and not self._reduction.add(result):
            return self._complete()
        self._results.append(result)
        if self._part is None:
            return ""
        key, number = self._part(result)
        text = ""
        if self._in_order and key not in self._unwritten:
            text = self._complete()
        own = self._unwritten.setdefault(key, [])
        own.append(result)
        return text if len(own) < number else text + self._written(self._unwritten.pop(key))

    def _complete(self) -> str:
        """The blocks of all parts that have begun."""
        text = "".join(map(self._written, self._unwritten.values()))
        self._unwritten.clear()
        return text

    def _written(self, part: Sequence[Any]) -> str:
        document = self._document(part, None, is_whole=False)
        lines = (*self._lines.blocks(document.blocks), *self._lines.notes(document))
        return "".join(f"{line}\n" for line in lines)

    def explain(self, explanation: Explanation) -> None:
        """Receives what ran for the results of an item, for the end."""
        self._explanations[explanation.index] = explanation

    def end(self, footer: Footer | None) -> str:
        """Returns the rest of the document."""
        for result in self._results if self._explanations else ():
            if (explanation := self._explanations.get(result.index)) is not None:
                result.explain(explanation)
        whole = self._document(self._results, footer)
        unwritten = [one for part in self._unwritten.values() for one in part]
        rest = whole
        if self._part is not None and len(unwritten) < len(self._results):
            rest = self._document(unwritten, footer, is_whole=False)
        lines = self._lines.blocks(rest.blocks)
        for block in whole.closing:
            lines += self._lines.block_with_notes(block)
        if last := [*self._lines.notes(rest), *self._lines.statements(whole)]:
            lines += ["", *last]
        if (footer is None or footer.message) and not whole.states_end:
            lines += self._lines.early(ending_line(footer))
        if self._header is not None and self._results:
            run = NamedRun("", Journal(self._header, self._results, footer=footer))
            lines += [] if self._is_verdict_written else self._verdict_lines(whole, run)
        return "".join(f"{line}\n" for line in lines)

    def _verdict_at_begin(self) -> list[str]:
        """The lines of the verdict, if they open the text."""
        journal = self._view.journal
        if not self.is_verdict_first or journal is None or not journal.results:
            return []
        self._is_verdict_written = True
        run = NamedRun("", journal, self._view.references)
        return self._verdict_lines(document_of(self._compose, run), run)

    def _verdict_lines(self, document: Document, run: NamedRun) -> list[str]:
        if self._headline is None:
            return []
        verdict = verdict_of(document, run, self._headline)
        can_rerun = run.journal.header.is_of_cclmark
        rows = verdict.rows(self.journal_path, can_rerun=can_rerun)
        return ["", *self._lines.verdict(verdict, rows)]

    def _document(
        self, results: Sequence[Any], footer: Footer | None, *, is_whole: bool = True
    ) -> Document:
        assert self._header is not None
        content = RunContent(
            *(self._header, results, footer, self._view.references, self._profile),
            paths=self._paths,
            is_whole=is_whole,
            is_live=self._view.journal is None,
            conditions=self._conditions,
            reduction=self._reduction,
        )
        return with_conditions(self._compose(content), content)


class DocumentMarkdown(DocumentText):
    """The same as Markdown."""

    is_verdict_first = True
    renderer = MarkdownLines
