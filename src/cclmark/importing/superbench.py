"""Reads the summaries of SuperBench (microsoft/superbenchmark): a line of JSON for each node.

A key is a metric: ``BENCHMARK[:ANNOTATION]/[RUN/]METRIC[:RANK]``. Collectives and copies of one
file are two journals, so there are two readers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace

import msgspec

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_figure
from cclmark.importing.run import ForeignRun, ImportedRow, ImportedTransfer, ToolSettings, UsualSize
from cclmark.plan.transfers import Transfer
from cclmark.results.schema import DeviceDescription

_COLLECTIVE_FIGURE = "that of nccl-tests: the mean of its operations"
_COPY_FIGURES = {
    "gpu-copy-bw": "of gpu-copy-bw the size over the bandwidth, by the device's clock",
    "ib-loopback": "of ib-loopback the size over perftest's average bandwidth within a host",
    "ib-traffic": "of ib-traffic the size over the largest bandwidth, or the largest latency, that "
    "perftest printed for a pair of hosts, while the other pairs of its line ran too",
}
_KEY = re.compile(
    r"(?P<name>[a-z][\w-]{0,40})(?P<note>:[\w.-]{1,60})?/(?:(?P<run>\d{1,4})/)?(?P<metric>\S.*)"
)
_COLLECTIVE = re.compile(
    r"(?P<operation>[a-z]+)(?P<group>_\d+_\d+:|_)(?P<size>\d{1,16})_(?P<what>time|algbw|busbw)"
    r"(?::(?P<rank>\d{1,5}))?"
)
_GPU = re.compile(
    r"(?P<start>cpu|gpu\d{1,3})_(?P<joint>to|and)_(?P<end>cpu|gpu\d{1,3})(?:_(?P<way>read|write))?"
    r"_by_(?P<engine>sm|dma)(?:_under_numa(?P<numa>\d{1,3}))?_bw(?::(?P<rank>\d{1,5}))?"
)
_LOOPBACK = re.compile(
    r"ib_(?P<verb>write|read|send)_bw_(?P<size>\d{1,12}):(?P<device>\d{1,3})(?::\d{1,5})?"
    r"|IB_(?P<old>write|read|send)_(?P<old_size>\d{1,12})_Avg_(?P<old_device>\d{1,3})(?::\d{1,5})?"
)
_TRAFFIC = re.compile(
    r"ib_(?P<verb>write|read|send)_(?P<what>bw|lat)_(?P<size>\d{1,12})"
    r"(?:_(?P<memory>[cg]pu-to-[cg]pu))?_\d{1,6}_\d{1,6}"
    r":(?P<server>[^_:\s]{1,255})_(?P<client>[^_:\s]{1,255})(?::(?P<process>\d{1,4}))?"
)
_OPERATIONS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    **{name: name for name in ("broadcast", "reduce", "alltoall")},
}
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_ROOTED = ("broadcast", "reduce")
_LIBRARIES = {"nccl-bw": "nccl", "rccl-bw": "rccl"}
_COLLECTIVES = re.compile(r'"[nr]ccl-bw(?::[\w.-]{1,60})?/')
_COPIES = re.compile(r'"(?:gpu-copy-bw|ib-loopback|ib-traffic)(?::[\w.-]{1,60})?/')
_UNKNOWN = "of an unknown form"
_USUAL = UsualSize(256 << 20, "gpu-copy-bw (--size)")
_MIB = float(1 << 20)  # MB/s of old versions of ib-loopback
_MOST_DEVICES = 256
_MOST_NAMED = 12


class _Printed(str):
    """A number as it is written in the text."""


def is_superbench(lines: list[TextLine]) -> int | None:
    """Returns the first line with figures of collectives, None if there is none."""
    return next((line.number for line in lines if _is_summary(line, _COLLECTIVES)), None)


def is_superbench_copies(lines: list[TextLine]) -> int | None:
    """Returns the first line with figures of copies, None if any has figures of collectives."""
    if is_superbench(lines) is not None:
        return None
    return next((line.number for line in lines if _is_summary(line, _COPIES)), None)


def _is_summary(line: TextLine, metric: re.Pattern[str]) -> bool:
    words = line.text.lstrip()
    return words.startswith("{") and '"node"' in words and metric.search(words) is not None


def read_superbench(text: Text) -> ForeignRun:
    """Reads the collectives of a file. Raises UsageError for a line that cannot be read."""
    return _Reader(text, copies=False).read()


def read_superbench_copies(text: Text) -> ForeignRun:
    """Reads the copies of a file. Raises UsageError for a line that cannot be read."""
    return _Reader(text, copies=True).read()


class _Reader:
    def __init__(self, text: Text, *, copies: bool) -> None:
        self._text = text
        self._copies = copies
        figure = "" if copies else _COLLECTIVE_FIGURE
        self._run = ForeignRun("SuperBench", figure, "device" if copies else "host", "nccl")
        self._run.facts = ToolSettings(timing="")
        self._node = ""
        self._left_out: dict[str, Counter[str]] = {}  # figures of each benchmark, for each reason
        self._notes: set[str] = set()
        self._is_halved = False
        self._rows: dict[tuple[str, str, str, str, int], ImportedRow] = {}
        self._copied: dict[tuple[Transfer, int | None], str] = {}
        self._figures: dict[str, str] = {}
        self._places: dict[tuple[str, int], int] = {}  # GPUs, adapters and hosts: their devices

    def read(self) -> ForeignRun:
        """Reads all lines."""
        lines = [line for line in self._text.lines() if line.text.strip()]
        for line in lines:
            if not line.text.lstrip().startswith("{"):
                continue
            try:
                found = json.loads(line.text, parse_float=_Printed, parse_int=_Printed)
            except (ValueError, RecursionError):
                if line is lines[-1]:
                    self._run.notices.append(f"line {line.number}: truncated, omitted")
                    self._run.whole = False
                    continue
                raise self._text.refuse(line.number, "this line is not complete JSON") from None
            if not isinstance(found, dict) or type(found.get("node")) is not str:
                raise self._text.refuse(
                    line.number, 'this line does not contain "node", the name of a host'
                )
            self._take_node(line, found.pop("node"))
            for key, value in found.items():
                self._metric(line, key, value)
        return self._finish()

    def _take_node(self, line: TextLine, name: str) -> None:
        if self._node and name != self._node:
            raise self._text.refuse(
                line.number,
                f"node {name[:80]} here, {self._node[:80]} above: import the nodes one by one, for "
                f"example grep '\"{name[:80]}\"' FILE | cclmark import -",
            )
        self._node = name

    def _metric(self, line: TextLine, key: str, value: object) -> None:
        found = _KEY.fullmatch(key)
        name = found["name"] if found is not None else key.partition("/")[0][:40]
        if found is None or value is None:
            self._leave(_UNKNOWN if found is None else "without a value", name)
            return
        metric = found["metric"]
        if metric.partition(":")[0] == "return_code":
            if name in _LIBRARIES or name in _COPY_FIGURES:
                self._ended(key, value)
            return
        is_collective = name in _LIBRARIES
        if not is_collective and name not in _COPY_FIGURES:
            self._leave(
                "the size is not in the file"
                if name == "mem-bw"
                else "no communication that is imported",
                name,
            )
        elif is_collective == self._copies:
            other = "superbench" if self._copies else "superbench-copies"
            self._leave(f"import them with --format {other}", name)
        else:
            figure = read_figure(value) if isinstance(value, _Printed) else None
            if figure is None and str(value).startswith("-"):
                self._leave("the benchmark failed", name)
            elif figure is None:
                raise self._text.refuse(
                    line.number, f"{key[:80]} is {str(value)[:40]}, not a figure"
                )
            elif is_collective:
                self._collective(line, found, figure)
            else:
                self._copy(line, found, figure)

    def _leave(self, reason: str, name: str) -> None:
        self._left_out.setdefault(reason, Counter())[name] += 1

    def _ended(self, key: str, value: object) -> None:
        if value != "0":
            self._run.failed = True
            self._run.exit_code, self._run.message = 1, f"{key[:80]} is {str(value)[:20]}"

    def _collective(self, line: TextLine, key: re.Match[str], figure: PrintedFigure) -> None:
        """Adds a figure to the row of its case."""
        name, metric = key["name"], _COLLECTIVE.fullmatch(key["metric"])
        if metric is None or metric["operation"] not in _OPERATIONS:
            self._leave(_UNKNOWN, name)
            return
        if metric["group"] != "_":
            self._leave("of groups of nodes that the file does not name", name)
            return
        if metric["rank"] not in (None, "0"):
            self._leave("of several processes at once", name)
            return
        note = (key["note"] or "").removeprefix(":")
        self._notes.add(f"{name}{note and ':'}{note}")
        operation, size = _OPERATIONS[metric["operation"]], int(metric["size"])
        case = (name, note, key["run"] or "", operation, size)
        row = self._rows.get(case) or ImportedRow(
            line=line.number,
            size_bytes=size,
            in_place=False,
            operation=operation,
            root=0 if operation in _ROOTED else None,
            ccl=_LIBRARIES[name] + (f":{note}" if note else ""),
        )
        unit = 1e-6 if metric["what"] == "time" else 1e9
        value = figure.times(unit)
        if metric["what"] == "time":
            self._rows[case] = replace(row, time=value)
        elif metric["what"] == "algbw":
            self._rows[case] = replace(row, algbw=value)
        else:
            self._rows[case] = replace(row, busbw=value)

    def _copy(self, line: TextLine, key: re.Match[str], figure: PrintedFigure) -> None:
        """Adds a copy."""
        name, metric = key["name"], key["metric"]
        readers = {"gpu-copy-bw": self._gpu, "ib-loopback": self._loopback}
        if key["note"] == ":correctness":
            self._leave("of a check of correctness", f"{name}:correctness")
            return
        found = readers.get(name, self._traffic)(metric)
        if isinstance(found, str):
            self._leave(found, name)
            return
        transfer, size_bytes, unit = found
        source = f"{name}{key['note'] or ''}{'/' if key['run'] else ''}{key['run'] or ''}"
        place = (transfer, size_bytes)
        if self._copied.setdefault(place, source) != source:
            self._leave(f"the same copies as of {self._copied[place]}", source)
            return
        value = figure.value * unit
        if value <= 0 or size_bytes == 0:
            self._leave("without data", name)
            return
        self._figures.setdefault(name, _COPY_FIGURES[name])
        if transfer.measure == "latency":
            copied = ImportedTransfer(line.number, transfer, size_bytes, time_s=value)
        else:
            rates = (value,) if len(transfer.flows) == 1 else ()
            copied = ImportedTransfer(line.number, transfer, size_bytes, rates, value)
        self._run.copies.append(copied)

    def _gpu(self, metric: str) -> tuple[Transfer, int | None, float] | str:
        """Returns a copy of gpu-copy-bw, its size and its unit, or the reason to omit it."""
        found = _GPU.fullmatch(metric)
        if found is None:
            return "of several copies by one kernel" if "_all" in metric else _UNKNOWN
        if found["rank"] not in (None, "0"):
            return "of several processes at once"
        ends = [found["start"], found["end"]]
        both, on_host = found["joint"] == "and", "cpu" in ends
        numbers = [int(end.removeprefix("gpu")) for end in ends if end != "cpu"]
        if both and len({*numbers}) < 2:
            return "both directions at once within a device, or with the host"
        on_two = len({*numbers}) == 2
        if (
            not numbers
            or max(numbers) >= _MOST_DEVICES
            or on_host != (found["numa"] is not None)
            or on_two != (found["way"] is not None)
        ):
            return _UNKNOWN
        devices = [self._place("GPU", number) for number in numbers]
        start, end = devices[0], devices[-1]
        unit = 1e9
        if start == end and not on_host:
            self._is_halved = True
            unit = 0.5e9
        flows = ((start, end), (end, start)) if both else ((start, end),)
        transfer = Transfer(
            measure="bidirectional" if both else "unidirectional",
            scope="host" if on_host else "local" if start == end else "pairs",
            engine="SM" if found["engine"] == "sm" else "CE",
            direction=found["way"] or "write",
            flows=flows,
            size_bytes=0,
            host_memory="pinned" if on_host else "",
            to_host=ends[1] == "cpu",
            numa=f"node {found['numa']}" if on_host else "",
        )
        return transfer, None, unit

    def _loopback(self, metric: str) -> tuple[Transfer, int | None, float] | str:
        """Returns a copy of ib-loopback, by an adapter to itself."""
        found = _LOOPBACK.fullmatch(metric)
        if found is None:
            return _UNKNOWN
        verb = found["verb"] or found["old"]
        device = int(found["device"] or found["old_device"])
        if device >= _MOST_DEVICES:
            return _UNKNOWN
        place = self._place("adapter", device)
        transfer = _by_verbs(verb, (place, place), "local")
        size = int(found["size"] or found["old_size"])
        return transfer, size, 1e9 if found["verb"] else _MIB

    def _traffic(self, metric: str) -> tuple[Transfer, int | None, float] | str:
        """Returns a copy of ib-traffic, between two hosts."""
        found = _TRAFFIC.fullmatch(metric)
        if found is None:
            return _UNKNOWN
        if len(self._places) >= _MOST_DEVICES:
            return "of too many hosts"
        process = int(found["process"] or 0)
        client = self._place(found["client"], process)
        server = self._place(found["server"], process)
        verb = found["verb"]
        flow = (server, client) if verb == "read" else (client, server)
        transfer = _by_verbs(verb, flow, "pairs", found["memory"] or "")
        if found["what"] == "bw":
            return transfer, int(found["size"]), 1e9
        method = "round-trip" if verb == "read" else "half-round-trip"
        latency = msgspec.structs.replace(transfer, measure="latency", method=method)
        return latency, int(found["size"]), 1e-6

    def _place(self, kind: str, number: int) -> int:
        """Returns the device of this journal, counted in the order of the file."""
        return self._places.setdefault((kind, number), len(self._places))

    def _finish(self) -> ForeignRun:
        run = self._run
        self._add_rows()
        run.devices = self._devices() if run.copies else []
        if run.copies:
            run.figure = "; ".join(self._figures.values())
            run.usual_size = _USUAL
        if self._is_halved:
            run.notices.append(
                "copies within a device: the tool counts their bytes twice, read and written; the "
                "journal has half of its bandwidth"
            )
        for reason, names in self._left_out.items():
            listed = [f"{name} ({count})" for name, count in sorted(names.items())]
            more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
            run.notices.append(
                f"left out, {reason}: {', '.join(listed[:_MOST_NAMED])}{more} (figures)"
            )
        return run

    def _add_rows(self) -> None:
        run = self._run
        several = len(self._notes) > 1
        for (name, *_), row in self._rows.items():
            library = row.ccl if several else _LIBRARIES[name]
            run.rows.append(replace(row, ccl=library))
        if not run.rows:
            return
        run.usual = ("float32", "sum")
        run.notices.append(
            "the file does not contain the placement: out-of-place, the default of SuperBench, is "
            "assumed"
        )
        if several:
            run.notices.append(
                f"of {', '.join(sorted(self._notes))}: the annotation follows the library's name"
            )

    def _devices(self) -> list[DeviceDescription]:
        found = []
        for (kind, number), place in self._places.items():
            is_local = kind in ("GPU", "adapter")
            found.append(
                DeviceDescription(
                    rank=place,
                    host=self._node if is_local else kind,
                    runtime="",
                    index=number,
                    name=f"{kind if is_local else 'process'} {number}",
                    memory_bytes=0,
                )
            )
        return found


def _by_verbs(verb: str, flow: tuple[int, int], scope: str, memory: str = "") -> Transfer:
    return Transfer(
        measure="unidirectional",
        scope=scope,
        engine="RDMA",
        direction="read" if verb == "read" else "write",
        flows=(flow,),
        size_bytes=0,
        kernel=f"{verb} {memory}".strip(),
    )
