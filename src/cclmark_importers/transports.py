"""Reads the tables of transports: ucx_perftest (openucx/ucx) and nixlbench (ai-dynamo/nixl)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from cclmark.work.sizes import format_size
from cclmark.work.transfers import Transfer
from cclmark_importers.cleaned_text import (
    PrintedFigure,
    Text,
    TextLine,
    read_count,
    read_decimal,
    read_figure,
)
from cclmark_importers.line_reader import (
    LineReader,
    RunMarks,
    importer,
)
from cclmark_importers.run import listed_device, message_transfer

# ucx_perftest (openucx/ucx, src/tools/perf).

_BANDWIDTHS = (
    "the size over the tool's overall bandwidth of a window of messages (MB of 2^20 bytes), by the "
    "sender's clock, for which a send ends when its buffer is free"
)
_LATENCIES = (
    "the tool's overall latency, the mean of all iterations: half a round trip, a whole one of get"
)
# Client: the head, then rows. Loopback, MPI and the server: a box with the test and the size.
_HEAD = re.compile(
    r"\|(?: {1,20}\|){1,2} {1,20}(latency|overhead) {1,20}\(usec\) {1,20}\| +bandwidth \(MB/s\).*"
)
_COLUMNS = re.compile(
    r"\|(?: +(?P<first>Stage|Test) +\|)? +# iterations +\| +(?:typical|[\d.]+%ile) \| average \|.*"
)
_BOX = re.compile(
    r"\| (API|Test|Data layout|Send memory|Recv memory|Message size|Window size): +"
    r"(\S.{0,60}?) *\|?"
)
_COMMAND = re.compile(r"(?:^|[\s/])ucx_perftest(?=\s|$)")
_OPTION = re.compile(r"(?:^|\s)-([tsmxdDTO]) ?([^\s-]\S{0,60})")
_SECTION = re.compile(r"\+(?=[^-+=])([^\s+]{1,100}?)-[-+]*\+")
_SIZE = re.compile(r"\d{1,18}(?:,\d{1,18}){0,63}")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3}){1,8}")
_SETTINGS = {
    **{"m": "memory", "x": "transport", "d": "device"},
    **{"D": "layout", "T": "threads", "O": "window"},
}
_DEFAULT_BYTES = 8
_MIB = float(1 << 20)
_LONG, _SHORT = 8, 4  # numbers of a row; of all threads together there are totals alone
_SLACK = 1.02

# name: layer, verb, is a latency, and the description in a box. Atomic operations move no data
# that cclmark has copies of.
_TESTS = {
    "am_lat": ("UCT", "am", True, "active message latency"),
    "am_bw": ("UCT", "am", False, "active message bandwidth / message rate"),
    "put_lat": ("UCT", "put", True, "put latency"),
    "put_bw": ("UCT", "put", False, "put bandwidth / message rate"),
    "get": ("UCT", "get", True, "get latency / bandwidth / message rate"),
    "get_bw": ("UCT", "get", False, "get bandwidth / message rate"),
    "tag_lat": ("UCX", "tag", True, "tag match latency"),
    "tag_bw": ("UCX", "tag", False, "tag match bandwidth"),
    "tag_sync_lat": ("UCX", "tag_sync", True, "tag sync match latency"),
    "tag_sync_bw": ("UCX", "tag_sync", False, "tag sync match bandwidth"),
    "stream_lat": ("UCX", "stream", True, "stream latency"),
    "stream_bw": ("UCX", "stream", False, "stream bandwidth"),
    "ucp_put_lat": ("UCX", "put", True, "put latency"),
    "ucp_put_bw": ("UCX", "put", False, "put bandwidth"),
    "ucp_get": ("UCX", "get", True, "get latency / bandwidth / message rate"),
    "ucp_am_lat": ("UCX", "am", True, "am latency"),
    "ucp_am_bw": ("UCX", "am", False, "am bandwidth / message rate"),
}
_ATOMICS = {f"{layer}{verb}" for layer in ("", "ucp_") for verb in ("add", "fadd", "swap", "cswap")}
_ATOMICS |= {"add_lat", "add_mr"}
_LAYERS = {"transport": "UCT", "protocol": "UCX"}


@dataclass(frozen=True)
class _Row:
    """The figures of a row: the mean time in seconds, and bytes per second."""

    time: PrintedFigure
    rate: PrintedFigure
    of_threads: bool


class _UcxReader(LineReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, "ucx_perftest", "", "host", timing="")
        self._test = ""
        self._layer = ""
        self._size: int | None = None
        self._settings: dict[str, str] = {}
        self._known: dict[str, dict[str, str]] = {}  # the settings of each layer's figures
        self._kind = ""  # "latency" or "overhead", of the table's head
        self._rows_are = ""  # "Stage", "Test", or "last" of tables that mark no final row
        self._pending: tuple[TextLine, str] | None = None
        self._is_used = False  # whether the description of the test has had its figures
        self._is_due = False

    def take(self, line: TextLine, words: str) -> None:
        if _COMMAND.search(words) is not None and not words.startswith("|"):
            self._close()
            self._command(_COMMAND.split(words)[-1])
        elif (head := _HEAD.fullmatch(words)) is not None:
            self._close()
            if self._is_used:
                self._begin()
            if self._is_due:
                self._note_without_end(line)
            self._kind, self._rows_are, self._is_due = head[1], "", True
        elif self._kind and (columns := _COLUMNS.fullmatch(words)) is not None:
            self._rows_are = columns["first"] or "last"
        elif (box := _BOX.fullmatch(words)) is not None:
            self._box(line, box[1], box[2])
        elif (section := _SECTION.fullmatch(words)) is not None and self._rows_are:
            self._name(section[1])
        elif self._rows_are:
            self._row(line, words)

    def finish(self) -> None:
        self._close()
        if self._is_due:
            self._note_without_end(self.lines[-1])
            self.run.whole = False
        self.describe_copies(_BANDWIDTHS, _LATENCIES)
        self.run.devices = [listed_device(0), listed_device(1, "the peer")]
        for layer, settings in self._known.items():
            self.note_settings(settings, f" ({layer})")

    def _begin(self) -> None:
        self._test, self._size, self._settings, self._layer = "", None, {}, ""
        self._is_used = False

    def _note_without_end(self, line: TextLine) -> None:
        self._is_due = False
        self.note(line, "the table above has no final row, omitted")

    def _command(self, options: str) -> None:
        """Reads a command: of the server, which has no test, or of the client."""
        found = dict(_OPTION.findall(options.partition("|")[0].partition("&")[0]))
        if "t" not in found and "s" not in found:
            return
        self._begin()
        self._test = found.get("t", "")
        self._size = _sum_of(found.get("s", str(_DEFAULT_BYTES)))
        self._settings = {
            name: found[option] for option, name in _SETTINGS.items() if option in found
        }

    def _box(self, line: TextLine, name: str, value: str) -> None:
        if name == "API":
            if self._is_used:
                self._begin()
            self._layer = value.partition(" ")[0]
        elif name == "Test":
            described = (_LAYERS.get(self._layer), value)
            tests = (name for name, (own, _, _, box) in _TESTS.items() if (own, box) == described)
            known = next(tests, "add_mr" if "atomic" in value else None)
            if known is None:
                raise self.refuse(line, f"the test {value[:60]!r} is unknown")
            self._test = known
        elif name == "Message size":
            self._size = read_count(value)
            if self._size is None:
                raise self.refuse(line, f"the size {value[:40]!r} is not a number")
        elif name != "Window size":  # whose default is that of the test
            self._settings[name.lower()] = value

    def _name(self, words: str) -> None:
        """Reads the name of a test of a batch file: usual names contain the test or the size."""
        for part in words.split("/"):
            names = [name for name in (*_TESTS, *_ATOMICS) if part == name or part.endswith(name)]
            if names:
                self._test = part if part in names else max(names, key=len)
                if self._test.startswith(("put", "get", "am_")) and part.startswith("ucp_"):
                    self._test = f"ucp_{self._test}"
            elif (size := read_count(part)) is not None:
                self._size = size
        self._is_due = True

    def _row(self, line: TextLine, words: str) -> None:
        """Reads a row of figures: the final one counts."""
        cells = words.split()
        if self._rows_are == "Stage":
            # "Final: " looks like the prefix of a line with a host's name, which is removed.
            if "Final:" in self.text.raw[line.number - self.text.first]:
                self._add(line, cells[1:] if cells[0] == "Final:" else cells)
        elif self._rows_are == "Test":
            name = cells[0] if not _is_number(cells[0]) or len(cells) in (5, 9) else ""
            figures = cells[1:] if name else cells
            if figures and _is_number(figures[0]) and len(figures) >= _SHORT:
                if name:
                    self._name(name)
                self._add(line, figures)
        elif len(cells) == _LONG and all(map(_is_number, cells)):
            self._pending = (line, words)

    def _close(self) -> None:
        """Adds the last row of a table that marks none."""
        if self._pending is not None:
            line, words = self._pending
            self._pending = None
            self._add(line, words.split())

    def _add(self, line: TextLine, cells: list[str]) -> None:
        row = self._figures(line, cells)
        if row is None:
            return
        self._is_used, self._is_due = True, False
        if self._test in _ATOMICS:
            self.note(line, "an atomic operation is left out: cclmark has no such copy")
            return
        if self._test not in _TESTS:
            raise self.refuse(
                line,
                "the test of these figures is unknown: write the command line (ucx_perftest … -t "
                "TEST -s SIZE) or the server's text above the table",
            )
        layer, verb, is_latency, _ = _TESTS[self._test]
        if self._kind == "latency" and not is_latency:
            raise self.refuse(
                line, f"{self._test} is above, but the head of this table is of a latency"
            )
        known = self._known.setdefault(layer, dict(self._settings))
        if known != self._settings:
            raise self.split(
                line,
                "the settings (memory, transport, device, layout, threads, window) differ from "
                "the figures above",
                place="table",
            )
        if self._size == 0:
            self.note(line, "omitted: no data")
            return
        self._check_size(line, row)
        transfer = message_transfer(
            layer,
            kernel=verb,
            measure="latency" if is_latency else "unidirectional",
            is_read=verb == "get",
        )
        value = row.time.value if is_latency else row.rate.value
        self.add_copy(line, transfer, self._size, value)

    def _check_size(self, line: TextLine, row: _Row) -> None:
        """Compares the size with bandwidth and time, whose product it is for one thread."""
        if self._size is None or row.of_threads:
            return
        product = row.time.value * row.rate.value
        error = row.time.share + row.rate.share
        if abs(product - self._size) > self._size * (error * _SLACK + 0.01):
            self.note(
                line,
                f"does not fit: {self._size} bytes, but time and bandwidth "
                f"give {format_size(round(product))}",
            )

    def _figures(self, line: TextLine, cells: list[str]) -> _Row | None:
        """Reads the figures, None for a row that is cut off, or that has none."""
        numbers = [_number(cell) for cell in cells]
        length = next((n for n, one in enumerate(numbers) if one is None), len(numbers))
        is_short = length == _SHORT and not any(numbers[length:])
        if length < _LONG and not is_short:
            if line is self.lines[-1]:
                self.truncated(line)
                self._is_due = False
                return None
            raise self.refuse(
                line, f"cannot read this row: {length} figures, but 8 are due (4 of threads)"
            )
        time, rate = (numbers[1], numbers[2]) if is_short else (numbers[3], numbers[5])
        assert time is not None and rate is not None
        if "." in cells[0]:
            raise self.refuse(line, f"{cells[0][:40]!r} is not a number of iterations")
        if time.value <= 0 or rate.value <= 0:
            self.note(line, "omitted: no figure")
            self._is_due = False
            return None
        return _Row(time.times(1e-6), rate.times(_MIB), is_short)


def _number(word: str) -> PrintedFigure | None:
    """Parses a number; whole ones may have separators of thousands (-N)."""
    return read_decimal(word.replace(",", "") if _GROUPED.fullmatch(word) else word)


def _is_number(word: str) -> bool:
    return _number(word) is not None


def _sum_of(sizes: str) -> int | None:
    """Returns the bytes of a message: the sum of its parts, or of N equal ones (SIZE:N)."""
    size, _, number = sizes.partition(":")
    if number and (read_count(size) is None or read_count(number) is None):
        return None
    if number:
        return int(size) * int(number)
    return sum(map(int, sizes.split(","))) if _SIZE.fullmatch(sizes) else None


def _begins_ucx(words: str) -> bool:
    return _HEAD.fullmatch(words) is not None or words.startswith("| API: ")


UCX = importer(_UcxReader, _HEAD.fullmatch, marks=RunMarks([_begins_ucx]))


# nixlbench (ai-dynamo/nixl, benchmark/nixlbench).

_NIXL_FIGURE = (
    "the size of a block over nixlbench's bandwidth (GB of 10^9 bytes): all bytes of all "
    "iterations, threads and initiating devices of a pair over their time"
)
_NIXL_LATENCY = (
    "; a latency is the mean time of a request (Avg Tx), from its post to its completion"
)
_BLOCK, _BATCH, _RATE = "Block Size (B)", "Batch Size", "B/W (GB/Sec)"
_ALL, _TIME, _PER_BLOCK = "Aggregate B/W (GB/Sec)", "Avg Tx (us)", "Avg Lat. (us)"
_NIXL_NAMES = (
    *(_BLOCK, _BATCH, _ALL, _RATE, "B/W (MiB/Sec)", "B/W (GiB/Sec)", "Network Util (%)"),
    *(_PER_BLOCK, "Avg Prep (us)", "P99 Prep (us)", "Avg Post (us)", "P99 Post (us)"),
    *(_TIME, "P99 Tx (us)"),
)
_NIXL_COLUMN = re.compile("|".join(re.escape(name) for name in _NIXL_NAMES))
_NIXL_SETTING = re.compile(
    r"(?P<name>Worker type|Backend|Enable pt|Progress threads|Device list|Initiator seg type"
    r"|Target seg type|Scheme|Mode|Op type|Num initiator dev|Num target dev|Num threads"
    r"|Recreate xfer each iteration|Pipeline depth|Use Device API) \([^)]{0,200}\) *: *"
    r"(?P<value>\S.{0,60})"
)
_NIXL_TITLE = "NIXLBench Configuration"
_NIXL_FAILED = "Consistency check failed"
_NIXL_OPERATIONS = ("WRITE", "READ")
_NIXL_STORAGE = ("GDS", "GDS_MT", "HF3FS", "POSIX", "OBJ", "GUSLI", "AZURE_BLOB", "INFINIA")
_GB = 1e9


def _is_nixl_head(words: str) -> bool:
    return words.startswith(_BLOCK) and _BATCH in words and "B/W (" in words


class _NixlReader(LineReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, "nixlbench", _NIXL_FIGURE, "host", timing="")
        self._settings: dict[str, str] = {}
        self._known: dict[str, str] | None = None  # those of the rows
        self._columns: list[str] = []
        self._is_left_out = False
        self._untimed: list[int] = []

    def take(self, line: TextLine, words: str) -> None:
        if words == _NIXL_TITLE:
            self._settings, self._columns = {}, []
        elif (setting := _NIXL_SETTING.match(words)) is not None and not self._columns:
            self._settings[setting["name"]] = setting["value"].strip()
        elif _is_nixl_head(words):
            self._head(line, words)
        elif words == _NIXL_FAILED:
            self.fail(words)
        elif self._columns and words[0].isdigit():
            self._row(line)

    def finish(self) -> None:
        run = self.run
        run.devices = [listed_device(0, "initiator"), listed_device(1, "target")]
        if any(row.transfer.measure == "latency" for row in run.copies):
            run.figure += _NIXL_LATENCY
        self.note_zeros(f"{_TIME} figures of 0", self._untimed)
        self.note_settings(self._known or {})
        if run.copies and not self._known:
            run.notices.append(
                "the text does not contain the settings of the tool: WRITE by UCX, its default, is "
                "assumed"
            )

    def _head(self, line: TextLine, words: str) -> None:
        columns = _NIXL_COLUMN.findall(words)
        if len({*columns}) < len(columns) or {_BLOCK, _BATCH, _RATE} - {*columns}:
            raise self.refuse(line, "cannot read the columns of this table")
        if _NIXL_COLUMN.sub("", words).strip():
            raise self.refuse(line, "this table has columns that are unknown")
        if self._known is not None and self._settings != self._known:
            raise self.split(line, "the settings differ from the table above", place="table")
        operation = self._settings.get("Op type", "WRITE")
        if operation not in _NIXL_OPERATIONS:
            raise self.refuse(line, f"Op type {operation[:40]}: WRITE or READ is due")
        self._columns = columns
        backend = self._settings.get("Backend", "UCX")
        self._is_left_out = backend in _NIXL_STORAGE
        if self._is_left_out:
            self.note(
                line,
                f"the table of backend {backend[:40]} is left out: it moves "
                "data to storage, not between devices",
            )
        if _ALL in columns:
            self.note(
                line,
                "the bandwidth is of the first pair, while the others run; "
                "the aggregate one is not imported",
            )

    def _row(self, line: TextLine) -> None:
        row = None if self._is_left_out else self.row(line, self._columns, read_figure)
        if row is None:
            return
        row.require_figures()
        size, batch, rate = row.count(_BLOCK), row.count(_BATCH), row.figure(_RATE)
        if not size or not batch or rate.value * _GB < 1:
            self.note(line, "omitted: no figure, or no data")
            return
        if _PER_BLOCK in row.cells:
            self._compare(line, size, rate, row.figure(_PER_BLOCK))
        self._known = self._known or dict(self._settings)
        common = self._transfer(batch)
        self.add_copy(line, common, size, rate.value * _GB)
        time_s = row.figure(_TIME, 1e-6).value if _TIME in row.cells else None
        if time_s is not None and time_s <= 0:
            self._untimed.append(line.number)
        elif time_s is not None:
            latency = msgspec.structs.replace(common, measure="latency", method="request")
            self.add_copy(line, latency, size, time_s)

    def _compare(
        self, line: TextLine, size: int, rate: PrintedFigure, per_block: PrintedFigure
    ) -> None:
        """Raises UsageError if a bandwidth is not that of the mean time of a block.

        nixlbench computes both from one duration (printStats): the bandwidth is the size of a block
        over its time, times the number of threads in versions since May 2026.
        """
        threads = read_count(self._settings.get("Num threads", ""))
        if threads is None:
            return
        given = size / 1e3  # microseconds of a block at one GB/s
        least = (rate.value - rate.error) * (per_block.value - per_block.error) * (1 - 1e-9)
        most = (rate.value + rate.error) * (per_block.value + per_block.error) * (1 + 1e-9)
        if not any(least <= given * number <= most for number in (1, threads)):
            raise self.refuse(
                line,
                f"{_RATE} {rate.value:g} does not fit {_PER_BLOCK} {per_block.value:g} of a block "
                f"of {size} bytes: copy the text again",
            )

    def _transfer(self, batch: int) -> Transfer:
        """Returns the transfer without its size. A batch of blocks is one request."""
        is_nixl = self._settings.get("Worker type", "nixl") == "nixl"
        means = self._settings.get("Backend", "UCX") if is_nixl else "nvshmem"
        return message_transfer(
            "NIXL",
            kernel=f"{means} batch {batch}" if batch > 1 else means,
            is_read=self._settings.get("Op type") == "READ",
        )


NIXLBENCH = importer(
    _NixlReader,
    _is_nixl_head,
    marks=RunMarks([_is_nixl_head, lambda words: words == _NIXL_TITLE]),
)
