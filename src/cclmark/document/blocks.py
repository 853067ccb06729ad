"""What a run says, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NoReturn, TypeAlias

from cclmark.analysis.device_conditions import ConditionFigures
from cclmark.document.chart_model import Chart
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.schema import Footer, Header, Paths, Profile, Trace, TracedStage


@dataclass(frozen=True)
class RunContent:
    """What a document is composed from: the lines of a journal, ``results`` of one kind.

    ``footer``: None if the end of the run is missing. ``references``: finds references.
    ``profile``: what the profile of a program contains besides its operations. ``paths``: how
    libraries connect the ranks. ``traces``: the timelines of the run. ``is_whole``: whether
    ``results`` are all of the run; of a part of it, only blocks are written. ``is_live``: whether
    the run is shown as it is measured. ``conditions``: of devices. ``reduction``: see ReportKind;
    None if ``results`` are all.
    """

    header: Header
    results: Sequence[object]
    footer: Footer | None
    references: ReferenceNotes = field(default_factory=ReferenceNotes)
    profile: Profile | None = None
    paths: Sequence[Paths] = ()
    traces: Sequence[Trace] = ()
    is_whole: bool = True
    is_live: bool = False
    conditions: ConditionFigures = field(default_factory=ConditionFigures)
    reduction: Any = None


#: ``bad``: wrong, or failed. ``look``: needs attention. ``unknown``: could not be judged, with the
#: reason. ``good``: looked for, and in order. ``note``: what there is to know.
Severity = Literal["bad", "look", "unknown", "good", "note"]
#: A cell that stands out: its row and column, and why.
Look = tuple[int, int, Severity]
Number = tuple[int, int, str]


@dataclass(frozen=True)
class Groups:
    """Groups of equal columns side by side. ``width``: the number of columns of each.

    ``title`` and ``short``: the head and the cells of the column that names them where each has its
    own line.
    """

    names: Sequence[str]
    width: int = 0
    title: str = ""
    short: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """Rows of text under a title. ``sides``: ``<`` or ``>`` for each column, ``>`` for numbers.

    ``notes``: what it shows. ``belongs``: to the table before it, as the same rows in another view.
    ``wrong``: the places of rows with wrong data. ``widths``: the least widths of columns in texts;
    with them the rows of a further part continue the table of the same ``series``, or without one
    that of the same title. ``is_last_below``:
    whether the last cell of a row is long, with lines that texts write below the row. A row of
    fewer cells ends with one that takes the place of the others, for example why they are missing.

    ``groups``: of the last columns besides that of ``is_last_below``; where a line is too narrow,
    each group of a row has its own line.
    ``optional``: columns before the groups that narrow texts leave out, the first one first.
    ``numbers``: those of cells with a word, because noise decides, each with its row and column.
    ``looks``: cells that stand out, each with its row and column. ``on_page``: False if pages have
    the same figures elsewhere. ``is_detail``: Markdown has it at the end, folded. ``passed``: the
    places of rows that are in order, which pages fold.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    sides: str
    notes: Sequence[str] = ()
    belongs: bool = False
    wrong: Collection[int] = ()
    widths: Sequence[int] = ()
    is_last_below: bool = False
    series: str = ""
    groups: Groups = field(default_factory=lambda: Groups(()))
    optional: Sequence[int] = ()
    looks: Sequence[Look] = ()
    numbers: Sequence[Number] = ()
    on_page: bool = True
    is_detail: bool = False
    passed: Collection[int] = ()

    def part(self, *, passed: bool) -> Table:
        """The table with only the rows that are in order, or only the others."""
        places = [one for one in range(len(self.rows)) if (one in self.passed) is passed]
        rows = [self.rows[one] for one in places]
        looks = [(places.index(row), one, look) for row, one, look in self.looks if row in places]
        return replace(self, rows=rows, looks=looks, wrong=(), numbers=(), passed=())

    @property
    def lead(self) -> int:
        """The number of columns before the groups."""
        return len(self.head) - self.is_last_below - len(self.groups.names) * self.groups.width

    def full_head(self) -> list[str]:
        """The head in one line, in which the columns of groups have their names."""
        head = [*self.head]
        for number, name in enumerate(self.groups.names):
            for place in range(self.groups.width):
                column = self.lead + number * self.groups.width + place
                head[column] = f"{name} {head[column]}"
        return head

    def single_lines(self) -> Iterator[tuple[int, Sequence[str]]]:
        """The rows with their places; further lines of a last cell have rows of their own."""
        width = len(self.head)
        for place, cells in enumerate(self.rows):
            *lead, last = cells
            lead += [""] * (width - len(cells))
            for line in last.split("\n") if self.is_last_below else (last,):
                yield place, [*lead, line]
                lead = [""] * len(lead)

    def with_numbers(self) -> Table:
        """Returns the table with numbers in the cells that have a word in their place."""
        if not self.numbers:
            return self
        rows = [[*cells] for cells in self.rows]
        for row, column, number in self.numbers:
            rows[row][column] = number
        return replace(self, rows=rows, numbers=())

    def look_of(self, row: int, column: int) -> Severity | Literal[""]:
        """Why a cell stands out; empty if it does not."""
        return self._looks.get((row, column), "")

    @cached_property
    def _looks(self) -> Mapping[tuple[int, int], Severity]:
        return {(row, column): look for row, column, look in self.looks}


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: the cell of each row, and why it stands out, if it does.

    ``number``: in place of a word, see Table; empty for none.
    """

    head: str
    cell: Callable[[Any], str]
    side: Literal["<", ">"] = "<"
    look: Callable[[Any], Severity | Literal[""]] = lambda row: ""
    number: Callable[[Any], str] = lambda row: ""


def table_of(
    title: str, columns: Sequence[TableColumn], rows: Sequence[Any], **properties: Any
) -> Table:
    """Returns the table of ``rows`` without the columns that are empty in all of them."""
    looks = [
        (number, place, look)
        for place, column in enumerate(columns)
        for number, row in enumerate(rows)
        if (look := column.look(row))
    ]
    numbers = [
        (place, at, number)
        for at, column in enumerate(columns)
        for place, row in enumerate(rows)
        if (number := column.number(row))
    ]
    return without_empty_columns(
        Table(
            title,
            [column.head for column in columns],
            [[column.cell(row) for column in columns] for row in rows],
            "".join(column.side for column in columns),
            looks=looks,
            numbers=numbers,
            **properties,
        )
    )


def without_empty_columns(table: Table) -> Table:
    """Returns the table without the columns that are empty in all of its rows."""
    used = [place for place, cells in enumerate(zip(*table.rows, strict=True)) if any(cells)]

    def kept(cells: Sequence[str]) -> list[str]:
        return [cells[place] for place in used]

    return replace(
        table,
        head=kept(table.head),
        rows=[*map(kept, table.rows)],
        sides="".join(kept(table.sides)),
        looks=[(row, used.index(place), why) for row, place, why in table.looks if place in used],
        numbers=[
            (row, used.index(place), one) for row, place, one in table.numbers if place in used
        ],
        optional=[used.index(place) for place in table.optional if place in used],
    )


@dataclass(frozen=True)
class Bars:
    """Times that follow each other, a bar for each row; shown on pages only.

    ``rows``: the name of each and its parts in seconds, by their names. ``noun``: of a row.
    """

    title: str
    noun: str
    rows: Sequence[tuple[str, Sequence[tuple[str, float]]]]


@dataclass(frozen=True)
class Stages:
    """Stages at their times, a bar for each row; shown on pages only.

    ``rows``: the name of each and its stages. ``noun``: of a row.
    """

    title: str
    noun: str
    rows: Sequence[tuple[str, Sequence[TracedStage]]]


@dataclass(frozen=True)
class Facts:
    """Names and what is known of each, for example ``compute`` and what computes.

    ``title``: on pages, empty for that of the section.
    """

    rows: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Listing:
    """Lines as a terminal shows them, under a title."""

    title: str
    lines: Sequence[str]


Block: TypeAlias = Facts | Table | Listing | Bars | Stages | Chart


def unhandled(block: NoReturn) -> NoReturn:
    """Called where a renderer has handled all types of blocks: the type checker proves it."""
    raise AssertionError(f"unknown block {block!r}")


#: Of a figure with its limit; empty without a limit.
Comparison = Literal["<", "=", ">", ""]
# The units of figures by the end of their names, and the factors from seconds, bytes and shares.
_UNITS: Mapping[str, tuple[str, float]] = {
    **{"us": ("µs", 1e6), "ms": ("ms", 1e3), "gbps": ("GB/s", 1e-9), "bytes": ("bytes", 1)},
    "gbit": ("Gb/s", 8e-9),
    **{"percent": ("%", 100), **dict.fromkeys(("width", "spread", "evaluated"), ("share", 1))},
    **dict.fromkeys(("ratio", "reference", "up", "down", "rate"), ("times", 1)),
    **{"wrong": ("elements", 1), "outliers": ("samples", 1), "ranks": ("ranks", 1)},
    **dict.fromkeys(("last", "unreported"), ("calls", 1)),
}


@dataclass(frozen=True)
class Evidence:
    """A figure that a finding follows from, and what it is compared with.

    ``name``: of the figure, a field of the run's kind where it is one. ``limit``: in the same unit,
    with ``comparison`` between both; None without one. ``at``: where, for example a case.
    """

    name: str
    value: float
    unit: str
    at: str = ""
    comparison: Comparison = ""
    limit: float | None = None

    @classmethod
    def of(cls, name: str, value: float, at: str = "", limit: float | None = None) -> Evidence:
        """A figure in the unit of its name. ``value``, ``limit``: in base units."""
        unit, factor = _UNITS.get(name.rpartition("_")[2], ("", 1))
        scaled = value * factor
        if limit is None:
            return cls(name, scaled, unit, at)
        limit *= factor
        comparison: Comparison = "<" if scaled < limit else ">" if scaled > limit else "="
        return cls(name, scaled, unit, at, comparison, limit)


@dataclass(frozen=True)
class Gain:
    """What an action that a finding names is worth, as measured. ``at``: where.

    ``low`` and ``high``: the 95 % interval of ``value``; None if it is unknown.
    """

    value: float
    unit: str
    at: str = ""
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, speed_up: float, low: float, high: float, at: str = "") -> Gain | None:
        """Returns a speed-up with its interval; None unless it is proven to be one."""
        return cls(speed_up, "times as fast", at, low, high) if low > 1 else None


@dataclass(frozen=True)
class Finding:
    """An observation: a sentence without capital letter and full stop.

    ``id``: of the rule, a name of FINDINGS. ``subject``: what it is about, for example a case, if
    several findings are about it. ``advice``: what to do, in sentences; empty if there is nothing
    to do. ``is_outcome``: whether texts say the same with the outcome of the document, or beside
    its figures. Findings of two runs are equal if they say the same.
    """

    id: str
    severity: Severity
    sentence: str
    subject: str = ""
    advice: str = ""
    is_outcome: bool = False
    evidence: tuple[Evidence, ...] = field(default=(), compare=False)
    gain: Gain | None = field(default=None, compare=False)

    @property
    def commands(self) -> list[str]:
        """The commands of the advice, to copy."""
        return re.findall(r"`((?:cclmark|\.) [^`]+)`", self.advice)


#: The order of findings in lists: the most severe first, then positive ones, then notes.
SEVERITY_ORDER: Mapping[Severity, int] = {"bad": 0, "look": 1, "unknown": 2, "good": 3, "note": 4}


@dataclass(frozen=True)
class HeadFigure:
    """A figure at the top of a page. ``label``: what it is of; ``note``: below it."""

    label: str
    value: str
    unit: str
    note: str = ""


@dataclass(frozen=True)
class Document:
    """Everything that a run of a kind says besides its machine.

    ``method``: how it was measured. ``opening``: the blocks that the header determines, which texts
    write with the head. ``closing``: the blocks of the whole run that texts write after those of
    all its parts. ``figures``: the main figures, a line each, before the findings of texts; pages
    have them in their first lines. ``head_figures``: those at the top of a page of one run, none
    that noise decides. ``outcome``: the last line of texts, about checks;
    ``is_wrong``: whether some failed. ``notes``: how all figures are to be read. ``noun``: what the
    head counts. ``states_end``: whether findings state how the run ended; otherwise renderers do.
    ``in_parts``: False if results of several parts alternate, so that no part can be written first.
    """

    title: str
    method: str
    blocks: Sequence[Block] = ()
    findings: Sequence[Finding] = ()
    outcome: str = ""
    is_wrong: bool = False
    notes: Sequence[str] = ()
    noun: str = "rank"
    states_end: bool = False
    closing: Sequence[Block] = ()
    figures: Sequence[str] = ()
    head_figures: Sequence[HeadFigure] = ()
    opening: Sequence[Block] = ()
    in_parts: bool = True

    @property
    def all_blocks(self) -> list[Block]:
        """The blocks in their order."""
        return [*self.opening, *self.blocks, *self.closing]
