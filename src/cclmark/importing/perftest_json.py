"""Reads the JSON of perftest (``--out_json``): the last size of a test.

Versions from 2021 to 2023 wrote names and texts without quotation marks, so the document is read by
its lines, each of which has one field. Its unit is not in the document.
"""

from __future__ import annotations

import re

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_count, read_decimal
from cclmark.importing.perftest_text import (
    BANDWIDTHS,
    LATENCIES,
    SETTINGS,
    UNITS,
    check_bandwidth,
    devices_of,
    latency_of,
    transfer_of,
)
from cclmark.importing.run import ForeignRun, ImportedTransfer, ToolSettings

_BEGIN = re.compile(r'\s{0,40}"?test_info"?\s{0,20}:\s{0,20}\{\s{0,200}')
_FIELD = re.compile(
    r'\s{0,40}"?(?P<name>[A-Za-z][\w. ]{0,40}?)"?\s{0,10}:\s{0,10}'
    r'(?:"(?P<text>[^"]{0,80})"|(?P<bare>[^\s",{}][^",{}]{0,80}?)),?\s{0,200}'
)
_SECTION = re.compile(r'\s{0,40}"?results"?\s{0,20}:\s{0,20}\{\s{0,200}')
_NEIGHBOURS = 0.02  # of the ratio that gives the unit; both figures are rounded
_MARK = re.compile(r'"?Data_ex_method"?\s{0,20}:|"?PCIe_relax_order"?\s{0,20}:')


def is_perftest_json(text: Text) -> bool:
    """Whether the text is such a document; other programs' lines may be around it."""
    return (
        any(_BEGIN.fullmatch(line) for line in text.content.split("\n"))
        and _MARK.search(text.content) is not None
    )


def read_perftest_json(text: Text) -> ForeignRun:
    """Reads the document, or several one behind the other. Raises UsageError for other content."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self._run = ForeignRun("perftest", "", "host", "", facts=ToolSettings(timing=""))
        self._line = 0  # of the test
        self._fields: dict[str, str] = {}
        self._has_results = False
        self._settings: dict[str, str] | None = None

    def read(self) -> ForeignRun:
        """Reads all lines."""
        for number, line in enumerate(self._text.content.split("\n"), start=1):
            words = line.rstrip("\r")
            if _BEGIN.fullmatch(words) is not None:
                self._close()
                self._line = number
            elif not self._line:
                continue
            elif _SECTION.fullmatch(words) is not None:
                self._has_results = True
            elif (field := _FIELD.fullmatch(words)) is not None:
                value = field["text"] if field["text"] is not None else field["bare"]
                if self._fields.setdefault(field["name"], value) != value:
                    raise self._text.refuse(number, f"{field['name']} is twice in this document")
            elif words.strip(" \t{},"):
                raise self._text.refuse(number, f"cannot read {words.strip()[:80]!r}")
        self._close()
        run = self._run
        measures = {row.transfer.measure for row in run.copies}
        figures = [BANDWIDTHS] if measures - {"latency"} else []
        figures += [LATENCIES] if "latency" in measures else []
        run.figure = "; ".join(figures)
        settings = self._settings or {}
        run.devices = devices_of(settings.get("Device", ""))
        shown = [f"{name} {value}" for name, value in settings.items() if name != "Device"]
        if shown:
            run.notices.append(f"settings of the tool: {', '.join(shown)}")
        return run

    def _close(self) -> None:
        """Adds the result of the document above."""
        line, fields, has_results = self._line, self._fields, self._has_results
        self._line, self._fields, self._has_results = 0, {}, False
        if not line:
            return
        if not has_results or "test" not in fields:
            raise self._text.refuse(
                line, "this JSON is cut off: it has no test, or no results. Copy the file again"
            )
        title = fields["test"].replace("_", " ")
        for verb in ("RDMA Write imm", "RDMA Write", "RDMA Read", "Send imm"):
            title = title.replace(verb, verb.replace(" ", "_"), 1)
        common = transfer_of(title)
        if common is None:
            self._run.notices.append(
                f"line {line}: {title[:60]} is left out: cclmark has no such copy"
            )
            return
        self._compare(line, fields)
        size = read_count(fields.get("MsgSize", ""))
        if size is None:
            raise self._text.refuse(line, "the results have no MsgSize: measure without --output")
        if common.measure == "latency":
            names = ("t_typical", "t_min", "t_max")
            typical, least, most = (self._figure(line, fields, name).value for name in names)
            count = read_count(fields.get("n_iterations", "")) or 0
            found = latency_of(
                self._text, TextLine(line, ""), common, size, (least, typical, most), count
            )
        else:
            average = self._figure(line, fields, "BW_average")
            unit = self._unit(line, size, average, fields)
            if unit:
                check_bandwidth(
                    self._text,
                    line,
                    common,
                    size,
                    average,
                    unit=unit,
                    peak=read_decimal(fields.get("BW_peak", "")),
                    messages=self._figure(line, fields, "MsgRate"),
                )
            rate = average.value * unit
            rates = (rate,) if len(common.flows) == 1 else ()
            found = ImportedTransfer(line, common, size, rates, rate) if rate and size else None
        if found is None:
            self._run.notices.append(f"line {line}: omitted: no figure, or no data")
        else:
            self._run.copies.append(found)

    def _compare(self, line: int, fields: dict[str, str]) -> None:
        """Raises UsageError for settings that differ from the document above."""
        settings = {name: fields[key] for name, key in SETTINGS.items() if key in fields}
        if self._settings not in (None, settings):
            raise self._text.refuse(
                line,
                "the device or the settings differ from the document above: import the files "
                "one by one",
            )
        self._settings = settings

    def _figure(self, line: int, fields: dict[str, str], name: str) -> PrintedFigure:
        found = read_decimal(fields.get(name, ""))
        if found is None:
            if name == "t_typical" and "tps_average" in fields:
                raise self._text.refuse(
                    line, "the test has no typical latency, only averages (-D): measure without -D"
                )
            raise self._text.refuse(
                line, f"{name} is {fields.get(name, 'missing')[:40]}, not a figure"
            )
        return found

    def _unit(self, line: int, size: int, average: PrintedFigure, fields: dict[str, str]) -> float:
        """Returns the unit of the bandwidth, which the rate of messages shows.

        The document does not record whether --report_gbits was given.
        """
        messages = self._figure(line, fields, "MsgRate").times(1e6)
        if not size or not average.value or not messages.value:
            return 0.0
        ratio = messages.value * size / average.value
        error = messages.share + average.share + _NEIGHBOURS
        for unit in {*UNITS.values()}:
            if abs(ratio / unit - 1) <= error < 1:
                return unit
        raise self._text.refuse(
            line,
            f"BW_average {average.value:g} does not fit MsgRate {messages.value / 1e6:g} million "
            "per second in MiB/s or Gb/s, so its unit is unknown: import the text output",
        )
