"""What the readers of formats share: lines and errors, tables, matrices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import msgspec

from cclmark.base.errors import UsageError
from cclmark.journal.journal_file import Journal
from cclmark.profile.observed import ObservedProcess
from cclmark.work.transfers import Transfer
from cclmark_importers.cleaned_text import PrintedFigure, Text, TextLine, read_count, read_decimal
from cclmark_importers.run import ForeignRun, RankCount, ToolSettings, left_out, measured

MOST_DEVICES = 4096


LineTest = Callable[[str], object]
_FIGURES = re.compile(r"\d\S*\s+[\d.]")


@dataclass(frozen=True)
class RunMarks:
    """Lines by which the runs of a tool are told apart, as tests of their words.

    ``begins``: lines above the results that a run prints, by default those that identify the
    format. After a result they begin the next run. ``results``: lines that are results. ``ends``:
    the last lines of a run. ``goes_on``: whether a line of cclmark says that the same run goes on,
    None for other lines. ``sizes``: the sizes of a line of results, which grow within a run.
    ``by_results``: for tools that print no such line above the results of a run: a result begins
    the next run after the end of another, after a command, and where sizes do not grow.
    """

    begins: Sequence[LineTest] = ()
    results: LineTest = _FIGURES.match
    ends: Sequence[LineTest] = ()
    goes_on: Callable[[str], bool | None] = lambda words: None
    sizes: Callable[[str], Sequence[int]] | None = None
    by_results: bool = False


@dataclass(frozen=True)
class Importer:
    """A format. ``finds``: returns the first line that identifies the format, if any.

    ``read`` raises UsageError for a text that it cannot read. ``tests``: of the lines that identify
    the format; none for documents. ``marks``: of its runs.
    """

    finds: Callable[[Text, list[TextLine]], int | None]
    read: Callable[[Text], ForeignRun | Journal]
    tests: Sequence[LineTest] = ()
    marks: RunMarks = RunMarks()


#: From so many bytes at its start the format of a trace is known.
HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class TraceImporter:
    """A format of traces. ``fits``: whether a file has it.

    ``fits`` requires the start of a file: ``HEAD_BYTES``, or all of it. ``read``: the ranks of
    a file, usually one, from the open file, the name for messages, and the number of the file.
    Raises UsageError.
    """

    tool: str
    figure: str
    fits: Callable[[bytes], bool]
    read: Callable[[BinaryIO, str, int], Sequence[ObservedProcess]]


def first_line(*tests: LineTest) -> Callable[[Text, list[TextLine]], int | None]:
    """Returns a detector: of the first line whose words satisfy one of the tests."""

    def finds(text: Text, lines: list[TextLine]) -> int | None:
        found = (line.number for line in lines if any(test(line.text.strip()) for test in tests))
        return next(found, None)

    return finds


def importer(
    reads: Callable[[Text], LineReader], *tests: LineTest, marks: RunMarks | None = None
) -> Importer:
    """Returns the importer of a reader, whose format is found by the words of a line."""
    marks = marks or RunMarks()
    return Importer(first_line(*tests), lambda text: reads(text).read(), tests, marks)


def document_importer(
    reads: Callable[[Text], LineReader], fits: Callable[[Text], bool]
) -> Importer:
    """Returns the importer of a reader of documents. ``fits``: whether a text is one."""
    return Importer(lambda text, lines: 1 if fits(text) else None, lambda text: reads(text).read())


class LineReader:
    """Reads a text line by line into ``run``. ``lines``: those that are not blank.

    In subclasses ``_begin`` reads what begins a table, ``_head`` the line of its columns, ``_row``
    a row, and ``_close`` ends a table.
    """

    def __init__(
        self, text: Text, tool: str, figure: str, clock: str, ccl: str = "", **facts: Any
    ) -> None:
        self.text = text
        self.run = ForeignRun(tool, figure, clock, ccl, facts=ToolSettings(**facts))
        self.lines = [line for line in text.lines() if line.text.strip()]

    def read(self) -> ForeignRun:
        """Reads all lines. Raises UsageError for a line that cannot be read."""
        for line in self.lines:
            self.take(line, line.text.strip())
        self.finish()
        return self.run

    def take(self, line: TextLine, words: str) -> None:
        """Reads the next line."""
        raise NotImplementedError

    def finish(self) -> None:
        """Completes the run after the last line."""

    def refuse(self, line: TextLine | int, message: str) -> UsageError:
        """Returns the error to raise for the content of ``line``."""
        return self.text.refuse(line, message)

    def split(self, line: TextLine | int, reason: str, place: str = "line") -> UsageError:
        """Returns the error to raise where another run begins."""
        return self.text.split(line, reason, place)

    def ranks_of(self, line: TextLine, word: str | None) -> RankCount | None:
        """Returns the number of ranks on ``line``; None without a word."""
        return None if word is None else RankCount(self.text.ranks(line, word), line.number)

    def note(self, line: TextLine | int, words: str, *, once: bool = False) -> None:
        """Adds a notice about ``line``. ``once``: unless another line has it already."""
        number = line.number if isinstance(line, TextLine) else line
        if not once or not any(one.endswith(f": {words}") for one in self.run.notices):
            self.run.notices.append(f"line {number}: {words}")

    def note_zeros(self, what: str, lines: Sequence[int]) -> None:
        """Adds the notice about figures that are left out, if there are any."""
        if lines:
            self.run.notices.append(left_out(what, lines))

    def note_settings(self, settings: Mapping[str, str], of: str = "") -> None:
        """Adds the notice about the tool's settings, if there are any."""
        if settings:
            shown = ", ".join(f"{name} {value}" for name, value in settings.items())
            self.run.notices.append(f"settings of the tool{of}: {shown}")

    def truncated(self, line: TextLine) -> None:
        """Records that the end of the text truncates its last line."""
        self.note(line, "truncated, omitted")
        self.run.whole = False

    def fail(self, message: str) -> None:
        """Records that the run failed."""
        self.run.failed, self.run.exit_code, self.run.message = True, 1, message

    def row(
        self,
        line: TextLine,
        columns: Sequence[str],
        reads: Callable[[str], PrintedFigure | None] = read_decimal,
    ) -> TableRow | None:
        """Returns the row on ``line``; None if the end of the text truncates it.

        Raises UsageError for another number of words than columns.
        """
        cells = line.text.split()
        if len(cells) == len(columns):
            return TableRow(self.text, line, dict(zip(columns, cells, strict=True)), reads)
        if line is self.lines[-1] and len(cells) < len(columns):
            self.truncated(line)
            return None
        raise self.refuse(
            line, f"{len(cells)} figures in this row, but the header has {len(columns)}"
        )

    def add_copy(
        self, line: TextLine, transfer: Transfer, size_bytes: int | None, value: float
    ) -> None:
        """Adds a copy, see ``measured``."""
        self.run.copies.append(measured(line.number, transfer, size_bytes, value))

    def describe_copies(self, bandwidths: str, latencies: str) -> None:
        """Sets what a time is, by the measures of the copies."""
        measures = {row.transfer.measure for row in self.run.copies}
        figures = [bandwidths] if measures - {"latency"} else []
        figures += [latencies] if "latency" in measures else []
        self.run.figure = "; ".join(figures)


@dataclass(frozen=True)
class TableRow:
    """A row of a table: its words by column. A word that is read must be a number."""

    text: Text
    line: TextLine
    cells: dict[str, str]
    reads: Callable[[str], PrintedFigure | None]

    def refused(self, name: str) -> UsageError:
        """Returns the error for a word that is not what its column contains."""
        shown = self.line.text.strip()[:80]
        return self.text.refuse(
            self.line, f"cannot read the row {shown!r}: {name} is {self.cells[name][:40]!r}"
        )

    def count(self, name: str) -> int:
        """Returns the whole number of a column. Raises UsageError if it is not one."""
        number = read_count(self.cells[name])
        if number is None:
            raise self.refused(name)
        return number

    def figure(self, name: str, unit: float = 1.0) -> PrintedFigure:
        """Returns the figure of a column. Raises UsageError if it is not a number."""
        figure = self.reads(self.cells[name])
        if figure is None:
            raise self.refused(name)
        return figure.times(unit)

    def require_figures(self) -> None:
        """Raises UsageError if a word is not a number."""
        for name in self.cells:
            self.figure(name)


@dataclass(frozen=True)
class MatrixRow:
    """A row: its label, its cells and its line."""

    label: str
    cells: list[str]
    line: int


@dataclass(frozen=True)
class PrintedMatrix:
    """A matrix. ``line``: of its columns. ``cut``: the end of the text truncates it.

    ``after``: the index of the first line after it.
    """

    columns: list[str]
    rows: list[MatrixRow]
    line: int
    cut: bool
    after: int

    def cells(self) -> Iterator[tuple[int, int, str, int]]:
        """Returns the cells: the numbers of row and column, the word, and the line."""
        for number, row in enumerate(self.rows):
            for column, word in enumerate(row.cells):
                yield number, column, word, row.line


class MatrixReader(LineReader):
    """Reads a text of matrices: a line with the columns, then a line for each row.

    ``devices``: the number of devices of the matrices so far.
    """

    within: ClassVar[str] = "matrix"  # a part of the text that its end may truncate

    devices = 0

    def read(self) -> ForeignRun:
        """Reads all lines. Raises UsageError for a matrix that cannot be read."""
        place = 0
        while place < len(self.lines):
            line = self.lines[place]
            place = self.take_at(place, line, line.text.strip())
        self.finish()
        return self.run

    def take_at(self, place: int, line: TextLine, words: str) -> int:
        """Reads ``line``, which is at ``place``, and returns the place of the next one to read."""
        raise NotImplementedError

    def cut(self) -> None:
        """Records that the end of the text truncates a matrix."""
        self.run.whole = False
        words = f"the text ends within a {self.within}, whose complete rows are used"
        self.note(self.lines[-1], words, once=True)

    def number(self, line: int, word: str) -> PrintedFigure:
        """Returns the figure of a cell. Raises UsageError if it is not a number."""
        figure = read_decimal(word)
        if figure is None:
            raise self.refuse(line, f"{word[:40]!r} is not a number")
        return figure

    def require_next(self, line: TextLine, number: int) -> None:
        """Raises UsageError if a device of the list is not the next one."""
        due = len(self.run.devices)
        if number != due:
            raise self.refuse(line, f"device {number} is listed, but device {due} is due")

    def require_devices(
        self, line: TextLine | int, number: int, matrix: str = "this matrix"
    ) -> None:
        """Raises UsageError for another number of devices than listed or in earlier matrices."""
        known = len(self.run.devices) or self.devices or number
        if number != known:
            raise self.refuse(line, f"{matrix} has {number} devices, but the text has {known}")
        self.devices = number

    def matrix(
        self, start: int, columns: list[str], label: re.Pattern[str], *, rows: int | None = None
    ) -> PrintedMatrix:
        """Reads the rows after the line of the columns, which has index ``start``.

        ``label``: of a row. ``rows``: their number, by default that of the columns. Rows are
        counted by their place. Raises UsageError for a row with another number of cells and for a
        missing or surplus row.
        """
        lines, here = self.lines, self.lines[start].number
        if not 0 < len(columns) <= MOST_DEVICES:
            raise self.refuse(here, f"{len(columns)} columns: expected 1 to {MOST_DEVICES}")
        expected = len(columns) if rows is None else rows
        found: list[MatrixRow] = []
        place = start + 1
        while place < len(lines):
            words = lines[place].text.split()
            if label.fullmatch(words[0]) is None:
                break
            row = MatrixRow(words[0], words[1:], lines[place].number)
            is_last = place == len(lines) - 1
            place += 1
            if len(row.cells) != len(columns):
                if is_last and len(row.cells) < len(columns):
                    return PrintedMatrix(columns, found, here, cut=True, after=place)
                raise self.refuse(
                    row.line,
                    f"{len(row.cells)} figures in this row, but the matrix has {len(columns)} "
                    "columns",
                )
            found.append(row)
            if len(found) > expected:
                raise self.refuse(row.line, f"this matrix has more than {expected} rows")
        cut = len(found) < expected and place == len(lines)
        if len(found) < expected and not cut:
            raise self.refuse(here, f"this matrix has {len(found)} rows, not {expected}")
        return PrintedMatrix(columns, found, here, cut=cut, after=place)

    def numbered_matrix(
        self, start: int, columns: list[str], *, rows: int | None = None
    ) -> PrintedMatrix:
        """Reads a matrix whose rows and columns are numbered from 0, as devices are."""
        matrix = self.matrix(start, columns, DEVICE_NUMBER, rows=rows)
        if matrix.columns != [str(number) for number in range(len(matrix.columns))]:
            raise self.refuse(matrix.line, "the columns of this matrix are not numbered 0, 1, 2 …")
        for number, row in enumerate(matrix.rows):
            if row.label != str(number):
                raise self.refuse(
                    row.line, f"this is row {row.label[:20]}, but row {number} is due"
                )
        return matrix


DEVICE_NUMBER = re.compile(r"\d{1,4}", re.ASCII)


def placed(common: Transfer, row: int, column: int) -> Transfer:
    """Returns the transfer of a matrix's cell: the row's device copies."""
    there = (row, column) if common.direction == "write" else (column, row)
    both = common.measure == "bidirectional"
    return msgspec.structs.replace(common, flows=(there, there[::-1]) if both else (there,))
