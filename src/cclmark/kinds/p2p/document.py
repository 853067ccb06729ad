"""What a run of copies says, and the fields of its results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import cast

import msgspec

from cclmark.base.grouping import abridged, by_key
from cclmark.base.statistics import median
from cclmark.document.blocks import (
    Block,
    Document,
    Evidence,
    Finding,
    HeadFigure,
    RunContent,
    Severity,
    Table,
)
from cclmark.document.case_fields import status_fields
from cclmark.document.chart_model import ChartCurve, Heat, Lines, key_of
from cclmark.document.columns import Cell, Column, Layout
from cclmark.document.deviations import (
    OTHER_LINKS,
    TOO_FEW_PAIRS,
    extremes,
    least_span,
    link_advice,
    pairs_alike,
    relative,
)
from cclmark.document.device_labels import device_labels
from cclmark.document.exporter import Exporter
from cclmark.document.fields import Field, Fields, TableField
from cclmark.document.finding_rules import RULES_OF_REFERENCES, evidence_of_share
from cclmark.document.insight_words import amount, listed
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.reference_notes import share_text, verdict_of, verdict_text
from cclmark.document.remarks import elements_text, planned_results, without_figures_text
from cclmark.document.report_kind import ReportKind, View
from cclmark.document.sample_columns import INDEX, SAMPLE, times_of_samples
from cclmark.document.soundness import nothing_wrong, of_data, of_statuses
from cclmark.document.text import (
    BYTES_PER_GB,
    UNSETTLED,
    UNSETTLED_NOTE,
    US_PER_S,
    figure,
    precision_text,
    three_digits,
)
from cclmark.journal.item_results import TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header, Machine, Relation, Settings, TransferSummary
from cclmark.journal.topology import LEGEND, UNKNOWN_LINK
from cclmark.kinds.p2p.figures import (
    WRONG,
    Deviation,
    LinkLimits,
    Matrix,
    MatrixCell,
    MatrixCollector,
    checks_of,
    checks_text,
    deviation_text,
    figures,
    is_on_host,
    note,
    outliers_of,
    series_of,
    series_title,
    utilisation,
)
from cclmark.references.copy_matching import slowest_matches
from cclmark.references.match import Match
from cclmark.work.pair_cases import Pair
from cclmark.work.sizes import format_size
from cclmark.work.transfers import EVENTS, HOST_FUNCTION, STREAM_WAIT, Transfer

_MOST_NAMED = 10
# Half widths of medians: of most medians, and of a single one, that deserve attention.
_UNSURE = 0.05
_COARSE = 0.5
_MOST_REASONS = 20  # below a matrix
_MOST_FLOWS = 8  # named in a cell
_MOST_APART = 2.0  # ratio of the rates of links of one kind, for a range
_WITHOUT_END = 1 << 62  # results of a matrix: how many is unknown
_UP, _DOWN = "▲", "▼"
_LAUNCH_COUNTS = 0.02  # share of launches in a time from which it is a bound
_BOUNDS = {"latency": "≤", "bandwidth": "≥", "utilisation": "≥"}
_GATE_WORDS = {
    "": "behind a gate, where streams can be held",
    STREAM_WAIT: "behind a gate",
    HOST_FUNCTION: "behind host functions",
    EVENTS: "around copies that are not held",
}


@dataclass(frozen=True)
class _Row:
    """A flow of a result. ``names``, ``limits``: of devices and links; unknown on pages."""

    result: TransferResult
    flow: int = 0
    names: Sequence[str] = ()
    limits: LinkLimits | None = None

    @property
    def transfer(self) -> Transfer:
        return self.result.transfer

    @property
    def kernel(self) -> str:
        """The kernel that copies, or the messages of a library between hosts."""
        return self.transfer.means if self.transfer.ccl else self.transfer.kernel

    def end(self, place: int) -> str | None:
        return self.names[self.transfer.flows[self.flow][place]] if self.names else None

    @property
    def rate_bytes_per_s(self) -> float | None:
        summary = self.result.summary
        rates = [] if summary is None else summary.flow_bytes_per_s
        return rates[self.flow] if rates else None

    @property
    def launch_s(self) -> float | None:
        """The most of the time that was waiting for launches; None where streams were held."""
        return (None if self.result.summary is None else self.result.summary.launch_s) or None

    @property
    def share(self) -> float | None:
        return None if self.limits is None else utilisation(self.result, self.limits)

    @property
    def reason(self) -> str:
        """The reason; of wrong data the first wrong element, of this flow if it has any."""
        checked = self.result.verification
        if self.result.reason or checked is None or not checked.findings:
            return self.result.reason
        own = (one for one in checked.findings if one.rank == self.flow)
        first = next(own, checked.findings[0])
        start, end = self.transfer.flows[first.rank]
        return f"{start}→{end}: {elements_text(first)}"

    @property
    def flows(self) -> str:
        transfer = self.transfer
        if transfer.host_memory:
            return f"{transfer.flows[0][0]} {transfer.way_of_host} {transfer.host_memory} host"
        more = " …" if len(transfer.flows) > _MOST_FLOWS else ""
        return ", ".join(f"{one}→{other}" for one, other in transfer.flows[:_MOST_FLOWS]) + more


def _total_bytes_per_s(row: _Row) -> float | None:
    return (None if row.result.summary is None else row.result.summary.bytes_per_s) or None


# A row for each flow; on pages for each transfer.
FIELDS = Fields(
    [
        Field(
            "measure",
            "What was measured: unidirectional, bidirectional or latency.",
            "transfer.measure",
            "text",
        ),
        Field("scope", "Which flows ran at once, as --scope.", "transfer.scope", "text"),
        Field(
            "means",
            "What copies: the copy engine, a kernel, or messages of a library.",
            "transfer.means",
            "text",
            in_tables=False,
        ),
        Field(
            "direction",
            "Which device copies: the source (write) or the destination (read).",
            "transfer.direction",
            "text",
        ),
        TableField(
            "engine", "CE: the copy engine of the device; SM: a kernel.", "transfer.engine", "text"
        ),
        TableField(
            "kernel",
            "Kernel that copies, or messages of a library between hosts.",
            "kernel",
            "text",
        ),
        Field("flows", "Devices from and to which bytes flow.", "flows", "text", in_tables=False),
        TableField(
            "from",
            "Source of the data; with the host both are the device.",
            lambda row: row.end(0),
            "text",
        ),
        TableField("to", "Destination of the data.", lambda row: row.end(1), "text"),
        TableField(
            "host_memory",
            "pinned or pageable memory of the host, for --scope host.",
            "transfer.host_memory",
            "text",
        ),
        TableField("to_host", "Whether the host receives the bytes.", "transfer.to_host", "bool"),
        TableField(
            "numa", "near or far memory of the host, for --scope host.", "transfer.numa", "text"
        ),
        Field("size_bytes", "Bytes of one copy.", "transfer.size_bytes", "int"),
        TableField(
            "offset_bytes",
            "Distance of the copied bytes from the beginning of their buffers.",
            "transfer.offset_bytes",
            "int",
        ),
        TableField(
            "blocks",
            "Blocks of the kernel as given; empty for the default.",
            lambda row: row.transfer.blocks or None,
            "int",
        ),
        TableField(
            "threads",
            "Threads of a block as given; empty for the default.",
            lambda row: row.transfer.threads or None,
            "int",
        ),
        TableField(
            "peer_access",
            "Whether copies are direct; otherwise they go through the host.",
            "transfer.peer_access",
            "bool",
        ),
        TableField(
            "method",
            "How a latency was measured: copy, chase or ping-pong.",
            "transfer.method",
            "text",
        ),
        *status_fields("reason", "result.status"),
        Field(
            "time_us",
            "Median time of a copy of the slowest flow, or latency.",
            "result.summary.time_s",
            gauge="time_seconds",
        ),
        Field("min_us", "Shortest sample.", "result.summary.min_s"),
        Field("max_us", "Longest sample.", "result.summary.max_s"),
        TableField(
            "call_us", "Median time of the host in the call of one copy.", "result.summary.call_s"
        ),
        TableField(
            "launch_us",
            "Upper limit of what launches add to time_us; empty where streams were held.",
            "launch_s",
        ),
        TableField(
            "gate",
            "host-function or events where streams could not wait for memory, else empty.",
            "result.gate",
            "text",
        ),
        Field("samples", "Samples that the figures are of.", "result.summary.samples", "int"),
        TableField(
            "half_width",
            "Half of the 95 % confidence interval of the median, as a share of it.",
            "result.summary.half_width",
            direction="lower",
        ),
        TableField(
            "converged",
            "Whether the median reached the requested precision.",
            lambda row: None if row.result.summary is None else int(row.result.converged),
            "bool",
        ),
        TableField(
            "gbps", "Median bandwidth of a flow.", "rate_bytes_per_s", gauge="bytes_per_second"
        ),
        Field(
            "total_gbps",
            "Bandwidth of all flows together: their bytes over the time of the slowest.",
            _total_bytes_per_s,
            name="bandwidth_gbps",
        ),
        TableField(
            "share",
            "Total bandwidth over the limits of the links; empty where flows share a link.",
            "share",
            direction="higher",
        ),
        Field(
            "wrong",
            "Wrong elements of 4 bytes in all flows; empty without a check.",
            "result.verification.wrong",
            "int",
            gauge="wrong_elements",
            direction="lower",
        ),
    ],
    rows=lambda known, result: [
        _Row(result, flow, *known) for flow in range(len(result.transfer.flows))
    ],
    known=lambda header: (device_labels(header.devices), LinkLimits(header.relations)),
    page_row=_Row,
    gauges="cclmark_transfer",
    labels=(
        *("measure", "scope", "direction", "engine", "kernel", "method", "size_bytes"),
        *("offset_bytes", "blocks", "threads", "peer_access", "host_memory", "to_host", "numa"),
        *("from", "to"),
    ),
    noun="a transfer",
)


def _measure(series: Series, result: TransferResult, run: RunLabels) -> None:
    """Sets the gauges of one transfer; those of the whole have the labels of its first flow."""
    if result.status == "skipped":
        return
    rows = [_Row(result, flow, run.devices) for flow in range(len(result.transfer.flows))]
    flows = ("flows", str(len(rows)))
    by_flow = [FIELDS.labels_of(row, run, flows) for row in rows]
    for labels in by_flow:
        series.begin(labels)
    gauges = {one.key: FIELDS.gauge_of(one) for one in FIELDS.all if one.gauge}
    series.worst(FIELDS.ok_gauge, by_flow[0], float(result.status == "ok"), min)
    if result.verification is not None:
        series.worst(gauges["wrong"], by_flow[0], result.verification.wrong, max)
    if result.summary is not None:
        series.set(gauges["time_us"], by_flow[0], result.summary.time_s)
        for labels, row in zip(by_flow, rows, strict=True):
            series.set(gauges["gbps"], labels, row.rate_bytes_per_s)


def _samples(header: Header) -> Callable[[TransferResult], Iterator[list[Cell]]]:
    names = device_labels(header.devices)
    return lambda result: _sample_rows(result, names)


def _sample_rows(result: TransferResult, names: Sequence[str]) -> Iterator[list[Cell]]:
    transfer, samples = result.transfer, result.samples
    if samples is None:
        return
    lead: list[Cell] = [
        *(result.index, transfer.measure, transfer.scope, transfer.direction),
        *(transfer.engine, transfer.kernel, transfer.size_bytes),
    ]
    for sample, flow, times in times_of_samples((samples.device_s, samples.call_s)):
        known = flow < len(transfer.flows)
        ends = [names[place] for place in transfer.flows[flow]] if known else [None, None]
        yield [*lead, sample, flow, *ends, samples.copies_per_sample, *times]


_BY_KEY = {one.key: one.column for one in FIELDS.all}
_SAMPLES = Layout(
    [
        INDEX,
        *(_BY_KEY[key] for key in ("measure", "scope", "direction", "engine", "kernel")),
        *(_BY_KEY["size_bytes"], SAMPLE),
        Column("flow", "int", "Number of the flow, from 0."),
        *(_BY_KEY["from"], _BY_KEY["to"]),
        Column("copies_per_sample", "int", "Copies that the times were divided by."),
        Column("device_s", "float", "Time of one copy by events of the device."),
        Column("call_s", "float", "Time of one call on the host."),
    ],
    _samples,
    exact=True,
)


def document_of_transfers(run: RunContent) -> Document:
    """Composes what a run says. Hosts measure at once: matrices are complete at the end only."""
    results = cast("Sequence[TransferResult]", run.results)
    matrices = _matrices(run.header, results)
    journal = Journal(run.header, results=[*results], footer=run.footer)
    matches: Mapping[Transfer, Match] = {}
    findings: list[Finding] = []
    if run.is_whole:
        matches = slowest_matches(results, run.header, run.references.match_transfer)
        outliers = outliers_of(results, run.header)
        by_reference = any(map(verdict_of, matches.values()))
        findings += _findings(journal, matches)
        findings += nothing_wrong(
            *(journal, findings),
            compared=by_reference or outliers.compared > 0,
            lacking=TOO_FEW_PAIRS,
            unjudged=OTHER_LINKS * (outliers.rest > 0 and not by_reference),
        )
    return Document(
        "Copies between devices",
        method_of_transfers(run.header),
        [*_heats(matrices, run.header, results)],
        findings,
        _outcome(run.header, results),
        any(one.status not in ("ok", "skipped") for one in results),
        noun="device",
        opening=[*_connections(run.header)],
        closing=[*_closing(matrices, results, matches)] if run.is_whole else [],
        in_parts=len({device.host for device in run.header.devices}) == 1,
        head_figures=[*_head_figures(results, run.header)] if run.is_whole else [],
    )


def method_of_transfers(header: Header) -> str:
    """Describes in a line how copies were measured."""
    if header.imported is not None:
        return "one figure for each transfer"
    settings = header.settings
    clock = f"device events {_GATE_WORDS[settings.gate]}"
    if is_on_host(header):
        clock = "host clock after a barrier"
    copies = f"samples of {settings.iterations} copies, " if settings.iterations else ""
    length = f"until the median is known to ±{settings.precision * 100:g} % (95 %)"
    check = "every last sample checked" if settings.check else "copies not checked"
    text = f"{clock}, {copies}{length}, {check}"
    if len({device.host for device in header.devices}) == 1:
        return text
    return f"{text}; messages between hosts are measured and checked as by cclmark pairs"


def _connections(header: Header) -> Iterator[Heat]:
    """The kind of link of each pair, and the length of its path."""
    if not header.relations:
        return
    kinds = {one.kind for one in header.relations}
    shown = {"X", *(re.sub(r"\d+$", "#", kind) for kind in kinds), *kinds}
    limits = [*_limits(header.relations), *_affinities(header)]
    if kinds != {UNKNOWN_LINK}:
        legend = [f"{sign}: {text}" for sign, text in LEGEND.items() if sign in shown]
        own = {(one.first, one.second): one.kind for one in header.relations}
        yield _of_links("Connections", header, own, "X", [*legend, *limits])
        limits = []
    steps = {
        (one.first, one.second): "?" if one.hops is None else str(one.hops)
        for one in header.relations
    }
    meaning = ["0 no path, 1 direct, n over n - 1 other devices", *limits]
    yield _of_links("P2P connectivity and min path", header, steps, "0", meaning)


def _affinities(header: Header) -> Iterator[str]:
    """The processors near devices, and their NUMA node, where the system reports them."""
    places = ((one.near, one.numa_node) for one in header.devices)
    named = by_key(zip(places, device_labels(header.devices), strict=True))
    for (near, node), names in named.items():
        if near:
            of_node = f" of NUMA node {node}" if node >= 0 else ""
            yield f"near {abridged(names, _MOST_NAMED)}: processors {near}{of_node}"


def _limits(relations: Sequence[Relation]) -> Iterator[str]:
    memory = max((one.limit_bytes_per_s for one in relations if one.kind == "MEM"), default=0)
    if memory:
        limit = f"{figure(memory / BYTES_PER_GB)} GB/s"
        yield f"limit of host devices: {limit}, copies in memory by all of a host at once"
    limits = {one.limit_bytes_per_s for one in relations if one.kind != "MEM"} - {0.0}
    if limits:
        ends = sorted({min(limits), max(limits)})
        each = " to ".join(f"{limit / BYTES_PER_GB:.0f}" for limit in ends)
        routed = any(one.hops == 2 and one.limit_bytes_per_s for one in relations)
        routes = "; of a pair without a link: all routes over one other device" if routed else ""
        yield f"link limit of a pair, one direction: {each} GB/s{routes}"


def _of_links(
    title: str, header: Header, by_pair: Mapping[Pair, str], own: str, meaning: Sequence[str]
) -> Heat:
    """A matrix of texts. ``own``: of a device with itself."""
    names = device_labels(header.devices)
    numbers = range(len(names))
    texts = [
        [own if row == column else by_pair.get((row, column), "") for column in numbers]
        for row in numbers
    ]
    return Heat(
        *(key_of(title, set()), title, title, "", "", names, names),
        values=[[None] * len(names)] * len(names),
        texts=texts,
        hover=texts,
        meaning=meaning,
        of_devices=True,
    )


def _matrices(header: Header, results: Sequence[TransferResult]) -> list[Matrix]:
    collector = MatrixCollector(header, shares=True)
    found = [matrix for result in results for matrix in collector.add(result)]
    return [*found, *collector.finish()]


def _heats(
    matrices: Sequence[Matrix], header: Header, results: Sequence[TransferResult]
) -> Iterator[Block]:
    kinds = {(one.first, one.second): one.kind for one in header.relations}
    far = {(one.transfer.series(), one.pair): one for one in outliers_of(results, header).far}
    names = device_labels(header.devices)
    keys: set[str] = set()
    bandwidths: dict[Transfer, str] = {}
    for matrix in matrices:
        heat = _heat(matrix, key_of(f"p2p {matrix.title}", keys), kinds, far, names)
        if matrix.figure == "bandwidth":
            bandwidths[matrix.series] = heat.key
        elif matrix.figure == "utilisation":
            heat = replace(heat, twin_of=bandwidths.get(matrix.series, ""))
        yield replace(heat, meaning=[*_within_caches(matrix, header.machine), *heat.meaning])


def _within_caches(matrix: Matrix, machine: Machine) -> Iterator[str]:
    """That copies of the host are within its caches, as far as sizes tell."""
    size_bytes = matrix.series.size_bytes
    if matrix.on_host and matrix.figure == "bandwidth" and 2 * size_bytes <= machine.cache_bytes:
        yield (
            f"two buffers of {format_size(size_bytes)} fit into the last-level caches "
            f"({format_size(machine.cache_bytes)}): copies within caches, not of memory"
        )


def _heat(
    matrix: Matrix,
    key: str,
    kinds: Mapping[Pair, str],
    far: Mapping[tuple[Transfer, Pair], Deviation],
    names: Sequence[str],
) -> Heat:
    """A matrix; without rows and columns if it has no figure."""
    rows = matrix.rows or list(dict.fromkeys(row for row, _ in matrix.cells))
    columns = matrix.columns
    if all(cell.result.summary is None for cell in matrix.cells.values()):
        rows, columns = [], []
    cells = [[matrix.cells.get((row, column)) for column in columns] for row in rows]
    values = [[None if cell is None else _value(cell) for cell in line] for line in cells]
    found = [[_far(matrix, cell, far) for cell in line] for line in cells]
    filled = [[*zip(*line, strict=True)] for line in zip(cells, values, found, strict=True)]
    marks = ["" if one is None else _DOWN if one.worse else _UP for line in found for one in line]
    width = 2 if any(marks) else 0
    title = f"{matrix.title[0].upper()}{matrix.title[1:]} [{matrix.unit}]"
    return Heat(
        key=key,
        title=title,
        says=f"{title}. {extremes(values, matrix.unit, rows, columns)}",
        column_title="",
        unit=matrix.unit,
        rows=rows,
        columns=columns,
        values=values,
        texts=[[_text(matrix, *one, width) for one in line] for line in filled],
        hover=[[_details(matrix, *one, kinds) for one in line] for line in filled],
        higher_is_better=matrix.figure in ("bandwidth", "utilisation"),
        least_span=least_span(values),
        wrong=[
            (row, column)
            for row, line in enumerate(cells)
            for column, cell in enumerate(line)
            if cell is not None and _value(cell) is None and cell.result.status != "skipped"
        ],
        meaning=[
            *(part for part in matrix.meaning.split("; ") if part),
            *_gate_notes(matrix),
            *([] if all(map(_is_settled, matrix.cells.values())) else [UNSETTLED_NOTE]),
        ],
        reasons=_reasons(matrix, names),
        of_devices=True,
        is_detail=matrix.figure == "utilisation",
    )


def _gate_notes(matrix: Matrix) -> Iterator[str]:
    """What launches add to the figures of a matrix, and times by the host's clock."""
    if matrix.figure not in ("bandwidth", "latency"):
        return
    results = [cell.result for cell in matrix.cells.values() if cell.result.summary is not None]
    shares = [*map(_launch_share, results)]
    if any(one.gate == HOST_FUNCTION for one in results):
        yield "host functions held the streams"
    if any(one.gate == EVENTS for one in results):
        sign = _BOUNDS[matrix.figure]
        bound = f" ({sign}: a bound)" if max(shares) > _LAUNCH_COUNTS else ""
        yield f"streams were not held: launches are at most {max(shares):.1%} of a time{bound}"
    if any(one.by_host for one in results):
        yield "times by the host's clock instead: the runtime does not time its events"


def _launch_share(result: TransferResult) -> float:
    """The most of the time of a copy that was waiting for launches, as a share."""
    summary = result.summary
    return 0.0 if summary is None or not summary.time_s else summary.launch_s / summary.time_s


def _value(cell: MatrixCell) -> float | None:
    return None if cell.note == WRONG else cell.value


def _far(
    matrix: Matrix, cell: MatrixCell | None, far: Mapping[tuple[Transfer, Pair], Deviation]
) -> Deviation | None:
    """The deviation of a cell; None for one that is as usual, or is no measured figure."""
    if cell is None or _value(cell) is None or matrix.figure not in ("bandwidth", "latency"):
        return None
    return far.get((cell.result.transfer.series(), cell.judged_pair))


def _text(
    matrix: Matrix,
    cell: MatrixCell | None,
    value: float | None,
    found: Deviation | None,
    width: int,
) -> str:
    """A figure with a mark of ``width`` characters if it stands out, or why there is none."""
    if cell is None:
        return "x"
    if value is None:
        return cell.note or "?"
    mark = "" if found is None else f" {_DOWN}" if found.worse else f" {_UP}"
    shown = f"{_bound_sign(matrix, cell)}{figure(value)}"
    return f"{'' if _is_settled(cell) else UNSETTLED}{shown}{mark:<{width}}"


def _bound_sign(matrix: Matrix, cell: MatrixCell) -> str:
    """The sign of a figure in which launches count, empty for the others."""
    is_bound = _launch_share(cell.result) > _LAUNCH_COUNTS
    return _BOUNDS.get(matrix.figure, "") if is_bound else ""


def _is_settled(cell: MatrixCell) -> bool:
    return cell.result.summary is None or cell.result.converged


def _details(
    matrix: Matrix,
    cell: MatrixCell | None,
    value: float | None,
    found: Deviation | None,
    kinds: Mapping[Pair, str],
) -> str:
    if cell is None:
        return ""
    if value is None:
        return cell.note or "?"
    words = [f"{figure(value)} {matrix.unit}"]
    words += [kinds[cell.pair]] if cell.pair in kinds else []
    if found is not None:
        latency = found.transfer.measure == "latency"
        share = relative(found.value, found.usual, lower_is_better=latency)
        words.append(f"{share} than usual for {found.kind}")
    return ", ".join(words)


def _reasons(matrix: Matrix, names: Sequence[str]) -> list[str]:
    """Why cells have no figure, which elements are wrong, and shares above the limit."""
    results = list({id(cell.result): cell.result for cell in matrix.cells.values()}.values())
    lines = dict.fromkeys(f"{note(one)}: {one.reason}" for one in results if one.summary is None)
    for result in results:
        for one in result.verification.findings if result.verification is not None else ():
            start, end = result.transfer.flows[one.rank]
            lines[
                f"{names[start]} → {names[end]}: {one.wrong} wrong, first element "
                f"{one.first_element} is {one.actual}, not {one.expected}"
            ] = None
    more = len(lines) - _MOST_REASONS
    cut = [f"{more} more: see the journal"] if more > 0 else []
    above = [matrix.above_limit] if matrix.above_limit else []
    return [*[*lines][:_MOST_REASONS], *cut, *above]


def _closing(
    matrices: Sequence[Matrix],
    results: Sequence[TransferResult],
    matches: Mapping[Transfer, Match],
) -> Iterator[Block]:
    """The medians by the swept parameters, and a line for each other matrix."""
    courses = (
        _course(results, "size_bytes", "message size", lambda transfer: transfer.size_bytes),
        _course(results, "blocks", "thread blocks", lambda transfer: transfer.blocks),
    )
    yield from (course for course in courses if course is not None)
    rows = []
    swept = _swept(results)
    for matrix in matrices:
        if matrix.figure in ("call", "utilisation") or _without_sweep(matrix.series) in swept:
            continue
        title = f"{matrix.title[0].upper()}{matrix.title[1:]}".replace(" bandwidth", "", 1)
        match = matches.get(matrix.series)
        share = "" if match is None else f"{share_text(match.share)} of {match.figure}"
        own = [cell for cell in matrix.cells.items() if cell[1].ccl == matrix.series.ccl]
        rows += _range(matrix, title, own, share)
        between = [cell for cell in matrix.cells.items() if cell[1].ccl != matrix.series.ccl]
        rows += _range(matrix, f"{title}, between hosts by {matrix.between_hosts}", between, "")
    if rows:
        head = ["copies", "median", "lowest (row, column)", "highest (row, column)"]
        head.append("slowest pair, of reference")
        if not any(row[-1] for row in rows):
            head, rows = head[:-1], [row[:-1] for row in rows]
        sides = "<" + ">" * (len(head) - 1)
        yield Table("all matrices in a line each", head, rows, sides)


def _without_sweep(series: Transfer) -> Transfer:
    return msgspec.structs.replace(series, size_bytes=0, blocks=0)


def _swept(results: Sequence[TransferResult]) -> set[Transfer]:
    """What was copied with several sizes or numbers of blocks: curves have its medians."""
    found: dict[Transfer, set[Transfer]] = {}
    for one in results:
        if one.transfer.measure != "latency" and not one.transfer.host_memory:
            series = series_of(one)
            found.setdefault(_without_sweep(series), set()).add(series)
    return {alike for alike, series in found.items() if len(series) > 1}


def _range(
    matrix: Matrix, title: str, cells: Sequence[tuple[tuple[str, str], MatrixCell]], share: str
) -> list[list[str]]:
    """A row of the table for some cells of a matrix, none without values."""
    values = sorted(
        (value, place, _bound_sign(matrix, one))
        for place, one in cells
        if (value := _value(one)) is not None
    )
    if not values:
        return []
    middle = median([value for value, _, _ in values])
    sign = next((sign for _, _, sign in values if sign), "")
    ends = [
        f"{own}{figure(value)} ({row}, {column})"
        for value, (row, column), own in (values[0], values[-1])
    ]
    return [[title, f"{sign}{figure(middle)} {matrix.unit}", *ends, share]]


def _course(
    results: Sequence[TransferResult], key: str, x_title: str, of: Callable[[Transfer], int]
) -> Lines | None:
    """The median over the pairs by the swept parameter; None if nothing was swept."""
    found: dict[Transfer, dict[int, list[float]]] = {}
    for result in results:
        transfer = result.transfer
        if transfer.measure == "latency" or transfer.host_memory:
            continue
        alike = msgspec.structs.replace(transfer.series(), **{key: 0})
        values = [value / BYTES_PER_GB for _, value in figures(result)]
        found.setdefault(alike, {}).setdefault(of(transfer), []).extend(values)
    series: list[ChartCurve] = []
    for alike, by_value in found.items():
        known = {value: rates for value, rates in sorted(by_value.items()) if rates and value}
        if len(known) < 2:
            continue
        words = [alike.measure, "" if alike.scope == "pairs" else alike.scope]
        words += [alike.direction, alike.means]
        words.append(f"{alike.blocks} blocks" if alike.blocks else "")
        words.append(format_size(alike.size_bytes) if alike.size_bytes else "")
        series.append(
            ChartCurve(
                name=" ".join(filter(None, words)),
                x=list(known),
                y=[median(rates) for rates in known.values()],
                low=[min(rates) for rates in known.values()],
                high=[max(rates) for rates in known.values()],
                colour=len(series),
            )
        )
    if not series:
        return None
    return Lines(
        key=f"p2p-by-{key.replace('_', '-')}",
        title=f"Copies against {x_title}: median over the pairs [GB/s]",
        says=f"Bandwidth of copies between devices against {x_title}, the median over the pairs "
        "with the slowest and the fastest pair as a band.",
        x_title=x_title,
        y_title="bandwidth [GB/s]",
        series=series,
        x_kind="bytes" if key == "size_bytes" else "number",
        in_texts=True,
    )


def _findings(journal: Journal, matches: Mapping[Transfer, Match]) -> Iterator[Finding]:
    results = journal.transfers
    checks = checks_of(results)
    unverifiable = f" ({checks_text(checks)})" if checks.unverifiable else ""
    # Texts have the elements and reasons below matrices.
    for one in of_data(journal, results, unverifiable):
        yield replace(one, is_outcome=one.severity == "good")
    for one in of_statuses(results):
        yield replace(one, is_outcome=one.severity == "note")
    yield from _unsettled(results, journal.header.settings)
    yield from _standing_out(journal)
    yield from _against_references(journal, matches)
    yield from _contention(results)


def _unsettled(results: Sequence[TransferResult], settings: Settings) -> Iterator[Finding]:
    """The medians that are less precise than requested, with the worst of them."""
    measured = [one for one in results if one.summary is not None]
    found = [
        (one.summary.half_width or 0.0, one)
        for one in measured
        if one.summary is not None and not one.converged
    ]
    if not found:
        return
    half_width, worst = max(found, key=lambda one: one[0])
    is_coarse = half_width > _COARSE or 2 * sum(own > _UNSURE for own, _ in found) > len(measured)
    yield Finding(
        "uncertain-medians" if is_coarse else "not-converged",
        "look" if is_coarse else "note",
        f"{amount(len(found), 'median')} of {len(measured)} did not get to "
        f"{precision_text(settings.precision, 2)} (95 %) within --max-time {settings.max_time_s:g} "
        f"s, the worst: {worst.transfer.describe()}, known to {precision_text(half_width, 2)}",
        advice="--max-time measures longer; on a host, nothing else should be at work meanwhile.",
        evidence=(
            Evidence.of("half_width", half_width, worst.transfer.describe(), settings.precision),
        ),
    )


def _standing_out(journal: Journal) -> Iterator[Finding]:
    """The pairs that stand out among those with the same kind of link, the slowest first."""
    names = device_labels(journal.header.devices)
    found = outliers_of(journal.transfers, journal.header)
    if not found.far and found.compared:
        yield pairs_alike("no pair", found.rest)
    advice = link_advice(journal)
    for one in found.far[:_MOST_NAMED]:
        own, advice = (advice, "") if one.worse else ("", advice)
        rule = "slow-pair" if one.worse else "fast-pair"
        severity: Severity = "look" if one.worse else "note"
        evidence = (_evidence(one, names),)
        yield Finding(rule, severity, deviation_text(one, names), advice=own, evidence=evidence)
    if len(found.far) > _MOST_NAMED:
        text = f"{len(found.far) - _MOST_NAMED} more pairs stand out"
        yield Finding("more-pairs", "note", text)


def _evidence(one: Deviation, names: Sequence[str]) -> Evidence:
    name = "time_us" if one.transfer.measure == "latency" else "total_gbps"
    start, end = (names[rank] for rank in one.pair)
    at = f"{start} → {end}: {series_title(one.transfer.series())}"
    return Evidence.of(name, one.value, at, one.usual)


def _against_references(journal: Journal, matches: Mapping[Transfer, Match]) -> Iterator[Finding]:
    """Whether the slowest pairs are normal."""
    normal: dict[str, list[tuple[float, str]]] = {}
    for series, match in matches.items():
        verdict = verdict_of(match)
        title = series_title(series)
        if verdict == "normal":
            normal.setdefault(match.name_and_differences, []).append((match.share, title))
        elif text := verdict_text(match):
            yield Finding(
                RULES_OF_REFERENCES[verdict],
                "look" if verdict else "unknown",
                f"{title}: the slowest pair, {text}",
                advice=link_advice(journal) if verdict == "low" else "",
                evidence=(evidence_of_share(match, title),),
            )
    for name, found in normal.items():
        ends = dict.fromkeys((min(found), max(found)))
        reach = " to ".join(dict.fromkeys(share_text(share) for share, _ in ends))
        matrices = amount(len(found), "matrix", "matrices")
        yield Finding(
            "normal-copies",
            "good",
            f"copies are normal: in {matrices} the slowest pair reaches {reach} of the reference "
            f"({name})",
            evidence=tuple(Evidence.of("of_reference_percent", *one) for one in ends),
        )


def _contention(results: Sequence[TransferResult]) -> Iterator[Finding]:
    """Compares all pairs at once with the pairs alone, if both were measured."""
    values: dict[Transfer, dict[str, list[float]]] = {}
    for result in results:
        scope = result.transfer.scope
        if result.transfer.measure == "unidirectional" and scope in ("pairs", "all-pairs"):
            alike = msgspec.structs.replace(result.transfer.series(), scope="")
            own = [value for (start, end), value in figures(result) if start != end]
            values.setdefault(alike, {}).setdefault(scope, []).extend(own)
    for alike, by_scope in values.items():
        alone = median(by_scope.get("pairs") or [0.0])
        if alone > 0 and by_scope.get("all-pairs"):
            share = median(by_scope["all-pairs"]) / alone
            what = f"{alike.direction} {alike.means}, {format_size(alike.size_bytes)}"
            yield Finding(
                "pairs-at-once",
                "note",
                f"all pairs at once reach {share:.1%} of a pair alone: {what}",
                evidence=(Evidence.of("of_alone_percent", share, what),),
            )


def _outcome(header: Header, results: Sequence[TransferResult]) -> str:
    """Counts the measured and the checked transfers."""
    if not results:
        return ""
    checks, planned = checks_of(results), planned_results(header)
    text = checks_text(checks)
    if len(results) < planned:
        measured = sum(one.summary is not None for one in results)
        text = (
            f"{measured} of {planned} transfers measured, {checks.checked} checked, "
            f"{checks.wrong} wrong"
        )
    return text + without_figures_text(results)


_Rates = list[tuple[Pair, float]]


def _fastest_series(results: Sequence[TransferResult]) -> tuple[str, _Rates] | None:
    """The fastest copies in one direction between two devices in words, and their rates."""
    by_series: dict[Transfer, _Rates] = {}
    for one in results:
        summary, transfer = one.summary, one.transfer
        if one.status == "ok" and _is_headline(transfer, summary):
            assert summary is not None
            rate = transfer.flows[0], summary.flow_bytes_per_s[0]
            by_series.setdefault(transfer.series(), []).append(rate)
    if not by_series:
        return None
    series = max(by_series, key=lambda one: max(rate for _, rate in by_series[one]))
    what = f"{series.means}, {series.direction}, {format_size(series.size_bytes)}"
    return what, by_series[series]


def _head_figures(results: Sequence[TransferResult], header: Header) -> Iterator[HeadFigure]:
    """The bandwidths of the fastest and the slowest pair, and the lowest latency."""
    found = _fastest_series(results)
    if found is None:
        for place, rate in _fastest_without_pairs(results).items():
            yield HeadFigure(f"fastest copies {place}", figure(rate / BYTES_PER_GB), "GB/s")
    else:
        what, rates = found
        names = device_labels(header.devices)
        ends = {"fastest pair": max(rates, key=itemgetter(1))}
        if len(rates) > 1:
            ends["slowest pair"] = min(rates, key=itemgetter(1))
        for label, ((first, second), rate) in ends.items():
            note = f"{names[first]} → {names[second]}, {what}"
            yield HeadFigure(label, figure(rate / BYTES_PER_GB), "GB/s", note)
        rate, limit = next(iter(max(own) for own in _by_kind(rates, header.relations).values()))
        if rate <= limit:
            text = f"{rate / limit * 100:.0f}"
            yield HeadFigure("of the link limit", text, "%", f"of {limit / BYTES_PER_GB:.0f} GB/s")
    latencies = [
        one
        for one in results
        if one.status == "ok" and one.summary is not None and one.converged
        if (one.transfer.scope, one.transfer.measure) == ("pairs", "latency")
        if one.transfer.flows[0][0] != one.transfer.flows[0][1]
    ]
    if latencies:
        least = min(latencies, key=lambda one: one.summary.time_s if one.summary else 0.0)
        assert least.summary is not None
        time_us = three_digits(least.summary.time_s * US_PER_S)
        yield HeadFigure("lowest latency", time_us, "µs", least.transfer.means)


def _headline(run: NamedRun) -> str:
    """The fastest copies in one direction between two devices, by kind of link."""
    found = _fastest_series(run.journal.transfers)
    if found is None:
        return _headline_without_pairs(run.journal)
    what, rates_of_pairs = found
    kinds = _by_kind(rates_of_pairs, run.journal.header.relations)
    texts = []
    for kind, rates in kinds.items():
        over = f" over {(kind or 'unknown links')}" if len(kinds) > 1 else ""
        texts.append(f"{_span([rate for rate, _ in rates])}{over}{_of_limit(rates)}")
    return f"The fastest copies between two devices ({what}) run at {'; '.join(texts)}."


def _fastest_without_pairs(results: Sequence[TransferResult]) -> dict[str, float]:
    """The fastest copies in one direction within a device, and with the memory of the host."""
    fastest: dict[str, float] = {}
    for one in results:
        summary, transfer = one.summary, one.transfer
        if one.status != "ok" or summary is None or not summary.flow_bytes_per_s:
            continue
        if transfer.measure == "latency" or transfer.scope not in ("local", "host"):
            continue
        ways = {"→": "to the host", "←": "from the host", "↔": "in both directions with the host"}
        place = "within a device" if transfer.scope == "local" else ways[transfer.way_of_host]
        fastest[place] = max(fastest.get(place, 0.0), summary.bytes_per_s)
    return fastest


def _headline_without_pairs(journal: Journal) -> str:
    fastest = _fastest_without_pairs(journal.transfers)
    if not fastest:
        return ""
    slots = {
        link.rate_bytes_per_s * link.count for link in journal.header.links if link.kind == "PCIe"
    }
    limit = slots.pop() if len(slots) == 1 else 0.0
    texts = []
    for place, rate in fastest.items():
        most = limit * (1 + place.startswith("in both")) if "host" in place else 0.0
        share = f" ({rate / most:.0%} of the PCIe limit)" if rate <= most else ""
        texts.append(f"{rate / BYTES_PER_GB:.1f} GB/s {place}{share}")
    return f"The fastest copies run at {listed(texts)}."


def _is_headline(transfer: Transfer, summary: TransferSummary | None) -> bool:
    if summary is None or not summary.flow_bytes_per_s:
        return False
    start, end = transfer.flows[0]
    return (transfer.scope, transfer.measure) == ("pairs", "unidirectional") and start != end


def _by_kind(
    rates: Sequence[tuple[Pair, float]], relations: Sequence[Relation]
) -> dict[str, list[tuple[float, float]]]:
    """Returns rates, each with the limit of its link, by kind of link, the fastest kind first.

    Pairs with an unknown kind of link share one entry; an unknown limit is 0.
    """
    known = {(one.first, one.second): one for one in relations}
    found: dict[str, list[tuple[float, float]]] = {}
    for pair, rate in rates:
        one = known.get(pair)
        kind, limit = ("", 0.0) if one is None else (one.kind, one.limit_bytes_per_s)
        found.setdefault(kind, []).append((rate, limit))
    return dict(sorted(found.items(), key=lambda entry: -max(entry[1])[0]))


def _span(rates: Sequence[float]) -> str:
    """Formats rates as a range, or as the median if they differ too much."""
    low, high = min(rates) / BYTES_PER_GB, max(rates) / BYTES_PER_GB
    if high > _MOST_APART * low:
        middle = median(rates) / BYTES_PER_GB
        return f"{middle:.1f} GB/s (the median of {amount(len(rates), 'pair')})"
    ends = dict.fromkeys((f"{low:.1f}", f"{high:.1f}"))
    return f"{' to '.join(ends)} GB/s"


def _of_limit(rates: Sequence[tuple[float, float]]) -> str:
    """The share of the fastest rate in its own limit; the limit too if all have the same."""
    rate, limit = max(rates)
    if rate > limit:  # unknown, or measured while something else used the memory
        return ""
    if len({own for _, own in rates}) > 1:
        return f", the fastest {rate / limit:.0%} of its limit"
    return f", {rate / limit:.0%} of the {limit / 1e9:.0f} GB/s limit"


def _page_cells(run: NamedRun) -> Callable[[TransferResult], dict[str, Cell]]:
    """Returns a function that gives the fields, and the share of a reference."""
    of_fields = FIELDS.page_cells(run)

    def cells_of(result: TransferResult) -> dict[str, Cell]:
        cells = of_fields(result)
        if (match := run.notes.match_transfer(result, run.journal.header)) is not None:
            cells |= {"of_reference_percent": match.share * 100, "reference": match.words}
        return cells

    return cells_of


def _pccl(view: View) -> Exporter[TransferResult]:
    from cclmark.kinds.p2p.formats import TransferPccl

    return TransferPccl(shares=view.details, by_process=view.hosts, most_devices=view.most_devices)


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
    fields=FIELDS,
    samples=_SAMPLES,
    document=document_of_transfers,
    part=lambda result: (series_of(result), _WITHOUT_END),
    in_order=True,
    needs_samples=False,
    formats={"pccl": _pccl},
    measure=_measure,
    counted=_counted,
    headline=_headline,
    titled=lambda runs: "copies between devices",
    method=method_of_transfers,
    method_words="A copy's bandwidth is its bytes over the median of its samples; several at once "
    "have all of their bytes over the time of the slowest.",
    by_session=False,
    traced="device",
    page_cells=_page_cells,
)
