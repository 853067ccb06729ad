"""The text of PCCL's p2pBandwidthLatencyTest."""

from __future__ import annotations

from collections.abc import Iterable

from cclmark.document.device_labels import device_labels
from cclmark.document.exporter import Exporter
from cclmark.document.grid import hidden_line
from cclmark.document.paint import unpainted
from cclmark.document.remarks import comment_lines
from cclmark.document.text import counted, figure
from cclmark.journal.item_results import TransferResult
from cclmark.journal.schema import Footer, Header
from cclmark.kinds.p2p.figures import (
    LATENCY_OF_HOST_COPIES,
    Matrix,
    MatrixCollector,
    above_limit_text,
    is_on_host,
    missing_figures,
)
from cclmark.work.transfers import DEFAULT_KERNEL, Transfer

_WIDTH = 10


class TransferPccl(Exporter[TransferResult]):
    """Matrix by matrix, for programs that parse it."""

    def __init__(self, *, shares: bool, by_process: bool = False, most_devices: int = 32) -> None:
        """``shares`` adds the share of the link limit. ``by_process``: names and paths as those of
        PCCL's tool with several processes. Matrices show at most ``most_devices`` devices.
        """
        self._shares = shares
        self._by_process = by_process
        self._most = most_devices
        self._kernel = (DEFAULT_KERNEL, 0)
        self._results: list[TransferResult] = []
        self._percents: list[float] = []

    def begin(self, header: Header) -> str:
        """Returns the notices as comments, and the matrix of shortest paths.

        With several processes PCCL's tool counts each process as a host, whose only device is 0,
        and its matrix says only whether there is a path (1) or not (0): comments name the devices.
        """
        self._header = header
        labels = device_labels(header.devices)
        self._names = {label: label for label in labels}
        comments = list(header.notices)
        if self._by_process:
            self._names = {label: f"HOST{rank}:DEV0" for rank, label in enumerate(labels)}
            comments += [
                f"{self._names[label]} is device {device.index} of {device.host}"
                for label, device in zip(labels, header.devices, strict=True)
            ]
        self._collector = MatrixCollector(header, shares=self._shares)
        steps = {(one.first, one.second): one.hops for one in self._header.relations}
        numbers = range(len(labels))
        rows = [
            ["0" if row == column else self._path(steps.get((row, column))) for column in numbers]
            for row in numbers
        ]
        return (
            comment_lines(comments)
            + f"P2P Connectivity & minPath Matrix\n{self._lines(rows, labels)}\n"
        )

    def add(self, result: TransferResult) -> str:
        """Returns the previous matrix if this result begins another."""
        self._results.append(result)
        return self._texts(self._collector.add(result))

    def end(self, footer: Footer | None) -> str:
        """Returns the last matrix, the number of devices that are not shown, and the duration."""
        text = self._texts(self._collector.finish())
        hidden = hidden_line(len(self._names), self._most, unpainted)
        lines = [line.strip() for line in hidden]
        lines += [f"Total: {footer.duration_s:6.2f} s"] if footer is not None else []
        return text + "".join(f"{line}\n" for line in lines)

    def _texts(self, matrices: Iterable[Matrix]) -> str:
        return "".join(self._matrix(matrix) for matrix in matrices)

    def _matrix(self, matrix: Matrix) -> str:
        """The head in PCCL's words and the values with two decimals."""
        series = matrix.series
        if matrix.figure == "utilisation":
            shares = (cell.value for cell in matrix.cells.values())
            self._percents += [share for share in shares if share is not None]
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
        rows = [[_text(matrix, (row, column)) for column in matrix.columns] for row in matrix.rows]
        chosen = self._kernel_line(series) + self._method_line(matrix)
        if matrix.between_hosts:
            instead = f"{matrix.between_hosts}, not {series.engine} {series.direction.upper()}"
            some = "some " if matrix.has_copies else ""
            chosen += f"# {some}pairs on different hosts: {instead}\n"
        return chosen + head + self._lines(rows, matrix.columns)

    def _kernel_line(self, series: Transfer) -> str:
        """Returns a line with kernel and blocks where they change: PCCL's tool has one of them."""
        kernel = (series.kernel, series.blocks)
        if series.engine != "SM" or not series.kernel or kernel == self._kernel:
            return ""
        self._kernel = kernel
        blocks = f", {counted(series.blocks, 'block')}" if series.blocks else ""
        return f"kernel {series.kernel}{blocks}\n"

    def _path(self, hops: int | None) -> str:
        return "?" if hops is None else str(min(hops, 1) if self._by_process else hops)

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
        if above := above_limit_text(self._percents, on_host=is_on_host(self._header)):
            found.append(above)
        return found

    def _lines(self, rows: list[list[str]], names: list[str]) -> str:
        names = [self._names[name] for name in names[: self._most]]
        width = max(_WIDTH, *(len(name) + 2 for name in names))
        lines = [" " * width + "".join(f"{name:<{width}}" for name in names)]
        lines += [
            f"{name:<{width}}" + "".join(f"{cell:<{width - 1}} " for cell in row[: self._most])
            for name, row in zip(names, rows, strict=False)
        ]
        return "\n".join(lines) + "\n"


def _text(matrix: Matrix, place: tuple[str, str]) -> str:
    cell = matrix.cells.get(place)
    if cell is None:
        return "0.00" if matrix.series.measure == "latency" and place[0] == place[1] else "x"
    if cell.value is None:
        return cell.note or "?"
    return figure(cell.value)
