"""Transfers on a page: cells of the table of all results, charts and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.statistics import median
from cclmark.references.copy_matching import slowest_matches
from cclmark.document import columns
from cclmark.document.cells import device_names
from cclmark.document.chart_model import marked
from cclmark.document.naming import Run
from cclmark.report.charts.transfer_charts import transfer_charts
from cclmark.report.kinds.matrix import Matrix, MatrixCell, MatrixCollector, figure
from cclmark.document.page.page import PageTable, Section
from cclmark.document.reference_notes import share_text
from cclmark.document.text import BYTES_PER_GB
from cclmark.results.item_results import TransferResult
from cclmark.results.topology import LEGEND, UNKNOWN_LINK

_MOST_CONNECTED = 32


def cells_of_transfer(run: Run, result: TransferResult) -> Mapping[str, columns.Cell]:
    """Returns the figures of a transfer, and its share of a reference."""
    cells = _of_transfer(result)
    if (match := run.notes.match_transfer(result, run.journal.header)) is not None:
        cells |= {"of_reference_percent": match.share * 100, "reference": match.words}
    return cells


def _of_transfer(result: TransferResult) -> dict[str, columns.Cell]:
    transfer, summary = result.transfer, result.summary
    flows = ", ".join(f"{start}→{end}" for start, end in transfer.flows[:8])
    if transfer.host_memory:
        way = "→" if transfer.to_host else "←"
        flows = f"{transfer.flows[0][0]} {way} {transfer.host_memory} host"
    cells: dict[str, columns.Cell] = {
        "measure": transfer.measure,
        "scope": transfer.scope,
        "means": transfer.means,
        "direction": transfer.direction,
        "flows": flows + (" …" if len(transfer.flows) > 8 else ""),
        "size_bytes": transfer.size_bytes,
        "status": result.status,
        "reason": result.reason,
        "wrong": None if result.verification is None else result.verification.wrong,
    }
    if summary is not None:
        cells |= {
            "time_us": summary.time_s * 1e6,
            "min_us": summary.min_s * 1e6,
            "max_us": summary.max_s * 1e6,
            "samples": summary.samples,
            "bandwidth_gbps": summary.bytes_per_s / 1e9 or None,
        }
    return cells


def transfer_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section for each run: its matrices as charts, and the links between devices."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        if charts := transfer_charts(run.journal):
            tables = [one for one in (_connections(run), _copies(run)) if one is not None]
            sections.append(
                Section(f"p2p{mark}", f"Copies{name}", charts=marked(charts, mark), tables=tables)
            )
    return sections


def _connections(run: Run) -> PageTable | None:
    """Returns the connection of each pair of devices; None if unknown, or with too many devices."""
    header = run.journal.header
    names = device_names(header)
    if len(names) > _MOST_CONNECTED or {one.kind for one in header.relations} <= {UNKNOWN_LINK}:
        return None
    by_pair = {(one.first, one.second): one for one in header.relations}
    numbers = range(len(names))
    rows = [
        [names[row]]
        + [
            ("x" if row == column else "")
            if (one := by_pair.get((row, column))) is None
            else one.kind
            for column in numbers
        ]
        for row in numbers
    ]
    limits = sorted(
        {one.limit_bytes_per_s for one in header.relations if one.kind != "MEM"} - {0.0}
    )
    memory = max(
        (one.limit_bytes_per_s for one in header.relations if one.kind == "MEM"), default=0
    )
    notes = [
        f"A pair's links carry {' to '.join(f'{one / BYTES_PER_GB:.0f}' for one in ends)} GB/s in "
        "one direction."
        for ends in ([limits[:1] + limits[-1:] if len(limits) > 1 else limits] if limits else [])
    ]
    if memory:
        notes.append(
            f"The memory of a host carries {figure(memory / BYTES_PER_GB)} GB/s: copies by all of "
            "its devices at once."
        )
    kinds = {one.kind for one in header.relations}
    shown = {"NV#" if kind.startswith("NV") else kind for kind in kinds}
    notes += [f"{sign}: {text}" for sign, text in LEGEND.items() if sign in shown]
    return PageTable("How devices are connected", ["", *names], rows, notes=notes)


def _copies(run: Run) -> PageTable | None:
    """Returns a table with a line for each matrix of copies."""
    collector = MatrixCollector(run.journal.header, shares=False)
    matrices = []
    for result in run.journal.transfers:
        matrices += collector.add(result)
    matrices += collector.finish()
    header = run.journal.header
    matches = slowest_matches(run.journal.transfers, header, run.notes.match_transfer)
    rows = []
    for matrix in matrices:
        if matrix.figure == "call":
            continue
        title = matrix.title[0].upper() + matrix.title[1:]
        match = matches.get(matrix.series)
        share = "" if match is None else share_text(match.share)
        own = matrix.series.ccl
        rows += _row(matrix, title, [c for c in matrix.cells.items() if c[1].ccl == own], share)
        between = [c for c in matrix.cells.items() if c[1].ccl != own]
        rows += _row(matrix, f"{title}, between hosts by {matrix.between_hosts}", between, "")
    if not rows:
        return None
    head = ["copies", "median", "lowest (row, column)", "highest (row, column)"]
    head.append("slowest pair, of reference")
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return PageTable("All matrices in a line each", head, rows, len(head) - 1)


def _row(
    matrix: Matrix, title: str, cells: Sequence[tuple[tuple[str, str], MatrixCell]], share: str
) -> list[list[str]]:
    """Returns a line of the table for some cells of a matrix, none without values."""
    values = sorted((cell.value, place) for place, cell in cells if cell.value is not None)
    if not values:
        return []
    middle = median([value for value, _ in values])
    (low, slow), (high, fast) = values[0], values[-1]
    return [
        [
            title,
            f"{figure(middle)} {matrix.unit}",
            f"{figure(low)} ({slow[0]}, {slow[1]})",
            f"{figure(high)} ({fast[0]}, {fast[1]})",
            share,
        ]
    ]
