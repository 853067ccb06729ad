"""Reports of copies between devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from cclmark.analysis.copies import checks_of
from cclmark.analysis.statistics import median
from cclmark.analysis.transfer_results import LinkLimits, utilisation
from cclmark.document.cells import device_names
from cclmark.document.chart_model import marked
from cclmark.document.columns import Cell, Layout, Row, columns
from cclmark.document.device_labels import device_labels
from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount, listed
from cclmark.document.matrix import Matrix, MatrixCell, MatrixCollector
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.page.page import PageTable, Section
from cclmark.document.reference_notes import share_text
from cclmark.document.report_kind import ReportKind, RunLabels, View
from cclmark.document.sample_columns import TRANSFER_SAMPLES
from cclmark.document.text import BYTES_PER_GB, US_PER_S, figure
from cclmark.kinds.p2p.charts import transfer_charts
from cclmark.kinds.p2p.findings import headline_of_copies, insights_on_copies
from cclmark.kinds.p2p.table import method_of_transfers
from cclmark.plan.transfers import Transfer
from cclmark.references.copy_matching import slowest_matches
from cclmark.results.item_results import TransferResult
from cclmark.results.journal import Journal
from cclmark.results.schema import Header
from cclmark.results.topology import LEGEND, UNKNOWN_LINK

TRANSFER_COLUMNS = (
    *("measure", "scope", "direction", "engine", "kernel", "from", "to"),
    *("host_memory", "to_host", "numa", "size_bytes", "offset_bytes", "blocks", "threads"),
    *("peer_access", "method", "status", "reason", "time_us", "min_us", "max_us", "call_us"),
    *("samples", "half_width", "gbps", "total_gbps", "share", "wrong"),
)


def kernel_of(transfer: Transfer) -> str:
    """Returns the kernel that copies, or the messages of a library between hosts."""
    return transfer.means if transfer.ccl else transfer.kernel


def transfer_cells(
    result: TransferResult, names: Sequence[str], limits: LinkLimits
) -> list[list[Cell]]:
    """Returns a cell for each of TRANSFER_COLUMNS, for each flow.

    ``names``: the devices' labels; ``limits``: of the connections.
    """
    transfer, summary = result.transfer, result.summary
    share = utilisation(result, limits)
    checked = result.verification
    rows: list[list[Cell]] = []
    for number, (start, end) in enumerate(transfer.flows):
        cells: list[Cell] = [
            transfer.measure,
            transfer.scope,
            transfer.direction,
            transfer.engine,
            kernel_of(transfer),
            names[start],
            names[end],
            transfer.host_memory,
            int(transfer.to_host),
            transfer.numa,
            transfer.size_bytes,
            transfer.offset_bytes,
            transfer.blocks or None,
            transfer.threads or None,
            int(transfer.peer_access),
            transfer.method,
            result.status,
            result.reason,
        ]
        if summary is None:
            cells += [None] * 9
        else:
            rates = summary.flow_bytes_per_s
            cells += [
                summary.time_s * US_PER_S,
                summary.min_s * US_PER_S,
                summary.max_s * US_PER_S,
                None if summary.call_s is None else summary.call_s * US_PER_S,
                summary.samples,
                summary.half_width,
                rates[number] / BYTES_PER_GB if rates else None,
                summary.bytes_per_s / BYTES_PER_GB if summary.bytes_per_s else None,
                share,
            ]
        cells.append(None if checked is None else checked.wrong)
        rows.append(cells)
    return rows


_COLUMNS = columns(
    TRANSFER_COLUMNS,
    texts="measure scope direction engine kernel from to host_memory numa method status reason",
    whole="size_bytes offset_bytes blocks threads samples wrong",
    flags="to_host peer_access",
)


def _rows_in(header: Header) -> Callable[[TransferResult], Iterable[Row]]:
    names, limits = device_labels(header), LinkLimits(header.relations)
    return lambda result: transfer_cells(result, names, limits)


TRANSFERS = Layout(_COLUMNS, _rows_in)


TRANSFER_METRICS = (
    Metric("cclmark_transfer_time_seconds", "seconds", "Median time of a copy, or latency."),
    Metric("cclmark_transfer_bytes_per_second", "bytes_per_second", "Median bandwidth of a flow."),
    Metric("cclmark_transfer_ok", "", "1 for a transfer that was measured and not wrong."),
    Metric("cclmark_transfer_wrong_elements", "elements", "Wrong elements of 4 bytes."),
)


def measure_transfer(series: Series, result: TransferResult, run: RunLabels) -> None:
    """Sets the gauges of one transfer."""
    transfer, summary = result.transfer, result.summary
    common = [
        ("measure", transfer.measure),
        ("scope", transfer.scope),
        ("direction", transfer.direction),
        ("engine", transfer.engine),
        ("kernel", kernel_of(transfer)),
        ("method", transfer.method),
        ("size_bytes", str(transfer.size_bytes)),
        ("offset_bytes", str(transfer.offset_bytes)),
        ("blocks", str(transfer.blocks or "")),
        ("threads", str(transfer.threads or "")),
        ("peer_access", str(int(transfer.peer_access))),
        ("host_memory", transfer.host_memory),
        ("to_host", str(int(transfer.to_host))),
        ("numa", transfer.numa),
    ]
    flows = [
        [("from", run.devices[start]), ("to", run.devices[end])] for start, end in transfer.flows
    ]
    # A transfer with several simultaneous flows has the labels of its first flow.
    whole = labels_of([*common, *flows[0], ("flows", str(len(flows))), *run.where])
    if result.status == "skipped":
        return
    by_flow = [
        labels_of([*common, *flow, ("flows", str(len(flows))), *run.where]) for flow in flows
    ]
    for labels in (whole, *by_flow):
        series.begin(labels)
    series.worst("cclmark_transfer_ok", whole, float(result.status == "ok"), min)
    if result.verification is not None:
        series.worst("cclmark_transfer_wrong_elements", whole, result.verification.wrong, max)
    if summary is None:
        return
    series.set("cclmark_transfer_time_seconds", whole, summary.time_s)
    for labels, rate in zip(by_flow, summary.flow_bytes_per_s, strict=False):
        series.set("cclmark_transfer_bytes_per_second", labels, rate)


_MOST_CONNECTED = 32


def cells_of_transfer(run: NamedRun, result: TransferResult) -> Mapping[str, Cell]:
    """Returns the figures of a transfer, and its share of a reference."""
    cells = _of_transfer(result)
    if (match := run.notes.match_transfer(result, run.journal.header)) is not None:
        cells |= {"of_reference_percent": match.share * 100, "reference": match.words}
    return cells


def _of_transfer(result: TransferResult) -> dict[str, Cell]:
    transfer, summary = result.transfer, result.summary
    flows = ", ".join(f"{start}→{end}" for start, end in transfer.flows[:8])
    if transfer.host_memory:
        way = "→" if transfer.to_host else "←"
        flows = f"{transfer.flows[0][0]} {way} {transfer.host_memory} host"
    cells: dict[str, Cell] = {
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


def transfer_sections(runs: Sequence[NamedRun]) -> list[Section]:
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


def _connections(run: NamedRun) -> PageTable | None:
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


def _copies(run: NamedRun) -> PageTable | None:
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


PAGE_COLUMNS = (
    *("measure", "scope", "means", "direction", "flows", "size_bytes", "status", "reason"),
    *("time_us", "min_us", "max_us", "samples", "bandwidth_gbps", "wrong"),
)
METHOD_OF_COPIES = (
    "A copy's bandwidth is its bytes over the median of its samples; several at once have all of "
    "their bytes over the time of the slowest."
)


def _table(view: View) -> Exporter[TransferResult]:
    from cclmark.kinds.p2p.table import TransferTable

    return TransferTable(
        paint=view.paint, hosts=view.hosts, width=view.columns, references=view.references
    )


def _markdown(view: View) -> Exporter[TransferResult]:
    from cclmark.kinds.p2p.formats import TransferMarkdown

    return TransferMarkdown(shares=False, hosts=view.hosts, references=view.references)


def _pccl(view: View) -> Exporter[TransferResult]:
    from cclmark.kinds.p2p.formats import TransferPccl

    return TransferPccl(shares=False, hosts=view.hosts)


def _counted(journal: Journal) -> str:
    checks = checks_of(journal.transfers)
    copies = [amount(checks.copies, "copy", "copies")] if checks.copies else []
    if checks.unverifiable:
        copies.append(amount(checks.unverifiable, "latency", "latencies"))
    return f"{listed(copies)} between devices"


REPORT = ReportKind(
    noun="transfers",
    title="copies between devices (p2p)",
    has_times=True,
    csv=TRANSFERS,
    exported=TRANSFERS,
    samples=TRANSFER_SAMPLES,
    formats={"table": _table, "markdown": _markdown, "pccl": _pccl},
    metrics=TRANSFER_METRICS,
    measure=measure_transfer,
    counted=_counted,
    headline=headline_of_copies,
    insights=insights_on_copies,
    titled=lambda runs: "copies between devices",
    method=method_of_transfers,
    method_words=METHOD_OF_COPIES,
    by_session=False,
    traced="device",
    sections=transfer_sections,
    page_columns=PAGE_COLUMNS,
    page_cells=cells_of_transfer,
)
