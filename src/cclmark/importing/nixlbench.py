"""Reads the table of nixlbench (ai-dynamo/nixl, benchmark/nixlbench)."""

from __future__ import annotations

import re

import msgspec

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_count, read_figure
from cclmark.importing.line_reader import LineReader, importer
from cclmark.importing.run import listed_device, message_transfer
from cclmark.plan.transfers import Transfer

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
_OPERATIONS = ("WRITE", "READ")
_STORAGE = ("GDS", "GDS_MT", "HF3FS", "POSIX", "OBJ", "GUSLI", "AZURE_BLOB", "INFINIA")
_GB = 1e9


def _is_head(words: str) -> bool:
    return words.startswith(_BLOCK) and _BATCH in words and "B/W (" in words


class _Reader(LineReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, "nixlbench", _FIGURE, "host", timing="")
        self._settings: dict[str, str] = {}
        self._known: dict[str, str] | None = None  # those of the rows
        self._columns: list[str] = []
        self._is_left_out = False
        self._untimed: list[int] = []

    def take(self, line: TextLine, words: str) -> None:
        if words == _TITLE:
            self._settings, self._columns = {}, []
        elif (setting := _SETTING.match(words)) is not None and not self._columns:
            self._settings[setting["name"]] = setting["value"].strip()
        elif _is_head(words):
            self._head(line, words)
        elif words == _FAILED:
            self.fail(words)
        elif self._columns and words[0].isdigit():
            self._row(line)

    def finish(self) -> None:
        run = self.run
        run.devices = [listed_device(0, "initiator"), listed_device(1, "target")]
        if any(row.transfer.measure == "latency" for row in run.copies):
            run.figure += _LATENCY
        self.note_zeros(f"{_TIME} figures of 0", self._untimed)
        self.note_settings(self._known or {})
        if run.copies and not self._known:
            run.notices.append(
                "the text does not contain the settings of the tool: WRITE by UCX, its default, is "
                "assumed"
            )

    def _head(self, line: TextLine, words: str) -> None:
        columns = _COLUMN.findall(words)
        if len({*columns}) < len(columns) or {_BLOCK, _BATCH, _RATE} - {*columns}:
            raise self.refuse(line, "cannot read the columns of this table")
        if _COLUMN.sub("", words).strip():
            raise self.refuse(line, "this table has columns that are unknown")
        if self._known is not None and self._settings != self._known:
            raise self.split(line, "the settings differ from the table above", place="table")
        operation = self._settings.get("Op type", "WRITE")
        if operation not in _OPERATIONS:
            raise self.refuse(line, f"Op type {operation[:40]}: WRITE or READ is due")
        self._columns = columns
        backend = self._settings.get("Backend", "UCX")
        self._is_left_out = backend in _STORAGE
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


NIXLBENCH = importer(_Reader, _is_head)
