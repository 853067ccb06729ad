"""What a run says, as data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, TypeAlias

from cclmark.document.chart_model import Chart
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.results.schema import Footer, Header, Paths, Profile, TracedStage


@dataclass(frozen=True)
class RunContent:
    """What a document is composed from: the lines of a journal, ``results`` of one kind.

    ``footer``: None if the end of the run is missing. ``references``: finds references.
    ``profile``: what the profile of a program contains besides its operations. ``paths``: how
    libraries connect the ranks. ``is_whole``: whether ``results`` are all of the run; of a part of
    it, only blocks are written.
    """

    header: Header
    results: Sequence[object]
    footer: Footer | None
    references: ReferenceNotes = field(default_factory=ReferenceNotes)
    profile: Profile | None = None
    paths: Sequence[Paths] = ()
    is_whole: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of text under a title. ``sides``: ``<`` or ``>`` for each column, ``>`` for numbers.

    ``notes``: what it shows. ``belongs``: to the table before it, as the same rows in another view.
    ``wrong``: the places of rows with wrong data. ``widths``: the least widths of columns in texts;
    with them the rows of a further part continue the table of the same title. ``is_last_below``:
    whether the last cell of a row is long, with lines that texts write below the row.
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

    def single_lines(self) -> list[Sequence[str]]:
        """The rows; further lines of a last cell are in rows that are empty but for them."""
        if not self.is_last_below:
            return [*self.rows]
        return [
            [*(cells[:-1] if number == 0 else [""] * (len(cells) - 1)), line]
            for cells in self.rows
            for number, line in enumerate(cells[-1].split("\n"))
        ]


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
    """Names and what is known of each, for example ``compute`` and what computes."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Listing:
    """Lines as a terminal shows them, under a title."""

    title: str
    lines: Sequence[str]


Block: TypeAlias = Facts | Table | Listing | Bars | Stages | Chart


def unhandled(block: NoReturn) -> NoReturn:
    """Called where a renderer has handled all types of blocks: the type checker proves it."""
    raise AssertionError(f"unknown block {block!r}")


Severity = Literal["bad", "look", "note", "good"]


@dataclass(frozen=True)
class Finding:
    """An observation: a sentence without capital letter and full stop.

    ``subject``: what it is about, for example a case, if several findings are about it.
    ``advice``: what to do, in the same form; empty if there is nothing to do. ``is_outcome``:
    whether the outcome of the document, which texts end with, says the same.
    """

    severity: Severity
    sentence: str
    subject: str = ""
    advice: str = ""
    is_outcome: bool = False


@dataclass(frozen=True)
class Document:
    """Everything that a run of a kind says besides its machine.

    ``method``: how it was measured. ``opening``: the blocks that the header determines, which texts
    write with the head. ``closing``: the blocks of the whole run that texts write after those of
    all its parts. ``outcome``: the last line of texts, about checks;
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
    opening: Sequence[Block] = ()
    in_parts: bool = True
