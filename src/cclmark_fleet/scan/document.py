"""What a scan says, and the fields of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple, cast

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
from cclmark.document.chart_model import ChartCurve, Heat, Lines
from cclmark.document.fields import Field, Fields
from cclmark.document.head import method_of
from cclmark.document.insight_words import amount, first_line
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.report_kind import ReportKind
from cclmark.document.text import BYTES_PER_GB, US_PER_S, figure
from cclmark.work.sizes import format_size
from cclmark_fleet.scan.figures import ScanFigures, figures_of, plain_words
from cclmark_fleet.scan.fleet_rounds import CONFIRM, SHIFTED
from cclmark_fleet.scan.fleet_verdict import FABRIC_WIDE, NONE, TRANSIENT, UNKNOWN, Fault
from cclmark_fleet.scan.lists import NodeList
from cclmark_fleet.scan.plan import CERTAIN, HOSTS, WHOLE
from cclmark_fleet.scan.result import GroupTest, ScanResult

_MOST_ON_MAP = 64  # nodes beside each other; more would be smaller than a letter
_MOST_ROWS = 20
_WORDS = {
    "level": "level rounds",
    "random": "random rounds",
    SHIFTED: "shifted rounds",
    CONFIRM: "second pass",
    HOSTS: "each host, all_reduce",
    "quiet": "every other host, all_reduce",
    "loaded": "the same beside pairs",
    WHOLE: "all, all_reduce",
    "parts": "parts, all_reduce",
}


class _Row(NamedTuple):
    """A test and its round, for tables of values."""

    result: ScanResult
    test: GroupTest | None

    @property
    def status(self) -> str:
        """Of the round."""
        return self.result.status


def _rows(known: object, result: ScanResult) -> list[_Row]:
    return [_Row(result, test) for test in result.tests] or [_Row(result, None)]


def _of(name: str) -> Callable[[_Row], Any]:
    """A figure of the test; None if it was not measured."""
    return lambda row: (getattr(row.test, name) or None) if row.test is not None else None


def _measure(series: Series, result: ScanResult, run: RunLabels) -> None:
    for row in _rows(run, result) if result.tests else ():
        FIELDS.measure(series, row, run)


def _gbps(rate_bps: float) -> str:
    return figure(rate_bps / BYTES_PER_GB)


def document_of_scan(run: RunContent) -> Document:
    """Composes everything that a scan says."""
    results = cast("Sequence[ScanResult]", run.results)
    found = figures_of(run.header, results)
    return Document(
        "Scan of a fleet",
        method_of(run.header),
        [*_blocks(found)] if found.of_any else [],
        [*_findings(found, results)],
        noun="device",
        head_figures=[*_head_figures(found)],
        is_wrong=any(one.status == "wrong" for one in results),
    )


def _head_figures(found: ScanFigures) -> Iterator[HeadFigure]:
    """The verdict, and what is normal at the highest level."""
    if not found.of_any:
        return
    kinds = dict.fromkeys(one.kind for one in found.faults)
    first = found.faults[0]
    yield HeadFigure("verdict", ", ".join(kinds), "", " – ".join(first.where))
    rates = found.judgement.rates_bps
    if rates:
        level = max(rates, key=found.shape.level_names.index)
        noise = f"one test varies by {found.judgement.sigma:.1%}"
        yield HeadFigure(f"pairs at the level {level}", _gbps(rates[level]), "GB/s", noise)


def _blocks(found: ScanFigures) -> Iterator[Block]:
    if found.judgement.faults:
        yield _faults_table(found.judgement.faults)
    yield _rounds_table(found)
    yield from _heat(found)
    if marginal := found.judgement.marginal:
        rows = [[name, f"{change:+.1%}"] for name, change in marginal.items()]
        note = "Below the others by more than their spread, but not slow enough to be named."
        yield Table("marginal nodes", ("node", "rate"), rows[:_MOST_ROWS], "<>", [note])
    if found.changed:
        rows = [
            [name, _gbps(then), _gbps(now), f"{now / then - 1:+.1%}"]
            for name, then, now in found.changed
        ]
        title = f"changes since the scan accepted {found.fleet.accepted_at}"
        head = ("level or node", "then GB/s", "now GB/s", "change")
        yield Table(title, head, rows[:_MOST_ROWS], "<>>>")
    if found.slowest_parts:
        yield _parts_table(found)
    yield from _over_rounds(found)


def _faults_table(faults: Sequence[Fault]) -> Table:
    rows = [
        [
            one.kind,
            " – ".join(one.where),
            f"{one.effect:+.0%}" if one.effect else "",
            f"{one.confidence:.1%}" if one.confidence else "",
            f"{one.slow} of {one.tested}" if one.tested else "",
        ]
        for one in faults[:_MOST_ROWS]
    ]
    head = ("verdict", "where", "rate", "confidence", "slow tests")
    note = "confidence: 1 less the probability that chance explains the slow tests"
    return Table("what is slow", head, rows, "<<>>>", [note])


def _rounds_table(found: ScanFigures) -> Table:
    """Each purpose: rounds, tests, their rates, latency and tail."""
    rows = []
    for purpose, words in _WORDS.items():
        own = found.of_purpose(purpose)
        tests = [test for one in own for test in one.tests]
        rates = [test.rate_bps for test in tests if test.rate_bps]
        if not rates:
            continue
        one_way = [rate for test in tests for rate in (test.forward_bps, test.back_bps) if rate]
        latency = [test.latency_s for test in tests if test.latency_s]
        late = [test.latency_p99_s for test in tests if test.latency_p99_s]
        tails = [test.tail for test in tests if test.tail is not None]
        rows.append(
            [
                *(words, str(len(own)), f"{len(tests):,}", _gbps(median(rates)), _gbps(min(rates))),
                _gbps(median(one_way)) if one_way else "",
                figure(median(latency) * US_PER_S) if latency else "",
                figure(median(late) * US_PER_S) if late else "",
                f"{median(tails):.0%}" if tails else "",
            ]
        )
    head = ("what", "rounds", "tests", "GB/s", "lowest", "one way", "µs", "p99 µs", "p99 +")
    size = next((one.scanned.size_bytes for one in found.results), 0)
    note = (
        f"{format_size(size)}; GB/s: the median, of pairs in each direction at once; one way: in "
        "one direction alone; µs: of 8 bytes; p99 +: times of the largest size over their median"
    )
    return Table("tests", head, rows, "<>>>>>>>>", [note])


def _heat(found: ScanFigures) -> Iterator[Heat]:
    """The rates of pairs by node, over what is normal at their level."""
    shape, normal = found.shape, found.judgement.rates_bps
    names = shape.node_names
    if len(names) > 1:
        of, labels = shape.node_of, names
    else:
        of = tuple(range(shape.devices))
        labels = tuple(map(shape.device_name, range(shape.devices)))
    blamed = [name for one in found.judgement.faults for name in one.where]
    first = [at for at, name in enumerate(labels) if name in blamed]
    shown = sorted(
        [*first, *(at for at in range(len(labels)) if at not in set(first))][:_MOST_ON_MAP]
    )
    cells: dict[tuple[int, int], list[float]] = {}
    for test in found.pairs:
        one, other = test.devices
        level = shape.level_names[shape.level(one, other)]
        if of[one] != of[other] and normal.get(level) and test.rate_bps:
            share = test.rate_bps / normal[level]
            for key in ((of[one], of[other]), (of[other], of[one])):
                cells.setdefault(key, []).append(share)
    if not cells or len(shown) < 2:
        return
    values = [
        [median(cells[row, column]) * 100 if (row, column) in cells else None for column in shown]
        for row in shown
    ]
    texts = [["" if one is None else f"{one:.0f}" for one in row] for row in values]
    title = "Rates of pairs, as a share of what is normal at their level [%]"
    yield Heat(
        key="scan-pairs",
        title=title,
        says=f"{title}: a row and a column for each of {len(shown)} nodes.",
        column_title="",
        unit="%",
        rows=[labels[one] for one in shown],
        columns=[labels[one] for one in shown],
        values=values,
        texts=texts,
        hover=[[f"{text} %" if text else "not tested" for text in row] for row in texts],
        least_span=20.0,
        meaning=["Empty cells: these nodes did not meet."],
        notes=[f"{len(labels) - len(shown):,} more nodes are not shown."]
        if len(shown) < len(labels)
        else [],
        of_devices=True,
    )


def _parts_table(found: ScanFigures) -> Table:
    shape = found.shape
    rows = []
    for parts, test, ratio in found.slowest_parts:
        nodes = [shape.node_names[shape.node_of[test.devices[end]]] for end in (0, -1)]
        rows.append([str(parts), " to ".join(nodes), _gbps(test.rate_bps), f"{ratio - 1:+.0%}"])
    head = ("parts", "slowest part", "GB/s", "beside the others")
    return Table("all_reduce of parts of the fleet at once", head, rows, "><>>")


def _over_rounds(found: ScanFigures) -> Iterator[Lines]:
    """What is normal, and the slowest pair, round by round: drift shows here."""
    rounds = [one for one in found.results if one.scanned.is_of_pairs and one.tests]
    if len(rounds) < 3:
        return
    curves = []
    statistics: list[tuple[str, Callable[[list[float]], float]]] = [
        ("median", median),
        ("slowest pair", min),
    ]
    for at, (name, of) in enumerate(statistics):
        points = [
            (number, of([test.rate_bps for test in one.tests if test.rate_bps] or [0.0]))
            for number, one in enumerate(rounds, 1)
        ]
        curves.append(
            ChartCurve(
                name=name,
                x=[float(number) for number, _ in points],
                y=[rate / BYTES_PER_GB for _, rate in points],
                colour=at,
            )
        )
    title = "Rates of pairs, round by round [GB/s]"
    yield Lines(
        key="scan-rounds",
        title=title,
        says=f"{title}: the median and the slowest pair of each.",
        x_title="round",
        y_title="GB/s",
        series=curves,
        x_kind="number",
    )


_SEVERITIES: dict[str, Severity] = {NONE: "good", UNKNOWN: "unknown", TRANSIENT: "look"}


def _findings(found: ScanFigures, results: Sequence[ScanResult]) -> Iterator[Finding]:
    lost = [one for one in results if one.status in ("died", "timeout")]
    if lost:
        reason = first_line(lost[0].reason)
        text = f"{amount(len(lost), 'round')} without figures: {reason}"
        yield Finding("failed-cases", "bad", text)
    if not found.of_any:
        return
    for fault in found.faults:
        severity = _SEVERITIES.get(fault.kind, "bad")
        at = " – ".join(fault.where)
        evidence = (Evidence.of("ratio", 1 + fault.effect, at, 1.0),) if fault.effect else ()
        yield Finding(
            "fleet-verdict",
            severity,
            plain_words(fault),
            advice=_advice(fault, found),
            evidence=evidence,
        )
    wrong = [one for one in results if one.status == "wrong"]
    names = [
        " – ".join(map(found.shape.device_name, test.devices[:2]))
        for one in wrong
        for test in one.tests
        if test.is_wrong
    ]
    if wrong:
        where = f": {', '.join(names[:_MOST_ROWS])}" if names else ""
        yield Finding(
            "wrong-data", "bad", f"data were wrong in {amount(len(wrong), 'round')}{where}"
        )
    if found.judgement.marginal:
        count = amount(len(found.judgement.marginal), "node")
        text = f"{count} a little below the others: {', '.join([*found.judgement.marginal][:9])}"
        yield Finding("fleet-marginal", "note", text)
    if found.judgement.once:
        pairs = amount(found.judgement.once, "pair")
        yield Finding("fleet-once", "note", f"{pairs} slow in a single test, and not again")
    if (part := found.narrowed) is not None:
        ends = dict.fromkeys(found.shape.device_name(part[0].devices[end]) for end in (0, -1))
        text = (
            f"all_reduce of parts narrows it to {' to '.join(ends)}: {part[1] - 1:+.0%} beside the "
            "other parts"
        )
        part_ratio = Evidence.of("ratio", part[1], "beside other parts", 1.0)
        yield Finding("fleet-narrowed", "look", text, evidence=(part_ratio,))
    if (load := found.load) is not None and load[1] < load[0] * (1 - _LOADED):
        text = (
            f"the all_reduce of every other host has {_gbps(load[1])} GB/s beside the pairs of the "
            f"others, and {_gbps(load[0])} GB/s while they rest"
        )
        beside = Evidence.of("rate_gbps", load[1], "beside pairs", load[0])
        yield Finding("fleet-under-load", "note", text, evidence=(beside,))
    for size, low, of in found.dips:
        text = f"{low} of {of} pairs are slower at {format_size(size)} than at the smaller size"
        yield Finding("fleet-dip", "look", text)
    if not found.fleet.floors_bps:
        text = (
            "no floors are known for these devices: whether all of them are slow is not judged; "
            "give them with --floor, or accept a good scan with --accept"
        )
        yield Finding("fleet-without-floors", "unknown", text)
    early = sum(one.reason.startswith(CERTAIN) for one in results)
    if early:
        text = (
            f"{amount(early, 'round')} not measured, because the verdict was certain before; "
            "--complete measures all"
        )
        yield Finding("fleet-early", "note", text)
    late = [one.reason for one in results if one.status == "skipped" and "--budget" in one.reason]
    if late:
        text = f"{amount(len(late), 'round')} not measured: {late[0]}"
        yield Finding("fleet-budget", "unknown", text)


_LOADED = 0.25  # of a collective's rate beside others' pairs


def _advice(fault: Fault, found: ScanFigures) -> str:
    """What to do, with the command that tests it again."""
    if fault.kind in (NONE, UNKNOWN):
        return ""
    if fault.kind == TRANSIENT:
        return "Scan again, at another time: `cclmark rerun JOURNAL`."
    item = found.results[0].scanned
    size = format_size(item.size_bytes).replace(" ", "").removesuffix("iB").removesuffix("B")
    command = f"cclmark scan --ccl {item.ccl} -e {size}"
    if fault.kind == FABRIC_WIDE:
        return (
            "No node is the cause: look at routes, congestion control and other jobs, and narrow "
            f"it with `{command} --bisect`."
        )
    if fault.effect <= -1:
        return "`cclmark export --format slurm JOURNAL` lists the nodes to leave out."
    names = found.shape.node_names
    hosts = dict.fromkeys(names[found.shape.node_of[one]] for one in fault.devices)
    good = [name for name in names if name not in hosts]
    if len(hosts) > 2 or not good:
        return f"Test it again: `{command}`."
    return (
        f"Test {' and '.join(hosts)} again beside good hosts, such as {' and '.join(good[:2])}: "
        f"`{command}`."
    )


FIELDS = Fields(
    [
        Field("purpose", "What the round is for.", "result.scanned.purpose", "text"),
        Field("round", "Number of the round among those.", "result.scanned.number", "int"),
        Field("library", "Library.", "result.scanned.ccl", "text"),
        Field("size_bytes", "Largest message.", "result.scanned.size_bytes", "int"),
        Field(
            "devices",
            "Numbers of the devices that worked together.",
            lambda row: "" if row.test is None else " ".join(map(str, row.test.devices)),
            "text",
        ),
        *status_fields("result.reason", "result.status"),
        Field(
            "rate_gbps",
            "Of a pair in each direction at once, of more devices the bus bandwidth.",
            _of("rate_bps"),
            unit="GB/s",
            direction="higher",
            gauge="rate_bytes_per_second",
        ),
        Field(
            "forward_gbps",
            "From the first device to the second, alone.",
            _of("forward_bps"),
            unit="GB/s",
            direction="higher",
        ),
        Field(
            "back_gbps",
            "From the second device to the first, alone.",
            _of("back_bps"),
            unit="GB/s",
            direction="higher",
        ),
        Field(
            "latency_us",
            "Half of a round trip of 8 bytes.",
            _of("latency_s"),
            direction="lower",
            gauge="latency_seconds",
        ),
        Field(
            "latency_p99_us",
            "99th percentile of that latency.",
            _of("latency_p99_s"),
            direction="lower",
        ),
        Field(
            "spread",
            "95th percentile of times over their median, less 1.",
            "test.spread",
            direction="lower",
        ),
        Field(
            "p99_ratio",
            "99th percentile of times over their median.",
            lambda row: None if row.test is None or row.test.tail is None else 1 + row.test.tail,
            direction="lower",
        ),
    ],
    gauges="cclmark_scan",
    labels=("purpose", "round", "devices"),
    noun="a test of a scan",
    rows=_rows,
)


def _headline(run: NamedRun) -> str:
    found = figures_of(run.journal.header, cast("Sequence[ScanResult]", run.journal.results))
    return "; ".join(map(plain_words, found.faults)) if found.of_any else ""


def _overview(runs: Sequence[NamedRun]) -> list[Heat]:
    """The map of the first run that has one."""
    for run in runs:
        results = cast("Sequence[ScanResult]", run.journal.results)
        if maps := [*_heat(figures_of(run.journal.header, results))]:
            return maps
    return []


REPORT = ReportKind(
    noun="scans",
    title="scans of a fleet",
    has_times=False,
    fields=FIELDS,
    document=document_of_scan,
    counted=lambda journal: amount(len(journal.results), "round"),
    headline=_headline,
    titled=lambda runs: "scan of a fleet",
    method=method_of,
    measure=_measure,
    overview=_overview,
    formats={
        "slurm": lambda view: NodeList(drains=False),
        "kubernetes": lambda view: NodeList(drains=True),
    },
)
