"""The text that Prometheus reads, from a file of node_exporter's textfile collector too.

It is OpenMetrics as well: names end in their base unit, ``# UNIT`` says it, ``# EOF`` ends the
text, and there are no time stamps (the collector refuses them). A series stands for the newest
result that has its labels: journals are read in the order of their dates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from cclmark.report.flat.flat_cases import device_labels
from cclmark.report.flat.flat_table import devices_of, hosts_of
from cclmark.report.wording.text import plain
from cclmark.results.journal import Journal
from cclmark.results.kinds import CaseResult, CheckResult, TransferResult
from cclmark.results.schema import Header, Settings

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """A gauge. ``name`` ends in ``unit``, which is empty for one that has none."""

    name: str
    unit: str
    help: str


# In the order in which they are written. docs/reference/prometheus.md lists them.
METRICS: dict[str, Metric] = {
    one.name: one
    for one in (
        Metric("cclmark_time_seconds", "seconds", "Median time of one operation."),
        Metric(
            "cclmark_device_time_seconds",
            "seconds",
            "Median time that the devices need, where launches determine the time of an operation.",
        ),
        Metric("cclmark_time_min_seconds", "seconds", "Shortest sample."),
        Metric("cclmark_time_p95_seconds", "seconds", "95th percentile of the samples."),
        Metric("cclmark_time_p99_seconds", "seconds", "99th percentile of the samples."),
        Metric("cclmark_time_max_seconds", "seconds", "Longest sample."),
        Metric("cclmark_algbw_bytes_per_second", "bytes_per_second", "Size over median time."),
        Metric(
            "cclmark_busbw_bytes_per_second",
            "bytes_per_second",
            "Algorithm bandwidth times the factor of the operation.",
        ),
        Metric("cclmark_case_samples", "samples", "Samples that the figures are of."),
        Metric("cclmark_case_ok", "", "1 for a case that was measured and not wrong, else 0."),
        Metric("cclmark_wrong_elements", "elements", "Wrong elements that the check found."),
        Metric("cclmark_transfer_time_seconds", "seconds", "Median time of a copy, or latency."),
        Metric(
            "cclmark_transfer_bytes_per_second", "bytes_per_second", "Median bandwidth of a flow."
        ),
        Metric("cclmark_transfer_ok", "", "1 for a transfer that was measured and not wrong."),
        Metric("cclmark_transfer_wrong_elements", "elements", "Wrong elements of 4 bytes."),
        Metric("cclmark_check_ok", "", "1 for a check that passed, 0 for one that failed."),
        Metric("cclmark_run_timestamp_seconds", "seconds", "When the run began, since 1970."),
        Metric("cclmark_run_duration_seconds", "seconds", "How long the run took."),
        Metric("cclmark_run_exit_code", "", "Exit code of the run."),
    )
}


@dataclass
class _Series:
    """The values of all metrics by labels; those of a later run take the place of an earlier's."""

    values: dict[str, dict[Labels, float]] = field(
        default_factory=lambda: {name: {} for name in METRICS}
    )
    _of_this_run: set[Labels] = field(default_factory=set)

    def begin_run(self) -> None:
        """What follows is of another run."""
        self._of_this_run.clear()

    def begin(self, labels: Labels) -> None:
        """A result: nothing that an earlier run said of the same is left beside it."""
        if labels not in self._of_this_run:
            self._of_this_run.add(labels)
            for values in self.values.values():
                values.pop(labels, None)

    def set(self, name: str, labels: Labels, value: float | None) -> None:
        if value is not None and math.isfinite(value):
            self.values[name][labels] = value

    def clear(self, labels: Labels, names: Iterable[str]) -> None:
        """What an earlier cycle said and a later one does not."""
        for name in names:
            self.values[name].pop(labels, None)

    def worst(
        self, name: str, labels: Labels, value: float, choose: Callable[[float, float], float]
    ) -> None:
        """``value``, or what an earlier cycle of the run said where ``choose`` takes that."""
        known = self.values[name].get(labels)
        self.set(name, labels, value if known is None else choose(known, value))


_SPREAD = ("min", "p95", "p99", "max")
_CASE_FIGURES = (
    *("cclmark_time_seconds", "cclmark_device_time_seconds"),
    *("cclmark_algbw_bytes_per_second", "cclmark_busbw_bytes_per_second"),
    *("cclmark_case_samples", *(f"cclmark_time_{name}_seconds" for name in _SPREAD)),
)


def _timing(settings: Settings) -> str:
    """The timing that the figures of a series are of: auto adds another series to throughput's."""
    return "throughput" if settings.timing == "auto" else settings.timing


def prometheus(journals: Sequence[Journal]) -> str:
    """The text, of which a scrape takes all."""
    series = _Series()
    for journal in sorted(journals, key=lambda one: _began_s(one.header) or 0.0):
        _run(series, journal)
    return "".join(_lines(series))


def _run(series: _Series, journal: Journal) -> None:
    header = journal.header
    series.begin_run()
    where = [("host", hosts_of(header)), ("device", devices_of(header))]
    kinds = {
        "cases": journal.cases,
        "transfers": journal.transfers,
        "checks": journal.checks,
    }
    names = device_labels(header)
    settings = header.settings
    ranks = settings.across_ranks
    # The slowest rank is what everybody means; imports need not know.
    method = [
        ("timing", _timing(settings)),
        ("across_ranks", "" if ranks == "max" else ranks),
        ("cache", "" if settings.cache == "cold" else settings.cache),
        ("barrier", "" if settings.barrier == "own" else settings.barrier),
        ("clock", "" if settings.clock == "auto" else settings.clock),
    ]
    for case in journal.cases:
        _case(series, case, [*method, *where], names)
    for transfer in journal.transfers:
        _transfer(series, transfer, where, names)
    for check in journal.checks:
        _check(series, check, where)
    for kind, found in kinds.items():
        if found:
            labels = _labels([*where, ("kind", kind)])
            series.begin(labels)
            series.set("cclmark_run_timestamp_seconds", labels, _began_s(header))
            if journal.footer is not None:
                footer = journal.footer
                series.set("cclmark_run_exit_code", labels, footer.exit_code)
                if header.imported is None:
                    series.set("cclmark_run_duration_seconds", labels, footer.duration_s)


def _case(
    series: _Series, result: CaseResult, where: list[tuple[str, str]], names: Sequence[str]
) -> None:
    case, summary = result.case, result.summary
    pair = ("", "") if case.pair is None else tuple(names[number] for number in case.pair)
    labels = _labels(
        [
            ("operation", case.operation),
            ("ccl", case.ccl),
            ("ranks", str(case.ranks)),
            ("dtype", case.dtype),
            ("reduction", case.reduction or ""),
            ("root", "" if case.root is None else str(case.root)),
            ("size_bytes", str(case.size_bytes)),
            ("placement", case.placement),
            ("first", pair[0]),
            ("second", pair[1]),
            *where,
        ]
    )
    if result.status == "skipped":
        return
    series.begin(labels)
    # A cycle that went wrong is not made good by the next.
    series.worst("cclmark_case_ok", labels, float(result.status == "ok"), min)
    if result.verification is not None:
        series.worst("cclmark_wrong_elements", labels, result.verification.wrong, max)
    series.clear(labels, _CASE_FIGURES)
    if summary is None:
        return
    series.set("cclmark_time_seconds", labels, summary.time_s)
    if result.device is not None:
        series.set("cclmark_device_time_seconds", labels, result.device.summary.time_s)
    series.set("cclmark_algbw_bytes_per_second", labels, summary.algbw_bytes_per_s)
    series.set("cclmark_busbw_bytes_per_second", labels, summary.busbw_bytes_per_s)
    series.set("cclmark_case_samples", labels, summary.samples)
    if summary.samples > 1:
        series.set("cclmark_time_min_seconds", labels, summary.min_s)
        series.set("cclmark_time_p95_seconds", labels, summary.p95_s)
        series.set("cclmark_time_p99_seconds", labels, summary.p99_s)
        series.set("cclmark_time_max_seconds", labels, summary.max_s)


def _transfer(
    series: _Series, result: TransferResult, where: list[tuple[str, str]], names: Sequence[str]
) -> None:
    transfer, summary = result.transfer, result.summary
    common = [
        ("measure", transfer.measure),
        ("scope", transfer.scope),
        ("direction", transfer.direction),
        ("engine", transfer.engine),
        ("kernel", transfer.kernel),
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
    flows = [[("from", names[start]), ("to", names[end])] for start, end in transfer.flows]
    # Of a transfer with several flows at once, its first stands for all of them.
    whole = _labels([*common, *flows[0], ("flows", str(len(flows))), *where])
    if result.status == "skipped":
        return
    by_flow = [_labels([*common, *flow, ("flows", str(len(flows))), *where]) for flow in flows]
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


def _check(series: _Series, result: CheckResult, where: list[tuple[str, str]]) -> None:
    if result.status == "unsupported":
        return
    check = result.check
    labels = _labels([("check", check.name), ("backend", check.backend), *where])
    series.begin(labels)
    series.set("cclmark_check_ok", labels, float(result.status == "ok"))


def _began_s(header: Header) -> float | None:
    """Seconds since 1970; None where the journal does not say. Without a zone it is UTC."""
    try:
        began = datetime.fromisoformat(header.started_at.replace("Z", "+00:00"))
    except ValueError:
        return None
    if began.tzinfo is None:
        began = began.replace(tzinfo=timezone.utc)
    return began.timestamp()


def _lines(series: _Series) -> Iterator[str]:
    for name, values in series.values.items():
        if not values:
            continue
        metric = METRICS[name]
        yield f"# HELP {name} {metric.help}\n# TYPE {name} gauge\n"
        if metric.unit:
            yield f"# UNIT {name} {metric.unit}\n"
        for labels, value in values.items():
            told = ",".join(f'{label}="{_escape(text)}"' for label, text in labels)
            yield f"{name}{{{told}}} {_number(value)}\n"
    yield "# EOF\n"


def _labels(pairs: Iterable[tuple[str, str]]) -> Labels:
    """Without those that are empty: to Prometheus that is the same."""
    return tuple((name, plain(text)) for name, text in pairs if text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(value)
