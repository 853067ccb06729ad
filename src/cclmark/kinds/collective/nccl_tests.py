"""The text format of nccl-tests 2.19.6, readable by the same parsers.

The layout follows ``writeDeviceReport``, ``writeResultHeader``, ``writeBenchmarkLineBody`` and
``writeResultFooter`` in nccl-tests' src/util.cu. A row has 13 columns when split at white space; a
placement without figures has N/A in its four columns, so that no parser confuses the placements.
nccl-tests runs one operation with one library on one number of devices, so each of these begins a
new block.

Information that rows cannot contain (skipped sizes, findings of the check) is in comments at the
end of the block, because some parsers read a ``#`` after the first row as the end of the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cclmark.document.exporter import Exporter
from cclmark.document.head import buffer_lines
from cclmark.document.placement_rows import PlacementRow, RowCollector
from cclmark.document.remarks import closing, comment_lines, problem_lines
from cclmark.document.text import BYTES_PER_GB, US_PER_S, counted, token
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import DeviceDescription, Footer, Header

_DTYPES = {
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "fp8e4m3": "f8e4m3",
    "fp8e5m2": "f8e5m2",
}

_COLUMNS = (
    f"#\n# {'':>10}  {'':>12}  {'':>8}  {'':>6}  {'':>6}"
    "           out-of-place                       in-place          \n"
    f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
    + f"  {'time':>7}  {'algbw':>6}  {'busbw':>6}  {'#wrong':>6}" * 2
    + f" \n# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}"
    + f"  {'(us)':>7}  {'(GB/s)':>6}  {'(GB/s)':>6}  {'':>6}" * 2
    + " \n"
)


@dataclass
class _Block:
    """The data for the end of the table of one operation on one number of ranks."""

    program: str
    ranks: int
    wrong_cases: int = 0
    busbw_gb_per_s: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class NcclTestsExporter(Exporter[CaseResult]):
    """Microseconds, and GB/s of 10^9 bytes."""

    def __init__(self) -> None:
        self._rows = RowCollector()
        self._block: _Block | None = None
        self._version = ""
        self._settings = ""
        self._devices: list[DeviceDescription] = []

    def begin(self, header: Header) -> str:
        """Returns the versions of the library and of cclmark; the rest of the head follows."""
        self._version = header.cclmark_version
        self._settings = _settings(header) + "#\n# Using devices\n"
        self._devices = header.devices
        lines = [f"cclmark version {header.cclmark_version}, in the layout of nccl-tests 2.19.6"]
        lines += [f"{it.name} {it.version} from {it.path}" for it in header.libraries]
        lines += [f"buffers {line}" for line in buffer_lines(header)]
        lines += header.notices
        return comment_lines(lines)

    def add(self, result: CaseResult) -> str:
        """Returns the rows that ``result`` completes."""
        return "".join(self._row(row) for row in self._rows.add(result))

    def end(self, footer: Footer | None) -> str:
        """Returns the pending row and the end of its table."""
        text = "".join(self._row(row) for row in self._rows.finish())
        text += "" if self._block is None else _close(self._block)
        message = closing(footer)
        return text + (f"# error: {message}\n" if message else "\n")

    def _row(self, row: PlacementRow) -> str:
        text, block = self._open(row)
        block.notes += problem_lines(row)
        for result in row.results:
            block.wrong_cases += result.status == "wrong"
            if result.summary is not None:
                block.busbw_gb_per_s.append(result.summary.busbw_bytes_per_s / BYTES_PER_GB)
        return text if row.summary is None else text + _line(row)

    def _open(self, row: PlacementRow) -> tuple[str, _Block]:
        operation, ccl, ranks = token(row.case.operation), token(row.case.ccl), row.case.ranks
        devices = self._devices[:ranks]
        listed = len(devices) == ranks and all(one.host and one.index >= 0 for one in devices)
        told = "" if listed else f", {counted(ranks, 'rank')}"
        program = f"{operation}_perf (cclmark {self._version}, {ccl}{told})"
        if self._block is not None and (self._block.program, self._block.ranks) == (program, ranks):
            return "", self._block
        text = "" if self._block is None else f"{_close(self._block)}\n"
        self._block = _Block(program, ranks)
        text += f"# Collective test starting: {program}\n{self._settings}"
        return text + "".join(map(_device, devices)) + _COLUMNS, self._block


def _close(block: _Block) -> str:
    busbw = block.busbw_gb_per_s
    average = sum(busbw) / len(busbw) if busbw else float("nan")
    return "".join(f"# {note}\n" for note in block.notes) + (
        f"# {'Out of bounds values':<20} : {block.wrong_cases} "
        f"{'FAILED' if block.wrong_cases else 'OK'}\n"
        f"# {'Avg bus bandwidth':<20} : {average:g} \n"
        f"#\n# Collective test concluded: {block.program}\n#\n"
    )


def _settings(header: Header) -> str:
    settings = header.settings
    graph = settings.graph_launches if settings.timing == "graph" else 0
    step = (
        f"{settings.factor:g}(factor)" if settings.factor > 1 else f"{settings.step_bytes}(bytes)"
    )
    return (
        f"# nThread 1 nGpus 1 minBytes {settings.begin_bytes} maxBytes {settings.end_bytes} "
        f"step: {step} warmup iters: {settings.warmup or 0} iters: {settings.iterations or 0} "
        f"agg iters: {settings.group} validation: {settings.check} "
        f"graph: {graph} unalign: 0\n"
    )


def _device(device: DeviceDescription) -> str:
    bus = re.match(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)", device.pci_bus_id)
    domain, number, slot = (int(part, 16) for part in bus.groups()) if bus else (0, 0, 0)
    return (
        f"#  Rank {device.rank:2d} Group  0 Pid {device.pid:6d} on {token(device.host):>10} "
        f"device {device.index:2d} [{domain:04x}:{number:02x}:{slot:02x}] {device.name}\n"
    )


def _line(row: PlacementRow) -> str:
    case = row.case
    dtype = token(_DTYPES.get(case.dtype, case.dtype))
    reduction = token(case.reduction or "none")
    root = -1 if case.root is None else case.root
    head = f"{case.size_bytes:12d}  {case.count:12d}  {dtype:>8}  {reduction:>6}  {root:6d}"
    return f"{head}{_placement(row.out_of_place)}{_placement(row.in_place)}\n"


def _placement(result: CaseResult | None) -> str:
    if result is None or result.summary is None:
        return f"  {'N/A':>7}  {'N/A':>6}  {'N/A':>6}  {'N/A':>6}"
    time = fit(result.summary.time_s * US_PER_S, 7)
    algbw = fit(result.summary.algbw_bytes_per_s / BYTES_PER_GB, 6)
    busbw = fit(result.summary.busbw_bytes_per_s / BYTES_PER_GB, 6)
    check = result.verification
    wrong = f"{'N/A':>6}" if check is None else f"{float(check.wrong):6g}"
    return f"  {time}  {algbw}  {busbw}  {wrong}"


def fit(value: float, width: int) -> str:
    """Formats ``value`` in ``width`` characters with at most two decimals (``getFloatStr``)."""
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"[:width]
