"""Transfers in other formats than the table: CSV, Markdown and PCCL's own text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cclmark.analysis.copies import checks_of, outliers_of
from cclmark.document.deviations import checks_text, deviation_text, series_title
from cclmark.document.device_labels import labels
from cclmark.document.grid import hidden_line
from cclmark.document.head import origin_of
from cclmark.document.markdown import escape, notice_paragraph
from cclmark.document.matrix import (
    LATENCY_OF_HOST_COPIES,
    Matrix,
    MatrixCollector,
    is_on_host,
    missing_figures,
)
from cclmark.document.paint import unpainted
from cclmark.document.reference_notes import ReferenceNotes, verdict_text
from cclmark.document.remarks import comment_lines
from cclmark.document.text import counted, figure
from cclmark.plan.transfers import DEFAULT_KERNEL, Transfer
from cclmark.references.copy_matching import slowest_matches
from cclmark.results.item_results import TransferResult
from cclmark.results.schema import Footer, Header

_PCCL_WIDTH = 10


class _ByMatrix:
    """The base of formats that print matrix by matrix."""

    def __init__(self, *, shares: bool, hosts: bool = False) -> None:
        self._shares = shares
        self._hosts = hosts
        self._results: list[TransferResult] = []

    def begin(self, header: Header) -> str:
        """Prepares the collection of matrices."""
        self._header = header
        self._names = labels(header.devices, hosts=self._hosts)
        self._collector = MatrixCollector(header, shares=self._shares, hosts=self._hosts)
        return self.opening()

    def add(self, result: TransferResult) -> str:
        """Returns the previous matrix if this result begins another."""
        self._results.append(result)
        return self._texts(self._collector.add(result))

    def end(self, footer: Footer | None) -> str:
        """Returns the last matrix and the closing text."""
        return self._texts(self._collector.finish()) + self.closing(footer)

    def _texts(self, matrices: Iterable[Matrix]) -> str:
        return "".join(self.matrix(matrix) for matrix in matrices)

    def opening(self) -> str:
        """Returns the text before the first matrix."""
        raise NotImplementedError

    def matrix(self, matrix: Matrix) -> str:
        """Returns one matrix."""
        raise NotImplementedError

    def closing(self, footer: Footer | None) -> str:
        """Returns the text after the last matrix."""
        raise NotImplementedError


class TransferMarkdown(_ByMatrix):
    """A table for each matrix, for issues and wikis."""

    def __init__(
        self, *, shares: bool, hosts: bool = False, references: ReferenceNotes | None = None
    ) -> None:
        """``references`` are compared with the slowest pairs."""
        super().__init__(shares=shares, hosts=hosts)
        self._references = references or ReferenceNotes()

    def opening(self) -> str:
        """Describes the machine in a sentence."""
        header = self._header
        groups = Counter((device.host, device.name) for device in header.devices)
        found = []
        for (host, name), number in groups.items():
            what = f"{number} x {name}" if name else counted(number, "device")
            found.append(f"{what} on {host}" if host else what)
        text = escape(", ".join(found))
        if header.imported is not None:
            text += f", imported {escape(origin_of(header.imported))}"
        return f"## Transfers between devices\n\n{text}.\n{notice_paragraph(header)}"

    def matrix(self, matrix: Matrix) -> str:
        """Returns heading, meaning and table."""
        rows = matrix.rows or list(dict.fromkeys(row for row, _ in matrix.cells))
        lines = ["", f"### {escape(matrix.title)} ({matrix.unit})", ""]
        lines += [escape(matrix.meaning), ""] if matrix.meaning else []
        lines.append("| | " + " | ".join(map(escape, matrix.columns)) + " |")
        lines.append("|---" + "|---:" * len(matrix.columns) + "|")
        for row in rows:
            cells = [_text(matrix, (row, column)) for column in matrix.columns]
            lines.append(f"| **{escape(row)}** | " + " | ".join(map(escape, cells)) + " |")
        return "\n".join(lines) + "\n"

    def closing(self, footer: Footer | None) -> str:
        """Returns the pairs that stand out, the references, and the counts of checks."""
        results, header = self._results, self._header
        far = outliers_of(results, header).far
        lines = [f"- stands out: {escape(deviation_text(one, self._names))}" for one in far]
        matches = slowest_matches(results, header, self._references.match_transfer)
        lines += [
            f"- {escape(series_title(series))}: the slowest pair, {escape(text)}"
            for series, match in matches.items()
            if (text := verdict_text(match))
        ]
        lines += [f"- {escape(text)}" for text in missing_figures(results)]
        if above := self._collector.above_limit():
            lines.append(f"- {escape(above)}")
        checks = checks_text(checks_of(results))
        return "\n" + "\n".join([*lines, f"\n{len(results)} transfers; {checks}.", ""])


class TransferPccl(_ByMatrix):
    """The text of PCCL's p2pBandwidthLatencyTest, for programs that parse it."""

    def __init__(self, *, shares: bool, hosts: bool = False, most_devices: int = 32) -> None:
        """``most_devices``: matrices show at most that many devices."""
        super().__init__(shares=shares, hosts=hosts)
        self._most = most_devices
        self._kernel = (DEFAULT_KERNEL, 0)

    def opening(self) -> str:
        """Returns the notices as comments, and the matrix of shortest paths."""
        steps = {(one.first, one.second): one.hops for one in self._header.relations}
        numbers = range(len(self._names))
        rows = [
            ["0" if row == column else _steps(steps.get((row, column))) for column in numbers]
            for row in numbers
        ]
        return (
            comment_lines(self._header.notices)
            + f"P2P Connectivity & minPath Matrix\n{self._lines(rows, self._names)}\n"
        )

    def matrix(self, matrix: Matrix) -> str:
        """Returns the head in PCCL's words and the values with two decimals."""
        series = matrix.series
        if series.scope not in ("pairs", "all-pairs"):
            return ""
        access = "EnabledP2P" if series.peer_access else "DisabledP2P"
        head = f"({access} {series.engine} {series.direction.upper()}"
        if series.measure == "latency":
            where = "GPU" if matrix.figure == "latency" else "CPU"
            head += f") {where} P2P Transmission Latency Matrix (US)\n"
        else:
            way = series.measure.capitalize()
            size = f"{series.size_bytes} " + ("*2 " if series.measure == "bidirectional" else "")
            title, unit = f"P2P {way} Bandwidth Transport Bandwidth Matrix", "GB/s"
            if matrix.figure == "utilisation":
                title, unit = "P2P Transport Bandwidth Utilization Ratio Matrix", "%"
            head += f" {way})\n{title} ({size}Bytes) ({unit})\n"
        own = "0.00" if series.measure == "latency" else "x"
        rows = [
            [
                own
                if row == column and (row, column) not in matrix.cells
                else _text(matrix, (row, column))
                for column in matrix.columns
            ]
            for row in matrix.rows
        ]
        chosen = self._kernel_line(series) + self._method_line(matrix)
        return chosen + head + self._lines(rows, matrix.columns)

    def closing(self, footer: Footer | None) -> str:
        """Returns the number of devices that are not shown, and the duration."""
        hidden = hidden_line(len(self._names), self._most, unpainted)
        lines = [line.strip() for line in hidden]
        lines += [f"Total: {footer.duration_s:6.2f} s"] if footer is not None else []
        return "".join(f"{line}\n" for line in lines)

    def _kernel_line(self, series: Transfer) -> str:
        """Returns a line with kernel and blocks where they change: PCCL's tool has one of them."""
        kernel = (series.kernel, series.blocks)
        if series.engine != "SM" or not series.kernel or kernel == self._kernel:
            return ""
        self._kernel = kernel
        blocks = f", {counted(series.blocks, 'block')}" if series.blocks else ""
        return f"kernel {series.kernel}{blocks}\n"

    @staticmethod
    def _method_line(matrix: Matrix) -> str:
        """Returns a line with the method of latencies that differ from copies, as PCCL's."""
        series = matrix.series
        if matrix.figure != "latency" or series.method in ("", "copy"):
            return ""
        return f"method {series.method}, {counted(series.size_bytes, 'byte')}\n"

    def notices(self) -> list[str]:
        """Returns what would disturb programs that parse: reasons, and meanings of figures."""
        found = missing_figures(self._results)
        methods = {one.transfer.method for one in self._results if one.summary is not None}
        if "copy" in methods and is_on_host(self._header):
            found.append(f"latency: {LATENCY_OF_HOST_COPIES}")
        if above := self._collector.above_limit():
            found.append(above)
        return found

    def _lines(self, rows: list[list[str]], names: list[str]) -> str:
        names = names[: self._most]
        width = max(_PCCL_WIDTH, *(len(name) + 2 for name in names))
        lines = [" " * width + "".join(f"{name:<{width}}" for name in names)]
        lines += [
            f"{name:<{width}}" + "".join(f"{cell:<{width - 1}} " for cell in row[: self._most])
            for name, row in zip(names, rows, strict=False)
        ]
        return "\n".join(lines) + "\n"


def _text(matrix: Matrix, place: tuple[str, str]) -> str:
    cell = matrix.cells.get(place)
    if cell is None:
        return "x"
    if cell.value is None:
        return cell.note or "?"
    return figure(cell.value)


def _steps(hops: int | None) -> str:
    return "?" if hops is None else str(hops)
