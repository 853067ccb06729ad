"""The testcases of nvbandwidth and what their figures are, from its sources (versions 0.1 to 0.8).

The row of a matrix is always the device that copies. The arrow in the titles is opposite to the
data, so the name of the testcase counts and not the title.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cclmark.importing.cleaned_text import PrintedFigure
from cclmark.importing.line_reader import placed
from cclmark.importing.run import ForeignRun, ImportedTransfer, UsualSize, measured
from cclmark.plan.transfers import LATENCY_BYTES, Transfer

FIGURE = (
    "the size over the tool's bandwidth, the median of its samples of 16 copies after 4 warm-up "
    "copies (the mean with -m); the total of both directions is the sum of two bandwidths"
)
_FIRST_WITH_LARGE_SIZE = (0, 7)
_FIRST_WITH_DEVICE_LATENCY = (0, 8)
_NAME = re.compile(
    r"(?P<host>host_to_device|device_to_host)_memcpy_(?P<host_engine>ce|sm)"
    r"|device_to_device_(?P<both>bidirectional_)?memcpy_(?P<way>read|write)_(?P<engine>ce|sm|tma)"
    r"|(?P<many>all_to_one|one_to_all)_(?P<many_way>read|write)_(?P<many_engine>ce|sm)"
    r"|device_local_copy(?:_(?P<local>sm|tma))?"
    r"|(?P<latency>device_to_device_latency_sm)"
)
_PARTS = re.compile(r"\) (?P<part>Read1|Read2|Write1|Write2|Total) bandwidth")


@dataclass(frozen=True)
class NvbandwidthTest:
    """A testcase. ``common``: its transfer without flows. ``rows``: 1, or 0 for one of each device.

    ``is_reversed``: whether data of an all-to-one testcase leaves the device of the column.
    """

    name: str
    common: Transfer
    rows: int = 0
    is_reversed: bool = False


def test_of(name: str, version: str = "") -> NvbandwidthTest | str:
    """Returns the testcase, or the reason why its figures are left out.

    Before version 0.8 device_to_device_latency_sm chased pointers into host memory (nvbandwidth's
    changelog).
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return _reason(name)
    if found["latency"]:
        return _latency(name, version)
    if found["host"]:
        common = _transfer("unidirectional", "host", found["host_engine"], "write")
        to_host = found["host"] == "device_to_host"
        return NvbandwidthTest(
            name,
            msgspec.structs.replace(common, host_memory="pinned", numa="near", to_host=to_host),
            rows=1,
        )
    if found["way"]:
        measure = "bidirectional" if found["both"] else "unidirectional"
        return NvbandwidthTest(name, _transfer(measure, "pairs", found["engine"], found["way"]))
    if found["many"]:
        # Reads copy from the buffers that writes fill, so the data flows the other way.
        outward = (found["many"] == "one_to_all") == (found["many_way"] == "write")
        scope = "one-to-all" if outward else "all-to-one"
        common = _transfer("unidirectional", scope, found["many_engine"], found["many_way"])
        return NvbandwidthTest(name, common, rows=1, is_reversed=outward)
    return NvbandwidthTest(
        name, _transfer("unidirectional", "local", found["local"] or "ce", "write"), rows=1
    )


def _latency(name: str, version: str) -> NvbandwidthTest | str:
    number = version_number(version)
    if number is not None and number < _FIRST_WITH_DEVICE_LATENCY:
        return "before version 0.8 it is the latency of host memory"
    common = _transfer("latency", "pairs", "sm", "read")
    common = msgspec.structs.replace(common, size_bytes=LATENCY_BYTES, method="chase")
    return NvbandwidthTest(name, common)


def _transfer(measure: str, scope: str, engine: str, direction: str) -> Transfer:
    return Transfer(
        measure=measure,
        scope=scope,
        engine="CE" if engine == "ce" else "SM",
        direction=direction,
        flows=(),
        size_bytes=0,
        kernel="tma" if engine == "tma" else "",
    )


def _reason(name: str) -> str:
    if name.startswith("multinode_"):
        return "its devices belong to several processes"
    if "host" in name and "latency" in name:
        return "cclmark p2p does not measure the latency of host memory"
    if name.startswith(("all_to_host", "host_to_all")) or "bidirectional" in name:
        return "the figure is of one copy beside others that are not measured"
    return "cclmark does not support this testcase"


def usual_size(version: str) -> UsualSize | None:
    """Returns the default size, which version 0.7 raised; None if the version is unknown."""
    number = version_number(version)
    if number is None:
        return None
    size_mib = 512 if number >= _FIRST_WITH_LARGE_SIZE else 64
    return UsualSize(size_mib << 20, f"nvbandwidth {version}")


def version_number(version: str) -> tuple[int, ...] | None:
    """Returns the parts of a version such as 0.10.0; None if it is unknown."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})", version)
    return None if found is None else (int(found[1]), int(found[2]))


def part_of(title: str) -> str:
    """Returns the part of a bidirectional testcase that a title names, empty for none."""
    found = _PARTS.search(title)
    return "" if found is None else found["part"]


@dataclass(frozen=True)
class CellFigure:
    """A figure of a matrix with its place; in GB/s, or in ns for a latency."""

    row: int
    column: int
    figure: PrintedFigure
    line: int


def single_rows(
    test: NvbandwidthTest, cells: Sequence[CellFigure], devices: int
) -> list[ImportedTransfer]:
    """Returns the transfers of a matrix that shows the whole measurement."""
    found = []
    for cell in cells:
        transfer = msgspec.structs.replace(
            test.common, flows=_flows(test, cell.row, cell.column, devices)
        )
        if not transfer.flows:
            continue
        is_latency = transfer.measure == "latency"
        size_bytes, unit = (LATENCY_BYTES, 1e-9) if is_latency else (None, 1e9)
        found.append(measured(cell.line, transfer, size_bytes, cell.figure.value * unit))
    return found


def _flows(
    test: NvbandwidthTest, row: int, column: int, devices: int
) -> tuple[tuple[int, int], ...]:
    scope = test.common.scope
    if scope == "pairs":
        return placed(test.common, row, column).flows
    if scope in ("host", "local"):
        return ((column, column),)
    others = [device for device in range(devices) if device != column]
    return tuple((column, one) if test.is_reversed else (one, column) for one in others)


def both_ways(
    test: NvbandwidthTest, parts: dict[str, dict[tuple[int, int], CellFigure]], notices: list[str]
) -> list[ImportedTransfer]:
    """Returns the transfers of a bidirectional testcase from its matrices, of which Total exists.

    Part 1 is the copy from the column's device to the row's, part 2 the copy back; the destination
    performs reads, the source writes.
    """
    is_read = test.common.direction == "read"
    first, second = ("Read1", "Read2") if is_read else ("Write2", "Write1")
    found, alone = [], 0
    for (row, column), total in parts["Total"].items():
        cells = [parts.get(name, {}).get((row, column)) for name in (first, second)]
        rates = tuple(cell.figure.value * 1e9 for cell in cells if cell is not None)
        alone += len(rates) < len(cells)
        transfer = placed(test.common, row, column)
        found.append(
            ImportedTransfer(
                total.line,
                transfer,
                None,
                rates if len(rates) == len(cells) else (),
                total.figure.value * 1e9,
            )
        )
    if alone:
        notices.append(
            f"{test.name}: {alone} totals have no bandwidths of both directions, so their time is "
            "computed from the total"
        )
    return found


def settle(run: ForeignRun, missing: str) -> None:
    """Adds what holds for all figures of a run: the default size, and notices about definitions.

    ``missing``: describes where the version is due, if it is unknown.
    """
    run.usual_size = usual_size(run.version)
    if run.usual_size is None:
        run.no_usual_size = (
            f"{missing}: the tool's default is 64 MiB before version 0.7 and 512 MiB since"
        )
    transfers = [row.transfer for row in run.copies]
    if any(one.scope in ("all-to-one", "one-to-all") for one in transfers):
        run.notices.append(
            "all-to-one and one-to-all: the text does not contain which devices took part; every "
            "other device is assumed"
        )
    if any(one.engine == "SM" and one.measure != "latency" for one in transfers):
        run.notices.append(
            "SM: nvbandwidth's own kernel, which copies a whole number of elements for each thread"
        )
    if any(one.measure == "latency" for one in transfers):
        run.notices.append(
            "latency: a chase of pointers in 2 MiB, the mean of a million loads over all "
            "multiprocessors"
        )
