"""Reads perftest (linux-rdma/perftest: ib_write_bw, ib_read_lat …): its tables and its JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cclmark.work.transfers import Transfer
from cclmark_importers.cleaned_text import PrintedFigure, Text, TextLine, read_count, read_decimal
from cclmark_importers.line_reader import (
    LineReader,
    RunMarks,
    TableRow,
    document_importer,
    importer,
)
from cclmark_importers.run import (
    ForeignRun,
    ImportedTransfer,
    listed_device,
    measured,
    message_transfer,
)

_BANDWIDTHS = (
    "the size over the tool's average bandwidth of a queue of messages (MiB of 2^20 bytes or Gb of "
    "10^9 bits), the sum of both directions if it is bidirectional"
)
_LATENCIES = (
    "the tool's typical latency, the median of its iterations: half a round trip of writes and "
    "sends, a whole one of reads"
)
_TITLE = re.compile(
    r"(?P<verb>Send|Send_imm|RDMA_Write|RDMA_Write_imm|RDMA_Read|Atomic \w+) "
    r"(?P<both>Bidirectional )?(?:Post List )?(?P<what>BW|Latency)"
    r"(?P<other>(?: forwarding| Multicast)*) Test"
)
_VERBS = {"RDMA_Write": "write", "RDMA_Write_imm": "write", "RDMA_Read": "read"}
_VERBS |= {"Send": "send", "Send_imm": "send"}
# MB is 2^20 bytes in old versions too: only its name was corrected later.
_UNITS = {"MB/sec": float(1 << 20), "MiB/sec": float(1 << 20), "Gb/sec": 1.25e8}
# The settings that must be equal in one journal. In the JSON they have no blanks.
_SETTINGS = (
    *("Number of qps", "Connection type", "Transport type", "TX depth", "Mtu", "Link type"),
    "Outstand reads",
)
_SLACK = 1.02  # of what rounding allows


class _PerftestReader(LineReader):
    """What the table and the JSON share: rows, and the settings, which must not change."""

    def __init__(self, text: Text) -> None:
        super().__init__(text, "perftest", "", "host", timing="")
        self.device = ""
        self.settings: dict[str, str] = {}

    def finish(self) -> None:
        """Completes the run after the last line: the device of a text, and its peer."""
        self.describe_copies(_BANDWIDTHS, _LATENCIES)
        names = (self.device, "the peer's device")
        self.run.devices = [listed_device(rank, name) for rank, name in enumerate(names)]
        self.note_settings(self.settings)

    def transfer_of(self, line: TextLine, title: str, verb: str) -> Transfer | None:
        """Returns the copy of a test, without its size, or None if cclmark has none.

        ``verb``: the title as the table prints it, for example ``RDMA_Write Bidirectional BW Test``
        """
        found = _TITLE.fullmatch(verb)
        kernel = None if found is None else _VERBS.get(found["verb"])
        if found is None or kernel is None or found["other"]:
            self.note(line, f"{title} is left out: cclmark has no such copy")
            return None
        measure = "bidirectional" if found["both"] else "unidirectional"
        if found["what"] == "Latency":
            measure = "latency"
        return message_transfer("RDMA", kernel=kernel, measure=measure, is_read=kernel == "read")

    def add(self, line: TextLine, found: ImportedTransfer | None) -> None:
        """Adds a copy, or the notice about a row without a figure."""
        if found is None:
            self.note(line, "omitted: no figure, or no data")
        else:
            self.run.copies.append(found)

    def latency_of(
        self,
        line: TextLine,
        common: Transfer,
        size_bytes: int,
        times: tuple[PrintedFigure, ...],
        iterations: int,
    ) -> ImportedTransfer | None:
        """Returns a latency from the least, typical and largest time; None if there is no figure.

        Raises UsageError for times that are not in this order.
        """
        least, typical, most = (one.value for one in times)
        if not 0 < least <= typical <= most:
            if not size_bytes or not typical:
                return None
            raise self.refuse(
                line, "the typical latency is not between the least and the largest one"
            )
        return ImportedTransfer(
            line.number,
            common,
            size_bytes,
            time_s=typical * 1e-6,
            range_s=(least * 1e-6, most * 1e-6),
            samples=max(1, iterations - 1),
        )

    def check_bandwidth(
        self,
        line: TextLine,
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
        messages were those of one direction, bandwidths of both. ``peak``: the largest average of
        any part of the messages, 0 if it was not measured. Raises UsageError for figures that do
        not fit beyond their rounding.
        """
        value, error = average.value, average.error
        if peak is not None and peak.value and value - error > peak.value + peak.error:
            raise self.refuse(
                line, f"BW average {value:g} is above BW peak {peak.value:g}: copy the text again"
            )
        if messages is None or not size:
            return
        # In units of the average: the rate that the messages give, and its rounding.
        given = messages.times(size * 1e6 / unit)
        directions = (1, 2) if len(common.flows) > 1 else (1,)
        if all(
            abs(value - given.value * number)
            > (error + given.error * number) * _SLACK + 1e-9 * value
            for number in directions
        ):
            raise self.refuse(
                line,
                f"BW average {value:g} does not fit MsgRate {messages.value:g}, which with "
                f"messages of {size} bytes gives {given.value:.6g}: copy the text again",
            )


_HEAD = re.compile(r"#bytes\s+(?:#sl\s+)?#iterations\s+\S.*")
_COLUMN = re.compile(
    r"#\w+|BW \w+(?: \w+)?\[[\w/]+\]|MsgRate(?: \w+)?\[\w+\]|t_\w+\[\w+\]"
    r"|[\d.]+% percentile\[\w+\]|tps average|CPU_Util\[%+\]"
)
_PEAK = re.compile(r"BW peak\[(?:MB/sec|MiB/sec|Gb/sec)\]")
_AVERAGE = re.compile(r"BW average\[(MB/sec|MiB/sec|Gb/sec)\]")
_SIZE, _ITERATIONS, _MESSAGES = "#bytes", "#iterations", "MsgRate[Mpps]"
_TYPICAL = "t_typical[usec]"
_TIMES = ("t_min[usec]", _TYPICAL, "t_max[usec]")
_MODERATION = re.compile(r"CQ Moderation\s{0,20}: (\d{1,9})(?=\s|$)")
_USUAL_MODERATION = 100
_DEVICE = re.compile(r"Device\s{1,12}: (\S{1,64})")
_SETTING = re.compile(rf"({'|'.join(_SETTINGS)})\s{{0,20}}: (\S{{1,30}})")
_ADDRESS = re.compile(r"(?:local|remote) address: ")


@dataclass(frozen=True)
class _Table:
    """A table: the copy that its title describes, without flows and size, and its columns."""

    common: Transfer | None = None
    columns: tuple[str, ...] = ()
    unit: float = 0.0
    moderation: int = _USUAL_MODERATION


class _TableReader(_PerftestReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text)
        self._table: _Table | None = None
        self._moderation = _USUAL_MODERATION

    def take(self, line: TextLine, words: str) -> None:
        table = self._table
        if _TITLE.fullmatch(words) is not None:
            self._table = _Table(self.transfer_of(line, words, words))
        elif _HEAD.fullmatch(words) is not None:
            self._head(line, words)
        elif words.startswith("---") or _ADDRESS.match(words) is not None:
            pass
        elif table is not None and table.columns and words[0].isdigit():
            if table.common is not None:
                self._row(line, table, table.common)
        else:
            self._describe(line, words)

    def _describe(self, line: TextLine, words: str) -> None:
        """Reads a line about the device or the connection."""
        if (device := _DEVICE.search(words)) is not None:
            if self.run.copies and device[1] != self.device:
                reason = f"device {device[1]} here, {self.device or 'another'} above"
                raise self.split(line, reason, place="table")
            self.device = device[1]
        if (moderation := _MODERATION.search(words)) is not None:
            self._moderation = max(1, int(moderation[1]))
        for name, value in _SETTING.findall(words):
            known = self.settings.setdefault(name, value)
            if known != value and self.run.copies:
                reason = f"{name} is {value} here, {known} above"
                raise self.split(line, reason, place="table")
            self.settings[name] = value

    def _head(self, line: TextLine, words: str) -> None:
        table = self._table
        if table is None or table.columns:
            raise self.refuse(
                line, "the title of this table (for example RDMA_Write BW Test) is missing"
            )
        columns = tuple(_COLUMN.findall(words))
        self._table = replace(table, columns=columns, moderation=self._moderation)
        if table.common is None:
            return
        averages = [found[1] for name in columns if (found := _AVERAGE.fullmatch(name))]
        is_latency = table.common.measure == "latency"
        if is_latency and _ITERATIONS in columns and _TYPICAL not in columns:
            raise self.refuse(
                line, "the table has no typical latency, only averages (-D): measure without -D"
            )
        due = {_SIZE, _ITERATIONS, *(_TIMES if is_latency else ())}
        if due - {*columns} or len({*columns}) < len(columns) or len(averages) != (not is_latency):
            raise self.refuse(line, "cannot read the columns of this table")
        peaks = [name for name in columns if _PEAK.fullmatch(name)]
        if averages and peaks and averages[0] not in peaks[0]:
            raise self.refuse(line, f"the units of {peaks[0]} and BW average[{averages[0]}] differ")
        self._table = replace(self._table, unit=_UNITS[averages[0]] if averages else 0.0)

    def _row(self, line: TextLine, table: _Table, common: Transfer) -> None:
        row = self.row(line, table.columns)
        if row is None:
            return
        row.require_figures()
        size, iterations = row.count(_SIZE), read_count(row.cells[_ITERATIONS])
        if common.measure == "latency":
            times = tuple(row.figure(name) for name in _TIMES)
            self.add(line, self.latency_of(line, common, size, times, iterations or 0))
        else:
            self.add(line, self._bandwidth(row, table, common, size, iterations or 1))

    def _bandwidth(
        self, row: TableRow, table: _Table, common: Transfer, size: int, iterations: int
    ) -> ImportedTransfer | None:
        """Returns a bandwidth; None if there is no figure.

        Raises UsageError if it does not fit the other figures of the row.
        """
        average = row.figure(next(filter(_AVERAGE.fullmatch, table.columns)))
        rate = average.value * table.unit
        if not size or rate <= 0:
            return None
        # The peak of versions before December 2019 lacks messages behind a multiple of the
        # moderation.
        peak = next(filter(_PEAK.fullmatch, table.columns), None)
        has_peak = peak is not None and iterations % table.moderation == 0
        self.check_bandwidth(
            row.line,
            common,
            size,
            average,
            unit=table.unit,
            peak=row.figure(peak) if peak is not None and has_peak else None,
            messages=row.figure(_MESSAGES) if _MESSAGES in table.columns else None,
        )
        return measured(row.line.number, common, size, rate)


PERFTEST = importer(
    _TableReader, _HEAD.fullmatch, marks=RunMarks([_TITLE.fullmatch, _HEAD.fullmatch])
)

# The JSON (``--out_json``) is of the last size of a test. Versions from 2021 to 2023 wrote names
# and texts without quotation marks, so the document is read by its lines, each of which has one
# field. Its unit is not in the document.
_BEGIN = re.compile(r'\s{0,40}"?test_info"?\s{0,20}:\s{0,20}\{\s{0,200}')
_FIELD = re.compile(
    r'\s{0,40}"?(?P<name>[A-Za-z][\w. ]{0,40}?)"?\s{0,10}:\s{0,10}'
    r'(?:"(?P<text>[^"]{0,80})"|(?P<bare>[^\s",{}][^",{}]{0,80}?)),?\s{0,200}'
)
_SECTION = re.compile(r'\s{0,40}"?results"?\s{0,20}:\s{0,20}\{\s{0,200}')
_NEIGHBOURS = 0.02  # of the ratio that gives the unit; both figures are rounded
_MARK = re.compile(r'"?Data_ex_method"?\s{0,20}:|"?PCIe_relax_order"?\s{0,20}:')


def _is_json(text: Text) -> bool:
    """Whether the text is such a document; other programs' lines may be around it."""
    return (
        any(_BEGIN.fullmatch(line) for line in text.content.split("\n"))
        and _MARK.search(text.content) is not None
    )


class _JsonReader(_PerftestReader):
    """Reads a document, or several one behind the other."""

    def __init__(self, text: Text) -> None:
        super().__init__(text)
        self._begun: TextLine | None = None  # the line of the test
        self._fields: dict[str, str] = {}
        self._has_results = False
        self._known: dict[str, str] | None = None

    def read(self) -> ForeignRun:
        """Reads all lines."""
        for number, content in enumerate(self.text.content.split("\n"), start=self.text.first):
            self.take(TextLine(number, content), content.rstrip("\r"))
        self._close()
        self.settings = dict(self._known or {})
        self.device = self.settings.pop("Device", "")
        self.finish()
        return self.run

    def take(self, line: TextLine, words: str) -> None:
        if _BEGIN.fullmatch(words) is not None:
            self._close()
            self._begun = line
        elif self._begun is None:
            pass
        elif _SECTION.fullmatch(words) is not None:
            self._has_results = True
        elif (field := _FIELD.fullmatch(words)) is not None:
            value = field["text"] if field["text"] is not None else field["bare"]
            if self._fields.setdefault(field["name"], value) != value:
                raise self.refuse(line, f"{field['name']} is twice in this document")
        elif words.strip(" \t{},"):
            raise self.refuse(line, f"cannot read {words.strip()[:80]!r}")

    def _close(self) -> None:
        line, fields, has_results = self._begun, self._fields, self._has_results
        self._begun, self._fields, self._has_results = None, {}, False
        if line is None:
            return
        if not has_results or "test" not in fields:
            raise self.refuse(
                line, "this JSON is cut off: it has no test, or no results. Copy the file again"
            )
        title = fields["test"].replace("_", " ")
        for verb in ("RDMA Write imm", "RDMA Write", "RDMA Read", "Send imm"):
            title = title.replace(verb, verb.replace(" ", "_"), 1)
        common = self.transfer_of(line, title[:60], title)
        if common is None:
            return
        settings = {
            name: fields[name.replace(" ", "_")]
            for name in ("Device", *_SETTINGS)
            if name.replace(" ", "_") in fields
        }
        if self._known not in (None, settings):
            raise self.refuse(
                line,
                "the device or the settings differ from the document above: import the files "
                "one by one",
            )
        self._known = settings
        size = read_count(fields.get("MsgSize", ""))
        if size is None:
            raise self.refuse(line, "the results have no MsgSize: measure without --output")
        if common.measure == "latency":
            typical = self._figure(line, fields, "t_typical")
            least, most = (self._figure(line, fields, name) for name in ("t_min", "t_max"))
            count = read_count(fields.get("n_iterations", "")) or 0
            self.add(line, self.latency_of(line, common, size, (least, typical, most), count))
        else:
            self.add(line, self._bandwidth(line, fields, common, size))

    def _bandwidth(
        self, line: TextLine, fields: dict[str, str], common: Transfer, size: int
    ) -> ImportedTransfer | None:
        average, messages = (self._figure(line, fields, name) for name in ("BW_average", "MsgRate"))
        unit = self._unit(line, size, average, messages)
        if not unit:
            return None
        peak = read_decimal(fields.get("BW_peak", ""))
        self.check_bandwidth(line, common, size, average, unit=unit, peak=peak, messages=messages)
        return measured(line.number, common, size, average.value * unit)

    def _figure(self, line: TextLine, fields: dict[str, str], name: str) -> PrintedFigure:
        found = read_decimal(fields.get(name, ""))
        if found is None:
            if name == "t_typical" and "tps_average" in fields:
                raise self.refuse(
                    line, "the test has no typical latency, only averages (-D): measure without -D"
                )
            raise self.refuse(line, f"{name} is {fields.get(name, 'missing')[:40]}, not a figure")
        return found

    def _unit(
        self, line: TextLine, size: int, average: PrintedFigure, messages: PrintedFigure
    ) -> float:
        """Returns the unit of the bandwidth, which the rate of messages shows; 0 without data.

        The document does not record whether --report_gbits was given.
        """
        if not size or not average.value or not messages.value:
            return 0.0
        ratio = messages.value * 1e6 * size / average.value
        error = messages.share + average.share + _NEIGHBOURS
        for unit in {*_UNITS.values()}:
            if abs(ratio / unit - 1) <= error < 1:
                return unit
        raise self.refuse(
            line,
            f"BW_average {average.value:g} does not fit MsgRate {messages.value:g} million "
            "per second in MiB/s or Gb/s, so its unit is unknown: import the text output",
        )


PERFTEST_JSON = document_importer(_JsonReader, _is_json)
