"""Reads nvbandwidth: its text, and the document that it writes with ``-j``.

The text has the devices, and a matrix or several for each testcase. The figures of the document are
texts too. What the figures are is from the sources (versions 0.1 to 0.8): the row of a matrix is
always the device that copies. The arrow in the titles is opposite to the data, so the name of the
testcase counts and not the title.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from cclmark.work.transfers import LATENCY_BYTES, Transfer
from cclmark_importers.cleaned_text import PrintedFigure, Text, TextLine, read_decimal, read_figure
from cclmark_importers.line_reader import (
    DEVICE_NUMBER,
    MOST_DEVICES,
    MatrixReader,
    PrintedMatrix,
    RunMarks,
    document_importer,
    importer,
    placed,
)
from cclmark_importers.run import ForeignRun, ImportedTransfer, UsualSize, listed_device, measured

FIGURE = (
    "the size over the tool's bandwidth, the median of its samples of 16 copies after 4 warm-up "
    "copies (the mean with -m); the total of both directions is the sum of two bandwidths"
)
_FIRST_WITH_LARGE_SIZE = (0, 7)
_FIRST_WITH_DEVICE_LATENCY = (0, 8)
_NAME = re.compile(
    r"(?P<host>host_to_device|device_to_host)_memcpy_(?P<host_engine>ce|sm)"
    r"|device_to_device_(?P<both>bidirectional_)?memcpy_(?P<way>read|write)_(?P<engine>ce|sm|tma)"
    r"|(?P<many>all_to_one|one_to_all)_(?P<many_way>read|write)_(?P<many_engine>ce|sm)"
    r"|device_local_copy(?:_(?P<local>sm|tma))?"
    r"|(?P<latency>device_to_device_latency_sm)"
)
_PARTS = re.compile(r"\) (?P<part>Read1|Read2|Write1|Write2|Total) bandwidth")


@dataclass(frozen=True)
class NvbandwidthTest:
    """A testcase. ``common``: its transfer without flows. ``rows``: 1, or 0 for one of each device.

    ``is_reversed``: whether data of an all-to-one testcase leaves the device of the column.
    """

    name: str
    common: Transfer
    rows: int = 0
    is_reversed: bool = False


def test_of(name: str, version: str = "") -> NvbandwidthTest | str:
    """Returns the testcase, or the reason why its figures are left out.

    Before version 0.8 device_to_device_latency_sm chased pointers into host memory (nvbandwidth's
    changelog).
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return _reason(name)
    if found["latency"]:
        return _latency(name, version)
    if found["host"]:
        common = _transfer("unidirectional", "host", found["host_engine"], "write")
        to_host = found["host"] == "device_to_host"
        return NvbandwidthTest(
            name,
            msgspec.structs.replace(common, host_memory="pinned", numa="near", to_host=to_host),
            rows=1,
        )
    if found["way"]:
        measure = "bidirectional" if found["both"] else "unidirectional"
        return NvbandwidthTest(name, _transfer(measure, "pairs", found["engine"], found["way"]))
    if found["many"]:
        # Reads copy from the buffers that writes fill, so the data flows the other way.
        outward = (found["many"] == "one_to_all") == (found["many_way"] == "write")
        scope = "one-to-all" if outward else "all-to-one"
        common = _transfer("unidirectional", scope, found["many_engine"], found["many_way"])
        return NvbandwidthTest(name, common, rows=1, is_reversed=outward)
    return NvbandwidthTest(
        name, _transfer("unidirectional", "local", found["local"] or "ce", "write"), rows=1
    )


def _latency(name: str, version: str) -> NvbandwidthTest | str:
    number = version_number(version)
    if number is not None and number < _FIRST_WITH_DEVICE_LATENCY:
        return "before version 0.8 it is the latency of host memory"
    common = _transfer("latency", "pairs", "sm", "read")
    common = msgspec.structs.replace(common, size_bytes=LATENCY_BYTES, method="chase")
    return NvbandwidthTest(name, common)


def _transfer(measure: str, scope: str, engine: str, direction: str) -> Transfer:
    return Transfer(
        measure=measure,
        scope=scope,
        engine="CE" if engine == "ce" else "SM",
        direction=direction,
        flows=(),
        size_bytes=0,
        kernel="tma" if engine == "tma" else "",
    )


def _reason(name: str) -> str:
    if name.startswith("multinode_"):
        return "its devices belong to several processes"
    if "host" in name and "latency" in name:
        return "cclmark p2p does not measure the latency of host memory"
    if name.startswith(("all_to_host", "host_to_all")) or "bidirectional" in name:
        return "the figure is of one copy beside others that are not measured"
    return "cclmark does not support this testcase"


def usual_size(version: str) -> UsualSize | None:
    """Returns the default size, which version 0.7 raised; None if the version is unknown."""
    number = version_number(version)
    if number is None:
        return None
    size_mib = 512 if number >= _FIRST_WITH_LARGE_SIZE else 64
    return UsualSize(size_mib << 20, f"nvbandwidth {version}")


def version_number(version: str) -> tuple[int, ...] | None:
    """Returns the parts of a version such as 0.10.0; None if it is unknown."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})", version)
    return None if found is None else (int(found[1]), int(found[2]))


def part_of(title: str) -> str:
    """Returns the part of a bidirectional testcase that a title names, empty for none."""
    found = _PARTS.search(title)
    return "" if found is None else found["part"]


@dataclass(frozen=True)
class CellFigure:
    """A figure of a matrix with its place; in GB/s, or in ns for a latency."""

    row: int
    column: int
    figure: PrintedFigure
    line: int


def single_rows(
    test: NvbandwidthTest, cells: Sequence[CellFigure], devices: int
) -> list[ImportedTransfer]:
    """Returns the transfers of a matrix that shows the whole measurement."""
    found = []
    for cell in cells:
        transfer = msgspec.structs.replace(
            test.common, flows=_flows(test, cell.row, cell.column, devices)
        )
        if not transfer.flows:
            continue
        is_latency = transfer.measure == "latency"
        size_bytes, unit = (LATENCY_BYTES, 1e-9) if is_latency else (None, 1e9)
        found.append(measured(cell.line, transfer, size_bytes, cell.figure.value * unit))
    return found


def _flows(
    test: NvbandwidthTest, row: int, column: int, devices: int
) -> tuple[tuple[int, int], ...]:
    scope = test.common.scope
    if scope == "pairs":
        return placed(test.common, row, column).flows
    if scope in ("host", "local"):
        return ((column, column),)
    others = [device for device in range(devices) if device != column]
    return tuple((column, one) if test.is_reversed else (one, column) for one in others)


def both_ways(
    test: NvbandwidthTest, parts: dict[str, dict[tuple[int, int], CellFigure]], notices: list[str]
) -> list[ImportedTransfer]:
    """Returns the transfers of a bidirectional testcase from its matrices, of which Total exists.

    Part 1 is the copy from the column's device to the row's, part 2 the copy back; the destination
    performs reads, the source writes.
    """
    is_read = test.common.direction == "read"
    first, second = ("Read1", "Read2") if is_read else ("Write2", "Write1")
    found, alone = [], 0
    for (row, column), total in parts["Total"].items():
        cells = [parts.get(name, {}).get((row, column)) for name in (first, second)]
        rates = tuple(cell.figure.value * 1e9 for cell in cells if cell is not None)
        alone += len(rates) < len(cells)
        transfer = placed(test.common, row, column)
        found.append(
            ImportedTransfer(
                total.line,
                transfer,
                None,
                rates if len(rates) == len(cells) else (),
                total.figure.value * 1e9,
            )
        )
    if alone:
        notices.append(
            f"{test.name}: {alone} totals have no bandwidths of both directions, so their time is "
            "computed from the total"
        )
    return found


_UNIT = re.compile(r"\(([KMGT]?i?[Bb]/s|[mun]?s)\)$")
_UNITS = ("GB/s", "ns")  # of bandwidths and latencies
_ONE_OF_BOTH = "it shows the bandwidth of one of both directions"


class _NvbandwidthReader(MatrixReader):
    within = "testcase"

    def __init__(self, text: Text) -> None:
        super().__init__(text, "nvbandwidth", FIGURE, "device", timing="gated")
        self.cuda = 0  # 1000 times the version of its driver

    def settle(self, missing: str) -> None:
        """Adds the default size, and notices about definitions, which hold for all figures.

        ``missing``: describes where the version is due, if it is unknown.
        """
        run = self.run
        if not run.devices:
            run.devices = [listed_device(rank, runtime="cuda") for rank in range(self.devices)]
        if self.cuda:
            for device in run.devices:
                device.driver_version = f"{self.cuda // 1000}.{self.cuda % 1000 // 10}"
        run.usual_size = usual_size(run.version)
        if run.usual_size is None:
            run.no_usual_size = (
                f"{missing}: the tool's default is 64 MiB before version 0.7 and 512 MiB since"
            )
        transfers = [row.transfer for row in run.copies]
        if any(one.scope in ("all-to-one", "one-to-all") for one in transfers):
            run.notices.append(
                "all-to-one and one-to-all: the text does not contain which devices took part; "
                "every other device is assumed"
            )
        if any(one.engine == "SM" and one.measure != "latency" for one in transfers):
            run.notices.append(
                "SM: nvbandwidth's own kernel, which copies a whole number of elements for each "
                "thread"
            )
        if any(one.measure == "latency" for one in transfers):
            run.notices.append(
                "latency: a chase of pointers in 2 MiB, the mean of a million loads over all "
                "multiprocessors"
            )

    def omit(self, line: TextLine, name: str, reason: str) -> None:
        """Adds the notice about a testcase that is left out."""
        self.note(line, f"{name} is left out: {reason}")

    def add_device(self, device: re.Match[str], host: str) -> None:
        """Adds a device of the list."""
        bus_id = f"{device[3].upper()}.0" if device[3] else ""
        self.run.devices.append(
            listed_device(int(device[1]), device[2], host=host, runtime="cuda", pci_bus_id=bus_id)
        )

    def require_unit(self, line: TextLine, test: NvbandwidthTest, title: str) -> None:
        """Raises UsageError if the title of a matrix has another unit than the tool's."""
        unit, due = _UNIT.search(title.strip()), _UNITS[test.common.measure == "latency"]
        if unit is not None and unit[1] != due:
            raise self.refuse(
                line, f"the unit of {test.name} is {due} in nvbandwidth, not {unit[1]}"
            )

    def figures(
        self,
        test: NvbandwidthTest,
        line: int,
        cells: Iterable[tuple[int, int, str, int]],
        reads: Callable[[str], PrintedFigure | None],
        of: str = "",
    ) -> list[CellFigure]:
        """Returns the figures of a matrix that begins on ``line``. ``of``: names it in messages."""
        found: list[CellFigure] = []
        zeros: list[int] = []
        closed = 0
        for row, column, word, number in cells:
            # In matrices of pairs the diagonal has no copy: of older versions it is 0.
            is_shown = test.common.scope != "pairs" or row != column
            if word == "N/A":
                closed += is_shown
                continue
            figure = reads(word)
            if figure is None:
                place = f" in the matrix{of}" if of else ""
                raise self.refuse(number, f"{word[:40]!r}{place} is not a number")
            if figure.value > 0:
                found.append(CellFigure(row, column, figure, number))
            elif is_shown:
                zeros.append(number)
        self.note_zeros(f"figures of 0{of}", zeros)
        if closed:
            self.note(
                line, f"{closed} figures are N/A: not measured, for example without peer access"
            )
        return found


_VERSION = re.compile(r"nvbandwidth Version: v?(\S{1,20})")
_DRIVER = re.compile(r"Driver Version: (\S{1,30})")
_CUDA = re.compile(r"CUDA Driver Version(?: \(API\))?: (?:\d{1,3}\.\d{1,3} \()?(\d{4,6})\)?")
_RUNNING = re.compile(r"Running ([a-z0-9_]{1,80})\.")
_DEVICE = re.compile(r"Device (\d{1,4}): (.{1,80}?)(?: \(([0-9a-f]{8}:[0-9a-f]{2}:[0-9a-f]{2})\))?")
_PROCESS = re.compile(r"Process +\d{1,6} \(.{1,256}\): device \d")
_TITLE = "GPU(column)"
_SUM = re.compile(r"(?:SUM|&&&& PERF) ([a-z0-9_]{1,80}) (\d\S{0,30}?)(?: ?[a-zA-Z/+]{1,8})?")
_ENDINGS = re.compile(r"(Waived|Error|ERROR): ?(.*)")
_FAULT = re.compile(r"ASSERT in expression (.{1,200})|\[CUDA_ERROR_\w+\] .{1,200}")
_HOST = re.compile(r"[A-Za-z0-9][\w.-]{0,254}", re.ASCII)
_SLACK = 0.005  # half of the last of two decimals


class _TextReader(_NvbandwidthReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text)
        self._begun: TextLine | None = None  # the line of the current testcase
        self._name = ""
        self._test: NvbandwidthTest | None = None  # None for one that is left out
        self._is_shown = False  # whether a matrix of it was read
        self._parts: dict[str, dict[tuple[int, int], CellFigure]] = {}
        self._cells: list[CellFigure] = []
        self._several = False

    def finish(self) -> None:
        self._close(at_end=True)
        self.run.on_one_host = not self._several
        self.settle('no line "nvbandwidth Version: …" with a number is in the text')

    def take_at(self, place: int, line: TextLine, words: str) -> int:
        run = self.run
        if (version := _VERSION.fullmatch(words)) is not None:
            if run.copies or self._parts:
                raise self.split(line, f"nvbandwidth {version[1]} starts here after other results")
            run.version = version[1]
        elif (cuda := _CUDA.fullmatch(words)) is not None:
            self.cuda = int(cuda[1])
        elif (driver := _DRIVER.fullmatch(words)) is not None:
            run.vendor_driver = driver[1]
        elif (device := _DEVICE.fullmatch(words)) is not None:
            self.require_next(line, int(device[1]))
            before = self.lines[place - 1].text.strip() if place else ""
            host = run.devices[0].host if run.devices else before
            self.add_device(device, host if _HOST.fullmatch(host) else "")
        elif _PROCESS.match(words):
            self._several = True
        elif (running := _RUNNING.fullmatch(words)) is not None:
            self._close()
            self._begin(line, running[1])
        elif (total := _SUM.fullmatch(words)) is not None:
            self._check_sum(line, total[1], total[2])
        elif (ending := _ENDINGS.fullmatch(words)) is not None:
            self._end(line, ending[1], ending[2])
        elif (fault := _FAULT.match(words)) is not None:
            self.fail(fault[0])
            self._is_shown = True
        elif _TITLE in words:
            return self._matrix(place, line)
        elif (
            self._test is not None
            and not self._is_shown
            and DEVICE_NUMBER.fullmatch(words.split(maxsplit=1)[0])
        ):
            raise self.refuse(line, "a row of a matrix without its title and columns")
        return place + 1

    def _begin(self, line: TextLine, name: str) -> None:
        self._begun, self._name, self._test = line, name, None
        self._is_shown, self._cells = False, []
        found = test_of(name, self.run.version)
        if not isinstance(found, str) and self._several:
            found = "of a run of several processes it shows only the first one's"
        if isinstance(found, str):
            self.omit(line, name, found)
        else:
            self._test = found

    def _close(self, *, at_end: bool = False) -> None:
        """Closes the current testcase; of both directions it printed three matrices."""
        begun, test, parts = self._begun, self._test, self._parts
        self._begun, self._test, self._parts = None, None, {}
        if begun is None or test is None:
            return
        if "Total" in parts:
            self.run.copies += both_ways(test, parts, self.run.notices)
            return
        if parts:
            self.omit(begun, test.name, "the matrix of the total of both directions is missing")
        elif self._is_shown:
            return
        elif not at_end:
            self.omit(begun, test.name, "the text contains no figures of it")
        if at_end:
            self.cut()

    def _end(self, line: TextLine, status: str, message: str) -> None:
        """Reads the status of a testcase without figures. The tool does not name a waived one."""
        if status == "Waived":
            self.note(line, "the tool waived a testcase")
            return
        shown = f": {message.strip()[:200]}" if message.strip() else ""
        self.run.failed = True
        self.note(line, f"a testcase failed{shown}")
        self._is_shown = True

    def _matrix(self, place: int, line: TextLine) -> int:
        """Reads the title at ``place`` and the matrix after it; returns the next place."""
        if self._begun is None:
            raise self.refuse(
                line, "a matrix without the line of its testcase (Running NAME.) above"
            )
        test = self._test
        if test is None:
            return place + 1
        part = part_of(line.text)
        if part in self._parts or (self._is_shown and not part):
            raise self.refuse(line, f"this matrix of {test.name} is here twice")
        self.require_unit(line, test, line.text)
        if place + 1 == len(self.lines):
            self.cut()
            return place + 1
        columns = self.lines[place + 1].text.split()
        if not all(map(DEVICE_NUMBER.fullmatch, columns)):
            raise self.refuse(self.lines[place + 1], "the columns of the matrix are due here")
        matrix = self.numbered_matrix(place + 1, columns, rows=test.rows or None)
        self.require_devices(matrix.line, len(columns))
        self._add(self._begun, test, part, matrix)
        return matrix.after

    def _add(
        self, begun: TextLine, test: NvbandwidthTest, part: str, matrix: PrintedMatrix
    ) -> None:
        self._cells = self.figures(test, matrix.line, matrix.cells(), read_decimal)
        self._is_shown = True
        if matrix.cut:
            self.cut()
        if test.common.measure != "bidirectional":
            self.run.copies += single_rows(test, self._cells, len(matrix.columns))
        elif part:
            self._parts[part] = {(cell.row, cell.column): cell for cell in self._cells}
        else:
            self.omit(begun, test.name, _ONE_OF_BOTH)

    def _check_sum(self, line: TextLine, name: str, word: str) -> None:
        """Compares the tool's sum of a matrix with its figures."""
        if self._begun is None or not name.startswith(self._name):
            raise self.refuse(
                line, f"the sum of {name}, but the line Running {name}. is missing above"
            )
        printed = read_decimal(word)
        if printed is None:
            raise self.refuse(line, f"the sum {word[:40]!r} is not a number")
        if self._cells:
            shown = sum(cell.figure.value for cell in self._cells)
            if abs(shown - printed.value) > (len(self._cells) + 1) * _SLACK + 1e-6 * shown:
                self.note(
                    line,
                    f"does not fit: the sum is {printed.value:g}, but the figures above give "
                    f"{shown:g}",
                )
        self._cells = []


NVBANDWIDTH = importer(
    _TextReader,
    _VERSION.fullmatch,
    _RUNNING.fullmatch,
    marks=RunMarks([_VERSION.fullmatch], _RUNNING.fullmatch),
)

_START = re.compile(r'\{\s{0,200}"nvbandwidth"\s{0,200}:')
_CASE_NAME = re.compile(r'"name"\s{0,20}:')
_LISTED = re.compile(
    r"(\d{1,4}): (.{1,80}?)(?: \(([0-9a-f]{8}:[0-9a-f]{2}:[0-9a-f]{2})\))?(?:: \(([^()]{1,255})\))?"
)
_TAG = re.compile(r"v(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)")  # of git describe, without commits behind
_FAILED = ("Error", "ERROR")


def _is_json(text: Text) -> bool:
    """Whether the text contains such a document; lines of other programs may be around it."""
    return _START.search(text.content) is not None


class _JsonReader(_NvbandwidthReader):
    def read(self) -> ForeignRun:
        """Reads the document."""
        content = self.text.content
        found = _START.search(content)
        if found is None:
            raise self.refuse(1, 'no JSON of nvbandwidth: "nvbandwidth" is due at its beginning')
        begin = self.text.line_at(found.start())
        try:
            document, length = json.JSONDecoder().raw_decode(content[found.start() :])
        except (ValueError, RecursionError) as error:
            raise self.refuse(
                begin - 1 + getattr(error, "lineno", 1),
                "this JSON is truncated or damaged: nvbandwidth writes it only at its end",
            ) from None
        names = _CASE_NAME.finditer(content, found.start(), found.start() + length)
        lines = [TextLine(self.text.line_at(one.start()), "") for one in names]
        self._document(TextLine(begin, ""), lines, document["nvbandwidth"])
        return self.run

    def _document(self, begin: TextLine, lines: list[TextLine], content: Any) -> None:
        """Reads the content. ``lines``: of the names of its testcases."""
        if not isinstance(content, dict):
            raise self.refuse(begin, '"nvbandwidth" is not an object')
        run = self.run
        run.version = str(content.get("version", ""))[:20].removeprefix("v")
        tag = _TAG.fullmatch(str(content.get("git_version", "")))
        if "version" not in content and tag is not None:
            run.version = tag[1]
            run.notices.append(f'the document has no "version": "git_version" is {tag[0]}')
        run.vendor_driver = str(content.get("Driver Version", ""))[:30]
        cases = content.get("testcases")
        if not isinstance(cases, list):
            raise self.refuse(begin, "the document contains no list of testcases")
        listed = content.get("GPU Device list")
        for number, one in enumerate(listed if isinstance(listed, list) else []):
            device = _LISTED.fullmatch(str(one))
            if device is None or int(device[1]) != number:
                raise self.refuse(begin, f"cannot read device {number} in the list of devices")
            self.add_device(device, device[4] or "")
        if len(cases) != len(lines):
            raise self.refuse(begin, "the document has testcases without a name")
        for line, case in zip(lines, cases, strict=True):
            self._case(line, case)
        for key in ("error", "warning"):
            if isinstance(content.get(key), str):
                run.notices.append(f"{key} of the tool: {content[key][:200]}")
        if isinstance(content.get("error"), str):
            self.fail(content["error"][:200])
        run.on_one_host = True
        cuda = content.get("CUDA Runtime Version")
        if isinstance(cuda, int) and 1000 <= cuda < 1_000_000:
            self.cuda = cuda
        where = f"the document that begins on line {begin.number}"
        self.settle(f'{where} has no "version" with a number')

    def _case(self, line: TextLine, case: Any) -> None:
        if not isinstance(case, dict) or not isinstance(case.get("name"), str):
            raise self.refuse(line, "this testcase has no name")
        name, matrix = case["name"][:80], case.get("bandwidth_matrix")
        test = test_of(name, self.run.version)
        if case.get("status") in _FAILED:
            self.run.failed = True
            self.omit(line, name, "the testcase failed")
        elif matrix is None:
            status = str(case.get("status", ""))[:20]
            self.omit(line, name, f"it has no figures, status {status or 'unknown'}")
        elif isinstance(test, str):
            self.omit(line, name, test)
        else:
            self._matrix(line, test, matrix, str(case.get("bandwidth_description", "")))

    def _matrix(self, line: TextLine, test: NvbandwidthTest, matrix: Any, title: str) -> None:
        """Reads the matrix; three, one below the other, are both directions and their total."""
        self.require_unit(line, test, title)
        of = f"the matrix of {test.name}"
        if not isinstance(matrix, list) or not all(isinstance(row, list) for row in matrix):
            raise self.refuse(line, f"{of} is not a list of rows")
        number = len(matrix[0]) if matrix else 0
        if not 0 < number <= MOST_DEVICES or any(len(row) != number for row in matrix):
            raise self.refuse(line, f"the rows of {of} differ in length")
        self.require_devices(line, number, of)
        rows = test.rows or number
        both = test.common.measure == "bidirectional"
        if len(matrix) != rows and not (both and len(matrix) == 3 * rows):
            raise self.refuse(line, f"{of} has {len(matrix)} rows, not {rows}")
        if not both:
            self.run.copies += single_rows(test, self._cells(line, test, matrix), number)
            return
        way = "Read" if test.common.direction == "read" else "Write"
        names = [f"{way}1", f"{way}2", "Total"] if len(matrix) > rows else [part_of(title)]
        if names[-1] != "Total":
            self.omit(line, test.name, _ONE_OF_BOTH)
            return
        parts = {
            name: {
                (cell.row, cell.column): cell
                for cell in self._cells(line, test, matrix[place * rows : (place + 1) * rows])
            }
            for place, name in enumerate(names)
        }
        self.run.copies += both_ways(test, parts, self.run.notices)

    def _cells(self, line: TextLine, test: NvbandwidthTest, rows: list[Any]) -> list[CellFigure]:
        cells = (
            (number, column, str(cell), line.number)
            for number, row in enumerate(rows)
            for column, cell in enumerate(row)
        )
        return self.figures(test, line.number, cells, _read_json_figure, f" of {test.name}")


def _read_json_figure(word: str) -> PrintedFigure | None:
    """Parses a number without a fixed notation: large figures have an exponent."""
    return read_figure(word.replace("e+", "e").replace("e-", "?"))


NVBANDWIDTH_JSON = document_importer(_JsonReader, _is_json)
