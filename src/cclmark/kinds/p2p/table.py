"""Text output for transfers: connections of devices, a matrix for each figure, findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cclmark.analysis.copies import checks_of, outliers_of
from cclmark.analysis.statistics import median
from cclmark.analysis.transfer_results import Deviation, figures
from cclmark.document.deviations import checks_text, deviation_text
from cclmark.document.device_labels import labels
from cclmark.document.grid import grid_lines, hidden_line, usual_width
from cclmark.document.head import opening_lines
from cclmark.document.matrix import (
    Matrix,
    MatrixCell,
    MatrixCollector,
    is_on_host,
    note,
)
from cclmark.document.paint import Paint, unpainted
from cclmark.document.reference_notes import ReferenceNotes, verdict_of, verdict_text
from cclmark.document.remarks import planned_results
from cclmark.document.text import BYTES_PER_GB, US_PER_S, figure
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.printable import plain
from cclmark.references.copy_matching import slowest_matches
from cclmark.references.match import Match
from cclmark.results.item_results import TransferResult
from cclmark.results.schema import Footer, Header, Relation
from cclmark.results.topology import LEGEND, UNKNOWN_LINK

_CELL = 9
_GAP = "  "
_MOST_NAMED = 10
_BAR = 40


class TransferTable:
    """Prints matrices with rows and columns of devices, wrapped to the terminal."""

    def __init__(
        self,
        *,
        paint: Paint = unpainted,
        shares: bool = False,
        most_devices: int = 32,
        hosts: bool = False,
        width: int | None = None,
        references: ReferenceNotes | None = None,
    ) -> None:
        """``shares`` adds the share of the link limit.

        Matrices show at most ``most_devices`` devices. The summary includes all devices and
        compares medians with ``references``.
        """
        self._references = references or ReferenceNotes()
        self._paint = paint
        self._shares = shares
        self._most = most_devices
        self._hosts = hosts
        self._width = width or usual_width()
        self._results: list[TransferResult] = []

    def begin(self, header: Header) -> str:
        """Returns the devices, their links, and the connection of each pair."""
        self._header = header
        self._names = labels(header.devices, hosts=self._hosts)
        self._collector = MatrixCollector(header, shares=self._shares, hosts=self._hosts)
        lines = opening_lines(header, "device", method_of_transfers(header), self._paint)
        if header.relations:
            lines += self._topology(header.relations)
        return "\n".join(lines) + "\n"

    def add(self, result: TransferResult) -> str:
        """Returns the previous matrix if this result begins another."""
        self._results.append(result)
        return self._print(self._collector.add(result))

    def end(self, footer: Footer | None) -> str:
        """Returns the last matrix and the summary."""
        text = self._print(self._collector.finish())
        lines = [""]
        lines += self._course("thread blocks", lambda t: t.blocks, lambda blocks: f"{blocks}")
        lines += self._course("size", lambda t: t.size_bytes, format_size)
        lines += self._ranges()
        lines += self._contention()
        lines += self._standing_out()
        if above := self._collector.above_limit():
            lines += ["", self._paint(f"  {above}", "yellow")]
        lines += self._checks()
        if footer is not None and footer.message:
            ended = f"  ended early: {footer.message.splitlines()[0]}"
            lines.append(self._paint(ended, "red"))
        return text + "\n".join(lines) + "\n"

    def _topology(self, relations: Sequence[Relation]) -> list[str]:
        by_pair = {(one.first, one.second): one for one in relations}
        numbers = range(len(self._names))

        def sign(row: int, column: int) -> str:
            return "X" if row == column else (by_pair[row, column].kind)

        def steps(row: int, column: int) -> str:
            if row == column:
                return "0"
            hops = by_pair[row, column].hops
            return "?" if hops is None else str(hops)

        signs = {one.kind for one in relations}
        lines = []
        if signs != {UNKNOWN_LINK}:
            lines += ["", self._paint("Connections", "bold")]
            lines += self._grid(
                self._names, self._names, [[sign(a, b) for b in numbers] for a in numbers]
            )
            shown = {"X", *("NV#" if kind.startswith("NV") else kind for kind in signs)}
            lines += [
                self._paint(f"  {name:<5} {text}", "dim")
                for name, text in LEGEND.items()
                if name in shown
            ]
        memory = max((one.limit_bytes_per_s for one in relations if one.kind == "MEM"), default=0)
        if memory:
            limit = f"{figure(memory / BYTES_PER_GB)} GB/s"
            said = f"limit of host devices: {limit}, copies in memory by all of a host at once"
            lines.append(self._paint(f"  {said}", "dim"))
        limits = {
            one.limit_bytes_per_s
            for one in relations
            if one.limit_bytes_per_s and one.kind != "MEM"
        }
        if limits:
            each = " to ".join(
                f"{limit / BYTES_PER_GB:.0f}" for limit in sorted({min(limits), max(limits)})
            )
            lines.append(self._paint(f"  link limit of a pair, one direction: {each} GB/s", "dim"))
        lines += ["", self._paint("P2P connectivity and min path", "bold")]
        lines += self._grid(
            self._names, self._names, [[steps(a, b) for b in numbers] for a in numbers]
        )
        lines.append(self._paint("  0 no path, 1 direct, n over n - 1 other devices", "dim"))
        return lines

    def _print(self, matrices: Iterable[Matrix]) -> str:
        return "".join("\n".join(self._matrix(matrix)) + "\n" for matrix in matrices)

    def _matrix(self, matrix: Matrix) -> list[str]:
        title = f"{matrix.title} [{matrix.unit}]"
        lines = ["", self._paint(title[0].upper() + title[1:], "bold")]
        lines += [self._paint(f"  {part}", "dim") for part in matrix.meaning.split("; ") if part]
        results = list({id(cell.result): cell.result for cell in matrix.cells.values()}.values())
        reasons = dict.fromkeys(
            f"{note(one)}: {plain(one.reason)}" for one in results if one.summary is None
        )
        if results and all(one.summary is None for one in results):
            return lines + [self._paint(f"  {reason}", "yellow") for reason in reasons]
        usual = {one.pair: one for one in outliers_of(results, self._header).far}
        rows = matrix.rows or list(dict.fromkeys(row for row, _ in matrix.cells))
        cells = [
            [
                self._cell(matrix, matrix.cells.get((row, column)), usual)
                for column in matrix.columns
            ]
            for row in rows
        ]
        lines += self._grid(rows, matrix.columns, cells)
        lines += [self._paint(f"  {reason}", "yellow") for reason in reasons]
        return lines + self._mismatches(results)

    def _cell(
        self, matrix: Matrix, cell: MatrixCell | None, usual: dict[tuple[int, int], Deviation]
    ) -> str:
        if cell is None:
            return "x".rjust(_CELL)
        if cell.note and (cell.value is None or cell.note == "WRONG"):
            style = "yellow" if cell.note == "n/a" else "red"
            return self._paint(cell.note.rjust(_CELL), style)
        if cell.value is None:
            return "?".rjust(_CELL)
        text = figure(cell.value).rjust(_CELL)
        deviation = usual.get(cell.judged_pair)
        if deviation is None or matrix.figure == "call":
            return text
        return self._paint(text, "red" if deviation.worse else "green")

    def _mismatches(self, results: Sequence[TransferResult]) -> list[str]:
        lines = []
        for result in results:
            if result.verification is None:
                continue
            for finding in result.verification.findings:
                start, end = result.transfer.flows[finding.rank]
                lines.append(
                    f"  {self._names[start]} → {self._names[end]}: {finding.wrong} wrong, first "
                    f"element {finding.first_element} is {finding.actual}, not {finding.expected}"
                )
        return [self._paint(line, "red") for line in lines]

    def _grid(
        self, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[str]]
    ) -> list[str]:
        most = self._most
        lines = grid_lines(
            rows[:most] if rows == columns else rows,
            columns[:most],
            [row[:most] for row in (cells[:most] if rows == columns else cells)],
            paint=self._paint,
            width=self._width,
        )
        return lines + hidden_line(len(columns), most, self._paint)

    def _course(self, name: str, key: object, show: object) -> list[str]:
        """Returns bars of the median over the pairs by the swept parameter."""
        assert callable(key) and callable(show)
        groups: dict[tuple[object, ...], dict[int, list[float]]] = {}
        for result in self._results:
            transfer = result.transfer
            if result.summary is None or transfer.measure == "latency" or transfer.host_memory:
                continue
            rest = (transfer.measure, transfer.scope, transfer.direction, transfer.means)
            other = transfer.blocks if name == "size" else transfer.size_bytes
            values = [value for _, value in figures(result)]
            if values:
                groups.setdefault((*rest, other), {}).setdefault(key(transfer), []).extend(values)
        lines = []
        for group, by_value in groups.items():
            if len(by_value) < 2:
                continue
            measure, scope, direction, means, _ = group
            where = "" if scope == "pairs" else f", {scope}"
            head = (
                f"  {measure} {direction} by {means}{where} against {name}: median over the pairs "
                "[GB/s]"
            )
            lines.append(self._paint(head, "bold"))
            medians = {value: median(found) for value, found in by_value.items()}
            top = max(medians.values())
            for value, middle in medians.items():
                bar = "█" * round(_BAR * middle / top) if top > 0 else ""
                lines.append(f"  {show(value):>10} {middle / BYTES_PER_GB:9.2f}  {bar}")
            lines.append("")
        return lines

    def _ranges(self) -> list[str]:
        """Returns a line for each matrix: the median and the extremes with their pairs."""
        by_series: dict[Transfer, list[tuple[tuple[int, int], float]]] = {}
        bandwidths = [one.transfer for one in self._results if one.transfer.measure != "latency"]
        swept = len({(one.blocks, one.size_bytes) for one in bandwidths if one.kernel}) > 1
        swept |= len({one.size_bytes for one in bandwidths}) > 1
        for result in self._results:
            if swept and result.transfer.measure != "latency":
                continue  # its course has the details
            if result.transfer.scope in ("pairs", "local", "all-pairs"):
                by_series.setdefault(result.transfer.series(), []).extend(
                    (pair, value) for pair, value in figures(result) if pair[0] != pair[1]
                )
        lines = []
        matches = slowest_matches(self._results, self._header, self._references.match_transfer)
        for series, values in by_series.items():
            if not values:
                continue
            latency = series.measure == "latency"
            scale, unit = (US_PER_S, "µs") if latency else (1 / BYTES_PER_GB, "GB/s")
            ordered = sorted(values, key=lambda entry: entry[1])
            middle = median([value for _, value in values]) * scale
            low, high = (
                f"{figure(value * scale)} ({self._pair(pair)})"
                for pair, value in (ordered[0], ordered[-1])
            )
            title = Matrix(series, "latency" if latency else "bandwidth", [], []).title
            lines.append(f"  {title}: median {figure(middle)} {unit}, from {low} to {high}")
            lines += self._verdict(matches.get(series))
        return lines

    def _verdict(self, match: Match | None) -> list[str]:
        """Whether the slowest pair is normal."""
        if match is None:
            return []
        text = f"    the slowest pair, {verdict_text(match)}"
        return [self._paint(text, "yellow") if verdict_of(match) == "low" else text]

    def _contention(self) -> list[str]:
        """Compares all pairs at once with the pairs alone, if both were measured."""
        values: dict[Transfer, dict[str, list[float]]] = {}
        for result in self._results:
            scope = result.transfer.scope
            if result.transfer.measure == "unidirectional" and scope in ("pairs", "all-pairs"):
                alike = msgspec.structs.replace(result.transfer.series(), scope="")
                own = [value for (start, end), value in figures(result) if start != end]
                values.setdefault(alike, {}).setdefault(scope, []).extend(own)
        lines = []
        for alike, by_scope in values.items():
            if len(by_scope) < 2 or not all(by_scope.values()):
                continue
            share = median(by_scope["all-pairs"]) / median(by_scope["pairs"])
            lines.append(
                f"  all pairs at once reach {share:.1%} of a pair alone: {alike.direction} "
                f"{alike.means}, {format_size(alike.size_bytes)}"
            )
        return lines

    def _pair(self, pair: tuple[int, int]) -> str:
        return f"{self._names[pair[0]]} → {self._names[pair[1]]}"

    def _standing_out(self) -> list[str]:
        found = outliers_of(self._results, self._header).far
        if not found:
            return []
        lines = [
            "",
            self._paint("  Pairs that stand out among those with the same kind of link:", "bold"),
        ]
        for one in found[:_MOST_NAMED]:
            text = f"  {deviation_text(one, self._names)}"
            lines.append(self._paint(text, "red" if one.worse else "green"))
        if len(found) > _MOST_NAMED:
            lines.append(f"  and {len(found) - _MOST_NAMED} more")
        return lines

    def _checks(self) -> list[str]:
        results = self._results
        if not results:
            return []
        checks = checks_of(results)
        text = f"  {checks_text(checks)}"
        if len(results) < planned_results(self._header):
            measured = sum(one.summary is not None for one in results)
            text = (
                f"  {measured} of {planned_results(self._header)} transfers measured, "
                f"{checks.checked} checked, {checks.wrong} wrong"
            )
        for status, word in (("skipped", "skipped"), ("timeout", "hung")):
            number = sum(one.status == status for one in results)
            text += f", {number} {word}" if number else ""
        hung = any(one.status == "timeout" for one in results)
        return ["", self._paint(text, "red") if checks.wrong or hung else text]


def method_of_transfers(header: Header) -> str:
    """Describes in a line how copies were measured."""
    if header.imported is not None:
        return "one figure for each transfer"
    settings = header.settings
    clock = "host clock after a barrier" if is_on_host(header) else "device events behind a gate"
    copies = f"samples of {settings.iterations} copies, " if settings.iterations else ""
    length = f"until the median is known to ±{settings.precision * 100:g} % (95 %)"
    check = "every last sample checked" if settings.check else "copies not checked"
    text = f"{clock}, {copies}{length}, {check}"
    if len({device.host for device in header.devices}) == 1:
        return text
    return f"{text}; messages between hosts are measured and checked as by cclmark pairs"
