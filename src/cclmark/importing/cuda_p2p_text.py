"""Reads the matrices of p2pBandwidthLatencyTest of the CUDA samples (sources of 10.0 to 13.0)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_decimal
from cclmark.importing.notices import left_out
from cclmark.importing.nvbandwidth_text import unnamed_devices
from cclmark.importing.printed_matrix import PrintedMatrix, read_matrix, require_numbers
from cclmark.importing.run import ForeignRun, ImportedTransfer, ToolSettings, UsualSize
from cclmark.plan.transfers import LATENCY_BYTES, Transfer
from cclmark.results.schema import DeviceDescription

_TOOL = "p2pBandwidthLatencyTest of the CUDA samples"
_FIGURE = (
    "the size over the tool's bandwidth of 5 copies, or the mean of 100 copies of 16 bytes for a "
    "latency (4 bytes before version 10.2); one sample"
)
_USUAL = UsualSize(
    160_000_000, "p2pBandwidthLatencyTest since version 11.2 of the samples (40 MB before)"
)
_START = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"
_BANDWIDTH = re.compile(
    r"(Unidirectional|Bidirectional) P2P=(Disabled|Enabled) Bandwidth(?: \(P2P (Writes|Reads)\))? "
    r"Matrix(?: \(GB/s\))?"
)
_LATENCY = re.compile(
    r"P2P=(Disabled|Enabled) Latency(?: \(P2P (Writes|Reads)\))? Matrix(?: \(us\))?"
)
_CONNECTIVITY = "P2P Connectivity Matrix"
# "Device:" looks like the prefix of a line with a host's name, which Text.lines() removes.
_DEVICE = re.compile(
    r"(?:Device: )?(\d{1,4}), (.{1,80}), pciBusID: ([0-9a-f]{1,4}), pciDeviceID: ([0-9a-f]{1,4}), "
    r"pciDomainID: ?([0-9a-f]{1,8})"
)
_COMMAND = re.compile(r"p2pBandwidthLatencyTest(?= |$)")
_ELEMENTS = re.compile(r"--?numElems=(\d{1,12})(?= |$)")
_ROW = re.compile(r"\d{1,4}", re.ASCII)
_HEADS = ("D\\D", "GPU", "CPU")
_ELEMENT_BYTES = 4


def is_cuda_p2p(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    found = (
        line.number
        for line in lines
        if line.text.strip() == _START
        or _BANDWIDTH.fullmatch(line.text.strip())
        or _LATENCY.fullmatch(line.text.strip())
    )
    return next(found, None)


def read_cuda_p2p(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a matrix that cannot be read."""
    reader = _Reader(text)
    reader.read()
    return reader.run


@dataclass
class _Title:
    """The matrices after a title. ``latencies``: by the clock (GPU, CPU) and the place."""

    line: TextLine
    common: Transfer
    latencies: dict[str, dict[tuple[int, int], tuple[PrintedFigure, int]]] = field(
        default_factory=dict
    )
    is_shown: bool = False


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self._lines = [line for line in text.lines() if line.text.strip()]
        self.run = ForeignRun(
            _TOOL, _FIGURE, "device", "", facts=ToolSettings(timing="gated"), usual_size=_USUAL
        )
        self._title: _Title | None = None
        self._is_connectivity = False
        self._closed: set[tuple[int, int]] = set()
        self._by_kernel: bool | None = None
        self._size_bytes: int | None = None
        self._devices = 0
        self._doubled: list[int] = []
        self._zeros: list[int] = []

    def read(self) -> None:
        """Reads all lines."""
        place = 0
        while place < len(self._lines):
            place = self._take(place)
        self._close(at_end=True)
        run = self.run
        run.on_one_host = True
        if not run.devices:
            run.devices = unnamed_devices(self._devices, "cuda")
        if self._doubled:
            run.notices.append(
                f"line {self._doubled[0]}: on the diagonal the tool counts each byte as read and "
                "written; the bandwidths here are half of the printed ones"
            )
        if self._zeros:
            run.notices.append(left_out("figures of 0", self._zeros))
        if self._by_kernel is None and run.copies:
            run.notices.append(
                "the output does not show whether --sm_copy was used: copies by the copy engine, "
                "the default, are assumed"
            )
        elif self._by_kernel:
            run.notices.append("SM: the tool's kernel copyp2p, not one of cclmark's kernels")

    def _take(self, place: int) -> int:
        """Reads the line at ``place`` and returns the place of the next one."""
        line = self._lines[place]
        words = line.text.strip()
        if words == _START and (self.run.copies or self._title is not None):
            raise self._text.refuse(
                line.number,
                "another run starts here: split the text before this line and import the parts "
                "one by one",
            )
        if (device := _DEVICE.fullmatch(words)) is not None:
            self._add_device(line, device)
        elif (bandwidth := _BANDWIDTH.fullmatch(words)) is not None:
            measure = bandwidth[1].lower()
            self._open(line, measure, bandwidth[2], bandwidth[3])
        elif (latency := _LATENCY.fullmatch(words)) is not None:
            self._open(line, "latency", latency[1], latency[2])
        elif words == _CONNECTIVITY:
            self._close()
            self._is_connectivity = True
        elif _COMMAND.search(words) is not None:
            self._by_kernel = "sm_copy" in words
            elements = _ELEMENTS.search(words)
            if elements is not None:
                self._size_bytes = int(elements[1]) * _ELEMENT_BYTES
        elif words.split()[0] in _HEADS and _has_numbers(words):
            return self._matrix(place)
        elif self._title is not None and _has_numbers(words, first=0):
            raise self._text.refuse(
                line.number, "this row belongs to no matrix: the line of the columns is due before"
            )
        return place + 1

    def _add_device(self, line: TextLine, device: re.Match[str]) -> None:
        number = int(device[1])
        if number != len(self.run.devices):
            raise self._text.refuse(
                line.number,
                f"device {number} is listed, but device {len(self.run.devices)} is due",
            )
        bus, slot, domain = (int(word, 16) for word in device.groups()[2:])
        self.run.devices.append(
            DeviceDescription(
                rank=number,
                host="",
                runtime="cuda",
                index=number,
                name=device[2],
                memory_bytes=0,
                pci_bus_id=f"{domain:08X}:{bus:02X}:{slot:02X}.0",
            )
        )

    def _open(self, line: TextLine, measure: str, access: str, way: str | None) -> None:
        """Begins the matrices after a title."""
        self._close()
        if access == "Enabled" and way is None and measure != "bidirectional":
            raise self._text.refuse(
                line.number,
                "this is the output of CUDA samples before version 10, whose direction and sizes "
                "are others: import the output of a newer version",
            )
        is_latency = measure == "latency"
        self._title = _Title(
            line,
            Transfer(
                measure=measure,
                scope="pairs",
                engine="SM" if self._by_kernel and access == "Enabled" else "CE",
                direction="read" if way == "Reads" else "write",
                flows=(),
                size_bytes=0,
                peer_access=access == "Enabled",
                method="copy" if is_latency else "",
            ),
        )

    def _close(self, *, at_end: bool = False) -> None:
        """Ends the matrices of the current title."""
        title, self._title = self._title, None
        if title is None:
            return
        if title.common.measure == "latency" and title.latencies:
            self._add_latencies(title)
        if not title.is_shown:
            if not at_end:
                raise self._text.refuse(title.line.number, "no matrix follows this title")
            self._cut()

    def _matrix(self, place: int) -> int:
        """Reads the matrix whose columns are at ``place``."""
        line = self._lines[place]
        head, *columns = line.text.split()
        title = self._title
        if title is None and not self._is_connectivity:
            raise self._text.refuse(line.number, "a matrix without its title above")
        matrix = read_matrix(
            self._text,
            self._lines,
            place,
            columns,
            lambda word: _ROW.fullmatch(word) is not None,
        )
        require_numbers(self._text, matrix)
        number = len(columns)
        known = len(self.run.devices) or self._devices
        if known and number != known:
            raise self._text.refuse(
                line.number, f"this matrix has {number} devices, but the text has {known}"
            )
        self._devices = number
        if matrix.cut:
            self._cut()
        if title is None:
            self._is_connectivity = False
            self._closed = self._without_access(matrix)
        elif (title.common.measure == "latency") == (head == "D\\D"):
            raise self._text.refuse(line.number, f"{head} is not the matrix of the title above")
        elif title.is_shown and (head == "D\\D" or head in title.latencies):
            raise self._text.refuse(line.number, "a second matrix of the same title")
        else:
            title.is_shown = True
            cells = self._figures(title, matrix)
            if head == "D\\D":
                self._add_bandwidths(title.common, cells)
            else:
                title.latencies[head] = cells
        return matrix.after

    @staticmethod
    def _without_access(matrix: PrintedMatrix) -> set[tuple[int, int]]:
        return {
            (number, column)
            for number, row in enumerate(matrix.rows)
            for column, word in enumerate(row.cells)
            if word == "0" and number != column
        }

    def _figures(
        self, title: _Title, matrix: PrintedMatrix
    ) -> dict[tuple[int, int], tuple[PrintedFigure, int]]:
        """Returns the figures that can be represented, by row and column, with their lines."""
        found: dict[tuple[int, int], tuple[PrintedFigure, int]] = {}
        staged = 0
        for number, row in enumerate(matrix.rows):
            for column, word in enumerate(row.cells):
                figure = read_decimal(word)
                if figure is None:
                    raise self._text.refuse(row.line, f"{word[:40]!r} is not a number")
                if title.common.peer_access and (number, column) in self._closed:
                    staged += 1
                elif figure.value <= 0:
                    self._zeros.append(row.line)
                else:
                    found[number, column] = (figure, row.line)
        if staged:
            self._notice(
                matrix.line,
                f"{staged} figures of devices without peer access are left out: the tool copies "
                "them as in its matrix of P2P=Disabled",
            )
        return found

    def _add_bandwidths(
        self, common: Transfer, cells: dict[tuple[int, int], tuple[PrintedFigure, int]]
    ) -> None:
        both = common.measure == "bidirectional"
        for (row, column), (figure, line) in cells.items():
            total = figure.value * 1e9
            if row == column:
                if both:
                    self._notice(line, "two copies at once within a device are left out")
                    continue
                self._doubled.append(line)
                total /= 2
            transfer = _placed(common, row, column)
            rates = () if both else (total,)
            self.run.copies.append(ImportedTransfer(line, transfer, self._size_bytes, rates, total))

    def _add_latencies(self, title: _Title) -> None:
        """Adds latencies: the devices' times, with the times of the host's calls."""
        gpu = title.latencies.get("GPU")
        if gpu is None:
            raise self._text.refuse(title.line.number, "the matrix GPU is missing after this title")
        calls = title.latencies.get("CPU", {})
        for (row, column), (figure, line) in gpu.items():
            call = calls.get((row, column))
            self.run.copies.append(
                ImportedTransfer(
                    line,
                    _placed(title.common, row, column),
                    LATENCY_BYTES,
                    time_s=figure.value * 1e-6,
                    call_s=None if call is None else call[0].value * 1e-6,
                )
            )

    def _notice(self, line: int, words: str) -> None:
        notice = f"line {line}: {words}"
        if not any(one.endswith(f": {words}") for one in self.run.notices):
            self.run.notices.append(notice)

    def _cut(self) -> None:
        self.run.whole = False
        self.run.notices.append(
            f"line {self._lines[-1].number}: the text ends within a matrix, whose complete rows "
            "are used"
        )


def _placed(common: Transfer, row: int, column: int) -> Transfer:
    """Returns the transfer of a cell: the row's device copies. A device copies to itself by CE."""
    there = (row, column) if common.direction == "write" else (column, row)
    back = [(there[1], there[0])] if common.measure == "bidirectional" else []
    engine = "CE" if row == column else common.engine
    return msgspec.structs.replace(common, flows=(there, *back), engine=engine)


def _has_numbers(words: str, first: int = 1) -> bool:
    parts = words.split()[first:]
    return bool(parts) and all(re.fullmatch(r"[\d.]{1,20}", part) for part in parts)
