"""Reads tools that print lines of JSON: mscclpp-test and SuperBench."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec

from cclmark.base.grouping import abridged
from cclmark.journal.schema import DeviceDescription
from cclmark.work.transfers import Transfer
from cclmark_importers.cleaned_text import (
    MOST_RANKS,
    Printed,
    PrintedFigure,
    Text,
    TextLine,
    operation_of,
    read_count,
    read_figure,
)
from cclmark_importers.line_reader import (
    Importer,
    LineReader,
    RunMarks,
    importer,
)
from cclmark_importers.run import ImportedRow, RankCount, UsualSize, listed_device, message_transfer


class _JsonLineReader(LineReader):
    """Reads a text of which each line with an opening brace is an object of JSON."""

    def take(self, line: TextLine, words: str) -> None:
        """Reads the next line, if it is an object."""
        if not words.startswith("{"):
            return
        try:
            found = json.loads(words, parse_float=Printed, parse_int=Printed)
        except (ValueError, RecursionError):
            if line is not self.lines[-1]:
                raise self.refuse(line, "this line is not complete JSON") from None
            self.truncated(line)
            return
        self.take_object(line, found)

    def take_object(self, line: TextLine, found: Any) -> None:
        """Reads an object, whose numbers are ``Printed``."""
        raise NotImplementedError


# mscclpp-test (``-o``): a line for each measurement.

_MSCCLPP_FIGURE = (
    "the mean over ranks of the mean of operations in launches of a captured graph, by the host's "
    "clock"
)
_KEYS = {"name", "kernel", "ranks", "ranksPerNode", "size", "time", "algBw", "busBw"}
_OUT_OF_PLACE = ("alltoall", "sendrecv")
_OUT_OF_PLACE_KERNELS = (2, 6, 7)  # of all_reduce; all other operations have one placement
# Of a share: the tool writes all digits, and computes the bandwidths from the time.
_COMPUTED = 5e-7
_MOST = 1e12


def _is_mscclpp(words: str) -> bool:
    return words.startswith("{") and '"algBw"' in words and '"kernel"' in words


class _MscclppReader(_JsonLineReader):
    def __init__(self, text: Text) -> None:
        facts = {"timing": "graph", "across_ranks": "mean"}
        super().__init__(text, "mscclpp-test", _MSCCLPP_FIGURE, "host", "mscclpp", **facts)

    def take_object(self, line: TextLine, found: Any) -> None:
        if not isinstance(found, dict) or not found.keys() >= _KEYS:
            missing = ", ".join(sorted(_KEYS - found.keys())) if isinstance(found, dict) else ""
            raise self.refuse(line, f"this line does not contain {missing or 'its fields'}")
        operation = operation_of(str(found["name"]))
        if operation is None:
            name = str(found["name"])[:40]
            self.note(line, f"{name} is left out: no operation of cclmark")
            return
        size = self._whole(line, found, "size", 1, 1 << 50)
        ranks = self._whole(line, found, "ranks", 1, MOST_RANKS)
        kernel = self._whole(line, found, "kernel", 0, 10_000)
        is_in_place = operation not in _OUT_OF_PLACE
        if operation == "all_reduce":
            is_in_place = kernel not in _OUT_OF_PLACE_KERNELS
        time, algbw, busbw = self._figures(line, found)
        self.run.rows.append(
            ImportedRow(
                line=line.number,
                size_bytes=size,
                in_place=is_in_place,
                operation=operation,
                dtype="int32",
                reduction="sum",
                time=time.times(1e-6),
                algbw=algbw.times(1e9),
                busbw=busbw.times(1e9),
                ranks=RankCount(ranks, line.number),
                ccl=f"mscclpp:kernel{kernel}",
            )
        )

    def finish(self) -> None:
        if self.run.rows:
            self.run.notices += [
                "ccl: the kernel of mscclpp-test (-k) follows mscclpp: in the name of the library",
                "the lines do not contain the placement: it is that of the operation and the "
                "kernel in mscclpp-test's sources",
            ]

    def _whole(self, line: TextLine, found: dict[str, Any], key: str, least: int, most: int) -> int:
        value = found[key]
        number = read_count(value) if isinstance(value, Printed) else None
        if number is None or not least <= number <= most:
            shown = str(value)[:40]
            raise self.refuse(line, f"{key} is {shown}: expected a number from {least} to {most}")
        return number

    def _figures(self, line: TextLine, found: dict[str, Any]) -> list[PrintedFigure]:
        """Returns time and bandwidths with their rounding errors.

        The tool writes all digits, but lines of documents are rounded, to a number of decimals or
        of digits. A number does not show it, because zeros at its end are not written: the figure
        of the line with the most does.
        """
        printed = []
        for key in ("time", "algBw", "busBw"):
            value = found[key]
            figure = read_figure(value) if isinstance(value, Printed) else None
            if figure is None or figure.value >= _MOST:
                raise self.refuse(line, f"{key} is {str(value)[:40]}, not a figure")
            printed.append(Decimal(str(value).removesuffix(".0")))
        decimals = max(_decimals(one) for one in printed)
        digits = max(_digits(one) for one in printed)
        return [
            PrintedFigure(
                float(one),
                max(
                    float(one) * _COMPUTED,
                    0.5 * 10.0**-decimals,
                    0.5 * 10.0 ** (one.adjusted() - digits + 1) if one else 0.0,
                ),
            )
            for one in printed
        ]


def _digits(number: Decimal) -> int:
    """Returns the written digits, without the zeros that a whole number may have for its size."""
    whole = number == number.to_integral_value()
    return len((number.normalize() if whole else number).as_tuple().digits)


def _decimals(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # of every finite number
    return max(0, -exponent)


MSCCLPP = importer(
    _MscclppReader, _is_mscclpp, marks=RunMarks(results=_is_mscclpp, by_results=True)
)


# SuperBench (microsoft/superbenchmark): a line for each node. A key is a metric:
# ``BENCHMARK[:ANNOTATION]/[RUN/]METRIC[:RANK]``. Collectives and copies of one file are two
# journals, so there are two formats.

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
    name.replace("_", ""): name
    for name in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall")
}
_LIBRARIES = {"nccl-bw": "nccl", "rccl-bw": "rccl"}
_COLLECTIVES = re.compile(r'"[nr]ccl-bw(?::[\w.-]{1,60})?/')
_COPIES = re.compile(r'"(?:gpu-copy-bw|ib-loopback|ib-traffic)(?::[\w.-]{1,60})?/')
_UNKNOWN = "of an unknown form"
_USUAL = UsualSize(256 << 20, "gpu-copy-bw (--size)")
_MIB = float(1 << 20)  # MB/s of old versions of ib-loopback
_MOST_DEVICES = 256
_MOST_NAMED = 12


def _has_metric(metric: re.Pattern[str], words: str) -> bool:
    return words.startswith("{") and '"node"' in words and metric.search(words) is not None


def _first_metric(metric: re.Pattern[str], lines: list[TextLine]) -> int | None:
    return next((line.number for line in lines if _has_metric(metric, line.text.lstrip())), None)


def _first_copy(lines: list[TextLine]) -> int | None:
    """Returns the first line with figures of copies, None if any has figures of collectives."""
    has_collectives = _first_metric(_COLLECTIVES, lines) is not None
    return None if has_collectives else _first_metric(_COPIES, lines)


class _SuperBenchReader(_JsonLineReader):
    def __init__(self, text: Text, *, copies: bool) -> None:
        figure, clock = ("", "device") if copies else (_COLLECTIVE_FIGURE, "host")
        super().__init__(text, "SuperBench", figure, clock, "nccl", timing="")
        self._copies = copies
        self._node = ""
        self._left_out: dict[str, Counter[str]] = {}  # figures of each benchmark, for each reason
        self._notes: set[str] = set()
        self._is_halved = False
        self._rows: dict[tuple[str, str, str, str, int], ImportedRow] = {}
        self._copied: dict[tuple[Transfer, int | None], str] = {}
        self._figures: dict[str, str] = {}
        self._places: dict[tuple[str, int], int] = {}  # GPUs, adapters and hosts: their devices

    def take_object(self, line: TextLine, found: Any) -> None:
        if not isinstance(found, dict) or type(found.get("node")) is not str:
            raise self.refuse(line, 'this line does not contain "node", the name of a host')
        name = found.pop("node")
        if self._node and name != self._node:
            raise self.refuse(
                line,
                f"node {name[:80]} here, {self._node[:80]} above: import the nodes one by one, for "
                f"example grep '\"{name[:80]}\"' FILE | cclmark import -",
            )
        self._node = name
        for key, value in found.items():
            self._metric(line, key, value)

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
            figure = read_figure(value) if isinstance(value, Printed) else None
            if figure is None and str(value).startswith("-"):
                self._leave("the benchmark failed", name)
            elif figure is None:
                raise self.refuse(line, f"{key[:80]} is {str(value)[:40]}, not a figure")
            elif is_collective:
                self._collective(line, found, figure)
            else:
                self._copy(line, found, figure)

    def _leave(self, reason: str, name: str) -> None:
        self._left_out.setdefault(reason, Counter())[name] += 1

    def _ended(self, key: str, value: object) -> None:
        if value != "0":
            self.fail(f"{key[:80]} is {str(value)[:20]}")

    def _collective(self, line: TextLine, key: re.Match[str], figure: PrintedFigure) -> None:
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
            root=0,
            ccl=_LIBRARIES[name] + (f":{note}" if note else ""),
        )
        value = figure.times(1e-6 if metric["what"] == "time" else 1e9)
        figures: dict[str, Any] = {metric["what"]: value}
        self._rows[case] = replace(row, **figures)

    def _copy(self, line: TextLine, key: re.Match[str], figure: PrintedFigure) -> None:
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
        self.add_copy(line, transfer, size_bytes, value)

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
        transfer = _by_verbs(verb, "unidirectional", (place, place), "local")
        return transfer, int(found["size"] or found["old_size"]), 1e9 if found["verb"] else _MIB

    def _traffic(self, metric: str) -> tuple[Transfer, int | None, float] | str:
        found = _TRAFFIC.fullmatch(metric)
        if found is None:
            return _UNKNOWN
        if len(self._places) >= _MOST_DEVICES:
            return "of too many hosts"
        process = int(found["process"] or 0)
        client = self._place(found["client"], process)
        server = self._place(found["server"], process)
        verb, is_latency = found["verb"], found["what"] == "lat"
        flow = (server, client) if verb == "read" else (client, server)
        measure = "latency" if is_latency else "unidirectional"
        transfer = _by_verbs(verb, measure, flow, "pairs", found["memory"] or "")
        return transfer, int(found["size"]), 1e-6 if is_latency else 1e9

    def _place(self, kind: str, number: int) -> int:
        """Returns the device of this journal, counted in the order of the file."""
        return self._places.setdefault((kind, number), len(self._places))

    def finish(self) -> None:
        run = self.run
        self._add_rows()
        if run.copies:
            run.devices = self._devices()
            run.figure = "; ".join(self._figures.values())
            run.usual_size = _USUAL
        if self._is_halved:
            run.notices.append(
                "copies within a device: the tool counts their bytes twice, read and written; the "
                "journal has half of its bandwidth"
            )
        for reason, names in self._left_out.items():
            listed = [f"{name} ({count})" for name, count in sorted(names.items())]
            run.notices.append(f"left out, {reason}: {abridged(listed, _MOST_NAMED)} (figures)")

    def _add_rows(self) -> None:
        run = self.run
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
            name = f"{kind if is_local else 'process'} {number}"
            host = self._node if is_local else kind
            found.append(listed_device(place, name, host=host, index=number))
        return found


def _by_verbs(
    verb: str, measure: str, flow: tuple[int, int], scope: str, memory: str = ""
) -> Transfer:
    kernel = f"{verb} {memory}".strip()
    common = message_transfer("RDMA", kernel=kernel, measure=measure, is_read=verb == "read")
    return msgspec.structs.replace(common, scope=scope, flows=(flow,))


def _has_collectives(words: str) -> bool:
    return _has_metric(_COLLECTIVES, words)


def _has_copies_alone(words: str) -> bool:
    return _has_metric(_COPIES, words) and not _has_metric(_COLLECTIVES, words)


# A line has all figures of a node.
SUPERBENCH = Importer(
    lambda text, lines: _first_metric(_COLLECTIVES, lines),
    lambda text: _SuperBenchReader(text, copies=False).read(),
    [_has_collectives],
    RunMarks(results=_has_collectives, ends=[_has_collectives], by_results=True),
)
SUPERBENCH_COPIES = Importer(
    lambda text, lines: _first_copy(lines),
    lambda text: _SuperBenchReader(text, copies=True).read(),
    [_has_copies_alone],
    RunMarks(results=_has_copies_alone, ends=[_has_copies_alone], by_results=True),
)
