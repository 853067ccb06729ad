"""The runs in a text, such as the log of a loop over commands: where each begins, of which tool.

A run begins with a line that its tool prints once (``RunMarks``), after results of another run. The
command line above it, and the library's version, belong to it; all other lines between two runs
belong to the first one, where readers skip them. A JSON document is a run without other lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cclmark_importers.cleaned_text import Text, TextLine, operation_of
from cclmark_importers.formats import IMPORTERS
from cclmark_importers.line_reader import Importer, LineTest, RunMarks

# A command line, as shells, ``set -x`` and users write it: any line that names a program.
_COMMAND = re.compile(
    r"(?:^|[\s/'\"=])(?:test_[a-z_]{4,20}|[a-z_]{4,20}_(?:perf|test)(?:_mpi)?"
    r"|p2pBandwidthLatencyTest|nvbandwidth|osu_[a-z_]{2,30}|IMB-MPI1|nccom-test|nixlbench"
    r"|ib_(?:write|read|send)_(?:bw|lat)|uc[cx]_perftest|mscclpp-test"
    r"|(?:test_\w{4,20}|all_reduce_bench|all_reduce_latency_comp|all_gather_object_vs_\w{4,20})\.py)"
    r"(?=$|[\s'\",)])"
)
_LIBRARY = re.compile(r"[NR]CCL version\b")
_MOST_UNCLOSED = 8
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True)
class TextRun:
    """A run: the first and the last line, counted from 1, and the format."""

    first: int
    last: int
    format: str


def runs_in(text: Text, format: str | None = None) -> list[TextRun]:
    """Returns the runs of a text in their order. ``format``: only this one's, None: of any."""
    lines = text.lines()
    names = [format] if format else list(IMPORTERS)
    search = _Search(text, {name: IMPORTERS[name] for name in names if IMPORTERS[name].tests})
    documents = [IMPORTERS[name] for name in names if not IMPORTERS[name].tests]
    name_of = {id(importer): name for name, importer in IMPORTERS.items()}
    place = 0
    for first, last, importer in _documents(text, lines, documents):
        search.take(range(place, first))
        search.document(first, last, name_of[id(importer)])
        place = last + 1
    search.take(range(place, len(lines)))
    return search.runs()


def part_of(text: Text, run: TextRun) -> Text:
    """Returns the part of a text that contains a run."""
    lines = text.raw[run.first - 1 : run.last]
    return Text(text.name, "\n".join(lines), run.first)


def operation_of_table(text: Text, run: TextRun) -> str | None:
    """The operation that the head of a document's table names, for a run that begins in its rows.

    ``| Nvidia A800*2 | FlagCX | Comm size: … |`` below ``| | | AllReduce |``.
    """
    for line in reversed(text.raw[: run.first]):
        if not line.lstrip().startswith("|"):
            return None
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if (operation := operation_of(cells[-1])) is not None:
            return operation
    return None


@dataclass
class _Open:
    """The run that is being read. ``last``: its last line of results."""

    format: str
    marks: RunMarks
    begins: Sequence[LineTest]
    has_begun: bool = False
    has_results: bool = False
    is_joined: bool = False
    has_ended: bool = False
    size: int = -1
    last: TextLine | None = None


@dataclass
class _Above:
    """Places of lines since the last result: what may belong to the next run."""

    command: int | None = None
    library: int | None = None
    begins: dict[str, int] = field(default_factory=dict)

    def place(self, format: str, line: int) -> int:
        """Returns where a run begins that is recognised on ``line``."""
        others = (self.command, self.library, self.begins.get(format))
        return min([line, *(one for one in others if one is not None)])


class _Search:
    """Finds the runs of texts, line by line. ``formats``: those that lines identify."""

    def __init__(self, text: Text, formats: dict[str, Importer]) -> None:
        self._lines = text.lines()
        self._raw = text.raw
        self._formats = formats
        self._found: list[tuple[int, int | None, str]] = []  # places; None: up to the next run
        self._open: _Open | None = None
        self._above = _Above()

    def runs(self) -> list[TextRun]:
        """Returns the runs that were found."""
        lines, found = self._lines, []
        for number, (start, end, name) in enumerate(self._found):
            following = self._found[number + 1][0] if number + 1 < len(self._found) else len(lines)
            last = following - 1 if end is None else end
            # Everything above the first run belongs to it, but a document stands alone.
            first = 0 if number == 0 and end is None else start
            found.append(TextRun(lines[first].number, lines[last].number, name))
        return found

    def document(self, first: int, last: int, name: str) -> None:
        """Adds a document, whose lines are read already."""
        self._found.append((first, last, name))
        self._open, self._above = None, _Above()

    def take(self, places: range) -> None:
        """Reads lines."""
        for place in places:
            words = self._lines[place].text.strip()
            if words and not self._is_of_open(place, words):
                self._read(place, words)

    def _fits(self, tests: Sequence[LineTest], place: int, words: str) -> bool:
        """Whether a line fits one of the tests, with or without what looks like a prefix."""
        if any(test(words) for test in tests):
            return True
        raw = self._raw[self._lines[place].number - 1].strip()
        return raw != words and any(test(raw) for test in tests)

    def _is_of_open(self, place: int, words: str) -> bool:
        """Whether a line is of the run that is being read, or of the next one of its tool."""
        run = self._open
        if run is None:
            return False
        if run.marks.results(words):
            if self._result_begins(run, place, words):
                run = self._begin(place, run.format)
            self._result(run, place, words)
            return True
        goes_on = run.marks.goes_on(words)
        run.is_joined = run.is_joined if goes_on is None else goes_on
        if self._fits(run.begins, place, words):
            after_results = run.has_results and not run.is_joined
            after_command = run.has_begun and self._above.command is not None
            if (after_results or after_command) and self._same_process(run, place):
                run = self._begin(place, run.format)
            run.has_begun = True
            return True
        run.has_ended |= self._fits(run.marks.ends, place, words)
        if any(test(words) for test in self._formats[run.format].tests):  # a table within the run
            self._above = _Above()
            return True
        return False

    def _result_begins(self, run: _Open, place: int, words: str) -> bool:
        marks = run.marks
        if not marks.by_results or not run.has_results or run.is_joined:
            return False
        sizes = marks.sizes(words) if marks.sizes is not None else ()
        restarts = bool(sizes) and sizes[0] <= run.size
        is_next = run.has_ended or restarts or self._above.command is not None
        return is_next and self._same_process(run, place)

    def _result(self, run: _Open, place: int, words: str) -> None:
        sizes = run.marks.sizes(words) if run.marks.sizes is not None else ()
        run.size = sizes[-1] if sizes else run.size
        run.has_results, run.is_joined, run.last = True, False, self._lines[place]
        run.has_ended = self._fits(run.marks.ends, place, words)
        self._above = _Above()

    def _same_process(self, run: _Open, place: int) -> bool:
        """Whether a line may be of another run: tables of several processes at once are refused."""
        line, last = self._lines[place], run.last
        if last is None:
            return True
        is_same = line.process == last.process or not (line.process and last.process)
        return is_same and line.number > last.number

    def _read(self, place: int, words: str) -> None:
        for name, importer in self._formats.items():
            if self._open is not None and name == self._open.format:
                continue
            if any(test(words) for test in importer.tests):
                run = self._begin(place, name)
                if run.marks.results(words):
                    self._result(run, place, words)
                else:
                    run.has_begun = True
                return
            if self._fits(importer.marks.begins, place, words):
                self._above.begins.setdefault(name, place)
        if _LIBRARY.match(words) is not None and self._above.library is None:
            self._above.library = place
        elif _COMMAND.search(words) is not None and not words.startswith("#"):
            while place and self._lines[place - 1].text.endswith("\\"):
                place -= 1
            self._above.command = place

    def _begin(self, place: int, name: str) -> _Open:
        start = self._above.place(name, place)
        marks = self._formats[name].marks
        self._found.append((start, None, name))
        self._open = _Open(name, marks, marks.begins or self._formats[name].tests)
        self._above = _Above()
        return self._open


def _documents(
    text: Text, lines: list[TextLine], documents: Sequence[Importer]
) -> Iterator[tuple[int, int, Importer]]:
    """Returns the JSON documents in a text: the places of the first and the last line."""
    place = unclosed = 0
    while place < len(lines) and unclosed < _MOST_UNCLOSED:
        if not lines[place].text.startswith("{"):
            place += 1
            continue
        last = _end_of(lines, place)
        is_closed = last is not None
        last = len(lines) - 1 if last is None else last
        numbers = lines[place].number, lines[last].number
        part = part_of(text, TextRun(*numbers, ""))
        found = next((one for one in documents if one.finds(part, []) is not None), None)
        if found is not None:
            yield place, last, found
        unclosed += not is_closed
        place = last + 1 if is_closed or found is not None else place + 1


def _end_of(lines: Sequence[TextLine], place: int) -> int | None:
    """Returns the place of the line that closes the brace at the beginning of a line, if any."""
    depth = 0
    for number in range(place, len(lines)):
        bare = _STRING.sub("", lines[number].text)
        depth += bare.count("{") - bare.count("}")
        if depth <= 0:
            return number
    return None
