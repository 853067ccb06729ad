"""Reads what DeepEP's tests print (deepseek-ai/DeepEP, tests): dispatch and combine of experts.

cclmark has no such operation. The rows are alltoallv, which moves the same kind of parts, with the
phase and the link in the name of the library, so that they are no case of another library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cclmark_importers.cleaned_text import PrintedFigure, Text, TextLine, read_decimal
from cclmark_importers.line_reader import (
    LineReader,
    RunMarks,
    importer,
)
from cclmark_importers.run import ImportedRow, RankCount

_FIGURE = (
    "DeepEP's: of kernels by the device's clock, of test_intranode.py between events. A size is "
    "the bytes of tokens that one rank sends or receives by one kind of link, those of its own "
    "rank and node too (logical bandwidth), each token once for each destination"
)
_CONFIG = re.compile(r"\[config\] num_tokens=(\d{1,9}), hidden=(\d{1,9}),? .{1,200}")
_BEST = re.compile(
    r"\[tuning\] Best (?P<phase>dispatch|combine)(?: \((?P<type>FP8|BF16)\))?: SMs \d{1,4}, "
    r"NVL chunk \d{1,4}(?P<both>, RDMA chunk \d{1,4})?[,:] (?P<figures>.{1,200})"
)
_NUMBER = r"\d[\d.]{0,15}"
_BANDWIDTH = rf"{_NUMBER} GB/s \((?:RDMA|NVL)\)"
_RATE = re.compile(rf"({_NUMBER}) GB/s \((RDMA|NVL)\)")
# The time is before or behind the bandwidths, and versions before July 2025 print none.
_BEST_FIGURES = re.compile(
    rf"(?:{_NUMBER} \+ (?P<sum>{_NUMBER}) us, "
    rf"|transmit: (?P<transmit>{_NUMBER}) us, notify: {_NUMBER} us, BW: )?"
    rf"(?P<rates>{_BANDWIDTH}(?:, {_BANDWIDTH})?)"
    rf"(?:, t: (?P<total>{_NUMBER}) us)?"
)
# Every version prints times in both of these lines, or in none of them.
_TIMED = re.compile(r"\[tuning\] .{1,300}\d us\b")
_UNIT = re.compile(rf"(?<![\w.]){_NUMBER} ?(?P<unit>[munpµ]?s|[mun]?sec|[KMGT]i?[Bb](?:/s)?)\b")
_UNITS = ("us", "GB/s", "GB")
_TIMES = ("sum", "transmit", "total")
_BEST_HEAD = "[tuning] Best "
_LATENCY_HEAD = "Dispatch bandwidth: "
_LATENCY = re.compile(
    r"\[rank (?P<rank>\d{1,6})\] Dispatch bandwidth: (?P<dispatch>\d[\d.]{0,15}) GB/s, "
    r"avg_t=(?P<dispatch_us>\d[\d.]{0,15}) us \| Combine bandwidth: (?P<combine>\d[\d.]{0,15}) "
    r"GB/s, avg_t=(?P<combine_us>\d[\d.]{0,15}) us"
)
_ELASTIC = re.compile(
    r"[*\-#@+] EP: +(?P<rank>\d{1,6})/(?P<ranks>\d{1,7}) \| (?P<phase>[a-z ]{1,30}): "
    r"(?P<out>\d{1,7}) GB/s \(SO\), (?P<up>\d{1,7}) GB/s \(SU\), (?P<time>\d[\d.]{0,15}) us, "
    r"(?P<bytes>\d{1,15}) bytes \|.{0,120}"
)
_RANK = re.compile(r"\[rank \d")  # which looks like a launcher's prefix, and is removed from lines
_MARKS = re.compile(
    r"\[tuning\] Best (?:dispatch|combine)|\] Dispatch bandwidth: |^\s*[*\-#@+] EP: "
)
_BITS = {"FP8": "fp8e4m3", "BF16": "bfloat16"}
_TYPES = re.compile(r"use_fp8_dispatch=(True|False)")


@dataclass(frozen=True)
class _Found:
    """The figures of one rank: of ``phase``, by ``link``. ``size_bytes``: 0 if not printed.

    ``rate`` is in GB/s and ``time`` in microseconds, as they are printed.
    """

    line: int
    phase: str
    link: str
    dtype: str
    rate: PrintedFigure
    time: PrintedFigure | None
    size_bytes: int = 0

    @property
    def time_s(self) -> float:
        return 0.0 if self.time is None else self.time.value * 1e-6


class _Reader(LineReader):
    def __init__(self, text: Text) -> None:
        facts = {"timing": "", "across_ranks": "max"}
        super().__init__(text, "DeepEP", _FIGURE, "device", "deepep", **facts)
        self._by_rank: dict[tuple[str, str, str], dict[int, _Found]] = {}
        self._told = 0  # ranks, if a line gives their number
        self._elastic_dtype = "bfloat16"
        self._tokens = ""
        self._shape = (4096, 7168)  # the tests' default
        self._untimed = 0
        self._timed_line = next((line.number for line in self.lines if _TIMED.search(line.text)), 0)

    def take(self, line: TextLine, words: str) -> None:
        if (config := _CONFIG.search(words)) is not None:
            self._configured(line, config)
        elif (best := _BEST.search(words)) is not None:
            self._tuned(line, best)
        elif (types := _TYPES.search(words)) is not None:
            self._close()
            self._elastic_dtype = "fp8e4m3" if types[1] == "True" else "bfloat16"
        elif (elastic := _ELASTIC.fullmatch(words)) is not None:
            self._elastic(line, elastic)
        elif _LATENCY_HEAD in words:
            self._low_latency(line)
        elif _MARKS.search(words) is not None:
            self._unreadable(line)

    def finish(self) -> None:
        self._close()
        run = self.run
        if self._untimed:
            source = "this text" if self._tokens else "the tests' default"
            run.notices.append(
                f"results without times (of tests before July 2025): a size is that of a rank's "
                f"tokens before they are routed, {self._shape[0]} of {self._shape[1]} elements "
                f"({source}), and a time is this size over the bandwidth, not the kernel's time"
            )
        if self._tokens:
            run.notices.append(f"settings of the tool: {self._tokens}")
        if run.rows:
            run.notices.append(
                "operation: dispatch and combine are imported as alltoallv of the library deepep, "
                "which follows no other library's definition; a size that is not printed is the "
                "tool's bandwidth times its time; both bandwidths are the tool's"
            )

    def _configured(self, line: TextLine, config: re.Match[str]) -> None:
        words = config[0].removeprefix("[config] ")
        if self.run.rows and words != self._tokens:
            raise self.split(line, "other numbers of tokens than above")
        self._tokens = words
        self._shape = (int(config[1]), int(config[2]))

    def _bytes_of_tokens(self, dtype: str) -> int:
        """Returns the bytes of a rank's tokens; those of FP8 have a scale for 128 elements."""
        tokens, hidden = self._shape
        per_token = hidden * 2 if dtype == "bfloat16" else hidden + hidden // 128 * 4
        return tokens * per_token

    def _unreadable(self, line: TextLine) -> None:
        """Omits a last line that is truncated. Raises UsageError for any other.

        A truncated line of the best configuration is refused: it may look like that of a version
        without times.
        """
        words = line.text.strip()
        other = next(
            (one["unit"] for one in _UNIT.finditer(words) if one["unit"] not in _UNITS), ""
        )
        if other:
            raise self.refuse(
                line, f"a figure in {other}, but DeepEP prints us and GB/s: {words[:80]!r}"
            )
        if line is not self.lines[-1]:
            raise self.refuse(line, f"cannot read {words[:80]!r}")
        if _BEST_HEAD in words:
            raise self.refuse(line, "this line is cut: copy the text again, or remove this line")
        self.truncated(line)

    def _tuned(self, line: TextLine, best: re.Match[str]) -> None:
        """Reads the best configuration of test_intranode.py or test_internode.py."""
        figures = _BEST_FIGURES.fullmatch(best["figures"].strip())
        found = [] if figures is None else _RATE.findall(figures["rates"])
        rates = [(read_decimal(rate), link) for rate, link in found]
        shown = [] if figures is None else [one for one in figures.group(*_TIMES) if one]
        times = [read_decimal(one) for one in shown]
        links = {link for _, link in rates}
        lacks_link = best["both"] is not None and len(rates) == 1 and line is self.lines[-1]
        if (
            lacks_link
            or len(links) < max(1, len(rates))
            or len(times) > 1
            or None in [*times, *dict(rates)]
        ):
            self._unreadable(line)
            return
        if not times and self._timed_line:
            raise self.refuse(
                line,
                f"this line has no time, but line {self._timed_line} has one, so it is cut. Copy "
                "the text again; import texts of several versions one by one",
            )
        dtype = _BITS[best["type"] or "BF16"]
        self._untimed += not times
        time, size = (times[0], 0) if times else (None, self._bytes_of_tokens(dtype))
        for rate, link in rates:
            assert rate is not None
            one = _Found(line.number, best["phase"], link.lower(), dtype, rate, time, size)
            self._add(one, None)

    def _low_latency(self, line: TextLine) -> None:
        """Reads a line of test_low_latency.py, which every rank prints."""
        found = _LATENCY.search(self.text.raw[line.number - self.text.first])
        numbers = (
            {}
            if found is None
            else {name: read_decimal(word) for name, word in found.groupdict().items()}
        )
        if found is None or None in numbers.values():
            self._unreadable(line)
            return
        for phase, dtype in (("dispatch", "fp8e4m3"), ("combine", "bfloat16")):
            rate, time = numbers[phase], numbers[f"{phase}_us"]
            assert rate is not None
            one = _Found(line.number, f"low-latency-{phase}", "", dtype, rate, time)
            self._of_rank(int(found["rank"]), one)

    def _elastic(self, line: TextLine, found: re.Match[str]) -> None:
        """Reads a line of tests/elastic/test_ep.py, which every rank prints."""
        ranks, rank = self.text.ranks(line, found["ranks"]), int(found["rank"])
        if self._told not in (0, ranks):
            raise self.refuse(line, f"{ranks} ranks here, {self._told} above")
        if rank >= ranks:
            raise self.refuse(line, f"rank {found['rank']} of {ranks} ranks")
        self._told = ranks
        time, rate, over = (read_decimal(found[name]) for name in ("time", "up", "out"))
        if time is None or rate is None:
            self._unreadable(line)
            return
        phase = found["phase"].strip().replace(" ", "-")
        dtype = self._elastic_dtype if "dispatch" in phase else "bfloat16"
        size = int(found["bytes"])
        self._of_rank(rank, _Found(line.number, phase, "scale-up", dtype, rate, time, size))
        if over is not None and over.value > 0:
            self._of_rank(rank, _Found(line.number, phase, "scale-out", dtype, over, time))

    def _of_rank(self, rank: int, one: _Found) -> None:
        """Collects the figures of a rank. If it has some already, another round begins."""
        key = (one.phase, one.link, one.dtype)
        if rank in self._by_rank.get(key, {}):
            self._close()
        self._by_rank.setdefault(key, {})[rank] = one

    def _close(self) -> None:
        """Adds the slowest rank of each phase."""
        for ranks in self._by_rank.values():
            number = self._told or 1 + max(ranks)
            missing = next((rank for rank in range(number) if rank not in ranks), None)
            gap = "" if missing is None else f"lacks rank {missing}"
            slowest = max(ranks.values(), key=lambda one: one.time_s)
            count = RankCount(number, slowest.line, "" if self._told else gap)
            if gap and self._told:
                self.note(slowest.line, f"{slowest.phase} {gap}: the slowest of the others is used")
            self._add(slowest, count)
        self._by_rank = {}

    def _add(self, one: _Found, ranks: RankCount | None) -> None:
        rate = one.rate.times(1e9)
        self.run.rows.append(
            ImportedRow(
                line=one.line,
                size_bytes=one.size_bytes or round(rate.value * one.time_s),
                in_place=False,
                operation="alltoallv",
                dtype=one.dtype,
                time=None if one.time is None else one.time.times(1e-6),
                algbw=rate,
                busbw=rate,
                ranks=ranks,
                ccl=":".join(filter(None, ("deepep", one.phase, one.link))),
            )
        )


_BEGIN = re.compile(r"\[config\] num_tokens=|Config:$|Allocating buffer size: ")

DEEPEP = importer(
    _Reader,
    _MARKS.search,
    marks=RunMarks(begins=[_BEGIN.match], results=_MARKS.search, by_results=True),
)
