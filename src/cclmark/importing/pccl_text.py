"""Reads the matrices of PCCL's p2pBandwidthLatencyTest, and of ``cclmark p2p --format pccl``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import msgspec

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_decimal
from cclmark.importing.notices import left_out
from cclmark.importing.printed_matrix import PrintedMatrix, read_matrix
from cclmark.importing.run import ForeignRun, ImportedTransfer, ToolSettings
from cclmark.plan.transfers import CCL, DEFAULT_KERNEL, KERNELS, LATENCY_BYTES, Transfer
from cclmark.results.schema import DeviceDescription, Relation
from cclmark.results.topology import UNKNOWN_LINK

_FIGURE = (
    "the size over the tool's bandwidth, of both directions together if it is bidirectional; or a "
    "latency of copies of 16 bytes"
)
# Parts of a title, on one line or on two.
_HOW = re.compile(
    r"\((?P<access>Enabled|Disabled)P2P (?P<engine>CE|SM|CCL) (?P<way>WRITE|READ)"
    r"(?: (?P<measure>Unidirectional|Bidirectional))?\)\s*"
)
_BANDWIDTH = re.compile(
    r"P2P (?:(?P<measure>Unidirectional|Bidirectional) Bandwidth )?Transport Bandwidth"
    r"(?P<ratio> Utilization Ratio)? Matrix \((?P<size>\d{1,16}) (?P<both>\*2 )?Bytes\) "
    r"\((?:GB/s|%)\)"
)
_LATENCY = re.compile(r"(?P<clock>GPU|CPU) P2P Transmission Latency Matrix \(US\)")
_CHOSEN = re.compile(r"kernel (?P<kernel>[\w-]{1,40})(?:, (?P<blocks>\d{1,6}) blocks?)?")
_PATHS = "P2P Connectivity & minPath Matrix"
_NAME = re.compile(r"(?:HOST\d{1,5}:)?DEV\d{1,5}", re.ASCII)
_COMMAND = re.compile(r"p2pBandwidthLatencyTest -")
_ENGINE = re.compile(r"(?:--p2p_type[= ]|-t )(CE|SM)(?= |$)")
_KERNEL = re.compile(r"(?:--kernel[= ]|-k )([\w-]{1,40})(?= |$)")
_HOPS = re.compile(r"\d{1,4}", re.ASCII)
# A text of cclmark names the method of latencies unless it is that of PCCL's tool.
_METHOD = re.compile(
    r"method (?P<method>chase|ping-pong|half-round-trip), (?P<size>\d{1,3}) bytes?", re.ASCII
)
_WRONG = "WRONG"
_NONE = ("x", "n/a", "hung", "died", _WRONG, "-", "?")


def is_pccl(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _is_title(line.text.strip())), None)


def read_pccl(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a matrix that cannot be read."""
    reader = _Reader(text)
    reader.read()
    return reader.run


def _is_title(words: str) -> bool:
    rest = words
    if (how := _HOW.match(words)) is not None:
        rest = words[how.end() :]
    if rest == _PATHS:
        return True
    return _BANDWIDTH.fullmatch(rest) is not None or _LATENCY.fullmatch(rest) is not None


@dataclass(frozen=True)
class _Command:
    """Properties of the copies in a command line before a matrix. Empty fields are unknown."""

    engine: str = ""
    kernel: str = ""
    blocks: int = 0


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self._lines = [line for line in text.lines() if line.text.strip()]
        self.run = ForeignRun(
            "PCCL p2pBandwidthLatencyTest", _FIGURE, "device", "", facts=ToolSettings(timing="")
        )
        self._how: re.Match[str] | None = None
        self._method: re.Match[str] | None = None
        # A text of cclmark names the kernel where it is another than the default or the last one.
        is_named = any(_CHOSEN.fullmatch(line.text.strip()) for line in self._lines)
        self._command = _Command(kernel=DEFAULT_KERNEL if is_named else "")
        self._names: list[str] = []
        self._lines_of: dict[Transfer, int] = {}
        self._latencies: dict[Transfer, ImportedTransfer] = {}
        self._zeros: list[int] = []

    def read(self) -> None:
        """Reads all lines."""
        place = 0
        while place < len(self._lines):
            place = self._take(place)
        self.run.copies += self._latencies.values()
        if self._zeros:
            self.run.notices.append(left_out("figures of 0", self._zeros))
        self.run.devices = [_device(number, name) for number, name in enumerate(self._names)]
        self.run.on_one_host = not any(":" in name for name in self._names)
        if not self.run.on_one_host:
            self.run.notices.append(
                f"devices of several processes: {self._names[0]} is DEV0, {self._names[-1]} is "
                f"DEV{len(self._names) - 1}"
            )
            self.run.unknown_hosts = True

    def _take(self, place: int) -> int:
        """Reads the line at ``place`` and returns the place of the next one."""
        words = self._lines[place].text.strip()
        if self._is_command(words):
            return place + 1
        if (how := _HOW.match(words)) is not None:
            self._how = how
            words = words[how.end() :]
            if not words:
                return place + 1
        if words == _PATHS:
            return self._paths(place)
        if (bandwidth := _BANDWIDTH.fullmatch(words)) is not None:
            return self._bandwidths(place, bandwidth)
        if (latency := _LATENCY.fullmatch(words)) is not None:
            return self._latency(place, latency["clock"])
        if _NAME.fullmatch(words.split()[0]) is not None:
            raise self._text.refuse(
                self._lines[place].number, "a row of a matrix without its title and columns"
            )
        return place + 1

    def _is_command(self, words: str) -> bool:
        """Whether a line contains the command, kernel or method of the matrices that follow."""
        if _COMMAND.search(words) is not None:
            engine, kernel = _ENGINE.search(words), _KERNEL.search(words)
            self._command = _Command(
                engine[1] if engine else "SM", kernel[1] if kernel else DEFAULT_KERNEL
            )
            return True
        if (method := _METHOD.fullmatch(words)) is not None:
            self._method = method
            return True
        if (chosen := _CHOSEN.fullmatch(words)) is None:
            return False
        self._command = replace(
            self._command, kernel=chosen["kernel"], blocks=int(chosen["blocks"] or 0)
        )
        return True

    def _matrix(self, title: int) -> PrintedMatrix | None:
        """Reads the matrix after the title; None if the text ends there."""
        if title + 1 == len(self._lines):
            self._cut()
            return None
        line = self._lines[title + 1]
        columns = line.text.split()
        if not all(map(_NAME.fullmatch, columns)):
            raise self._text.refuse(line.number, "the columns of the matrix are due here")
        if len(set(columns)) != len(columns):
            raise self._text.refuse(line.number, "two columns have the same name")
        if self._names and columns != self._names:
            raise self._text.refuse(
                line.number,
                f"these devices differ from the matrices above ({', '.join(self._names[:4])}"
                f"{' …' if len(self._names) > 4 else ''}): split the text before this matrix and "
                "import the parts one by one",
            )
        matrix = read_matrix(
            self._text,
            self._lines,
            title + 1,
            columns,
            lambda word: _NAME.fullmatch(word) is not None,
        )
        for number, row in enumerate(matrix.rows):
            # In runs of several processes the rows of latencies lack their hosts.
            if row.label != columns[number] and (":" in row.label or ":" not in columns[number]):
                raise self._text.refuse(
                    row.line, f"this is row {row.label}, but row {columns[number]} is due"
                )
        self._names = columns
        if matrix.cut:
            self._cut()
        return matrix

    def _paths(self, place: int) -> int:
        """Reads the matrix of the lengths of paths."""
        matrix = self._matrix(place)
        if matrix is None:
            return place + 1
        relations = []
        for number, row in enumerate(matrix.rows):
            for column, word in enumerate(row.cells):
                if word not in _NONE and not _HOPS.fullmatch(word):
                    raise self._text.refuse(row.line, f"{word[:40]!r} is not the length of a path")
                if number != column:
                    hops = None if word in _NONE else int(word)
                    relations.append(Relation(number, column, UNKNOWN_LINK, hops))
        if not matrix.cut and any(one.hops is not None for one in relations):
            self.run.relations = relations
        return matrix.after

    def _bandwidths(self, place: int, title: re.Match[str]) -> int:
        """Reads a matrix of bandwidths."""
        line = self._lines[place]
        if title["ratio"] is not None:
            return self._skipped(place)
        common = self._common(line, title["measure"])
        both = common.measure == "bidirectional"
        if both != (title["both"] is not None):
            raise self._text.refuse(
                line.number, "the title contradicts itself: *2 is for both directions"
            )
        matrix = self._matrix(place)
        if matrix is None:
            return place + 1
        for (row, column), figure, number in self._figures(matrix):
            if row == column and both:
                self._notice(number, "two copies at once within a device are left out")
                continue
            size_bytes = int(title["size"])
            transfer = _placed(common, row, column)
            self._refuse_repeated(msgspec.structs.replace(transfer, size_bytes=size_bytes), number)
            if figure is None:
                copy = ImportedTransfer(number, transfer, size_bytes, is_wrong=True)
            else:
                rate = figure.value * 1e9
                copy = ImportedTransfer(number, transfer, size_bytes, () if both else (rate,), rate)
            self.run.copies.append(copy)
        return matrix.after

    def _skipped(self, place: int) -> int:
        """Skips a matrix of shares, whose bandwidths the text contains too."""
        self._how = None
        self._notice(self._lines[place].number, "matrices of shares of the limit are left out")
        after = place + 1
        while after < len(self._lines):
            first = self._lines[after].text.split()[0]
            if _NAME.fullmatch(first) is None:
                break
            after += 1
        return after

    def _latency(self, place: int, clock: str) -> int:
        """Reads a matrix of latencies: of the devices, or of the host's calls."""
        line = self._lines[place]
        common = self._common(line, "latency")
        size_bytes = LATENCY_BYTES
        if clock == "CPU" or self._method is None:
            common = msgspec.structs.replace(common, method="copy")
        else:
            size_bytes = int(self._method["size"])
            common = msgspec.structs.replace(
                common, method=self._method["method"], kernel="", blocks=0
            )
        self._method = None
        matrix = self._matrix(place)
        if matrix is None:
            return place + 1
        for (row, column), figure, number in self._figures(matrix):
            transfer = _placed(common, row, column)
            known = self._latencies.get(transfer)
            if clock == "CPU":
                if known is not None and figure is not None and not known.is_wrong:
                    call_s = figure.value * 1e-6
                    self._latencies[transfer] = ImportedTransfer(
                        known.line, transfer, LATENCY_BYTES, time_s=known.time_s, call_s=call_s
                    )
                continue
            self._refuse_repeated(msgspec.structs.replace(transfer, size_bytes=size_bytes), number)
            self._latencies[transfer] = ImportedTransfer(
                number,
                transfer,
                size_bytes,
                time_s=0.0 if figure is None else figure.value * 1e-6,
                is_wrong=figure is None,
            )
        return matrix.after

    def _refuse_repeated(self, transfer: Transfer, line: int) -> None:
        """Raises UsageError for a copy that the text contains twice."""
        first = self._lines_of.setdefault(transfer, line)
        if first != line:
            raise self._text.refuse(
                line,
                f"{transfer.describe()} is on line {first} already, so this is another run. Split "
                "the text before this matrix and import the parts one by one",
            )

    def _common(self, line: TextLine, measure: str | None) -> Transfer:
        """Returns the properties of the cells of a matrix, from its title and the command."""
        how = self._how
        self._how = None
        if how is None:
            raise self._text.refuse(
                line.number, "the line with access, engine and direction is missing above"
            )
        told = how["measure"] or measure
        if told is None or (measure is not None and measure != told):
            raise self._text.refuse(line.number, "the title does not contain the direction")
        engine, command = how["engine"], self._command
        # cclmark prints messages of a library for pairs on different hosts, whatever -t is.
        if command.engine and engine not in (command.engine, CCL):
            self._notice(
                line.number,
                f"the title names {engine}, but the preceding command {command.engine}; using "
                f"{command.engine}",
            )
            engine = command.engine
        kernel = ""
        if engine == "SM" and (measure != "latency" or self._method is None):
            kernel = command.kernel
            if kernel not in KERNELS:
                self._notice(
                    line.number,
                    f"the kernel is {kernel or 'not in the text'}"
                    f"{', not supported by cclmark' if kernel else ''}; recorded as unknown",
                )
                kernel = ""
        return Transfer(
            measure=told.lower(),
            scope="pairs",
            engine=engine,
            direction=how["way"].lower(),
            flows=(),
            size_bytes=0,
            kernel=kernel,
            blocks=command.blocks if kernel else 0,
            peer_access=how["access"] == "Enabled",
        )

    def _figures(
        self, matrix: PrintedMatrix
    ) -> list[tuple[tuple[int, int], PrintedFigure | None, int]]:
        """Returns the cells with figures and their lines; None is a cell with wrong data."""
        found: list[tuple[tuple[int, int], PrintedFigure | None, int]] = []
        for number, row in enumerate(matrix.rows):
            for column, word in enumerate(row.cells):
                if word == _WRONG:
                    found.append(((number, column), None, row.line))
                    continue
                if word in _NONE:
                    if word not in ("x", "-"):
                        self._notice(row.line, f"figures {word} are left out")
                    continue
                figure = read_decimal(word)
                if figure is None:
                    raise self._text.refuse(row.line, f"{word[:40]!r} is not a number")
                if figure.value > 0:
                    found.append(((number, column), figure, row.line))
                elif number != column:
                    self._zeros.append(row.line)
        return found

    def _notice(self, line: int, words: str) -> None:
        if not any(one.endswith(f": {words}") for one in self.run.notices):
            self.run.notices.append(f"line {line}: {words}")

    def _cut(self) -> None:
        self.run.whole = False
        self.run.notices.append(
            f"line {self._lines[-1].number}: the text ends within a matrix, whose complete rows "
            "are used"
        )


def _placed(common: Transfer, row: int, column: int) -> Transfer:
    """Returns the transfer of a cell: the row's device copies."""
    there = (row, column) if common.direction == "write" else (column, row)
    back = [(there[1], there[0])] if common.measure == "bidirectional" else []
    return msgspec.structs.replace(common, flows=(there, *back))


def _device(number: int, name: str) -> DeviceDescription:
    """Returns a device. Of several processes the tool numbers the processes, not the hosts."""
    return DeviceDescription(
        rank=number,
        host="",
        runtime="",
        index=number if ":" in name else int(name.removeprefix("DEV")),
        name="",
        memory_bytes=0,
    )
