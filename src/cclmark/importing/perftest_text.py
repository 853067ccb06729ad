"""Reads the tables of perftest: ib_write_bw, ib_read_lat and others (linux-rdma/perftest)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_count, read_decimal
from cclmark.importing.run import ForeignRun, ImportedTransfer, ToolSettings
from cclmark.plan.transfers import Transfer
from cclmark.results.schema import DeviceDescription

BANDWIDTHS = (
    "the size over the tool's average bandwidth of a queue of messages (MiB of 2^20 bytes or Gb of "
    "10^9 bits), the sum of both directions if it is bidirectional"
)
LATENCIES = (
    "the tool's typical latency, the median of its iterations: half a round trip of writes and "
    "sends, a whole one of reads"
)
_TITLE = re.compile(
    r"(?P<verb>Send|Send_imm|RDMA_Write|RDMA_Write_imm|RDMA_Read|Atomic \w+) "
    r"(?P<both>Bidirectional )?(?:Post List )?(?P<what>BW|Latency)"
    r"(?P<other>(?: forwarding| Multicast)*) Test"
)
_HEAD = re.compile(r"#bytes\s+(?:#sl\s+)?#iterations\s+\S.*")
_COLUMN = re.compile(
    r"#\w+|BW \w+(?: \w+)?\[[\w/]+\]|MsgRate(?: \w+)?\[\w+\]|t_\w+\[\w+\]"
    r"|[\d.]+% percentile\[\w+\]|tps average|CPU_Util\[%+\]"
)
_PEAK = re.compile(r"BW peak\[(?:MB/sec|MiB/sec|Gb/sec)\]")
_MESSAGES = "MsgRate[Mpps]"
_MODERATION = re.compile(r"CQ Moderation\s{0,20}: (\d{1,9})(?=\s|$)")
_USUAL_MODERATION = 100
_SLACK = 1.02  # of what rounding allows
_AVERAGE = re.compile(r"BW average\[(MB/sec|MiB/sec|Gb/sec)\]")
# MB is 2^20 bytes in old versions too: only its name was corrected later.
UNITS = {"MB/sec": float(1 << 20), "MiB/sec": float(1 << 20), "Gb/sec": 1.25e8}
_DEVICE = re.compile(r"Device\s{1,12}: (\S{1,64})")
_SETTING = re.compile(
    r"(Number of qps|Connection type|Transport type|TX depth|Mtu|Link type|Outstand reads)"
    r"\s{0,20}: (\S{1,30})"
)
_ADDRESS = re.compile(r"(?:local|remote) address: ")
#: The settings that must be equal in one journal: their names, and those in the JSON.
SETTINGS = {
    "Device": "Device",
    "Number of qps": "Number_of_qps",
    "Connection type": "Connection_type",
    "Transport type": "Transport_type",
    "TX depth": "TX_depth",
    "Mtu": "Mtu",
    "Link type": "Link_type",
    "Outstand reads": "Outstand_reads",
}
_VERBS = {"RDMA_Write": "write", "RDMA_Write_imm": "write", "RDMA_Read": "read"}
_VERBS |= {"Send": "send", "Send_imm": "send"}
_TYPICAL, _LEAST, _MOST, _ITERATIONS = (
    "t_typical[usec]",
    "t_min[usec]",
    "t_max[usec]",
    "#iterations",
)


def is_perftest(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _HEAD.fullmatch(line.text.strip())), None)


def read_perftest(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a row that cannot be read."""
    reader = _Reader(text)
    for line in reader.lines:
        reader.take(line)
    return reader.finish()


@dataclass(frozen=True)
class _Table:
    """A table: the copy that its title describes, without flows and size, and its columns."""

    line: int
    common: Transfer | None = None
    columns: tuple[str, ...] = ()
    unit: float = 0.0
    moderation: int = _USUAL_MODERATION


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self.lines = [line for line in text.lines() if line.text.strip()]
        self._run = ForeignRun("perftest", "", "host", "", facts=ToolSettings(timing=""))
        self._table: _Table | None = None
        self._device = ""
        self._settings: dict[str, str] = {}
        self._moderation = _USUAL_MODERATION

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        words = line.text.strip()
        if (title := _TITLE.fullmatch(words)) is not None:
            self._begin(line, title)
        elif _HEAD.fullmatch(words) is not None:
            self._head(line, words)
        elif words.startswith("---") or _ADDRESS.match(words) is not None:
            pass
        elif self._table is not None and self._table.columns and words[0].isdigit():
            self._row(line, words)
        else:
            self._describe(line, words)

    def finish(self) -> ForeignRun:
        """Returns the complete run."""
        run = self._run
        measures = dict.fromkeys(row.transfer.measure for row in run.copies)
        figures = [BANDWIDTHS] if set(measures) - {"latency"} else []
        figures += [LATENCIES] if "latency" in measures else []
        run.figure = "; ".join(figures)
        run.devices = devices_of(self._device)
        if self._settings:
            shown = ", ".join(f"{name} {value}" for name, value in self._settings.items())
            run.notices.append(f"settings of the tool: {shown}")
        return run

    def _describe(self, line: TextLine, words: str) -> None:
        """Reads a line about the device or the connection."""
        if (device := _DEVICE.search(words)) is not None:
            if self._run.copies and device[1] != self._device:
                raise self._text.refuse(
                    line.number,
                    f"device {device[1]} here, {self._device or 'another'} above: split the text "
                    "before this table and import the parts one by one",
                )
            self._device = device[1]
        if (moderation := _MODERATION.search(words)) is not None:
            self._moderation = max(1, int(moderation[1]))
        for name, value in _SETTING.findall(words):
            known = self._settings.setdefault(name, value)
            if known != value and self._run.copies:
                raise self._text.refuse(
                    line.number,
                    f"{name} is {value} here, {known} above: split the text before this table and "
                    "import the parts one by one",
                )
            self._settings[name] = value

    def _begin(self, line: TextLine, title: re.Match[str]) -> None:
        """Begins a table."""
        common = transfer_of(title[0])
        if common is None:
            self._run.notices.append(
                f"line {line.number}: {title[0]} is left out: cclmark has no such copy"
            )
        self._table = _Table(line.number, common)

    def _head(self, line: TextLine, words: str) -> None:
        """Reads the line of the columns."""
        table = self._table
        if table is None or table.columns:
            raise self._text.refuse(
                line.number, "the title of this table (for example RDMA_Write BW Test) is missing"
            )
        columns = tuple(_COLUMN.findall(words))
        averages = [found[1] for name in columns if (found := _AVERAGE.fullmatch(name))]
        if table.common is None:
            self._table = replace(table, columns=columns)
            return
        is_latency = table.common.measure == "latency"
        if is_latency and _ITERATIONS in columns and _TYPICAL not in columns:
            raise self._text.refuse(
                line.number,
                "the table has no typical latency, only averages (-D): measure without -D",
            )
        due = {"#bytes", _ITERATIONS, *((_TYPICAL, _LEAST, _MOST) if is_latency else ())}
        if due - {*columns} or len({*columns}) < len(columns) or len(averages) != (not is_latency):
            raise self._text.refuse(line.number, "cannot read the columns of this table")
        peaks = [name for name in columns if _PEAK.fullmatch(name)]
        if averages and peaks and averages[0] not in peaks[0]:
            raise self._text.refuse(
                line.number, f"the units of {peaks[0]} and BW average[{averages[0]}] differ"
            )
        unit = UNITS[averages[0]] if averages else 0.0
        self._table = replace(table, columns=columns, unit=unit, moderation=self._moderation)

    def _row(self, line: TextLine, words: str) -> None:
        table = self._table
        assert table is not None
        if table.common is None:
            return
        cells = words.split()
        if len(cells) != len(table.columns):
            if line is self.lines[-1] and len(cells) < len(table.columns):
                self._run.notices.append(f"line {line.number}: truncated, omitted")
                self._run.whole = False
                return
            raise self._text.refuse(
                line.number,
                f"{len(cells)} figures in this row, but the header has {len(table.columns)}",
            )
        shown = dict(zip(table.columns, cells, strict=True))
        size = read_count(shown["#bytes"])
        if size is None or any(read_decimal(cell) is None for cell in cells[1:]):
            raise self._text.refuse(line.number, f"cannot read the row {words[:80]!r}")
        if table.common.measure == "latency":
            least, typical, most = (float(shown[name]) for name in (_LEAST, _TYPICAL, _MOST))
            count = read_count(shown[_ITERATIONS]) or 0
            found = latency_of(self._text, line, table.common, size, (least, typical, most), count)
        else:
            found = _bandwidth(self._text, line, table, size, shown)
        if found is None:
            self._run.notices.append(f"line {line.number}: omitted: no figure, or no data")
        else:
            self._run.copies.append(found)


def devices_of(name: str) -> list[DeviceDescription]:
    """Returns the device of a text, and its peer."""
    return [
        DeviceDescription(rank=rank, host="", runtime="", index=rank, name=shown, memory_bytes=0)
        for rank, shown in enumerate((name, "the peer's device"))
    ]


def transfer_of(title: str) -> Transfer | None:
    """Returns the copy of a test, without its size, or None if cclmark has none.

    ``title``: as perftest prints it, for example ``RDMA_Write Bidirectional BW Test``.
    """
    found = _TITLE.fullmatch(title)
    verb = None if found is None else _VERBS.get(found["verb"])
    if found is None or verb is None or found["other"]:
        return None
    is_latency = found["what"] == "Latency"
    measure = "bidirectional" if found["both"] else "unidirectional"
    method = ("round-trip" if verb == "read" else "half-round-trip") if is_latency else ""
    direction = "read" if verb == "read" else "write"
    return Transfer(
        measure="latency" if is_latency else measure,
        scope="pairs",
        engine="RDMA",
        direction=direction,
        flows=_flows(direction, both=bool(found["both"]) and not is_latency),
        size_bytes=0,
        kernel=verb,
        method=method,
    )


def latency_of(
    text: Text,
    line: TextLine,
    common: Transfer,
    size_bytes: int,
    times_us: tuple[float, float, float],
    iterations: int,
) -> ImportedTransfer | None:
    """Returns a latency from the least, typical and largest time; None if there is no figure.

    Raises UsageError for times that are not in this order.
    """
    least, typical, most = times_us
    if not 0 < least <= typical <= most:
        if not size_bytes or not typical:
            return None
        raise text.refuse(
            line.number, "the typical latency is not between the least and the largest one"
        )
    return ImportedTransfer(
        line.number,
        common,
        size_bytes,
        time_s=typical * 1e-6,
        range_s=(least * 1e-6, most * 1e-6),
        samples=max(1, iterations - 1),
    )


def _flows(direction: str, *, both: bool) -> tuple[tuple[int, int], ...]:
    """Returns the flows of data: of a read towards the device that the text is of."""
    there = (1, 0) if direction == "read" else (0, 1)
    return (there, (there[1], there[0])) if both else (there,)


def check_bandwidth(
    text: Text,
    line: int,
    common: Transfer,
    size: int,
    average: PrintedFigure,
    *,
    unit: float,
    peak: PrintedFigure | None,
    messages: PrintedFigure | None,
) -> None:
    """Compares an average bandwidth with the other figures of its row.

    ``unit``: bytes per second. ``messages``: million per second, which times the size is the
    average (perftest's print_report_bw computes both from the same cycles). Before August 2013
    messages were those of one direction, bandwidths of both. ``peak``: the largest average of any
    part of the messages, 0 if it was not measured. Raises UsageError for figures that do not fit
    beyond their rounding.
    """
    if peak is not None and peak.value and average.value - average.error > peak.value + peak.error:
        raise text.refuse(
            line,
            f"BW average {average.value:g} is above BW peak {peak.value:g}: copy the text again",
        )
    if messages is None or not size:
        return
    # In units of the average: the rate that the messages give, and its rounding.
    given = messages.times(size * 1e6 / unit)
    directions = (1, 2) if len(common.flows) > 1 else (1,)
    if all(
        abs(average.value - given.value * number)
        > (average.error + given.error * number) * _SLACK + 1e-9 * average.value
        for number in directions
    ):
        raise text.refuse(
            line,
            f"BW average {average.value:g} does not fit MsgRate {messages.value:g}, which with "
            f"messages of {size} bytes gives {given.value:.6g}: copy the text again",
        )


def _bandwidth(
    text: Text, line: TextLine, table: _Table, size: int, shown: dict[str, str]
) -> ImportedTransfer | None:
    """Returns a bandwidth; None if there is no figure.

    Raises UsageError if it does not fit the other figures of the row.
    """
    assert table.common is not None
    average = read_decimal(next(shown[name] for name in table.columns if _AVERAGE.fullmatch(name)))
    assert average is not None  # all cells of a row are numbers
    rate = average.value * table.unit
    if not size or rate <= 0:
        return None
    # The peak of versions before December 2019 lacks messages behind a multiple of the moderation.
    iterations = read_count(shown[_ITERATIONS]) or 1
    peak = next((shown[name] for name in table.columns if _PEAK.fullmatch(name)), None)
    has_peak = peak is not None and iterations % table.moderation == 0
    check_bandwidth(
        text,
        line.number,
        table.common,
        size,
        average,
        unit=table.unit,
        peak=read_decimal(peak) if peak is not None and has_peak else None,
        messages=read_decimal(shown[_MESSAGES]) if _MESSAGES in shown else None,
    )
    rates = (rate,) if len(table.common.flows) == 1 else ()
    return ImportedTransfer(line.number, table.common, size, rates, rate)
