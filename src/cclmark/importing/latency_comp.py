"""Reads all_reduce_latency_comp.py of Machine Learning Engineering: one large against many small.

It prints the figures of every rank, for one all_reduce and for a thousand of a thousandth of the
size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_decimal
from cclmark.importing.run import ForeignRun, ImportedRow, RankCount, ToolSettings
from cclmark.results.schema import DeviceDescription

_HEAD = re.compile(r"-{5,40} (\d{1,7})x (\d{1,6}(?:\.\d{1,12})?)GB -{5,40}")
_RANK = re.compile(r"([A-Za-z0-9][\w.-]{0,254}):(\d{1,4}):")
_FIGURE = re.compile(r"(duration|algbw|busbw): (\S{1,40}) (sec|Gbps)")
_NAMES = ("duration", "algbw", "busbw")
_BITS_PER_BYTE = 8


def is_latency_comp(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _HEAD.fullmatch(line.text.strip())), None)


def read_latency_comp(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a section that cannot be read."""
    reader = _Reader(text)
    for line in reader.lines:
        reader.take(line)
    return reader.finish()


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


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self.lines = [line for line in text.lines() if line.text.strip()]
        self._run = ForeignRun(
            "all_reduce_latency_comp.py",
            "size over the algorithm bandwidth of the slowest rank: of a single operation, or the "
            "mean of as many behind each other as a notice gives",
            "device",
            "torch:nccl",
            facts=ToolSettings(across_ranks="max", barrier="library"),
        )
        self._section: _Section | None = None
        self._devices: list[tuple[str, int]] = []

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        words = line.text.strip()
        section = self._section
        if (head := _HEAD.fullmatch(words)) is not None:
            self._close()
            size_bytes = round(float(head[2]) * 1e9)
            if not int(head[1]) or not size_bytes:
                raise self._text.refuse(line.number, "the number of operations and the size are 0")
            self._section = _Section(line.number, int(head[1]), size_bytes)
        elif section is None:
            return
        elif (rank := _RANK.fullmatch(words)) is not None:
            if not section.is_complete:
                raise self._text.refuse(line.number, "the figures of the rank above are incomplete")
            if (rank[1], int(rank[2])) in section.ranks:
                raise self._text.refuse(
                    line.number,
                    f"{rank[1]}:{rank[2]} is in the section of line {section.line} already: the "
                    "line of the next section is missing above",
                )
            section.ranks.append((rank[1], int(rank[2])))
            section.figures.append({})
        elif (shown := _FIGURE.fullmatch(words)) is not None:
            self._add(line, section, shown)

    def finish(self) -> ForeignRun:
        """Returns the complete run."""
        self._close(at_end=True)
        self._run.devices = [
            DeviceDescription(
                rank=rank, host=host, runtime="", index=index, name="", memory_bytes=0
            )
            for rank, (host, index) in enumerate(self._devices)
        ]
        return self._run

    def _add(self, line: TextLine, section: _Section, shown: re.Match[str]) -> None:
        figure = read_decimal(shown[2])
        if figure is None:
            raise self._text.refuse(line.number, f"the {shown[1]} {shown[2]!r} is not a number")
        if not section.figures or len(section.figures[-1]) == len(_NAMES):
            raise self._text.refuse(line.number, "the rank of these figures is missing above")
        if shown[1] != _NAMES[len(section.figures[-1])]:
            raise self._text.refuse(
                line.number,
                f"{shown[1]} is here, but {_NAMES[len(section.figures[-1])]} is due",
            )
        section.figures[-1][shown[1]] = figure

    def _close(self, *, at_end: bool = False) -> None:
        """Adds the row of a section: the figures of its slowest rank."""
        section, self._section = self._section, None
        if section is None:
            return
        if not section.is_complete or not section.figures:
            if not at_end:
                raise self._text.refuse(section.line, "the figures of this section are incomplete")
            self._run.whole = False
            self._run.notices.append(f"line {section.line}: the section is truncated, omitted")
            return
        if self._devices and section.ranks != self._devices:
            raise self._text.refuse(
                section.line,
                "the ranks of this section differ from the section above: split the text "
                "before this line and import the parts one by one",
            )
        self._devices = section.ranks
        slowest = min(section.figures, key=lambda one: one["algbw"].value)
        self._compare(section, slowest)
        scale = 1e9 / _BITS_PER_BYTE
        self._run.notices.append(
            f"line {section.line}: {section.repeats} operations of {section.size_bytes} bytes"
        )
        self._run.rows.append(
            ImportedRow(
                line=section.line,
                size_bytes=section.size_bytes,
                in_place=True,
                operation="all_reduce",
                dtype="float32",
                reduction="sum",
                algbw=slowest["algbw"].times(scale),
                busbw=slowest["busbw"].times(scale),
                ranks=RankCount(len(section.ranks), section.line),
            )
        )

    def _compare(self, section: _Section, slowest: dict[str, PrintedFigure]) -> None:
        """Compares the duration of all operations with the algorithm bandwidth."""
        duration, algbw = slowest["duration"], slowest["algbw"]
        if not algbw.value:
            return
        total_s = section.repeats * section.size_bytes * _BITS_PER_BYTE / (algbw.value * 1e9)
        if abs(total_s - duration.value) > duration.error * 1.02 + total_s * algbw.share:
            self._run.notices.append(
                f"line {section.line}: does not fit: {duration.value:g} s, but size and bandwidth "
                f"give {total_s:.6g}"
            )
