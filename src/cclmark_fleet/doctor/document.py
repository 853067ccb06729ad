"""What examined hosts say, and the fields of their checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Block,
    Document,
    Facts,
    Finding,
    HeadFigure,
    RunContent,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import amount, listed
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.report_kind import ReportKind
from cclmark.document.text import time_words
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header
from cclmark_fleet.doctor.figures import (
    HostDifference,
    HostFailure,
    counts_of,
    differences_of,
    failures_of,
    harmful_of,
    with_state,
)
from cclmark_fleet.doctor.line_formats import JunitExporter, PrometheusExporter
from cclmark_fleet.doctor.result import ExaminationResult
from cclmark_fleet.hosts.check import CheckOutcome, Signal, State

_GRADES = {"bad": "critical", "look": "warning"}
_MOST_SIGNALS, _MOST_HOSTS, _MOST_REASONS = 6, 4, 5
_MOST_FACTS = ("kind", "system", "kernel", "GPUs", "driver", "NCCL", "RDMA")


class OutcomeRow(NamedTuple):
    """A check of a host, with what the fields of tables require."""

    result: ExaminationResult
    outcome: CheckOutcome | None

    @property
    def status(self) -> str:
        """``ok`` unless the check failed or nothing was examined."""
        if self.outcome is None:
            return self.result.status
        return "failed" if self.outcome.state == "fail" else "ok"


def rows_of(header: Header | None, result: ExaminationResult) -> list[OutcomeRow]:
    """A row for each check, one for a host without any."""
    return [OutcomeRow(result, one) for one in result.outcomes] or [OutcomeRow(result, None)]


def signal_text(signal: Signal) -> str:
    """``0000:1b:00.0: x8 (limit ≥ x16)``."""
    limit = f" (limit {signal.limit})" if signal.limit and not signal.is_ok else ""
    return f"{signal.where}: {signal.seen}{limit}"


def _seen(row: OutcomeRow) -> str:
    return "; ".join(signal_text(one) for one in row.outcome.signals) if row.outcome else ""


def _gauge(state: str) -> Any:
    def value(row: OutcomeRow) -> int | None:
        return None if row.outcome is None else int(row.outcome.state == state)

    return value


FIELDS = Fields(
    [
        Field("host", "Host.", "result.examination.host", "text"),
        Field("check", "Check of the host.", "outcome.check", "text"),
        Field(
            "state",
            "pass, fail, unknown (cannot tell) or absent (not applicable).",
            "outcome.state",
            "text",
        ),
        Field(
            "severity",
            "critical or warning, of a failed check.",
            lambda row: (
                _GRADES[row.outcome.grade] if row.outcome and row.outcome.state == "fail" else None
            ),
            "text",
        ),
        Field(
            "failed",
            "Whether the check failed, 1 or 0.",
            _gauge("fail"),
            "int",
            gauge="check_failed",
        ),
        Field(
            "cannot_tell",
            "Whether the check cannot tell, 1 or 0.",
            _gauge("unknown"),
            "int",
            gauge="check_unknown",
        ),
        Field("seen", "What was seen, with the limits that were missed.", _seen, "text"),
        Field("reason", "Why a check cannot tell or is not applicable.", "outcome.reason", "text"),
        Field("needs", "What would tell.", "outcome.needs", "text"),
        Field("cost", "What a failure costs, with its source.", "outcome.cost", "text"),
        Field(
            "fix",
            "How to fix it, the mildest step first.",
            lambda row: (
                "; ".join(f"{one.step}: {one.action}" for one in row.outcome.remedies)
                if row.outcome
                else None
            ),
            "text",
        ),
        Field("source", "Source of the limit.", "outcome.source", "text"),
        Field(
            "certainty",
            "certain, likely or possible, of a failed check.",
            lambda row: (
                row.outcome.certainty if row.outcome and row.outcome.state == "fail" else None
            ),
            "text",
        ),
        Field("measured", "What a short test measured (--measure).", "outcome.measured", "text"),
    ],
    gauges="cclmark_doctor",
    labels=("host", "check"),
    rows=rows_of,
)


def _count(state: State) -> Callable[[ExaminationResult], int]:
    return lambda result: len(result.of(state))


#: Of pages: a row for each host.
HOST_FIELDS = Fields(
    [
        Field("host", "Host.", "examination.host", "text"),
        Field("failed", "Checks that failed.", _count("fail"), "int"),
        Field("passed", "Checks that passed.", _count("pass"), "int"),
        Field("cannot_tell", "Checks that cannot tell.", _count("unknown"), "int"),
        Field("not_applicable", "Checks without an object.", _count("absent"), "int"),
    ],
)


def set_gauges(series: Series, result: ExaminationResult, run: RunLabels) -> None:
    """Sets the gauges of all checks of a host."""
    for row in rows_of(None, result):
        FIELDS.measure(series, row, RunLabels((), (), ()))


def document_of_hosts(run: RunContent) -> Document:
    """Composes everything that examined hosts say."""
    results = cast("Sequence[ExaminationResult]", run.results)
    failures = failures_of(results)
    return Document(
        "Examined hosts",
        method_of_doctor(run.header),
        [*_blocks(results, failures)],
        [*_findings(results, failures)],
        head_figures=[*_head_figures(results)],
        noun="device",
    )


def method_of_doctor(header: Header) -> str:
    """Describes in a line how the hosts were examined."""
    return "read from the hosts; counters are judged by their growth alone"


def _head_figures(results: Sequence[ExaminationResult]) -> Iterator[HeadFigure]:
    if not any(one.outcomes for one in results):
        return
    counts = counts_of(results)
    yield HeadFigure("failed", str(counts["fail"]), "checks", amount(len(results), "host"))
    yield HeadFigure("passed", str(counts["pass"]), "checks")
    yield HeadFigure("cannot tell", str(counts["unknown"]), "checks")


def _blocks(
    results: Sequence[ExaminationResult], failures: Sequence[HostFailure]
) -> Iterator[Block]:
    examined = [one for one in results if one.outcomes]
    if not examined:
        return
    yield Facts([*_facts(examined)])
    if differences := differences_of(examined):
        yield _difference_table(differences)
    if failures:
        yield _failure_table(failures, len(examined))
    if unknown := with_state(examined, "unknown"):
        yield _unknown_table(unknown, len(examined))
    if others := [*_others(examined)]:
        yield Facts(others)


def _facts(examined: Sequence[ExaminationResult]) -> Iterator[tuple[str, str]]:
    names = [one.examination.host for one in examined]
    yield ("host" if len(names) == 1 else "hosts"), _names(names)
    if len(examined) == 1:
        own = examined[0].facts
        texts = [own.get(name, "") for name in _MOST_FACTS]
        texts[4] = f"driver {texts[4]}" if texts[4] else ""
        texts[5] = f"NCCL {texts[5]}" if texts[5] else ""
        yield "machine", ", ".join(filter(None, texts))
    counts = counts_of(examined)
    intervals = [one.interval_s for one in examined if one.interval_s]
    over = f"; counters over {time_words(max(intervals))}" if intervals else ""
    yield (
        "checks",
        (
            f"{counts['fail']} failed, {counts['pass']} passed, {counts['unknown']} cannot tell, "
            f"{counts['absent']} not applicable{over}"
        ),
    )


def _names(hosts: Sequence[str], most: int = _MOST_HOSTS) -> str:
    more = f" and {len(hosts) - most} more" if len(hosts) > most else ""
    return f"{', '.join(hosts[:most])}{more}"


def _difference_table(differences: Sequence[HostDifference]) -> Table:
    def others(one: HostDifference) -> str:
        return "; ".join(f"{_names(hosts)}: {text}" for text, hosts in one.others)

    columns = [
        TableColumn("what", lambda one: one.subject),
        TableColumn("most hosts", lambda one: f"{one.usual} ({one.number})"),
        TableColumn("other hosts", others, look=lambda one: "look"),
    ]
    return table_of("differences between hosts", columns, differences)


def _failure_table(failures: Sequence[HostFailure], hosts: int) -> Table:
    def where(one: HostFailure) -> str:
        return "" if hosts == 1 else _names([host for host, _ in one.by_host])

    def first(one: HostFailure) -> Signal:
        return one.first.signals[0]

    columns = [
        TableColumn(
            "severity", lambda one: _GRADES[one.first.grade], look=lambda one: one.first.grade
        ),
        TableColumn("check", lambda one: one.check),
        TableColumn("hosts", where),
        TableColumn("where", lambda one: first(one).where),
        TableColumn("seen", lambda one: first(one).seen),
        TableColumn("limit", lambda one: first(one).limit),
        TableColumn("", lambda one: "\n".join(_details(one))),
    ]
    return table_of("failed checks", columns, failures, is_last_below=True)


def _details(one: HostFailure) -> Iterator[str]:
    """What else was seen, what is checked and costs, and the ladder."""
    outcome = one.first
    more = outcome.signals[1:_MOST_SIGNALS]
    if more:
        left = len(outcome.signals) - _MOST_SIGNALS
        rest = f"; {left} more" if left > 0 else ""
        yield f"also   {'; '.join(f'{it.where} {it.seen}' for it in more)}{rest}"
    yield f"what   {outcome.title}"
    yield f"cost   {outcome.measured or outcome.cost}"
    for number, remedy in enumerate(outcome.remedies, 1):
        yield f"fix {number}  {remedy.step}: {remedy.action}"
    yield f"why    {outcome.certainty}; {outcome.source}"


def _unknown_table(unknown: dict[str, list[tuple[str, CheckOutcome]]], hosts: int) -> Table:
    """A row for each reason, with the checks that have it."""
    by_reason = by_key(
        ((own[0][1].reason, own[0][1].needs, len(own)), check) for check, own in unknown.items()
    )
    columns = [
        TableColumn("check", lambda row: ", ".join(row[1])),
        TableColumn("hosts", lambda row: "" if hosts == 1 else str(row[0][2]), ">"),
        TableColumn("reason", lambda row: row[0][0]),
        TableColumn("what would tell", lambda row: row[0][1]),
    ]
    return table_of("cannot tell", columns, [*by_reason.items()])


def _others(examined: Sequence[ExaminationResult]) -> Iterator[tuple[str, str]]:
    """The checks that passed, and why others are not applicable."""
    failed = {one.check for result in examined for one in result.of("fail")}
    passed = ", ".join(one for one in with_state(examined, "pass") if one not in failed)
    if passed:
        yield "passed", passed
    reasons = Counter(one.reason for result in examined for one in result.of("absent"))
    first = reasons.most_common(_MOST_REASONS)
    rest = sum(reasons.values()) - sum(count for _, count in first)
    texts = [f"{count} × {reason}" for reason, count in first]
    if first:
        yield "absent", "; ".join([*texts, *([f"{rest} others"] if rest else [])])


def _findings(
    results: Sequence[ExaminationResult], failures: Sequence[HostFailure]
) -> Iterator[Finding]:
    for one in results:
        if not one.outcomes:
            text = f"{one.examination.host}: {one.status}{f': {one.reason}' if one.reason else ''}"
            yield Finding("not-measured", "look", plain(text))
    examined = [one for one in results if one.outcomes]
    for failure in failures:
        yield _of_failure(failure, len(examined))
    if not examined:
        return
    differences = differences_of(examined)
    harmful = harmful_of(differences)
    yield from map(_of_difference, harmful[:_MOST_SIGNALS])
    facts = {name for result in examined for name in result.facts}
    apart = [one.subject for one in differences if one.subject in facts and one not in harmful]
    if apart:
        subjects = listed(apart[:_MOST_SIGNALS])
        yield Finding("hosts-differ", "look", f"hosts differ in {subjects}", is_outcome=True)
    counts = counts_of(examined)
    if failures or harmful:
        return
    if counts["pass"]:
        words = f"{amount(counts['pass'], 'check')} passed"
        if counts["unknown"]:
            words += f", {counts['unknown']} cannot tell"
        yield Finding(
            "no-fault-found",
            "unknown" if counts["unknown"] else "good",
            words,
            is_outcome=True,
        )
    else:
        yield Finding("no-fault-found", "unknown", "no check could tell", is_outcome=True)


def _of_difference(one: HostDifference) -> Finding:
    others = "; ".join(f"{text} on {_names(hosts)}" for text, hosts in one.others)
    where = amount(one.number, "host")
    return Finding(
        "harmful-difference",
        "look",
        f"hosts differ in {one.subject}: {one.usual} on {where}, {others}; {one.cost}",
        advice="Make the hosts equal, or use those that are.",
        is_outcome=True,
    )


def _of_failure(failure: HostFailure, hosts: int) -> Finding:
    outcome = failure.first
    names = [host for host, _ in failure.by_host]
    on = f" on {_names(names)}" if hosts > 1 else ""
    more = f" and {len(outcome.signals) - 1} more" if len(outcome.signals) > 1 else ""
    fix = f"{outcome.remedies[0].action}." if outcome.remedies else ""
    again = f"After that `cclmark doctor --only {failure.check}` judges it again."
    return Finding(
        "failed-host-check",
        outcome.grade,
        f"{failure.check}{on}: {signal_text(outcome.signals[0])}{more}",
        advice=f"{fix} {again}".strip(),
        is_outcome=True,
    )


def _headline(run: NamedRun) -> str:
    results = run.journal.of(ExaminationResult)
    examined = [one for one in results if one.outcomes]
    if not examined:
        return ""
    counts = counts_of(examined)
    return f"{amount(len(examined), 'host')}: {amount(counts['fail'], 'check')} failed"


def _titled(runs: Sequence[NamedRun]) -> str:
    names = dict.fromkeys(
        one.examination.host for run in runs for one in run.journal.of(ExaminationResult)
    )
    return f"Examination of {_names([*names])}"


def _counted(journal: Journal) -> str:
    return amount(len(journal.of(ExaminationResult)), "host")


REPORT = ReportKind(
    noun="hosts",
    title="examined hosts",
    has_times=False,
    fields=FIELDS,
    of_page=HOST_FIELDS,
    document=document_of_hosts,
    counted=_counted,
    headline=_headline,
    titled=_titled,
    method=method_of_doctor,
    measure=set_gauges,
    formats={
        "junit": lambda view: JunitExporter(),
        "prometheus": lambda view: PrometheusExporter(FIELDS.metrics, set_gauges),
    },
    by_session=False,
    has_samples=False,
    verb="Examined",
)
