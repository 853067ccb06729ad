"""Reads the scripts of the book Machine Learning Engineering.

all_reduce_bench.py prints a table, or in older versions one size in a sentence, whose words differ
in translations of the book. all_reduce_latency_comp.py compares one large all_reduce with a
thousand of a thousandth of the size: it prints the figures of every rank. In
all_gather_object_vs_all_reduce.py and …_vs_all_gather.py every rank prints the seconds of 1000
calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from cclmark.journal.schema import LibraryDescription
from cclmark_importers.cleaned_text import (
    PrintedFigure,
    Text,
    TextLine,
    read_count,
    read_decimal,
    read_figure,
)
from cclmark_importers.line_reader import (
    LineReader,
    RunMarks,
    importer,
)
from cclmark_importers.run import ImportedRow, RankCount, listed_device


def _all_reduce(line: int, size_bytes: int, ranks: RankCount | None) -> ImportedRow:
    return ImportedRow(
        line=line,
        size_bytes=size_bytes,
        in_place=True,
        operation="all_reduce",
        dtype="float32",
        reduction="sum",
        ranks=ranks,
    )


_HEAD = re.compile(r"\|[^|]+\|\s*busbw\s*\|\s*algbw\s*\|\s*")
_RULE = re.compile(r"[|:\s-]+")
_SIZE = re.compile(r"(\d{1,6})\s*([KMGTPE]?)i?B")
_RATE = re.compile(r"(\S+?)\s*GBps")
_RANKS = re.compile(
    r"bandwidth of all_reduce over (\d{1,7}) ranks \((\d{1,9}) warmups / (\d{1,9}) trials\)"
)
# GB is 10^9 bytes here.
_SENTENCE = re.compile(
    r"all_reduce (?:with a|在) (\d{1,6}(?:\.\d{1,9})?)GB .{1,40}"
    r"\((\d{1,9}) \S{1,12}, (\d{1,7}) (?:\S{1,4} )?ranks?\):"
)
_BANDWIDTH = re.compile(r"(algbw|busbw): (\S+) GBps \(\S+ Gbps\)")
_SOFTWARE = re.compile(r"- software: torch=([^\s,]+).*?nccl=\((\d+), (\d+), (\d+)\)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


class _BenchReader(LineReader):
    def __init__(self, text: Text) -> None:
        super().__init__(
            text,
            "all_reduce_bench.py",
            "size over the mean of the algorithm bandwidths of the tool's iterations, each alone",
            "device",
            "torch:nccl",
            timing="blocking",
            across_ranks="mean",
            barrier="library",
        )
        self._within = False
        self._ranks: RankCount | None = None
        self._sentence: ImportedRow | None = None

    def take(self, line: TextLine, words: str) -> None:
        run = self.run
        if (told := _RANKS.search(words)) is not None:
            self._ranks = self.ranks_of(line, told[1])
            run.facts = replace(run.facts, warmup=int(told[2]) or None, iterations=int(told[3]))
        elif (sentence := _SENTENCE.search(words)) is not None:
            run.facts = replace(run.facts, iterations=int(sentence[2]))
            size_bytes = round(float(sentence[1]) * 1e9)
            ranks = self.ranks_of(line, sentence[3])
            self._sentence = _all_reduce(line.number, size_bytes, ranks)
        elif (rate := _BANDWIDTH.search(words)) is not None and self._sentence is not None:
            self._bandwidth(line, rate, self._sentence)
        elif (software := _SOFTWARE.search(words)) is not None:
            run.libraries = [
                LibraryDescription("torch", software[1], ""),
                LibraryDescription("nccl", ".".join(software.groups()[1:]), ""),
            ]
        elif _HEAD.fullmatch(words):
            self._within = True
        elif self._within and words.startswith("|"):
            if _RULE.fullmatch(words) is None:
                self._row(line, words)
        else:
            self._within = False

    def finish(self) -> None:
        self.run.whole = self.run.whole and self._sentence is None

    def _bandwidth(self, line: TextLine, rate: re.Match[str], row: ImportedRow) -> None:
        """Reads a line below the sentence: the algorithm bandwidth, then the bus bandwidth."""
        figure = read_figure(rate[2])
        if figure is None:
            raise self.refuse(line, f"the {rate[1]} {rate[2][:40]!r} is not a number")
        if rate[1] == "algbw":
            self._sentence = replace(row, algbw=figure.times(1e9))
        elif row.algbw is not None:
            self.run.rows.append(replace(row, busbw=figure.times(1e9)))
            self._sentence = None

    def _row(self, line: TextLine, words: str) -> None:
        cells = [cell.strip() for cell in words.strip("|").split("|")]
        size = _SIZE.fullmatch(cells[0])
        rates = [_rate(cell) for cell in cells[1:]]
        if size is None or len(rates) != 2 or None in rates:
            if line is not self.lines[-1]:
                raise self.refuse(line, f"cannot read the row {words[:80]!r}")
            self.truncated(line)
            return
        size_bytes = (read_count(size[1]) or 0) * 1024 ** _POWERS[size[2]]
        row = _all_reduce(line.number, size_bytes, self._ranks)
        self.run.rows.append(replace(row, busbw=rates[0], algbw=rates[1]))


def _rate(cell: str) -> PrintedFigure | None:
    found = _RATE.fullmatch(cell)
    figure = None if found is None else read_figure(found[1])
    return None if figure is None else figure.times(1e9)


_RESULT = re.compile(r"\|\s*\d{1,6}\s*[KMGTPE]?i?B\s*\||(?:algbw|busbw): \S+ GBps")

ALL_REDUCE_BENCH = importer(
    _BenchReader,
    _HEAD.fullmatch,
    _SENTENCE.search,
    marks=RunMarks(
        [_HEAD.fullmatch, _SENTENCE.search, _RANKS.search, _SOFTWARE.search], _RESULT.match
    ),
)

_SECTION = re.compile(r"-{5,40} (\d{1,7})x (\d{1,6}(?:\.\d{1,12})?)GB -{5,40}")
_RANK = re.compile(r"([A-Za-z0-9][\w.-]{0,254}):(\d{1,4}):")
_FIGURE = re.compile(r"(duration|algbw|busbw): (\S{1,40}) (sec|Gbps)")
_NAMES = ("duration", "algbw", "busbw")
_BITS_PER_BYTE = 8


@dataclass
class _Section:
    """The figures of all ranks. ``ranks``: host and device of each, in the order of ranks."""

    line: int
    repeats: int
    size_bytes: int
    ranks: list[tuple[str, int]] = field(default_factory=list)
    figures: list[dict[str, PrintedFigure]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return all(len(one) == len(_NAMES) for one in self.figures)


class _LatencyReader(LineReader):
    def __init__(self, text: Text) -> None:
        super().__init__(
            text,
            "all_reduce_latency_comp.py",
            "size over the algorithm bandwidth of the slowest rank: of a single operation, or the "
            "mean of as many behind each other as a notice gives",
            "device",
            "torch:nccl",
            across_ranks="max",
            barrier="library",
        )
        self._section: _Section | None = None
        self._devices: list[tuple[str, int]] = []

    def take(self, line: TextLine, words: str) -> None:
        section = self._section
        if (head := _SECTION.fullmatch(words)) is not None:
            self._close()
            size_bytes = round(float(head[2]) * 1e9)
            if not int(head[1]) or not size_bytes:
                raise self.refuse(line, "the number of operations and the size are 0")
            self._section = _Section(line.number, int(head[1]), size_bytes)
        elif section is None:
            return
        elif (rank := _RANK.fullmatch(words)) is not None:
            if not section.is_complete:
                raise self.refuse(line, "the figures of the rank above are incomplete")
            if (rank[1], int(rank[2])) in section.ranks:
                raise self.refuse(
                    line,
                    f"{rank[1]}:{rank[2]} is in the section of line {section.line} already: the "
                    "line of the next section is missing above",
                )
            section.ranks.append((rank[1], int(rank[2])))
            section.figures.append({})
        elif (shown := _FIGURE.fullmatch(words)) is not None:
            self._figure(line, section, shown)

    def finish(self) -> None:
        self._close(at_end=True)
        self.run.devices = [
            listed_device(rank, host=host, index=index)
            for rank, (host, index) in enumerate(self._devices)
        ]

    def _figure(self, line: TextLine, section: _Section, shown: re.Match[str]) -> None:
        figure = read_decimal(shown[2])
        if figure is None:
            raise self.refuse(line, f"the {shown[1]} {shown[2]!r} is not a number")
        if not section.figures or section.is_complete:
            raise self.refuse(line, "the rank of these figures is missing above")
        due = _NAMES[len(section.figures[-1])]
        if shown[1] != due:
            raise self.refuse(line, f"{shown[1]} is here, but {due} is due")
        section.figures[-1][due] = figure

    def _close(self, *, at_end: bool = False) -> None:
        """Adds the row of a section: the figures of its slowest rank."""
        section, self._section = self._section, None
        if section is None:
            return
        if not section.is_complete or not section.figures:
            if not at_end:
                raise self.refuse(section.line, "the figures of this section are incomplete")
            self.run.whole = False
            self.note(section.line, "the section is truncated, omitted")
            return
        if self._devices and section.ranks != self._devices:
            raise self.split(
                section.line, "the ranks of this section differ from the section above"
            )
        self._devices = section.ranks
        slowest = min(section.figures, key=lambda one: one["algbw"].value)
        self._compare(section, slowest)
        self.note(section.line, f"{section.repeats} operations of {section.size_bytes} bytes")
        scale = 1e9 / _BITS_PER_BYTE
        row = _all_reduce(
            section.line, section.size_bytes, RankCount(len(section.ranks), section.line)
        )
        algbw, busbw = (slowest[name].times(scale) for name in ("algbw", "busbw"))
        self.run.rows.append(replace(row, algbw=algbw, busbw=busbw))

    def _compare(self, section: _Section, slowest: dict[str, PrintedFigure]) -> None:
        """Compares the duration of all operations with the algorithm bandwidth."""
        duration, algbw = slowest["duration"], slowest["algbw"]
        if not algbw.value:
            return
        total_s = section.repeats * section.size_bytes * _BITS_PER_BYTE / (algbw.value * 1e9)
        if abs(total_s - duration.value) > duration.error * 1.02 + total_s * algbw.share:
            self.note(
                section.line,
                f"does not fit: {duration.value:g} s, but size and bandwidth give {total_s:.6g}",
            )


def _is_first_section(words: str) -> bool:
    """Whether a line begins the section of one large operation, which is the first of a run."""
    found = _SECTION.fullmatch(words)
    return found is not None and found[1] == "1"


_LOCAL_RANK = re.compile(r"local_rank: \d{1,4}")

ALL_REDUCE_LATENCY = importer(
    _LatencyReader,
    _SECTION.fullmatch,
    marks=RunMarks([_is_first_section, _LOCAL_RANK.fullmatch], _FIGURE.match),
)

_CALL = re.compile(r"(all_gather_object|all_reduce|all_gather) *= *(\d[\d.]{2,40})")
_OBJECT = "all_gather_object"
_CALLS = 1000
_BYTES = 4  # one float32


class _ObjectReader(LineReader):
    def __init__(self, text: Text) -> None:
        super().__init__(
            text,
            "all_gather_object_vs_….py",
            "the mean of 1000 calls on the slowest rank, without waiting for the devices",
            "host",
            "torch:nccl",
            iterations=_CALLS,
            across_ranks="max",
        )
        self._found: dict[str, list[tuple[PrintedFigure, int]]] = {}

    def take(self, line: TextLine, words: str) -> None:
        call = _CALL.fullmatch(words)
        if call is None:
            return
        figure = read_decimal(call[2])
        if figure is None or figure.value <= 0:
            raise self.refuse(line, f"the time {call[2][:40]!r} is not a time")
        self._found.setdefault(call[1], []).append((figure, line.number))

    def finish(self) -> None:
        numbers = {name: len(times) for name, times in self._found.items()}
        if len(set(numbers.values())) > 1:
            last = max(times[-1][1] for times in self._found.values())
            shown = ", ".join(f"{number} of {name}" for name, number in numbers.items())
            raise self.refuse(last, f"every rank prints all times, but the text has {shown}")
        for name, times in self._found.items():
            slowest, number = max(times, key=lambda one: one[0].value)
            if name == _OBJECT:
                self.note(
                    number,
                    f"all_gather_object is left out: it takes {slowest.value * 1e3:.1f} µs for a "
                    "call; cclmark torch objects measures it",
                )
                continue
            row = _all_reduce(number, _BYTES, RankCount(len(times), number))
            self.run.rows.append(
                replace(
                    row,
                    in_place=name == "all_reduce",
                    operation=name,
                    time=slowest.times(1 / _CALLS),
                    is_part=True,
                )
            )


_WARM = re.compile(r"(?:all_gather_object|all_reduce|all_gather): \d[\d.]*")

ALL_GATHER_OBJECT = importer(
    _ObjectReader,
    _CALL.fullmatch,
    marks=RunMarks([_WARM.fullmatch], _CALL.fullmatch, by_results=True),
)
