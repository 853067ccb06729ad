"""The text of nccl-tests, of any version, of rccl-tests, and our own in that layout."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import msgspec

from cclmark.results.foreign.nccl_head import FIGURE, nccl_version, read_device, read_facts
from cclmark.results.foreign.nccl_layout import Layout, read_layout, without_stamp
from cclmark.results.foreign.nccl_rows import is_figure, looks_like_row, read_half
from cclmark.results.foreign.run import ForeignRun
from cclmark.results.foreign.text import Figure, Line, Text, read_count, read_figure
from cclmark.results.foreign.words import operation_in
from cclmark.results.schema import DeviceDescription, LibraryDescription

_ALONE = (
    "several processes ran alone, each with a table of its own, as they do where nccl-tests was "
    "built without MPI=1. Their figures are of no communication between them"
)
_HEAD = re.compile(r"#\s+(?:size\s+count|bytes\s+N)\s+type\b")
# What NCCL and RCCL log, wherever in a line their process was when it did.
_NOISE = re.compile(
    r"([\w.-]{1,255}):\d+:\d+ \[\d+\] (?:N|R)CCL .*|\b[NR]CCL (?:INFO|WARN|TRACE)\b.*"
)
_START = re.compile(r"# Collective test starting: (.*)")
_OURS = re.compile(r"(\w+)_perf \(cclmark (\S+), (\S+)\)")
_OUR_VERSION = re.compile(r"# cclmark version (\S+), in the layout of nccl-tests")
_VERSION = re.compile(
    r"# nccl-tests version (\S+)(?: \(\w+\))? nccl-headers=\d+ nccl-library=(\d{1,9})"
)
_LIBRARY = re.compile(r"\b([NR])CCL version[ :]+(\d{1,4}(?:\.\d{1,4}){1,2})")
_RCCL_TESTS = re.compile(r"rccl-tests: Version (\S+)")
_OUR_LIBRARY = re.compile(r"# ([\w:.-]+) (\S+) from (.+)")
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
        self._before = line.text if line.text.strip() else self._before

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
        elif (device := read_device(text)) is not None:
            self._device(device)
        elif (start := _START.match(text)) is not None:
            self._open_block(line, start[1])
        elif (facts := read_facts(text, self._run.facts)) is not None:
            self._run.facts = facts
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

    def _device(self, found: tuple[str, DeviceDescription]) -> None:
        if not self._devices_open:
            self._block.groups = {}
            self._run.devices = []
            self._devices_open = True
        group, device = found
        self._block.groups[group] = self._block.groups.get(group, 0) + 1
        if device.runtime == "hip" and self._run.tool == "nccl-tests":
            self._is_rccl()
        if self._run.tool == "cclmark":  # which may have measured on any
            device = msgspec.structs.replace(device, runtime="")
        elif self._run.ccl == "rccl":
            device = msgspec.structs.replace(device, runtime="hip")
        self._run.devices.append(device)

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
        elif self._pending and layout is not None and all(map(is_figure, tokens)):
            self._row(self._pending_line, self._pending + tokens, layout.in_place, layout)
        elif layout is not None and looks_like_row(tokens, layout):
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
            told = dict(zip(layout.part, cells, strict=True))
            row = read_half(self._text, number, lead, told, layout.time_unit_s)
            if row is None:
                continue
            block = self._block
            block.busbw += [row.busbw] if row.busbw is not None else []
            self._run.rows.append(
                replace(
                    row,
                    in_place=in_place,
                    operation=block.operation,
                    ranks=block.ranks,
                    ccl=block.ccl,
                )
            )

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
