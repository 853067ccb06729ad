"""The text of nccl-tests, of any version, of rccl-tests, and our own in that layout."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from cclmark.results.foreign.nccl_layout import Layout, read_layout, without_stamp
from cclmark.results.foreign.run import Facts, ForeignRun, Row
from cclmark.results.foreign.text import Figure, Line, Text, read_count, read_figure
from cclmark.results.foreign.words import dtype_of, operation_in, reduction_of
from cclmark.results.schema import DeviceDescription, LibraryDescription

FIGURE = "the mean of the tool's iterations"
_ALONE = (
    "several processes ran alone, each with a table of its own, as they do where nccl-tests was "
    "built without MPI=1. Their figures are of no communication between them"
)
_HEAD = re.compile(r"#\s+(?:size\s+count|bytes\s+N)\s+type\b")
# What NCCL and RCCL log, wherever in a line their process was when it did.
_NOISE = re.compile(
    r"([\w.-]{1,255}):\d+:\d+ \[\d+\] (?:N|R)CCL .*|\b[NR]CCL (?:INFO|WARN|TRACE)\b.*"
)
_DEVICE = re.compile(
    r"#\s+Rank\s+(\d{1,7})(?:\s+Group\s+(\d{1,7}))?(?:\s+Pid\s+(\d{1,9}))? on\s+(\S+) "
    r"device\s+(\d{1,4}) \[([^\]]*)\] ?(.*)"
)
_BUS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?")
_START = re.compile(r"# Collective test starting: (.*)")
_OURS = re.compile(r"(\w+)_perf \(cclmark (\S+), (\S+)\)")
_OUR_VERSION = re.compile(r"# cclmark version (\S+), in the layout of nccl-tests")
_VERSION = re.compile(
    r"# nccl-tests version (\S+)(?: \(\w+\))? nccl-headers=\d+ nccl-library=(\d{1,9})"
)
_LIBRARY = re.compile(r"\b([NR])CCL version[ :]+(\d{1,4}(?:\.\d{1,4}){1,2})")
_RCCL_TESTS = re.compile(r"rccl-tests: Version (\S+)")
_OUR_LIBRARY = re.compile(r"# ([\w:.-]+) (\S+) from (.+)")
_SETUP = re.compile(r"# nThread \d+ nGpus \d+ minBytes (\d{1,18}) maxBytes (\d{1,18}) (.*)")
_STEP = re.compile(r"step: (\d{1,18}(?:\.\d{1,9})?)\((factor|bytes)\)")
_WORD = re.compile(r"([a-z]+(?: [a-z]+)?): (\d{1,9})(?=\s|$)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*: (\S+)")
_END = re.compile(r"# Collective test concluded|# Avg bus bandwidth")


def is_nccl_tests(lines: list[Line]) -> int | None:
    """The first line that only such a text has, None where there is none."""
    return next((line.number for line in lines if _HEAD.search(line.text)), None)


def read_nccl_tests(text: Text) -> ForeignRun:
    """What the text tells. Raises UsageError for a row that cannot be read."""
    reader = _Reader(text)
    for line in text.lines():
        reader.take(line)
    return reader.finish()


@dataclass
class _Block:
    """What is known of the table that is being read.

    ``unknown``: its operation, where it is none of ours. ``groups``: devices by communicator.
    ``rows``: that were read of it. ``busbw``: the printed bandwidths that its average is to be of.
    """

    operation: str | None = None
    unknown: str = ""
    ccl: str | None = None
    layout: Layout | None = None
    groups: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    busbw: list[Figure] = field(default_factory=list)

    @property
    def ranks(self) -> int | None:
        """Of one communicator."""
        return max(self.groups.values()) if self.groups else None


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self._run = ForeignRun("nccl-tests", FIGURE, "host", "nccl", whole=False)
        self._block = _Block()
        self._before = ""
        self._named: str | None = None  # the operation of a command that was echoed
        self._set_up = False  # whether a run began since the last head
        self._pending: list[str] = []
        self._pending_line = 0
        self._processes: dict[str, int] = {}
        self._devices_open = False
        self._left_out: dict[str, int] = {}

    def take(self, line: Line) -> None:
        """The next line."""
        noise = _LIBRARY.search(line.text)
        if noise is not None:
            self._library("nccl" if noise[1] == "N" else "rccl", noise[2])
        text = without_stamp(self._without_noise(line.text).rstrip())
        if "#" in text and not text.lstrip()[:1].isdigit():
            self._comment(Line(line.number, text[text.index("#") :], line.process))
        elif text.strip():
            self._plain(Line(line.number, text, line.process))
        self._before = line.text

    def finish(self) -> ForeignRun:
        """All of it."""
        self._give_up_pending()
        run = self._run
        if not run.rows and self._left_out:
            number = next(iter(self._left_out.values()))
            raise self._text.refuse(
                number, f"{next(iter(self._left_out))} is no operation of cclmark"
            )
        run.notices += [
            f"line {number}: rows of {name} are left out: no operation of cclmark"
            for name, number in self._left_out.items()
        ]
        if run.tool == "cclmark":
            run.figure = "the median of cclmark's samples"
            run.clock = ""
        return run

    def _without_noise(self, text: str) -> str:
        """``text`` up to what the library logged behind it, be it without a blank between."""
        found = _NOISE.search(text)
        if found is None:
            return text
        before, host = text[: found.start()], found[1] or ""
        known = {device.host for device in self._run.devices}
        glued = next((name for name in known if name and host.endswith(name)), host)
        return before + host[: len(host) - len(glued)]

    def _comment(self, line: Line) -> None:
        text = line.text
        layout = read_layout(text, self._before)
        if layout is not None:
            self._open_table(line, layout)
        elif _HEAD.search(text):
            raise self._text.refuse(line.number, "cannot tell the columns of this head")
        elif (device := _DEVICE.match(text)) is not None:
            self._device(device)
        elif (start := _START.match(text)) is not None:
            self._open_block(line, start[1])
        elif (setup := _SETUP.match(text)) is not None:
            self._run.facts = _facts(setup, self._run.facts)
            self._set_up = True
        elif text.startswith("# Blocking Enabled"):
            self._run.facts = replace(self._run.facts, timing="blocking")
        elif _END.match(text):
            self._close(line)
        else:
            self._versions(text)

    def _versions(self, text: str) -> None:
        if (found := _VERSION.match(text)) is not None:
            self._run.version = found[1]
            self._library("nccl", nccl_version(int(found[2])))
        elif (found := _OUR_VERSION.match(text)) is not None:
            self._run.tool, self._run.version = "cclmark", found[1]
        elif self._run.tool == "cclmark" and (found := _OUR_LIBRARY.fullmatch(text)) is not None:
            self._library(found[1], found[2], found[3])

    def _library(self, name: str, version: str, path: str = "") -> None:
        known = {one.name for one in self._run.libraries}
        if name not in known:
            self._run.libraries.append(LibraryDescription(name, version, path))
        if name == "rccl":
            self._is_rccl()

    def _is_rccl(self) -> None:
        self._run.tool, self._run.ccl = "rccl-tests", "rccl"

    def _open_block(self, line: Line, program: str) -> None:
        self._give_up_pending()
        self._block = _Block(groups={})
        self._devices_open = False
        ours = _OURS.fullmatch(program.strip())
        name = ours[1] if ours else program.split(maxsplit=1)[0] if program.split() else ""
        self._block.operation = operation_in(f"{name}_perf" if ours else name)
        if ours:
            self._block.ccl = ours[3]
        if self._block.operation is None and name:
            self._block.unknown = name.rpartition("/")[2].removesuffix("_perf")

    def _device(self, found: re.Match[str]) -> None:
        if not self._devices_open:
            self._block.groups = {}
            self._run.devices = []
            self._devices_open = True
        rank, group, pid, host, index, bus, name = found.groups()
        self._block.groups[group or ""] = self._block.groups.get(group or "", 0) + 1
        amd = "AMD" in name or "Instinct" in name or self._run.ccl == "rccl"
        runtime = "" if self._run.tool == "cclmark" else "hip" if amd else "cuda"
        if amd and self._run.tool == "nccl-tests":
            self._is_rccl()
        self._run.devices.append(
            DeviceDescription(
                rank=int(rank),
                host=host,
                runtime=runtime,
                index=int(index),
                name=name.strip(),
                memory_bytes=0,
                pid=int(pid or 0),
                pci_bus_id=bus if _BUS.fullmatch(bus) else "",
            )
        )

    def _open_table(self, line: Line, layout: Layout) -> None:
        self._give_up_pending()
        if line.process:
            self._processes.setdefault(line.process, line.number)
        if len(self._processes) > 1:
            first, second = list(self._processes.values())[:2]
            raise self._text.refuse(
                second,
                f"another process than that of line {first} begins a table too: {_ALONE}",
            )
        if self._block.layout is not None and not self._block.rows and not self._set_up:
            raise self._text.refuse(line.number, f"a second head right behind the first: {_ALONE}")
        self._set_up = False
        if self._block.layout is not None:  # another run, of a version that does not name itself
            self._block = _Block(groups=self._block.groups if self._devices_open else {})
        self._devices_open = False
        self._run.whole = False
        self._block.layout = layout
        if self._block.operation is None:
            self._block.operation = self._named
        self._named = None
        if len(self._block.groups) > 1:
            self._run.notices.append(
                f"line {line.number}: {len(self._block.groups)} communicators at the same time"
            )

    def _plain(self, line: Line) -> None:
        tokens = line.text.split()
        if (version := _RCCL_TESTS.search(line.text)) is not None:
            self._is_rccl()
            self._run.version = version[1]
        layout = self._block.layout
        begins = len(tokens) > 1 and all(read_count(token) is not None for token in tokens[:2])
        if begins and layout is not None:
            self._give_up_pending()
            self._row(line.number, tokens, layout.halves(line.text), layout)
        elif self._pending and layout is not None and all(map(_is_figure, tokens)):
            self._row(self._pending_line, self._pending + tokens, layout.in_place, layout)
        elif layout is not None and _looks_like_row(tokens, layout):
            raise self._text.refuse(
                line.number, f"the size and count {' '.join(tokens[:2])[:40]!r} are no numbers"
            )
        elif "Avg bus bandwidth" in line.text:  # as in 2017
            self._close(Line(line.number, f"# {line.text.strip()}"))
        else:
            self._named = operation_in(line.text) or self._named

    def _row(
        self, number: int, tokens: list[str], halves: tuple[bool, ...], layout: Layout
    ) -> None:
        wanted = layout.columns - len(layout.part) * (len(layout.in_place) - len(halves))
        self._pending = []
        if len(tokens) > wanted:
            raise self._text.refuse(
                number, f"{len(tokens)} columns where the head has {layout.columns}"
            )
        if len(tokens) < wanted:
            self._pending, self._pending_line = tokens, number
            return
        if self._block.unknown:
            self._left_out.setdefault(self._block.unknown, number)
            return
        lead = dict(zip(layout.lead, tokens, strict=False))
        figures = tokens[len(layout.lead) :]
        self._block.rows += 1
        for place, in_place in enumerate(halves):
            cells = figures[place * len(layout.part) : (place + 1) * len(layout.part)]
            row = self._half(number, lead, dict(zip(layout.part, cells, strict=True)), in_place)
            if row is not None:
                self._run.rows.append(row)

    def _half(
        self, number: int, lead: dict[str, str], cells: dict[str, str], in_place: bool
    ) -> Row | None:
        """One placement of a row, None where it has no time."""
        assert self._block.layout is not None
        if cells["time"] == "N/A":
            return None
        time = self._figure(number, "time", cells["time"])
        busbw = self._rate(number, "busbw", cells.get("busbw", "N/A"))
        if busbw is not None:
            self._block.busbw.append(busbw)
        size, count = read_count(lead["size"]), read_count(lead["count"])
        assert size is not None
        root = lead.get("root", "-1")
        return Row(
            line=number,
            size_bytes=size,
            count=count,
            in_place=in_place,
            operation=self._block.operation,
            dtype=dtype_of(lead["type"]),
            reduction=reduction_of(lead.get("redop", "none")),
            root=read_count(root),
            time=time.times(self._block.layout.time_unit_s),
            algbw=self._rate(number, "algbw", cells.get("algbw", "N/A")),
            busbw=busbw,
            wrong=self._wrong(number, cells),
            ranks=self._block.ranks,
            ccl=self._block.ccl,
        )

    def _figure(self, number: int, name: str, word: str) -> Figure:
        found = read_figure(word)
        if found is None:
            raise self._text.refuse(number, f"the {name} {word[:40]!r} is no number")
        return found

    def _rate(self, number: int, name: str, word: str) -> Figure | None:
        if word == "N/A" or word.lstrip("-") in ("nan", "inf"):
            return None
        return self._figure(number, name, word).times(1e9)

    def _wrong(self, number: int, cells: dict[str, str]) -> int | None:
        """Wrong elements. Older versions print the largest deviation: only 0 says enough."""
        word = cells.get("wrong", "N/A").rstrip("*")
        if "wrong" in cells and word != "N/A":
            return round(self._figure(number, "#wrong", word).value)
        deviation = read_figure(cells.get("error", cells.get("res", "N/A")).rstrip("*"))
        return 0 if deviation is not None and deviation.value == 0 else None

    def _give_up_pending(self) -> None:
        """A row that began and never ended."""
        if self._pending:
            self._run.notices.append(
                f"line {self._pending_line}: cut off after {len(self._pending)} columns, left out"
            )
            self._pending = []

    def _close(self, line: Line) -> None:
        """The end of a table: whether all of its rows are there, by the average that it tells."""
        self._give_up_pending()
        self._run.whole = True
        found = _AVERAGE.match(line.text)
        average = None if found is None else read_figure(found[1])
        printed, self._block.busbw = self._block.busbw, []
        if average is not None and printed:
            mean = sum(one.value for one in printed) / len(printed) / 1e9
            error = sum(one.error for one in printed) / len(printed) / 1e9 + average.error
            if abs(mean - average.value) > 1.02 * error + 1e-9:
                self._run.notices.append(
                    f"line {line.number}: the average bus bandwidth is {average.value:g} GB/s, "
                    f"that of the rows here {mean:.6g}: some are missing, or were changed"
                )


def _looks_like_row(tokens: list[str], layout: Layout) -> bool:
    return len(tokens) == layout.columns and dtype_of(tokens[layout.lead.index("type")]) is not None


def _is_figure(word: str) -> bool:
    return word == "N/A" or read_figure(word) is not None


def _facts(setup: re.Match[str], before: Facts) -> Facts:
    step = _STEP.search(setup[3])
    words = {name: int(value) for name, value in _WORD.findall(setup[3])}
    graph = words.get("graph", 0)
    size = float(step[1]) if step else 0.0
    begin, end = int(setup[1]), int(setup[2])
    if before.begin_bytes is not None and before.end_bytes is not None:
        begin, end = min(begin, before.begin_bytes), max(end, before.end_bytes)
    return Facts(
        begin_bytes=begin,
        end_bytes=end,
        step_bytes=int(size) if step and step[2] == "bytes" else 0,
        factor=size if step and step[2] == "factor" else 0.0,
        warmup=words.get("warmup iters") or None,
        iterations=words.get("iters") or None,
        group=words.get("agg iters", 1),
        graph_launches=max(1, graph),
        check=words.get("validation"),
        timing="graph" if graph else "throughput",
    )


def nccl_version(code: int) -> str:
    """2.28.9 of 22809, and 2.8.4 of 2804, as nccl.h writes them."""
    base = 10000 if code >= 10000 else 1000
    return f"{code // base}.{code % base // 100}.{code % 100}"
