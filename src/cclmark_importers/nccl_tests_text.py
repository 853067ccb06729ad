"""Reads the text of nccl-tests, of any version, of rccl-tests, and of cclmark in that layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from cclmark.journal.schema import DeviceDescription
from cclmark.profile.observed import nccl_version
from cclmark_importers.cclmark_output import of_cclmark, read_ending, read_problem, with_problem
from cclmark_importers.cleaned_text import (
    PrintedFigure,
    Text,
    TextLine,
    dtype_of,
    operation_in,
    read_count,
    read_figure,
    reduction_of,
)
from cclmark_importers.line_reader import (
    LineReader,
    RunMarks,
    importer,
)
from cclmark_importers.nccl_tests_head import (
    FIGURE,
    NcclTestsLayout,
    Preamble,
    RankList,
    other_unit,
    read_device,
    read_facts,
    read_layout,
)
from cclmark_importers.run import ImportedRow, RankCount

_STAMP = re.compile(r"\s\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
_BOX = "|│┃║"
_BLANK_BOX = str.maketrans(dict.fromkeys(_BOX, " "))
# The words that begin a comment which is read; a row begins with a number.
_COMMENT = re.compile(
    r"(?:size\s+count|bytes\s+N)\s+type\b|Rank\s+\d{1,7}\s.*\bdevice\b|nThread \d|Using devices\b"
    r"|Collective test (?:starting|concluded)|nccl-tests version\b|Blocking Enabled"
    r"|Out of bounds values\s*:|Avg bus bandwidth\s*:"
)
_ELLIPSIS = re.compile(r"[#\s\[(]*(?:\.\.\.|…)")
_HEAD = re.compile(r"#\s+(?:size\s+count|bytes\s+N)\s+type\b")


def plain_line(text: str) -> str:
    """Returns ``text`` without a box and ``-S``'s time of day, with ``#`` before a comment."""
    bare = text.strip()
    if bare[:1] in _BOX and bare:
        text = text.translate(_BLANK_BOX)
        bare = text.strip()
    if _COMMENT.match(bare) is not None:
        text = f"# {bare}"
    return _STAMP.sub("", text.rstrip())


def is_head(text: str) -> bool:
    """Whether a line in plain form is the head of a table."""
    return _HEAD.search(text) is not None


def is_ellipsis(text: str) -> bool:
    """Whether a line is an ellipsis for omitted lines."""
    return _ELLIPSIS.match(text) is not None


# Both begin with characters that are rare in a line, so that the search stays linear. The host's
# name precedes the first.
_LOG = re.compile(
    r":\d{1,10}:\d{1,10} \[\d{1,5}\] [NR]CCL |\b[NR]CCL (?:INFO|WARN|TRACE)\b", re.ASCII
)
_HOST = re.compile(r"[\w.-]*\Z")
_LONGEST_HOST = 255


def without_noise(text: str, hosts: Iterable[str]) -> str:
    """Returns ``text`` without the library's log output after it, which may follow without a blank.

    ``hosts``: known names, one of which may directly follow a row's last figure.
    """
    found = _LOG.search(text)
    if found is None:
        return text
    before = text[: found.start()]
    if text[found.start()] != ":":
        return before
    host = _HOST.search(before[-_LONGEST_HOST:])
    assert host is not None  # it may be empty
    glued = next((name for name in hosts if name and host[0].endswith(name)), host[0])
    return before[: len(before) - len(glued)]


# The deviation that versions with a column ``error`` or ``res`` allow for each rank but one.
_ALLOWED = {"float16": 1e-2, "bfloat16": 1e-2, "float32": 1e-5, "float64": 1e-12}


def read_half(
    text: Text, number: int, lead: Mapping[str, str], cells: Mapping[str, str], unit_s: float
) -> ImportedRow | None:
    """Reads one placement of the row on line ``number``, None if it has no time.

    ``lead`` and ``cells`` are words by column, ``unit_s`` the unit of times. Raises UsageError for
    a word that is not a number.
    """
    if cells["time"] == "N/A":
        return None
    time = _figure(text, number, "time", cells["time"])
    busbw = _rate(text, number, "busbw", cells.get("busbw", "N/A"))
    size, count = read_count(lead["size"]), read_count(lead["count"])
    assert size is not None
    wrong, deviation = _checked(text, number, cells)
    return ImportedRow(
        line=number,
        size_bytes=size,
        count=count,
        in_place=False,
        dtype=dtype_of(lead["type"]),
        reduction=reduction_of(lead.get("redop", "none")),
        root=read_count(lead.get("root", "-1")),
        time=time.times(unit_s),
        algbw=_rate(text, number, "algbw", cells.get("algbw", "N/A")),
        busbw=busbw,
        wrong=wrong,
        deviation=deviation,
    )


def _figure(text: Text, number: int, name: str, word: str) -> PrintedFigure:
    found = read_figure(word)
    if found is None:
        raise text.refuse(number, f"the {name} {word[:40]!r} is not a number")
    return found


def _rate(text: Text, number: int, name: str, word: str) -> PrintedFigure | None:
    if word == "N/A" or word.lstrip("-") in ("nan", "inf"):
        return None
    return _figure(text, number, name, word).times(1e9)


def _checked(
    text: Text, number: int, cells: Mapping[str, str]
) -> tuple[int | None, PrintedFigure | None]:
    """Returns wrong elements and the largest deviation of older versions, conclusive only if 0."""
    word = cells.get("wrong", "N/A").rstrip("*")
    if "wrong" in cells and word != "N/A":
        return round(_figure(text, number, "#wrong", word).value), None
    deviation = read_figure(cells.get("error", cells.get("res", "N/A")).rstrip("*"))
    return 0 if deviation is not None and deviation.value == 0 else None, deviation


def out_of_bounds(rows: Sequence[ImportedRow]) -> list[int]:
    """Returns the wrong rows of a failed table, by their deviations.

    Those are the rows beyond nccl-tests' tolerance if it is known, else all that deviate.
    """
    deviating = [
        (place, row.deviation, row)
        for place, row in enumerate(rows)
        if row.deviation is not None and row.deviation.value > 0
    ]
    beyond = [
        place
        for place, deviation, row in deviating
        if row.ranks is None
        or deviation.value + deviation.error
        > _ALLOWED.get(row.dtype or "", 0.0) * max(1, row.ranks.number - 1)
    ]
    return beyond or [place for place, _, _ in deviating]


def looks_like_row(tokens: Sequence[str], layout: NcclTestsLayout) -> bool:
    """Whether words are a row even though they do not begin with two numbers."""
    return len(tokens) == layout.columns and dtype_of(tokens[layout.lead.index("type")]) is not None


def is_figure(word: str) -> bool:
    """Whether a row may contain this word among its figures."""
    return word == "N/A" or read_figure(word) is not None


_ALONE = (
    "several processes ran alone, each with its own table, for example because nccl-tests was "
    "built without MPI=1. The figures contain no communication between the processes"
)
_START = re.compile(r"# Collective test starting: (.*)")
_OURS = re.compile(r"(\w+)_perf \(cclmark (\S+), ([^\s,]+)(?:, (\d{1,7}) ranks?)?\)")
_OUR_VERSION = re.compile(r"# cclmark version (\S+), in the layout of nccl-tests")
_VERSION = re.compile(
    r"# nccl-tests version (\S+)(?: \(\w+\))? nccl-headers=\d+ nccl-library=(\d{1,9})"
)
_LIBRARY = re.compile(r"\b([NR])CCL version[ :]+(\d{1,4}(?:\.\d{1,4}){1,2})")
_RCCL_TESTS = re.compile(r"rccl-tests: Version (\S+)")
_OUR_LIBRARY = re.compile(r"# ([\w:.-]+) (\S+) from (.+)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*: (\S+)")
_BOUNDS = re.compile(r"# Out of bounds values\s*: \d{1,9} FAILED")
_END = re.compile(r"# Collective test concluded|# Avg bus bandwidth")


@dataclass
class _Block:
    """The state of the table that is being read.

    ``unknown``: its operation, if cclmark does not support it. ``ranks``: from the list above it,
    or from cclmark's own text (``told_ranks``).
    ``begins``: the first line about the table. ``rows``: the rows read so far, the first of which
    is row ``first`` of the run. ``busbw``: the printed bandwidths that its average must match.
    """

    operation: str | None = None
    unknown: str = ""
    ccl: str | None = None
    layout: NcclTestsLayout | None = None
    listed: RankList = field(default_factory=RankList)
    told_ranks: RankCount | None = None
    ranks: RankCount | None = None
    rows: int = 0
    first: int = 0
    begins: int = 0
    busbw: list[PrintedFigure] = field(default_factory=list)


class _Reader(LineReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, "nccl-tests", FIGURE, "host", "nccl")
        self.run.whole = False
        self._block = _Block()
        self._before = ""
        self._named: str | None = None  # the operation of a command that was echoed
        self._preamble = Preamble(self)
        self._pending: list[str] = []
        self._pending_line = 0
        self._processes: dict[str, int] = {}
        self._left_out: dict[str, int] = {}
        self._untimed: list[int] = []

    def take(self, line: TextLine, words: str) -> None:
        noise = _LIBRARY.search(line.text)
        if noise is not None:
            if self.run.whole:  # the table above has ended
                self._preamble.begin(line.number)
            self._library(line.number, "nccl" if noise[1] == "N" else "rccl", noise[2])
        quiet = without_noise(line.text, {device.host for device in self._preamble.devices})
        text = plain_line(quiet)
        self._check_units(line.number, text)
        if "#" in text and not text.lstrip()[:1].isdigit():
            self._comment(TextLine(line.number, text[text.index("#") :], line.process))
        elif text.strip():
            self._plain(TextLine(line.number, text, line.process))
        self._before = line.text

    def _check_units(self, number: int, text: str) -> None:
        """Raises UsageError if the line below a head has other units than those read."""
        layout = self._block.layout
        other = None if layout is None or self._block.rows else other_unit(text, layout)
        if other is not None:
            raise self.refuse(
                number,
                f"the unit ({other[0]}), but the columns of this table belong to a version that "
                f"prints ({other[1]}): copy the text again",
            )

    def finish(self) -> None:
        self._give_up_pending()
        for name, number in self._left_out.items():
            if not self.run.rows:
                raise self.refuse(number, f"{name} is not an operation of cclmark")
            self.note(number, f"rows of {name} are omitted: not an operation of cclmark")
        self.note_zeros("rows without a figure", self._untimed)
        if self.run.tool == "cclmark":
            of_cclmark(self.run)

    def _comment(self, line: TextLine) -> None:
        text = line.text
        layout = read_layout(text, self._before)
        if layout is not None:
            self._open_table(line, layout)
        elif is_head(text):
            raise self.refuse(
                line,
                "cannot read the columns of this header: expected size, count and type, then time, "
                "algbw and busbw of each placement",
            )
        elif (device := read_device(text)) is not None:
            self._device(line.number, device)
        elif is_ellipsis(text):
            self._block.listed.shorten()
        elif (start := _START.match(text)) is not None:
            self._open_block(line, start[1])
        elif (facts := read_facts(text)) is not None:
            self._preamble.facts(line.number, facts)
        elif text.startswith("# Blocking Enabled"):
            self._preamble.blocking()
        elif _BOUNDS.match(text):
            self._out_of_bounds(line.number)
        elif self.run.tool == "cclmark" and self._said(text):
            pass
        elif _END.match(text):
            self._close(line)
        else:
            self._versions(line)

    def _said(self, text: str) -> bool:
        """Whether a comment of cclmark describes a case, or the end of the run."""
        problem = read_problem(text)
        if problem is None:
            return read_ending(text, self.run)
        rows = self.run.rows
        for place in range(self._block.first, len(rows)):
            row = rows[place]
            # The row contains the count.
            if row.in_place == problem.in_place and row.wrong is None and problem.is_about(row):
                rows[place] = with_problem(row, replace(problem, elements=None))
        return True

    def _versions(self, line: TextLine) -> None:
        text, number = line.text, line.number
        if (found := _VERSION.match(text)) is not None:
            self._preamble.version(number, "nccl-tests", found[1])
            self._library(number, "nccl", nccl_version(int(found[2])))
        elif (found := _OUR_VERSION.match(text)) is not None:
            self._preamble.version(number, "cclmark", found[1])
            self.run.tool = "cclmark"
        elif self.run.tool == "cclmark" and (found := _OUR_LIBRARY.fullmatch(text)) is not None:
            self._library(number, found[1], found[2], found[3])

    def _library(self, number: int, name: str, version: str, path: str = "") -> None:
        self._preamble.library(number, name, version, path)
        if name == "rccl":
            self._is_rccl()

    def _is_rccl(self) -> None:
        self.run.tool, self.run.ccl = "rccl-tests", "rccl"

    def _open_block(self, line: TextLine, program: str) -> None:
        self._give_up_pending()
        self._preamble.begin(line.number)
        self._preamble.devices_open = False
        self._block = _Block()
        ours = _OURS.fullmatch(program.strip())
        name = ours[1] if ours else program.split(maxsplit=1)[0] if program.split() else ""
        self._block.operation = operation_in(f"{name}_perf" if ours else name)
        if ours:
            self._block.ccl = ours[3]
            self._block.told_ranks = self.ranks_of(line, ours[4])
        if self._block.operation is None and name:
            self._block.unknown = name.rpartition("/")[2].removesuffix("_perf")

    def _device(self, number: int, found: tuple[str, DeviceDescription]) -> None:
        if not self._preamble.devices_open:
            self._block.listed = RankList()
        group, device = found
        if not self._block.listed.add(self.text, number, group, device):
            return
        self.run.device_of_each_rank = True
        if device.runtime == "hip" and self.run.tool == "nccl-tests":
            self._is_rccl()
        if self.run.tool == "cclmark":  # which supports any runtime
            device = msgspec.structs.replace(device, runtime="")
        elif self.run.ccl == "rccl":
            device = msgspec.structs.replace(device, runtime="hip")
        self._preamble.device(number, device)

    def _open_table(self, line: TextLine, layout: NcclTestsLayout) -> None:
        self._give_up_pending()
        if line.process:
            self._processes.setdefault(line.process, line.number)
        if len(self._processes) > 1:
            first, second = list(self._processes.values())[:2]
            raise self.refuse(
                second, f"the table of a second process, after the one on line {first}: {_ALONE}"
            )
        if self._block.layout is not None and not self._block.rows and not self._preamble.set_up:
            raise self.refuse(line, f"a second header directly after the first: {_ALONE}")
        if self._block.layout is not None:  # another run, of a version that does not name itself
            listed = self._block.listed if self._preamble.devices_open else RankList()
            self._block = _Block(listed=listed)
        self._block.begins = self._preamble.begins or line.number
        self._preamble.open_table(line.number)
        self._block.ranks = self._block.told_ranks or self._block.listed.count(
            self.run.facts.ranks_per_process
        )
        self.run.whole = False
        self._block.layout = layout
        self._block.first = len(self.run.rows)
        if self._block.operation is None:
            self._block.operation = self._named
        self._named = None
        if self._block.listed.groups > 1:
            self.note(line, f"{self._block.listed.groups} communicators at the same time")

    def _plain(self, line: TextLine) -> None:
        tokens = line.text.split()
        if (version := _RCCL_TESTS.search(line.text)) is not None:
            self._is_rccl()
            self._preamble.version(line.number, "rccl-tests", version[1])
        layout = self._block.layout
        begins = len(tokens) > 1 and all(read_count(token) is not None for token in tokens[:2])
        if begins and layout is not None:
            self._give_up_pending()
            self._row(line.number, layout.words(line.text), layout.halves(line.text), layout)
        elif self._pending and layout is not None and all(map(is_figure, tokens)):
            self._row(self._pending_line, self._pending + tokens, layout.in_place, layout)
        elif layout is not None and looks_like_row(tokens, layout):
            raise self.refuse(
                line, f"the size and count {' '.join(tokens[:2])[:40]!r} are not numbers"
            )
        elif is_ellipsis(line.text):
            self._block.listed.shorten()
        elif (named := operation_in(line.text)) is not None:
            self._preamble.begin(line.number)
            self._named = named

    def _row(
        self, number: int, tokens: list[str], halves: tuple[bool, ...], layout: NcclTestsLayout
    ) -> None:
        wanted = layout.columns - len(layout.part) * (len(layout.in_place) - len(halves))
        self._pending = []
        if len(tokens) > wanted:
            raise self.refuse(number, f"{len(tokens)} columns, but the header has {layout.columns}")
        if len(tokens) < wanted:
            self._pending, self._pending_line = tokens, number
            return
        if self._block.unknown:
            self._left_out.setdefault(self._block.unknown, number)
            return
        lead = dict(zip(layout.lead, tokens, strict=False))
        figures = tokens[len(layout.lead) :]
        self._block.rows += 1
        known = len(self.run.rows)
        for place, in_place in enumerate(halves):
            cells = figures[place * len(layout.part) : (place + 1) * len(layout.part)]
            told = dict(zip(layout.part, cells, strict=True))
            row = read_half(self.text, number, lead, told, layout.time_unit_s)
            if row is None:
                continue
            block = self._block
            block.busbw += [row.busbw] if row.busbw is not None else []
            self.run.rows.append(
                replace(
                    row,
                    in_place=in_place,
                    operation=block.operation,
                    ranks=block.ranks,
                    ccl=block.ccl,
                    begins=block.begins,
                )
            )
        if len(self.run.rows) == known:  # one placement may lack, as of alltoall
            self._untimed.append(number)

    def _out_of_bounds(self, number: int) -> None:
        """Marks wrong rows of a failed table, by their counts or deviations, if these are known."""
        rows = self.run.rows
        first = self._block.first
        if self._block.unknown or any(row.wrong or row.failed for row in rows[first:]):
            return
        places = out_of_bounds(rows[first:])
        for place in places:
            rows[first + place] = replace(rows[first + place], failed=True)
        if not places:
            self.run.failed = True
            self.note(number, "the tool counted wrong data, but no row of the text contains it")

    def _give_up_pending(self) -> None:
        """Reports a row that began and did not end."""
        if self._pending:
            words = f"truncated after {len(self._pending)} columns, omitted"
            self.note(self._pending_line, words)
            self._pending = []

    def _close(self, line: TextLine) -> None:
        """Ends a table; checks by its printed average whether all of its rows were read."""
        self._give_up_pending()
        self.run.whole = True
        found = _AVERAGE.match(line.text)
        average = None if found is None else read_figure(found[1])
        printed, self._block.busbw = self._block.busbw, []
        if average is not None and printed:
            mean = sum(one.value for one in printed) / len(printed) / 1e9
            error = sum(one.error for one in printed) / len(printed) / 1e9 + average.error
            if abs(mean - average.value) > 1.02 * error + 1e-9:
                self.note(
                    line,
                    f"the average bus bandwidth is {average.value:g} GB/s, but "
                    f"{mean:.6g} for the rows of the text: rows are missing or changed",
                )


_BEGIN = re.compile(
    r"# (?:nccl-tests version|cclmark version|Collective test starting|nThread|Using devices"
    r"|NCCL Tests compiled)\b|rccl-tests: Version"
)
_RESULT = re.compile(r"\d{1,19}\s+\d{1,19}\s+(?:[a-z]\w*|N/A)\s")


def _is_table(words: str) -> bool:
    return is_head(plain_line(words))


def _begins(words: str) -> bool:
    text = plain_line(words)
    return _BEGIN.match(text) is not None or is_head(text)


def _is_result(words: str) -> bool:
    return _RESULT.match(plain_line(words).lstrip()) is not None


def _goes_on(words: str) -> bool | None:
    """Whether this is a further operation of a run of cclmark, or the beginning of a run."""
    if _OUR_VERSION.match(words) is not None:
        return False
    start = _START.match(words)
    return True if start is not None and _OURS.fullmatch(start[1].strip()) is not None else None


NCCL_TESTS = importer(
    _Reader,
    _is_table,
    marks=RunMarks([_begins], _is_result, goes_on=_goes_on),
)
