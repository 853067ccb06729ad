"""Reads the matrices of p2pBandwidthLatencyTest of the CUDA samples (sources of 10.0 to 13.0)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from cclmark.work.transfers import LATENCY_BYTES, Transfer
from cclmark_importers.cleaned_text import PrintedFigure, Text, TextLine
from cclmark_importers.line_reader import (
    MatrixReader,
    PrintedMatrix,
    RunMarks,
    importer,
    placed,
)
from cclmark_importers.run import ImportedTransfer, UsualSize, listed_device, measured

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
_HEADS = ("D\\D", "GPU", "CPU")
_ELEMENT_BYTES = 4


_Cells = dict[tuple[int, int], tuple[PrintedFigure, int]]  # with their lines


@dataclass
class _Title:
    """The matrices after a title. ``latencies``: by the clock (GPU, CPU) and the place."""

    line: TextLine
    common: Transfer
    latencies: dict[str, _Cells] = field(default_factory=dict)
    is_shown: bool = False


class _Reader(MatrixReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, _TOOL, _FIGURE, "device", timing="gated")
        self.run.usual_size, self.run.on_one_host = _USUAL, True
        self._title: _Title | None = None
        self._is_connectivity = False
        self._closed: set[tuple[int, int]] = set()
        self._by_kernel: bool | None = None
        self._size_bytes: int | None = None
        self._doubled: list[int] = []
        self._zeros: list[int] = []

    def finish(self) -> None:
        self._close(at_end=True)
        run = self.run
        if not run.devices:
            run.devices = [listed_device(rank, runtime="cuda") for rank in range(self.devices)]
        if self._doubled:
            self.note(
                self._doubled[0],
                "on the diagonal the tool counts each byte as read and written; the bandwidths "
                "here are half of the printed ones",
            )
        self.note_zeros("figures of 0", self._zeros)
        if self._by_kernel is None and run.copies:
            run.notices.append(
                "the output does not show whether --sm_copy was used: copies by the copy engine, "
                "the default, are assumed"
            )
        elif self._by_kernel:
            run.notices.append("SM: the tool's kernel copyp2p, not one of cclmark's kernels")

    def take_at(self, place: int, line: TextLine, words: str) -> int:
        if words == _START and (self.run.copies or self._title is not None):
            raise self.split(line, "a second head")
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
        elif words.split(maxsplit=1)[0] in _HEADS and _has_numbers(words):
            return self._matrix(place, line)
        elif self._title is not None and _has_numbers(words, first=0):
            raise self.refuse(
                line, "this row belongs to no matrix: the line of the columns is due before"
            )
        return place + 1

    def _add_device(self, line: TextLine, device: re.Match[str]) -> None:
        number = int(device[1])
        self.require_next(line, number)
        bus, slot, domain = (int(word, 16) for word in device.groups()[2:])
        bus_id = f"{domain:08X}:{bus:02X}:{slot:02X}.0"
        self.run.devices.append(listed_device(number, device[2], runtime="cuda", pci_bus_id=bus_id))

    def _open(self, line: TextLine, measure: str, access: str, way: str | None) -> None:
        self._close()
        if access == "Enabled" and way is None and measure != "bidirectional":
            raise self.refuse(
                line,
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
        title, self._title = self._title, None
        if title is None:
            return
        if title.common.measure == "latency" and title.latencies:
            self._add_latencies(title)
        if not title.is_shown:
            if not at_end:
                raise self.refuse(title.line, "no matrix follows this title")
            self.cut()

    def _matrix(self, place: int, line: TextLine) -> int:
        head, *columns = line.text.split()
        title = self._title
        if title is None and not self._is_connectivity:
            raise self.refuse(line, "a matrix without its title above")
        matrix = self.numbered_matrix(place, columns)
        self.require_devices(matrix.line, len(columns))
        if matrix.cut:
            self.cut()
        if title is None:
            self._is_connectivity = False
            self._closed = {
                (row, column)
                for row, column, word, _ in matrix.cells()
                if word == "0" and row != column
            }
        elif (title.common.measure == "latency") == (head == "D\\D"):
            raise self.refuse(line, f"{head} is not the matrix of the title above")
        elif title.is_shown and (head == "D\\D" or head in title.latencies):
            raise self.refuse(line, "a second matrix of the same title")
        else:
            title.is_shown = True
            cells = self._figures(title, matrix)
            if head == "D\\D":
                self._add_bandwidths(title.common, cells)
            else:
                title.latencies[head] = cells
        return matrix.after

    def _figures(self, title: _Title, matrix: PrintedMatrix) -> _Cells:
        """Returns the figures that can be represented, by row and column."""
        found: _Cells = {}
        staged = 0
        for row, column, word, line in matrix.cells():
            figure = self.number(line, word)
            if title.common.peer_access and (row, column) in self._closed:
                staged += 1
            elif figure.value <= 0:
                self._zeros.append(line)
            else:
                found[row, column] = (figure, line)
        if staged:
            self.note(
                matrix.line,
                f"{staged} figures of devices without peer access are left out: the tool copies "
                "them as in its matrix of P2P=Disabled",
                once=True,
            )
        return found

    def _add_bandwidths(self, common: Transfer, cells: _Cells) -> None:
        for (row, column), (figure, line) in cells.items():
            total = figure.value * 1e9
            if row == column:
                if common.measure == "bidirectional":
                    words = "two copies at once within a device are left out"
                    self.note(line, words, once=True)
                    continue
                self._doubled.append(line)
                total /= 2
            transfer = _placed(common, row, column)
            self.run.copies.append(measured(line, transfer, self._size_bytes, total))

    def _add_latencies(self, title: _Title) -> None:
        """Adds latencies: the devices' times, with the times of the host's calls."""
        gpu = title.latencies.get("GPU")
        if gpu is None:
            raise self.refuse(title.line, "the matrix GPU is missing after this title")
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


def _placed(common: Transfer, row: int, column: int) -> Transfer:
    """Returns the transfer of a cell. A device copies to itself by CE."""
    engine = "CE" if row == column else common.engine
    return msgspec.structs.replace(placed(common, row, column), engine=engine)


def _has_numbers(words: str, first: int = 1) -> bool:
    parts = words.split()[first:]
    return bool(parts) and all(re.fullmatch(r"[\d.]{1,20}", part) for part in parts)


CUDA_SAMPLES = importer(
    _Reader,
    lambda words: words == _START,
    _BANDWIDTH.fullmatch,
    _LATENCY.fullmatch,
    marks=RunMarks(begins=[lambda words: words == _START]),
)
