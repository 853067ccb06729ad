"""Reads the matrices of PCCL's p2pBandwidthLatencyTest, and of ``cclmark p2p --format pccl``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import msgspec

from cclmark.journal.schema import Relation
from cclmark.journal.topology import UNKNOWN_LINK
from cclmark.work.transfers import (
    CCL,
    DEFAULT_KERNEL,
    KERNELS,
    LATENCY_BYTES,
    MESSAGE_LATENCY,
    Transfer,
)
from cclmark_importers.cleaned_text import PrintedFigure, Text, TextLine
from cclmark_importers.line_reader import (
    MatrixReader,
    PrintedMatrix,
    RunMarks,
    importer,
    placed,
)
from cclmark_importers.run import ImportedTransfer, listed_device, measured

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
# Comments of cclmark: the hosts of devices, and what measured the pairs on different ones.
_HOST = re.compile(r"# (?P<name>HOST\d{1,5}:DEV0) is device (?P<index>\d{1,5}) of (?P<host>\S.*)")
_BETWEEN_HOSTS = re.compile(r"# pairs on different hosts: (?P<ccl>[\w-]{1,40}) send/recv, .*")
_WRONG = "WRONG"
_NONE = ("x", "n/a", "hung", "died", _WRONG, "-", "?")


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


class _Reader(MatrixReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, "PCCL p2pBandwidthLatencyTest", _FIGURE, "device", timing="")
        self._how: re.Match[str] | None = None
        self._method: re.Match[str] | None = None
        # A text of cclmark names the kernel where it is another than the default or the last one.
        is_named = any(_CHOSEN.fullmatch(line.text.strip()) for line in self.lines)
        self._command = _Command(kernel=DEFAULT_KERNEL if is_named else "")
        self._names: list[str] = []
        self._places: dict[str, tuple[str, int]] = {}  # host and index of a device by its name
        self._ccl = self._next_ccl = ""  # of pairs on different hosts: in this and the next matrix
        self._lines_of: dict[Transfer, int] = {}
        self._latencies: dict[Transfer, ImportedTransfer] = {}
        self._zeros: list[int] = []

    def finish(self) -> None:
        run, names = self.run, self._names
        run.copies += self._latencies.values()
        self.note_zeros("figures of 0", self._zeros)
        run.on_one_host = not any(":" in name for name in names)
        # Of several processes the tool numbers the processes, not the hosts.
        run.devices = [
            listed_device(number, index=None if ":" in name else int(name.removeprefix("DEV")))
            for number, name in enumerate(names)
        ]
        if self._places and self._places.keys() >= set(names):
            places = (self._places[name] for name in names)
            run.devices = [
                listed_device(number, host=host, index=index)
                for number, (host, index) in enumerate(places)
            ]
        elif not run.on_one_host:
            run.notices.append(
                f"devices of several processes: {names[0]} is DEV0, {names[-1]} is "
                f"DEV{len(names) - 1}"
            )
            run.unknown_hosts = True

    def take_at(self, place: int, line: TextLine, words: str) -> int:
        if self._is_command(words):
            return place + 1
        if (how := _HOW.match(words)) is not None:
            self._how = how
            self._ccl, self._next_ccl = self._next_ccl, ""
            words = words[how.end() :]
            if not words:
                return place + 1
        if words == _PATHS:
            return self._paths(place)
        if (bandwidth := _BANDWIDTH.fullmatch(words)) is not None:
            return self._bandwidths(place, line, bandwidth)
        if (latency := _LATENCY.fullmatch(words)) is not None:
            return self._latency(place, line, latency["clock"])
        if _NAME.fullmatch(words.split()[0]) is not None:
            raise self.refuse(line, "a row of a matrix without its title and columns")
        return place + 1

    def _is_command(self, words: str) -> bool:
        """Whether a line contains the command, kernel, hosts or method of what follows."""
        if (named := _HOST.fullmatch(words)) is not None:
            self._places[named["name"]] = named["host"], int(named["index"])
            return True
        if (between := _BETWEEN_HOSTS.fullmatch(words)) is not None:
            self._next_ccl = between["ccl"]
            return True
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
        if title + 1 == len(self.lines):
            self.cut()
            return None
        line = self.lines[title + 1]
        columns = line.text.split()
        if not all(map(_NAME.fullmatch, columns)):
            raise self.refuse(line, "the columns of the matrix are due here")
        if len(set(columns)) != len(columns):
            raise self.refuse(line, "two columns have the same name")
        if self._names and columns != self._names:
            names = f"{', '.join(self._names[:4])}{' …' if len(self._names) > 4 else ''}"
            raise self.split(
                line, f"these devices differ from the matrices above ({names})", place="matrix"
            )
        matrix = self.matrix(title + 1, columns, _NAME)
        for number, row in enumerate(matrix.rows):
            # In runs of several processes the rows of latencies lack their hosts.
            if row.label != columns[number] and (":" in row.label or ":" not in columns[number]):
                raise self.refuse(
                    row.line, f"this is row {row.label}, but row {columns[number]} is due"
                )
        self._names = columns
        if matrix.cut:
            self.cut()
        return matrix

    def _paths(self, place: int) -> int:
        matrix = self._matrix(place)
        if matrix is None:
            return place + 1
        relations = []
        for row, column, word, line in matrix.cells():
            if word not in _NONE and not _HOPS.fullmatch(word):
                raise self.refuse(line, f"{word[:40]!r} is not the length of a path")
            if row != column:
                hops = None if word in _NONE else int(word)
                relations.append(Relation(row, column, UNKNOWN_LINK, hops))
        if not matrix.cut and any(one.hops is not None for one in relations):
            self.run.relations = relations
        return matrix.after

    def _bandwidths(self, place: int, line: TextLine, title: re.Match[str]) -> int:
        if title["ratio"] is not None:
            return self._skipped(place, line)
        common, size_bytes = self._common(line, title["measure"]), int(title["size"])
        both = common.measure == "bidirectional"
        if both != (title["both"] is not None):
            raise self.refuse(line, "the title contradicts itself: *2 is for both directions")
        matrix = self._matrix(place)
        if matrix is None:
            return place + 1
        for (row, column), figure, number in self._figures(matrix):
            if row == column and both:
                words = "two copies at once within a device are left out"
                self.note(number, words, once=True)
                continue
            transfer = self._placed(common, row, column)
            if not self._require_new(transfer, size_bytes, number):
                continue
            if figure is None:
                copy = ImportedTransfer(number, transfer, size_bytes, is_wrong=True)
            else:
                copy = measured(number, transfer, size_bytes, figure.value * 1e9)
            self.run.copies.append(copy)
        return matrix.after

    def _skipped(self, place: int, line: TextLine) -> int:
        """Skips a matrix of shares, whose bandwidths the text contains too."""
        self._how = None
        self.note(line, "matrices of shares of the limit are left out", once=True)
        after = place + 1
        while after < len(self.lines) and _NAME.fullmatch(self.lines[after].text.split()[0]):
            after += 1
        return after

    def _latency(self, place: int, line: TextLine, clock: str) -> int:
        """Reads a matrix of latencies: of the devices, or of the host's calls."""
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
            transfer = self._placed(common, row, column)
            known = self._latencies.get(transfer)
            if clock == "CPU":
                if known is not None and figure is not None and not known.is_wrong:
                    self._latencies[transfer] = replace(known, call_s=figure.value * 1e-6)
                continue
            own_bytes = LATENCY_BYTES if transfer.ccl else size_bytes
            if not self._require_new(transfer, own_bytes, number):
                continue
            self._latencies[transfer] = ImportedTransfer(
                number,
                transfer,
                own_bytes,
                time_s=0.0 if figure is None else figure.value * 1e-6,
                is_wrong=figure is None,
            )
        return matrix.after

    def _placed(self, common: Transfer, row: int, column: int) -> Transfer:
        """The transfer of a cell: a copy, or a message if the devices are on different hosts."""
        transfer = placed(common, row, column)
        hosts = {self._places.get(self._names[place], ("", 0))[0] for place in (row, column)}
        if not self._ccl or len(hosts) == 1:
            return transfer
        flows = transfer.flows
        if common.measure == "latency":  # one for both devices, as both directions at once are
            flows = ((min(row, column), max(row, column)),)
        return msgspec.structs.replace(
            transfer,
            flows=tuple(sorted(flows)),
            engine=CCL,
            ccl=self._ccl,
            direction="write",
            kernel="",
            blocks=0,
            method=MESSAGE_LATENCY if common.measure == "latency" else "",
        )

    def _require_new(self, transfer: Transfer, size_bytes: int, line: int) -> bool:
        """Whether it is new. Matrices of several kinds of copies repeat messages between hosts."""
        sized = msgspec.structs.replace(transfer, size_bytes=size_bytes)
        first = self._lines_of.setdefault(sized, line)
        if first != line and not transfer.ccl:
            raise self.split(line, f"{sized.describe()} is on line {first} already", place="matrix")
        return first == line

    def _common(self, line: TextLine, measure: str | None) -> Transfer:
        """Returns the properties of the cells of a matrix, from its title and the command."""
        how = self._how
        self._how = None
        if how is None:
            raise self.refuse(line, "the line with access, engine and direction is missing above")
        told = how["measure"] or measure
        if told is None or (measure is not None and measure != told):
            raise self.refuse(line, "the title does not contain the direction")
        engine, command = how["engine"], self._command
        # cclmark prints messages of a library for pairs on different hosts, whatever -t is.
        if command.engine and engine not in (command.engine, CCL):
            self.note(
                line,
                f"the title names {engine}, but the preceding command {command.engine}; using "
                f"{command.engine}",
                once=True,
            )
            engine = command.engine
        kernel = ""
        if engine == "SM" and (measure != "latency" or self._method is None):
            kernel = command.kernel
            if kernel not in KERNELS:
                self.note(
                    line,
                    f"the kernel is {kernel or 'not in the text'}"
                    f"{', not supported by cclmark' if kernel else ''}; recorded as unknown",
                    once=True,
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
        for row, column, word, line in matrix.cells():
            if word == _WRONG:
                found.append(((row, column), None, line))
            elif word in _NONE:
                if word not in ("x", "-"):
                    self.note(line, f"figures {word} are left out", once=True)
            elif (figure := self.number(line, word)).value > 0:
                found.append(((row, column), figure, line))
            elif row != column:
                self._zeros.append(line)
        return found


_END = re.compile(r"Total:\s{1,12}\d[\d.]{0,12} s")

PCCL = importer(
    _Reader,
    _is_title,
    marks=RunMarks(
        [lambda words: words == _PATHS],
        lambda words: _is_title(words) or _HOW.fullmatch(words),
        [_END.fullmatch],
        by_results=True,
    ),
)
