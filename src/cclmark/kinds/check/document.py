"""Reports of the checks of a framework's backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from cclmark.document.columns import Cell, Layout, columns
from cclmark.document.exporter import Exporter
from cclmark.document.head import method_of, opening_lines
from cclmark.document.insight_words import MOST_NAMED, Insight, amount, listed
from cclmark.document.markdown import escape, notice_paragraph
from cclmark.document.naming import Run
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.paint import Paint, unpainted
from cclmark.document.remarks import ending, planned_results
from cclmark.document.report_kind import ReportKind, RunLabels, View
from cclmark.document.soundness import of_completeness
from cclmark.kinds.check.plan import CHECKS
from cclmark.kinds.check.result import CheckedValue, CheckResult
from cclmark.printable import plain
from cclmark.results.journal import Journal
from cclmark.results.schema import Footer, Header

_WORDS = {"ok": "pass", "unsupported": "unsupported", "failed": "FAIL"}
_STYLES = {"ok": "green", "unsupported": "yellow", "failed": "red"}
_NAME = max(map(len, CHECKS))


def verdict_of_check(result: CheckResult) -> str:
    """Returns the verdict in the words of the table."""
    return _WORDS.get(result.status, result.status)


def value_text(value: CheckedValue) -> str:
    """Returns a tensor of a rank in the words of the table."""
    if not value.moment:
        return f"rank {value.rank}: {value.text}"
    when = f"{value.moment} {value.call}".rstrip()
    return f"rank {value.rank} {when}: {value.name} = {value.text}"


def _counts(results: list[CheckResult], header: Header) -> str:
    numbers = Counter(verdict_of_check(result) for result in results)
    text = ", ".join(f"{numbers[word]} {word}" for word in ("pass", "FAIL", "unsupported"))
    planned = planned_results(header)
    return f"{len(results)} of {planned} checks: {text}" if planned > len(results) else text


class CheckTable:
    """Prints a line for each check as soon as it has finished."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        self._paint = paint
        self._results: list[CheckResult] = []

    def begin(self, header: Header) -> str:
        """Returns the devices, torch and the backend."""
        self._header = header
        method = "every output compared in full, one verdict of all ranks"
        return "\n".join([*opening_lines(header, "rank", method, self._paint), ""]) + "\n"

    def add(self, result: CheckResult) -> str:
        """Returns the verdict, the description of the check and the reason."""
        self._results.append(result)
        verdict = self._paint(f"{verdict_of_check(result):<11}", _STYLES.get(result.status, "red"))
        words = CHECKS.get(result.check.name, "")
        line = f"  {verdict}  {result.check.name:<{_NAME}}  {words}"
        if result.reason:
            line += f"\n{'':15}{plain(result.reason)}"
        for value in result.values:
            line += f"\n{'':15}{plain(value_text(value))}"
        return line + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the number of passed checks."""
        failed = any(result.status == "failed" for result in self._results)
        counts = _counts(self._results, self._header)
        lines = ["", self._paint(f"  {counts}", "red") if failed else f"  {counts}"]
        if footer is not None and footer.message:
            ended = f"  ended early: {footer.message.splitlines()[0]}"
            lines.append(self._paint(ended, "red"))
        return "\n".join(lines) + "\n"


class CheckMarkdown:
    """A table for issues and wikis."""

    def __init__(self) -> None:
        self._results: list[CheckResult] = []

    def begin(self, header: Header) -> str:
        """Returns the backend, the machine and the head of the table."""
        self._header = header
        library = header.libraries[0]
        text = f"{library.name}, torch {library.version}, {len(header.devices)} ranks on "
        text += f"{header.machine.hostname}, {header.devices[0].name}."
        head = "| check | verdict | reason |\n|---|---|---|\n"
        return f"## torch.distributed\n\n{escape(text)}\n{notice_paragraph(header)}\n{head}"

    def add(self, result: CheckResult) -> str:
        """Returns a row."""
        self._results.append(result)
        cells = [
            CHECKS.get(result.check.name, result.check.name),
            verdict_of_check(result),
            result.reason,
        ]
        return "| " + " | ".join(map(escape, cells)) + " |\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the number of passed checks."""
        lines = ["", f"{_counts(self._results, self._header)}."]
        message = ending(footer)
        return "\n".join([*lines, *([escape(message)] if message else [])]) + "\n"


CHECK_COLUMNS = ("check", "backend", "verdict", "duration_ms", "reason")


def check_cells(result: CheckResult) -> list[Cell]:
    """Returns a cell for each of CHECK_COLUMNS."""
    check = result.check
    duration_ms = result.duration_s * 1e3
    return [check.name, check.backend, verdict_of_check(result), duration_ms, result.reason]


CHECK_LAYOUT = Layout(
    columns(CHECK_COLUMNS, texts="check backend verdict reason"),
    lambda header: lambda result: [check_cells(result)],
)


CHECK_METRICS = (
    Metric("cclmark_check_ok", "", "1 for a check that passed, 0 for one that failed."),
)


def measure_check(series: Series, result: CheckResult, run: RunLabels) -> None:
    """Sets the gauge of one check."""
    if result.status == "unsupported":
        return
    check = result.check
    labels = labels_of([("check", check.name), ("backend", check.backend), *run.where])
    series.begin(labels)
    series.set("cclmark_check_ok", labels, float(result.status == "ok"))


def _table(view: View) -> Exporter[CheckResult]:
    return CheckTable(paint=view.paint)


def _markdown(view: View) -> Exporter[CheckResult]:
    return CheckMarkdown()


def _counted(journal: Journal) -> str:
    return amount(len(journal.results), "check") + " of a framework's backend"


def _page_cells(run: Run, result: CheckResult) -> Mapping[str, Cell]:
    return {
        "check": result.check.name,
        "status": result.status,
        "reason": result.reason,
        "duration_s": result.duration_s,
    }


def insights_on_checks(run: Run) -> list[Insight]:
    """Returns insights on checks."""
    return [*of_checks(run.journal.of(CheckResult)), *of_completeness(run.journal, [])]


KIND = ReportKind(
    noun="checks",
    title="checks",
    has_times=False,
    csv=CHECK_LAYOUT,
    exported=CHECK_LAYOUT,
    formats={"table": _table, "markdown": _markdown},
    metrics=CHECK_METRICS,
    measure=measure_check,
    counted=_counted,
    insights=insights_on_checks,
    titled=lambda runs: "checks",
    method=method_of,
    has_samples=False,
    needs_devices=True,
    page_columns=("check", "status", "reason", "duration_s"),
    page_cells=_page_cells,
)


def of_checks(checks: Sequence[CheckResult]) -> Iterator[Insight]:
    """Reports failed checks of a framework's backend."""
    failed = [one for one in checks if one.status == "failed"]
    if failed:
        names = [one.check.name for one in failed[:MOST_NAMED]]
        yield Insight("bad", f"Checks that failed: {listed(names, len(failed))}.")
    elif checks:
        yield Insight("good", "No check of the backend failed.")
