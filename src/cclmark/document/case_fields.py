"""Fields of a case, of its result and of what ran, which several kinds have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from operator import attrgetter
from typing import Any

from cclmark.analysis.links import link_limit
from cclmark.document.columns import Cell, ColumnKind
from cclmark.document.device_labels import device_labels
from cclmark.document.fields import Field, Fields
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.remarks import STAGED_NOTE, reason_text, staged_mark
from cclmark.document.report_kind import RunLabels
from cclmark.document.text import BYTES_PER_GB
from cclmark.journal.item_results import CaseResult
from cclmark.journal.method import unusual_method
from cclmark.journal.schema import Explanation, Header
from cclmark.work.cases import Case


def case_labels(case: Case) -> list[tuple[str, str]]:
    """Returns the names and values that identify the case in a run."""
    return [
        ("operation", case.operation),
        ("ccl", case.ccl),
        ("ranks", str(case.ranks)),
        ("dtype", case.dtype),
        ("reduction", case.reduction or ""),
        ("root", "" if case.root is None else str(case.root)),
        ("size_bytes", str(case.size_bytes)),
        ("placement", case.placement),
    ]


#: The labels of gauges of a case.
CASE_LABELS = (
    *("operation", "ccl", "ranks", "dtype", "reduction", "root", "size_bytes", "placement"),
)
_OF_CASE: Mapping[str, ColumnKind] = {
    **{"operation": "text", "ccl": "text", "ranks": "int", "dtype": "text", "reduction": "text"},
    **{"root": "int", "placement": "text", "size_bytes": "int", "count": "int"},
}
# Their keys, and the names of the attributes of an explanation.
_OF_EXPLANATION = {
    **{"kernel": "kernel", "algorithm": "algorithm", "protocol": "protocol"},
    **{"channels": "channels", "explained_by": "source", "explanation": "reason"},
}
_CHANNELS = "channels"


def case_fields(path: str) -> list[Field]:
    """The fields of a case, from its operation to its count. ``path``: the attribute with it."""
    return [Field(key, attrgetter(f"{path}.{key}"), kind) for key, kind in _OF_CASE.items()]


def summary_fields(path: str) -> list[Field]:
    """The fields of a summary, from its time to its clock. ``path``: the attribute with it, which
    may be None.
    """

    def of(name: str, divisor: float = 1) -> Callable[[Any], Any]:
        own = attrgetter(path)
        return lambda one: None if own(one) is None else _over(getattr(own(one), name), divisor)

    return [
        *(Field(f"{name}_us", of(f"{name}_s")) for name in ("time", "min", "p95", "p99", "max")),
        *(Field(name, of(name)) for name in ("cv", "half_width")),
        Field("samples", of("samples"), "int"),
        Field("algbw_gbps", of("algbw_bytes_per_s", BYTES_PER_GB)),
        Field("busbw_gbps", of("busbw_bytes_per_s", BYTES_PER_GB)),
        *(Field(name, of(name), "int") for name in ("slowest_rank", "late_rank")),
        Field("clock", of("clock"), "text"),
    ]


def _over(value: Any, divisor: float) -> Any:
    return value if divisor == 1 or value is None else value / divisor


def explained_fields() -> list[Field]:
    """The fields of what the library did; empty without ``--explain``."""
    return [
        Field(
            key,
            _explained(name),
            "int" if name == _CHANNELS else "text",
            on_page=name == _CHANNELS,
        )
        for key, name in _OF_EXPLANATION.items()
    ]


def _explained(name: str) -> Callable[[Any], Any]:
    """A number of 0 is unknown."""
    unknown = None if name == _CHANNELS else ""
    return lambda result: (
        unknown if result.explanation is None else getattr(result.explanation, name) or unknown
    )


def method_of_case(header: Header, ccl: str) -> str:
    """The differences of the method from the default; empty if there are none."""
    return "; ".join(unusual_method(header, ccl))


@dataclass(frozen=True)
class CaseRow:
    """The row of a result. ``names``: of the devices of the run. ``methods``: see ``method``, of
    the cases of a library.
    """

    names: Sequence[str]
    methods: Callable[[str], str]
    result: CaseResult

    @property
    def explanation(self) -> Explanation | None:
        """What the library did; None without ``--explain``."""
        return self.result.explanation

    @property
    def method(self) -> str:
        """The differences of the method from the default; empty if there are none."""
        return self.methods(self.result.case.ccl)

    def device(self, end: int) -> str | None:
        """The name of a device of a pair; None for a case of all ranks."""
        pair = self.result.case.pair
        return None if pair is None else self.names[pair[end]]


def known_of_cases(header: Header) -> tuple[Sequence[str], Callable[[str], str]]:
    """The first fields of a row, equal for all results."""
    return device_labels(header.devices), cache(partial(method_of_case, header))


def case_rows(
    known: tuple[Sequence[str], Callable[[str], str]], result: CaseResult
) -> list[CaseRow]:
    """The only row of a result."""
    return [CaseRow(*known, result)]


def _of_pair(name: str) -> Callable[[CaseRow], Cell]:
    return lambda row: None if row.result.case.pair is None else getattr(row.result, name)


#: The fields of a result, for tables of cases of all ranks and of pairs.
CASE_FIELDS = (
    *case_fields("result.case"),
    Field("status", "result.status", "text"),
    Field("reason", lambda row: reason_text(row.result), "text"),
    *summary_fields("result.summary"),
    Field("device_us", "result.device.summary.time_s"),
    Field("device_half_width", "result.device.summary.half_width"),
    Field("device_samples", "result.device.summary.samples", "int"),
    Field(
        "device_converged",
        "result.device.converged",
        "bool",
    ),
    Field("device_reason", "result.device_reason", "text"),
    Field(
        "wrong",
        "result.verification.wrong",
        "int",
    ),
    Field("route", "result.route", "text"),
    Field("cycle", "result.cycle", "int"),
    Field(
        "converged",
        lambda row: None if row.result.summary is None else int(row.result.converged),
        "bool",
    ),
    Field("method", "method", "text"),
    *(replace(one, on_page=True) for one in explained_fields()),
)
#: The devices of a pair, and what was measured beside it.
PAIR_FIELDS = (
    Field("first", lambda row: row.device(0), "text"),
    Field("second", lambda row: row.device(1), "text"),
)
BESIDE_FIELDS = (
    Field("beside", _of_pair("beside"), "int", on_page=False),
    Field("at_once_ratio", _of_pair("at_once_ratio"), on_page=False),
)
#: One table for files with cases of all ranks and of pairs: columns that do not apply are empty.
EXPORTED_CASES = Fields(
    [*CASE_FIELDS, *PAIR_FIELDS, *BESIDE_FIELDS], rows=case_rows, known=known_of_cases
).layout()

CASE_METRICS = (
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
)
_SPREAD = ("min", "p95", "p99", "max")
_CASE_FIGURES = (
    *("cclmark_time_seconds", "cclmark_device_time_seconds"),
    *("cclmark_algbw_bytes_per_second", "cclmark_busbw_bytes_per_second"),
    *("cclmark_case_samples", *(f"cclmark_time_{name}_seconds" for name in _SPREAD)),
)


def measure_case(series: Series, result: CaseResult, run: RunLabels) -> None:
    """Sets the gauges of one case."""
    case, summary = result.case, result.summary
    pair = ("", "") if case.pair is None else tuple(run.devices[number] for number in case.pair)
    labels = labels_of(
        [
            *case_labels(case),
            ("first", pair[0]),
            ("second", pair[1]),
            *run.method,
            *run.where,
        ]
    )
    if result.status == "skipped":
        return
    series.begin(labels)
    # A correct cycle does not hide an earlier wrong one.
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


def case_cells(fields: Fields, run: NamedRun) -> Callable[[CaseResult], dict[str, Cell]]:
    """Returns a function that gives the cells of a case in a page's table: its ``fields``, and its
    shares of the link limit and of references.
    """
    header, of_fields = run.journal.header, fields.page_cells(run)
    limit = link_limit(header.links, header.hosts)

    def cells_of(result: CaseResult) -> dict[str, Cell]:
        cells = of_fields(result)
        if limit and result.summary is not None and result.summary.busbw_bytes_per_s:
            cells["of_link_limit_percent"] = result.summary.busbw_bytes_per_s / limit * 100
        if (match := run.notes.match(result, header)) is not None:
            cells |= {"of_reference_percent": match.share * 100, "reference": match.words}
        return cells

    return cells_of


def notes_on_cases(results: Iterable[CaseResult]) -> list[str]:
    """Explains a mark in the table."""
    staged = any(map(staged_mark, results))
    return [f"Route “copy aside, then …”: {STAGED_NOTE}."] if staged else []


def title_of_cases(runs: Sequence[NamedRun]) -> str:
    """Returns the operations of all runs."""
    results = chain.from_iterable(run.journal.cases for run in runs)
    operations = list(dict.fromkeys(result.case.operation for result in results))
    more = f" and {len(operations) - 3} more" if len(operations) > 3 else ""
    return ", ".join(operations[:3]) + more


METHOD_OF_CASES = (
    "A sample is a batch of operations between a barrier and the last rank's end. Curves show "
    "the median over samples; bands reach from the fastest sample to the 95th percentile. Bus "
    "bandwidth is size over time, times the factor that makes it comparable with a link's rate "
    "whatever the number of ranks (as in nccl-tests)."
)
