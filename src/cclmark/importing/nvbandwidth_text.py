"""Reads the text of nvbandwidth: the devices, and a matrix or several for each testcase."""

from __future__ import annotations

import re

from cclmark.importing.cleaned_text import Text, TextLine, read_decimal
from cclmark.importing.notices import left_out
from cclmark.importing.nvbandwidth_tests import (
    FIGURE,
    CellFigure,
    NvbandwidthTest,
    both_ways,
    measures_device_latency,
    part_of,
    settle,
    single_rows,
    test_of,
)
from cclmark.importing.printed_matrix import (
    MOST_DEVICES,
    PrintedMatrix,
    read_matrix,
    require_numbers,
)
from cclmark.importing.run import ForeignRun, ToolSettings
from cclmark.results.schema import DeviceDescription

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
_ROW = re.compile(r"\d{1,4}", re.ASCII)
_UNIT = re.compile(r"\(([KMGT]?i?B/s|[mun]?s)\)$")
_UNITS = ("GB/s", "ns")  # of bandwidths and latencies
_HOST = re.compile(r"[A-Za-z0-9][\w.-]{0,254}", re.ASCII)
_ZERO = "figures of 0"
_SLACK = 0.005  # half of the last of two decimals


def is_nvbandwidth(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    found = (
        line.number
        for line in lines
        if _VERSION.fullmatch(line.text.strip()) or _RUNNING.fullmatch(line.text.strip())
    )
    return next(found, None)


def read_nvbandwidth(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a matrix that cannot be read."""
    reader = _Reader(text)
    reader.read()
    return reader.run


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self._lines = [line for line in text.lines() if line.text.strip()]
        self.run = ForeignRun(
            "nvbandwidth", FIGURE, "device", "", facts=ToolSettings(timing="gated")
        )
        self._begun: TextLine | None = None  # the line of the current testcase
        self._test: NvbandwidthTest | None = None  # None for one that is left out
        self._is_shown = False  # whether a matrix of it was read
        self._parts: dict[str, dict[tuple[int, int], CellFigure]] = {}
        self._cells: list[CellFigure] = []
        self._devices = 0
        self._cuda = ""
        self._several = False

    def read(self) -> None:
        """Reads all lines."""
        place = 0
        while place < len(self._lines):
            place = self._take(place)
        self._close(at_end=True)
        if not self.run.devices:
            self.run.devices = unnamed_devices(self._devices, "cuda")
        self.run.on_one_host = not self._several
        for device in self.run.devices:
            device.driver_version = self._cuda
        settle(self.run, 'no line "nvbandwidth Version: …" with a number is in the text')

    def _take(self, place: int) -> int:
        """Reads the line at ``place`` and returns the place of the next one."""
        line = self._lines[place]
        words = line.text.strip()
        run = self.run
        if (version := _VERSION.fullmatch(words)) is not None:
            self._refuse_other_run(line, version[1])
            run.version = version[1]
        elif (cuda := _CUDA.fullmatch(words)) is not None:
            self._cuda = f"{int(cuda[1]) // 1000}.{int(cuda[1]) % 1000 // 10}"
        elif (driver := _DRIVER.fullmatch(words)) is not None:
            run.vendor_driver = driver[1]
        elif (device := _DEVICE.fullmatch(words)) is not None:
            self._add_device(line, device, place)
        elif _PROCESS.match(words):
            self._several = True
        elif (running := _RUNNING.fullmatch(words)) is not None:
            self._close()
            self._begin(line, running[1])
        elif (total := _SUM.fullmatch(words)) is not None:
            self._check_sum(line, total)
        elif (ending := _ENDINGS.fullmatch(words)) is not None:
            self._end(line, ending[1], ending[2])
        elif (fault := _FAULT.match(words)) is not None:
            run.failed, run.exit_code, run.message = True, 1, fault[0]
            self._is_shown = True
        elif _TITLE in words:
            return self._matrix(place)
        elif self._test is not None and not self._is_shown and _ROW.fullmatch(words.split()[0]):
            raise self._text.refuse(line.number, "a row of a matrix without its title and columns")
        return place + 1

    def _refuse_other_run(self, line: TextLine, version: str) -> None:
        if self.run.copies or self._parts:
            raise self._text.refuse(
                line.number,
                f"nvbandwidth {version} starts here after other results: split the text before "
                "this line and import the parts one by one",
            )

    def _add_device(self, line: TextLine, device: re.Match[str], place: int) -> None:
        number = int(device[1])
        if number != len(self.run.devices):
            raise self._text.refuse(
                line.number,
                f"device {number} is listed, but device {len(self.run.devices)} is due",
            )
        before = self._lines[place - 1].text.strip() if place else ""
        if number == 0:
            host = before if _HOST.fullmatch(before) else ""
        else:
            host = self.run.devices[0].host
        self.run.devices.append(
            DeviceDescription(
                rank=number,
                host=host,
                runtime="cuda",
                index=number,
                name=device[2],
                memory_bytes=0,
                pci_bus_id=f"{device[3].upper()}.0" if device[3] else "",
            )
        )

    def _begin(self, line: TextLine, name: str) -> None:
        """Begins a testcase."""
        self._begun, self._test, self._is_shown, self._cells = line, None, False, []
        found = test_of(name)
        if isinstance(found, str):
            self._omit(name, found)
        elif self._several:
            self._omit(name, "of a run of several processes it shows only the first one's")
        elif found.common.measure == "latency" and not measures_device_latency(self.run.version):
            self._omit(name, "before version 0.8 it is the latency of host memory")
        else:
            self._test = found

    def _close(self, *, at_end: bool = False) -> None:
        """Closes the current testcase."""
        if self._parts:
            self._end_parts(at_end=at_end)
        elif self._begun is not None and self._test is not None and not self._is_shown:
            if at_end:
                self._cut()
            else:
                self._omit(self._test.name, "the text contains no figures of it")
        self._begun = self._test = None

    def _omit(self, name: str, reason: str) -> None:
        assert self._begun is not None
        self.run.notices.append(f"line {self._begun.number}: {name} is left out: {reason}")

    def _end(self, line: TextLine, status: str, message: str) -> None:
        """Reads the status of a testcase without figures. The tool does not name a waived one."""
        if status == "Waived":
            self.run.notices.append(f"line {line.number}: the tool waived a testcase")
            return
        shown = f": {message.strip()[:200]}" if message.strip() else ""
        self.run.failed = True
        self.run.notices.append(f"line {line.number}: a testcase failed{shown}")
        self._is_shown = True

    def _matrix(self, place: int) -> int:
        """Reads the title at ``place`` and the matrix after it; returns the next place."""
        line = self._lines[place]
        if self._begun is None:
            raise self._text.refuse(
                line.number, "a matrix without the line of its testcase (Running NAME.) above"
            )
        test = self._test
        if test is None:
            return place + 1
        part = part_of(line.text)
        if part in self._parts or (self._is_shown and not part):
            raise self._text.refuse(line.number, f"this matrix of {test.name} is here twice")
        unit, due = _UNIT.search(line.text.strip()), _UNITS[test.common.measure == "latency"]
        if unit is not None and unit[1] != due:
            raise self._text.refuse(
                line.number, f"the unit of {test.name} is {due} in nvbandwidth, not {unit[1]}"
            )
        if place + 1 == len(self._lines):
            self._cut()
            return place + 1
        columns = self._lines[place + 1].text.split()
        if not all(map(_ROW.fullmatch, columns)):
            raise self._text.refuse(
                self._lines[place + 1].number, "the columns of the matrix are due here"
            )
        matrix = read_matrix(
            self._text,
            self._lines,
            place + 1,
            columns,
            lambda word: _ROW.fullmatch(word) is not None,
            rows=test.rows or None,
        )
        require_numbers(self._text, matrix)
        self._require_devices(matrix)
        self._add(test, part, matrix)
        return matrix.after

    def _require_devices(self, matrix: PrintedMatrix) -> None:
        number = len(matrix.columns)
        known = len(self.run.devices) or self._devices
        if known and number != known:
            raise self._text.refuse(
                matrix.line, f"this matrix has {number} devices, but the text has {known}"
            )
        self._devices = min(number, MOST_DEVICES)

    def _add(self, test: NvbandwidthTest, part: str, matrix: PrintedMatrix) -> None:
        """Adds the figures of a matrix of the current testcase."""
        self._cells = self._figures(matrix, diagonal=test.common.scope != "pairs")
        self._is_shown = True
        if matrix.cut:
            self._cut()
        if test.common.measure != "bidirectional":
            self.run.copies += single_rows(test, self._cells, len(matrix.columns))
        elif part:
            self._parts[part] = {(cell.row, cell.column): cell for cell in self._cells}
        else:
            self._omit(test.name, "it shows the bandwidth of one of both directions")

    def _figures(self, matrix: PrintedMatrix, *, diagonal: bool) -> list[CellFigure]:
        found, closed = [], 0
        zeros: list[int] = []
        for number, row in enumerate(matrix.rows):
            for column, word in enumerate(row.cells):
                if word == "N/A":
                    closed += diagonal or number != column
                    continue
                figure = read_decimal(word)
                if figure is None:
                    raise self._text.refuse(row.line, f"{word[:40]!r} is not a number")
                if figure.value > 0:
                    found.append(CellFigure(number, column, figure, row.line))
                elif diagonal or number != column:  # of older versions the diagonal is 0
                    zeros.append(row.line)
        if zeros:
            self.run.notices.append(left_out(_ZERO, zeros))
        if closed:
            self.run.notices.append(
                f"line {matrix.line}: {closed} figures are N/A: not measured, for example without "
                "peer access"
            )
        return found

    def _check_sum(self, line: TextLine, total: re.Match[str]) -> None:
        """Compares the tool's sum of a matrix with its figures."""
        if self._begun is None or not total[1].startswith(_name(self._begun)):
            raise self._text.refuse(
                line.number,
                f"the sum of {total[1]}, but the line Running {total[1]}. is missing above",
            )
        printed = read_decimal(total[2])
        if printed is None:
            raise self._text.refuse(line.number, f"the sum {total[2][:40]!r} is not a number")
        if self._cells:
            shown = sum(cell.figure.value for cell in self._cells)
            if abs(shown - printed.value) > (len(self._cells) + 1) * _SLACK + 1e-6 * shown:
                self.run.notices.append(
                    f"line {line.number}: does not fit: the sum is {printed.value:g}, but the "
                    f"figures above give {shown:g}"
                )
        self._cells = []

    def _end_parts(self, *, at_end: bool) -> None:
        """Adds the transfers of a bidirectional testcase, which printed three matrices."""
        parts, self._parts = self._parts, {}
        test = self._test
        assert test is not None
        if "Total" not in parts:
            self._omit(test.name, "the matrix of the total of both directions is missing")
            if at_end:
                self._cut()
            return
        self.run.copies += both_ways(test, parts, self.run.notices)

    def _cut(self) -> None:
        self.run.whole = False
        last = self._lines[-1].number
        notice = f"line {last}: the text ends within a testcase, whose complete rows are used"
        if notice not in self.run.notices:
            self.run.notices.append(notice)


def _name(begun: TextLine) -> str:
    """Returns the name of the testcase whose line is ``begun``."""
    return begun.text.strip().removeprefix("Running ").rstrip(".")


def unnamed_devices(number: int, runtime: str) -> list[DeviceDescription]:
    """Returns devices of which only the number is known."""
    return [
        DeviceDescription(
            rank=device, host="", runtime=runtime, index=device, name="", memory_bytes=0
        )
        for device in range(number)
    ]
