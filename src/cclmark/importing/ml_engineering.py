"""Reads the output of all_reduce_bench.py, from the book Machine Learning Engineering.

It prints a table, or in older versions one size in a sentence. Translations of the book have other
words.
"""

from __future__ import annotations

import re
from dataclasses import replace

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_count, read_figure
from cclmark.importing.run import ForeignRun, ImportedRow, RankCount, ToolSettings
from cclmark.results.schema import LibraryDescription

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
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def is_ml_engineering(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    found = (
        line.number
        for line in lines
        if _HEAD.fullmatch(line.text.strip()) or _SENTENCE.search(line.text)
    )
    return next(found, None)


def read_ml_engineering(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a row that cannot be read."""
    reader = _Reader(text)
    for line in reader.lines:
        reader.take(line)
    return reader.finish()


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self.lines = [line for line in text.lines() if line.text.strip()]
        self._run = ForeignRun(
            "all_reduce_bench.py",
            "size over the mean of the algorithm bandwidths of the tool's iterations, each alone",
            "device",
            "torch:nccl",
            facts=ToolSettings(timing="blocking", across_ranks="mean", barrier="library"),
        )
        self._within = False
        self._ranks: RankCount | None = None
        self._sentence: ImportedRow | None = None

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        row = line.text.strip()
        if (told := _RANKS.search(row)) is not None:
            self._ranks = self._count(line, told[1])
            facts = replace(self._run.facts, warmup=int(told[2]) or None, iterations=int(told[3]))
            self._run.facts = facts
        elif (sentence := _SENTENCE.search(row)) is not None:
            self._run.facts = replace(self._run.facts, iterations=int(sentence[2]))
            size_bytes = round(float(sentence[1]) * 1e9)
            self._sentence = _row(line.number, size_bytes, self._count(line, sentence[3]))
        elif (rate := _BANDWIDTH.search(row)) is not None and self._sentence is not None:
            self._bandwidth(line, rate)
        elif (software := _SOFTWARE.search(row)) is not None:
            version = ".".join(software.groups()[1:])
            self._run.libraries = [
                LibraryDescription("torch", software[1], ""),
                LibraryDescription("nccl", version, ""),
            ]
        elif _HEAD.fullmatch(row):
            self._within = True
        elif self._within and row.startswith("|"):
            if _RULE.fullmatch(row) is None:
                self._add(line)
        else:
            self._within = False

    def finish(self) -> ForeignRun:
        """Returns the complete run."""
        self._run.whole = self._run.whole and self._sentence is None
        return self._run

    def _count(self, line: TextLine, word: str) -> RankCount:
        return RankCount(self._text.ranks(line.number, word), line.number)

    def _bandwidth(self, line: TextLine, rate: re.Match[str]) -> None:
        """Reads a line below the sentence: the algorithm bandwidth, then the bus bandwidth."""
        assert self._sentence is not None
        figure = read_figure(rate[2])
        if figure is None:
            raise self._text.refuse(line.number, f"the {rate[1]} {rate[2][:40]!r} is not a number")
        if rate[1] == "algbw":
            self._sentence = replace(self._sentence, algbw=figure.times(1e9))
        elif self._sentence.algbw is not None:
            self._run.rows.append(replace(self._sentence, busbw=figure.times(1e9)))
            self._sentence = None

    def _add(self, line: TextLine) -> None:
        """Adds a row of the table."""
        cells = [cell.strip() for cell in line.text.strip().strip("|").split("|")]
        size = _SIZE.fullmatch(cells[0])
        rates = [_rate(cell) for cell in cells[1:]]
        if size is None or len(rates) != 2 or None in rates:
            if line is not self.lines[-1]:
                raise self._text.refuse(
                    line.number, f"cannot read the row {line.text.strip()[:80]!r}"
                )
            self._run.notices.append(f"line {line.number}: truncated, omitted")
            self._run.whole = False
            return
        size_bytes = (read_count(size[1]) or 0) * 1024 ** _UNITS[size[2]]
        row = _row(line.number, size_bytes, self._ranks)
        self._run.rows.append(replace(row, busbw=rates[0], algbw=rates[1]))


def _row(line: int, size_bytes: int, ranks: RankCount | None) -> ImportedRow:
    return ImportedRow(
        line=line,
        size_bytes=size_bytes,
        in_place=True,
        operation="all_reduce",
        dtype="float32",
        reduction="sum",
        ranks=ranks,
    )


def _rate(cell: str) -> PrintedFigure | None:
    found = _RATE.fullmatch(cell)
    figure = None if found is None else read_figure(found[1])
    return None if figure is None else figure.times(1e9)
