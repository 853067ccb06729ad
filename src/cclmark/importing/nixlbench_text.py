"""Reads the table of nixlbench (ai-dynamo/nixl, benchmark/nixlbench)."""

from __future__ import annotations

import re

import msgspec

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_count, read_figure
from cclmark.importing.notices import left_out
from cclmark.importing.run import ForeignRun, ImportedTransfer, ToolSettings
from cclmark.plan.transfers import Transfer
from cclmark.results.schema import DeviceDescription

_FIGURE = (
    "the size of a block over nixlbench's bandwidth (GB of 10^9 bytes): all bytes of all "
    "iterations, threads and initiating devices of a pair over their time"
)
_LATENCY = "; a latency is the mean time of a request (Avg Tx), from its post to its completion"
_BLOCK, _BATCH, _RATE = "Block Size (B)", "Batch Size", "B/W (GB/Sec)"
_ALL, _TIME, _PER_BLOCK = "Aggregate B/W (GB/Sec)", "Avg Tx (us)", "Avg Lat. (us)"
_NAMES = (
    *(_BLOCK, _BATCH, _ALL, _RATE, "B/W (MiB/Sec)", "B/W (GiB/Sec)", "Network Util (%)"),
    *(_PER_BLOCK, "Avg Prep (us)", "P99 Prep (us)", "Avg Post (us)", "P99 Post (us)"),
    *(_TIME, "P99 Tx (us)"),
)
_COLUMN = re.compile("|".join(re.escape(name) for name in _NAMES))
_SETTING = re.compile(
    r"(?P<name>Worker type|Backend|Enable pt|Progress threads|Device list|Initiator seg type"
    r"|Target seg type|Scheme|Mode|Op type|Num initiator dev|Num target dev|Num threads"
    r"|Recreate xfer each iteration|Pipeline depth|Use Device API) \([^)]{0,200}\) *: *"
    r"(?P<value>\S.{0,60})"
)
_TITLE = "NIXLBench Configuration"
_FAILED = "Consistency check failed"
_OPERATIONS = {"WRITE": "write", "READ": "read"}
_STORAGE = ("GDS", "GDS_MT", "HF3FS", "POSIX", "OBJ", "GUSLI", "AZURE_BLOB", "INFINIA")
_GB = 1e9


def is_nixlbench(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _is_head(line.text.strip())), None)


def _is_head(words: str) -> bool:
    return words.startswith(_BLOCK) and _BATCH in words and "B/W (" in words


def read_nixlbench(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a row that cannot be read."""
    reader = _Reader(text)
    for line in reader.lines:
        reader.take(line)
    return reader.finish()


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self.lines = [line for line in text.lines() if line.text.strip()]
        self._run = ForeignRun("nixlbench", _FIGURE, "host", "", facts=ToolSettings(timing=""))
        self._settings: dict[str, str] = {}
        self._known: dict[str, str] | None = None  # those of the rows
        self._columns: list[str] = []
        self._is_left_out = False
        self._untimed: list[int] = []

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        words = line.text.strip()
        if words == _TITLE:
            self._settings, self._columns = {}, []
        elif (setting := _SETTING.match(words)) is not None and not self._columns:
            self._settings[setting["name"]] = setting["value"].strip()
        elif _is_head(words):
            self._head(line, words)
        elif words == _FAILED:
            self._run.failed, self._run.exit_code, self._run.message = True, 1, words
        elif self._columns and words[0].isdigit():
            self._row(line, words)

    def finish(self) -> ForeignRun:
        """Returns the complete run."""
        run = self._run
        run.devices = [
            DeviceDescription(rank=rank, host="", runtime="", index=rank, name=name, memory_bytes=0)
            for rank, name in enumerate(("initiator", "target"))
        ]
        if any(row.transfer.measure == "latency" for row in run.copies):
            run.figure += _LATENCY
        if self._untimed:
            run.notices.append(left_out(f"{_TIME} figures of 0", self._untimed))
        if self._known:
            shown = ", ".join(f"{name} {value}" for name, value in self._known.items())
            run.notices.append(f"settings of the tool: {shown}")
        elif run.copies:
            run.notices.append(
                "the text does not contain the settings of the tool: WRITE by UCX, its default, is "
                "assumed"
            )
        return run

    def _head(self, line: TextLine, words: str) -> None:
        """Reads the line of the columns."""
        columns = _COLUMN.findall(words)
        if len({*columns}) < len(columns) or {_BLOCK, _BATCH, _RATE} - {*columns}:
            raise self._text.refuse(line.number, "cannot read the columns of this table")
        if _COLUMN.sub("", words).strip():
            raise self._text.refuse(line.number, "this table has columns that are unknown")
        if self._known is not None and self._settings != self._known:
            raise self._text.refuse(
                line.number,
                "the settings differ from the table above, so this is another run. Split the "
                "text before this table and import the parts one by one",
            )
        operation = self._settings.get("Op type", "WRITE")
        if operation not in _OPERATIONS:
            raise self._text.refuse(line.number, f"Op type {operation[:40]}: WRITE or READ is due")
        self._columns = columns
        backend = self._settings.get("Backend", "UCX")
        self._is_left_out = backend in _STORAGE
        if self._is_left_out:
            self._run.notices.append(
                f"line {line.number}: the table of backend {backend[:40]} is left out: it moves "
                "data to storage, not between devices"
            )
        if _ALL in columns:
            self._run.notices.append(
                f"line {line.number}: the bandwidth is of the first pair, while the others run; "
                "the aggregate one is not imported"
            )

    def _row(self, line: TextLine, words: str) -> None:
        if self._is_left_out:
            return
        cells = words.split()
        if len(cells) != len(self._columns):
            if line is self.lines[-1] and len(cells) < len(self._columns):
                self._run.notices.append(f"line {line.number}: truncated, omitted")
                self._run.whole = False
                return
            raise self._text.refuse(
                line.number,
                f"{len(cells)} figures in this row, but the header has {len(self._columns)}",
            )
        shown = dict(zip(self._columns, cells, strict=True))
        size, batch = read_count(shown[_BLOCK]), read_count(shown[_BATCH])
        numbers = [read_figure(cell) for cell in cells]
        rate = read_figure(shown[_RATE])
        if size is None or batch is None or rate is None or None in numbers:
            raise self._text.refuse(line.number, f"cannot read the row {words[:80]!r}")
        if not size or not batch or rate.value * _GB < 1:
            self._run.notices.append(f"line {line.number}: omitted: no figure, or no data")
            return
        self._compare(line, size, rate, read_figure(shown.get(_PER_BLOCK, "")))
        self._known = self._known or dict(self._settings)
        common = self._transfer(batch)
        value = rate.value * _GB
        self._run.copies.append(ImportedTransfer(line.number, common, size, (value,), value))
        time = read_figure(shown[_TIME]) if _TIME in shown else None
        if time is not None and time.value <= 0:
            self._untimed.append(line.number)
        elif time is not None:
            latency = msgspec.structs.replace(common, measure="latency", method="request")
            self._run.copies.append(
                ImportedTransfer(line.number, latency, size, time_s=time.value * 1e-6)
            )

    def _compare(
        self, line: TextLine, size: int, rate: PrintedFigure, per_block: PrintedFigure | None
    ) -> None:
        """Raises UsageError if a bandwidth is not that of the mean time of a block.

        nixlbench computes both from one duration (printStats): the bandwidth is the size of a block
        over its time, times the number of threads in versions since May 2026.
        """
        threads = read_count(self._settings.get("Num threads", ""))
        if per_block is None or threads is None:
            return
        given = size / 1e3  # microseconds of a block at one GB/s
        least = (rate.value - rate.error) * (per_block.value - per_block.error) * (1 - 1e-9)
        most = (rate.value + rate.error) * (per_block.value + per_block.error) * (1 + 1e-9)
        if not any(least <= given * number <= most for number in (1, threads)):
            raise self._text.refuse(
                line.number,
                f"{_RATE} {rate.value:g} does not fit {_PER_BLOCK} {per_block.value:g} of a block "
                f"of {size} bytes: copy the text again",
            )

    def _transfer(self, batch: int) -> Transfer:
        """Returns the transfer without its size. A batch of blocks is one request."""
        direction = _OPERATIONS[self._settings.get("Op type", "WRITE")]
        is_nixl = self._settings.get("Worker type", "nixl") == "nixl"
        means = self._settings.get("Backend", "UCX") if is_nixl else "nvshmem"
        return Transfer(
            measure="unidirectional",
            scope="pairs",
            engine="NIXL",
            direction=direction,
            flows=((0, 1),) if direction == "write" else ((1, 0),),
            size_bytes=0,
            kernel=f"{means} batch {batch}" if batch > 1 else means,
        )
