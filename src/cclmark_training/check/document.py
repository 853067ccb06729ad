"""What a run of checks of a framework's backend says, and the fields of its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

from cclmark.base.grouping import by_key
from cclmark.base.printable import plain, plain_lines
from cclmark.document.blocks import (
    Document,
    Finding,
    HeadFigure,
    RunContent,
    Severity,
    Table,
)
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import MOST_NAMED, amount, listed
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.remarks import planned_results
from cclmark.document.report_kind import ReportKind
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header
from cclmark_training.check.plan import ALL_CHECKS
from cclmark_training.check.result import CheckedValue, CheckResult

_WORDS = {"ok": "pass", "unsupported": "unsupported", "failed": "FAIL"}
_HEAD = ("verdict", "check", "operation", "reason")
# Of all columns but the last.
_WIDTHS = (max(map(len, _WORDS.values())), max(map(len, ALL_CHECKS)), 0)


def _verdict(result: CheckResult) -> str:
    """The verdict in the words of the table."""
    return _WORDS.get(result.status, result.status)


_NAME = Field("check", "Name of the check.", "check.name", "text")
_REASON = Field("reason", "What failed, or why the backend does not support it.", "reason", "text")
FIELDS = Fields(
    [
        _NAME,
        Field("backend", "Backend of torch.distributed.", "check.backend", "text"),
        Field("verdict", "pass, FAIL or unsupported.", _verdict, "text"),
        Field("duration_ms", "Duration of the check.", "duration_s"),
        _REASON,
    ],
    gauges="cclmark_check",
    labels=("check", "backend"),
    noun="a check",
    right="that passed",
)
# Pages have the columns that other kinds have as well.
_OF_PAGE = Fields(
    [
        _NAME,
        Field("status", "ok, failed or unsupported.", "status", "text"),
        _REASON,
        Field("duration_s", "Duration of the check.", "duration_s"),
    ]
)


def _measure(series: Series, result: CheckResult, run: RunLabels) -> None:
    """Sets the gauge of one check; an unsupported one has none."""
    if result.status != "unsupported":
        FIELDS.measure(series, result, run)


def document_of_checks(run: RunContent) -> Document:
    """Composes everything that a run says."""
    results = cast("Sequence[CheckResult]", run.results)
    by_backend = by_key((one.check.backend, one) for one in results)
    failed = [one.check.name for one in results if one.status == "failed"]
    return Document(
        "Checks of torch.distributed",
        _method_of_checks(run.header),
        [_table(backend, some) for backend, some in by_backend.items()],
        [*_findings(results, failed, planned_results(run.header))],
        _outcome(results, run.header),
        is_wrong=bool(failed),
        head_figures=[*_head_figures(results, planned_results(run.header))],
    )


def _method_of_checks(header: Header) -> str:
    seed = header.settings.seed
    random = f", random values of seed {seed}" if seed else ""
    return f"every output compared in full, one verdict of all ranks{random}"


def _table(backend: str, results: Sequence[CheckResult]) -> Table:
    return Table(
        f"checks of {backend}",
        _HEAD,
        [_cells(one) for one in results],
        "<" * len(_HEAD),
        wrong=[place for place, one in enumerate(results) if one.status == "failed"],
        widths=_WIDTHS,
        is_last_below=True,
        passed=[place for place, one in enumerate(results) if one.status == "ok"],
    )


def _cells(result: CheckResult) -> list[str]:
    """The cells of a check, the last one with the reason and the values, a line for each."""
    name = result.check.name
    values = "\n".join(map(_value_text, result.values))
    below = "\n".join(filter(None, (plain_lines(result.reason), values)))
    return [_verdict(result), plain(name), ALL_CHECKS.get(name, ""), below]


def _value_text(value: CheckedValue) -> str:
    """A tensor of a rank in words."""
    if not value.moment:
        return plain(f"rank {value.rank}: {value.text}")
    when = f"{value.moment} {value.call}".rstrip()
    return plain(f"rank {value.rank} {when}: {value.name} = {value.text}")


def _findings(
    results: Sequence[CheckResult], failed: Sequence[str], planned: int
) -> Iterator[Finding]:
    if failed:
        names = listed([*map(plain, failed[:MOST_NAMED])], len(failed))
        yield Finding("failed-checks", "bad", f"checks that failed: {names}")
    total = max(planned, len(results))
    undecided = total - sum(one.status in _WORDS for one in results)
    if undecided:
        text = f"{amount(undecided, 'check')} of {total} gave no verdict"
        yield Finding("checks-undecided", "unknown", text)
    elif results and not failed:
        unsupported = sum(one.status == "unsupported" for one in results)
        more = f"; {unsupported} of {total} are unsupported" if unsupported else ""
        severity: Severity = "note" if unsupported == total else "good"
        yield Finding("checks-passed", severity, f"no check of the backend failed{more}")


def _head_figures(results: Sequence[CheckResult], planned: int) -> Iterator[HeadFigure]:
    """The number of checks with each verdict."""
    numbers = Counter(map(_verdict, results))
    of = f"of {amount(max(planned, len(results)), 'check')}"
    for label, word in {"passed": "pass", "failed": "FAIL", "not supported": "unsupported"}.items():
        if results:
            yield HeadFigure(label, str(numbers[word]), of)


def _outcome(results: Sequence[CheckResult], header: Header) -> str:
    """The number of checks with each verdict."""
    numbers = Counter(map(_verdict, results))
    text = ", ".join(f"{numbers[word]} {word}" for word in ("pass", "FAIL", "unsupported"))
    planned = planned_results(header)
    return f"{len(results)} of {planned} checks: {text}" if planned > len(results) else text


def _counted(journal: Journal) -> str:
    return amount(len(journal.results), "check") + " of a framework's backend"


REPORT = ReportKind(
    noun="checks",
    title="checks",
    has_times=False,
    fields=FIELDS,
    document=document_of_checks,
    part=lambda result: (result.index, 1),
    measure=_measure,
    counted=_counted,
    titled=lambda runs: "checks",
    method=_method_of_checks,
    has_samples=False,
    needs_devices=True,
    of_page=_OF_PAGE,
)
