"""Reads cclmark's own outputs: the comments in its texts, and its JSON, a complete journal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.grouping import abridged
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import Journal, Line
from cclmark.journal.schema import SCHEMA_VERSION, Condition, Footer, Header, Paths, Profile
from cclmark.kinds.registry import KINDS, is_readable
from cclmark.work.operations import OPERATIONS
from cclmark.work.sizes import format_size
from cclmark_importers.cleaned_text import PrintedFigure, Text, TextLine, dtype_of, reduction_of
from cclmark_importers.line_reader import Importer, LineReader
from cclmark_importers.run import ForeignRun, ImportedRow, RankCount

_PROBLEM = re.compile(
    r"# (?P<case>.{1,200}) (?P<placement>out-of-place|in-place): wrong"
    r"(?:: (?:(?P<elements>\d{1,18}) elements|rank \d{1,7}[,:] (?P<of_rank>\d{1,18}) "
    r"(?:in all|elements?),|).*)?"
)
_UNENDED = ("the end of the run is missing", "the run did not end by itself")  # older last
_ENDED = re.compile(r"exit code (?P<code>\d{1,3})(?:: (?P<message>.*))?")


@dataclass(frozen=True)
class Problem:
    """A case with wrong data. ``case`` does not contain the placement.

    ``elements``: the number of wrong elements, on all ranks or on one of them; None if unknown.
    """

    case: str
    in_place: bool
    elements: int | None

    def is_about(self, row: ImportedRow) -> bool:
        """Whether a row belongs to this case, in either placement."""
        words = [row.operation, format_size(row.size_bytes), row.dtype, row.reduction]
        words.append(None if row.root is None else f"root {row.root}")
        return self.case == " ".join(filter(None, words))


def read_problem(line: str) -> Problem | None:
    """Reads such a line; None for any other."""
    found = _PROBLEM.fullmatch(line.strip())
    if found is None:
        return None
    elements = found["elements"] or found["of_rank"]
    return Problem(
        found["case"], found["placement"] == "in-place", None if elements is None else int(elements)
    )


def with_problem(row: ImportedRow, problem: Problem) -> ImportedRow:
    """Returns ``row`` with its wrong elements, added up over ranks."""
    if problem.elements is None:
        return replace(row, failed=True)
    return replace(row, failed=False, wrong=(row.wrong or 0) + problem.elements)


def read_ending(line: str, run: ForeignRun) -> bool:
    """Whether a line describes the end of the run, which is then stored in ``run``."""
    words = line.strip().removeprefix("# ").removeprefix("error: ")
    if words in _UNENDED:
        run.whole = False
        return True
    found = _ENDED.fullmatch(words)
    if found is None:
        return False
    if int(found["code"]) > run.exit_code:
        run.exit_code, run.message = int(found["code"]), found["message"] or ""
    return True


class Shown:
    """The last row of a format that shows one of two placements, and the comments on it."""

    def __init__(self, run: ForeignRun) -> None:
        self._run = run
        self._itself = False  # whether the shown placement was reported as wrong
        self._other = ""  # the case whose other placement was wrong

    def added(self) -> None:
        """Notes that a row was added to the run."""
        self._itself = False
        self._other = ""

    def take(self, number: int, line: str) -> bool:
        """Whether the comment on line ``number`` is about a case; the run then records its content.

        A wrong placement that is not shown marks the run as failed. A row of cclmark that contains
        ``failed`` for the other placement alone is correct itself.
        """
        problem = read_problem(line)
        if problem is None:
            return False
        rows = self._run.rows
        row = rows[-1] if rows and problem.is_about(rows[-1]) else None
        if row is not None and row.in_place == problem.in_place:
            rows[-1] = with_problem(row if self._itself else replace(row, wrong=None), problem)
            self._itself = True
            return True
        if row is not None and row.failed and not self._itself:
            rows[-1] = replace(row, failed=False, wrong=0)
        self._run.failed = True
        if self._other != problem.case:  # each rank with wrong elements has a line
            placement = "in-place" if problem.in_place else "out-of-place"
            self._run.notices.append(
                f"line {number}: {problem.case} {placement} was wrong; the text has no figures "
                "of it"
            )
        self._other = problem.case
        return True


#: cclmark's line above rows of its formats without operation and type.
SERIES = re.compile(
    r"# (?P<operation>[a-z_]+) (?P<dtype>\w+)(?: (?P<reduction>[a-z]+))?"
    r"(?: root (?P<root>\d{1,7}))?(?: (?P<placement>in-place|out-of-place))?"
    r", (?P<ccl>[\w:.+-]+), (?P<ranks>\d{1,7}) ranks?"
)


@dataclass(frozen=True)
class RowSeries:
    """The common fields of all rows after a line above them: out-of-place unless specified."""

    operation: str | None = None
    dtype: str | None = None
    reduction: str | None = None
    root: int | None = None
    ccl: str | None = None
    ranks: RankCount | None = None
    in_place: bool = False

    def row(
        self, line: TextLine, size_bytes: int, time: PrintedFigure, algbw: PrintedFigure
    ) -> ImportedRow:
        """Returns a row. ``time``: in seconds, ``algbw``: in GB/s."""
        return ImportedRow(
            line=line.number,
            size_bytes=size_bytes,
            in_place=self.in_place,
            operation=self.operation,
            dtype=self.dtype,
            reduction=self.reduction,
            root=self.root,
            time=time,
            algbw=algbw.times(1e9),
            ranks=self.ranks,
            ccl=self.ccl,
        )


class SeriesReader(LineReader):
    """Reads a format that cclmark writes too, with a line above rows without operation and type."""

    def __init__(self, text: Text, tool: str, figure: str, clock: str, ccl: str) -> None:
        super().__init__(text, tool, figure, clock, ccl)
        self.series = RowSeries()
        self.shown = Shown(self.run)

    def take_series(self, line: TextLine, words: str) -> bool:
        """Whether this is cclmark's line above rows. Raises UsageError for an impossible count."""
        found = SERIES.fullmatch(words)
        dtype = None if found is None else dtype_of(found["dtype"])
        if found is None or dtype is None or found["operation"] not in OPERATIONS:
            return False
        self.series = RowSeries(
            operation=found["operation"],
            dtype=dtype,
            reduction=reduction_of(found["reduction"] or "none"),
            root=None if found["root"] is None else int(found["root"]),
            ccl=found["ccl"],
            ranks=self.ranks_of(line, found["ranks"]),
            in_place=found["placement"] == "in-place",
        )
        of_cclmark(self.run)
        return True

    def take_comment(self, line: TextLine, words: str) -> bool:
        """Whether this is a comment of cclmark's text, whose content is then in the run."""
        if self.run.tool != "cclmark" or not words.startswith("#"):
            return False
        if not self.shown.take(line.number, words):
            read_ending(words, self.run)
        return True


def of_cclmark(run: ForeignRun) -> None:
    """Records that a text is of cclmark."""
    run.tool, run.figure, run.clock = "cclmark", "the median of cclmark's samples", ""


_Entry = TypeVar("_Entry")
_MOST_NAMED = 5
_LISTS = {kind.listed_as: kind.result for kind in KINDS.values()}


def _is_json(text: Text) -> bool:
    start = text.content.lstrip()[:400]
    return start.startswith('{"header"') and '"schema_version"' in start


def read_cclmark_json(text: Text) -> Journal:
    """Reads a journal. Raises UsageError if it is truncated, damaged or of a newer schema."""
    try:
        document = json.loads(text.content)
    except (ValueError, RecursionError) as error:
        raise text.refuse(
            text.line_of_error(error),
            "this JSON is truncated or damaged: it is complete only when its run has ended. Use "
            "the journal of this run",
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("header"), dict):
        raise UsageError(f"{text.name} is not JSON of cclmark: it has no header")
    version = document["header"].get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UsageError(
            f"{text.name} has schema {version}, newer than {SCHEMA_VERSION}: update cclmark"
        )
    footer = document.get("footer")
    results: list[Result] = []
    for listed_as, kind in _LISTS.items():
        results += _entries(document, listed_as, kind, text)
    profile = document.get("profile")
    journal = Journal(
        header=_entry(document["header"], Header, text, "header"),
        results=results,
        conditions=_entries(document, "conditions", Condition, text),
        paths=_entries(document, "paths", Paths, text),
        profile=None if profile is None else _entry(profile, Profile, text, "profile"),
        footer=None if footer is None else _entry(footer, Footer, text, "footer"),
    )
    _refuse_damage(journal, text)
    return journal


def _refuse_damage(journal: Journal, text: Text) -> None:
    """Raises UsageError if readers of the journal would skip a part of it."""
    if len({type(result) for result in journal.results}) > 1:
        raise UsageError(
            f"{text.name} is damaged: it holds results of several kinds of work ("
            f"{', '.join(_LISTS)}), and a run has one"
        )
    places: dict[str, Sequence[Line]] = {
        KINDS[journal.kind].listed_as: journal.results,
        "conditions": journal.conditions,
        "paths": journal.paths,
    }
    bad = [
        f"{name}[{number}]"
        for name, entries in places.items()
        for number, entry in enumerate(entries)
        if not is_readable(entry, journal.header)
    ]
    others = (("header", journal.header), ("profile", journal.profile), ("footer", journal.footer))
    for name, line in others:
        if line is not None and not is_readable(line, journal.header):
            bad.insert(0, name)
    if bad:
        raise UsageError(
            f"{text.name} is damaged: {abridged(bad, _MOST_NAMED)} contain invalid "
            "numbers, or devices that the header does not contain. Remove these entries, or use "
            "the journal of this run"
        )


def _entries(document: dict[str, Any], name: str, kind: type[_Entry], text: Text) -> list[_Entry]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise UsageError(f"{text.name}: {name} is not a list")
    return [_entry(one, kind, text, f"{name}[{number}]") for number, one in enumerate(found)]


def _entry(value: Any, kind: type[_Entry], text: Text, name: str) -> _Entry:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{text.name}: {name}: {error}") from None


CCLMARK_JSON = Importer(lambda text, lines: 1 if _is_json(text) else None, read_cclmark_json)
