"""Fields of a case, of its result and of what ran, which several kinds have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from operator import attrgetter
from typing import Any

from cclmark.analysis.links import link_limit
from cclmark.base.grouping import abridged
from cclmark.document.columns import Cell, Column, ColumnKind
from cclmark.document.device_labels import device_labels
from cclmark.document.fields import Field, Fields, TableField, fields_at, value_at
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.remarks import STAGED_NOTE, reason_text, staged_mark
from cclmark.journal.item_results import CaseResult
from cclmark.journal.method import unusual_method
from cclmark.journal.schema import Explanation, Header, Summary

#: The labels of gauges of a case.
CASE_LABELS = (
    *("operation", "ccl", "ranks", "dtype", "reduction", "root", "size_bytes", "placement"),
)
_OF_CASE: Sequence[tuple[str, ColumnKind, str]] = (
    ("operation", "text", "Operation, as NCCL names it."),
    ("ccl", "text", "Library that performs the operation."),
    ("ranks", "int", "Ranks of the communicator."),
    ("dtype", "text", "Data type of an element."),
    ("reduction", "text", "Reduction, empty for an operation without one."),
    ("root", "int", "Root, empty for an operation without one."),
    ("placement", "text", "Whether the output overwrites the input: in-place or out-of-place."),
    ("size_bytes", "int", "Size of the message, as nccl-tests counts it for the operation."),
    ("count", "int", "Elements of the message."),
)
_STATUS_HELP = "ok, wrong (data), or why it has no figures: skipped, failed, died, timeout, error."
_REASON_HELP = "Reason for missing figures, or the first wrong element."


def variant_fields(path: str) -> list[Field]:
    """The fields of an item with variants and rounds. ``path``: the attribute with it."""
    item = attrgetter(path)
    return [
        Field(
            "variant",
            "Settings that differ from the default.",
            lambda one: item(one).variant.describe(),
            "text",
        ),
        Field("round", "Number of the round, from 1.", lambda one: item(one).round + 1, "int"),
    ]


def status_fields(
    reason: Callable[[Any], Cell] | str, status: str = "status", *, help: str = _REASON_HELP
) -> list[Field]:
    """The status and the reason of a result. ``help``: of the reason."""
    return [Field("status", _STATUS_HELP, status, "text"), Field("reason", help, reason, "text")]


def case_fields(path: str) -> list[Field]:
    """The fields of a case, from its operation to its count. ``path``: the attribute with it."""
    return fields_at(path, *_OF_CASE)


def _has_samples(summary: Summary | None) -> bool:
    return summary is not None and summary.samples != 1


def _of_several(path: str, name: str) -> Callable[[Any], Cell]:
    """A figure of the samples, None of a single one, which may be another tool's mean."""
    summary_at = value_at(path)

    def value(result: Any) -> Cell:
        summary = summary_at(result)
        found: Cell = getattr(summary, name) if _has_samples(summary) else None
        return found

    return value


def summary_fields(path: str) -> list[Field]:
    """The fields of a summary, time to clock. ``path``: its attribute, which may be None."""
    return [
        Field("time_us", "Median time of one operation.", f"{path}.time_s"),
        Field("min_us", "Shortest sample.", _of_several(path, "min_s")),
        Field("p95_us", "95th percentile of the samples.", _of_several(path, "p95_s")),
        Field("p99_us", "99th percentile of the samples.", _of_several(path, "p99_s")),
        Field("max_us", "Longest sample.", _of_several(path, "max_s")),
        Field(
            "spread",
            "Interquartile range of the samples over their median.",
            f"{path}.spread",
            direction="lower",
        ),
        Field(
            "outliers",
            "Samples over three interquartile ranges above the third quartile, and over 10 % above "
            "the median.",
            f"{path}.outliers",
            "int",
        ),
        Field(
            "half_width",
            "Half of the 95 % confidence interval of the median, as a share of it.",
            f"{path}.half_width",
            direction="lower",
        ),
        Field("samples", "Samples that the figures are of.", f"{path}.samples", "int"),
        Field("algbw_gbps", "Size over median time.", f"{path}.algbw_bytes_per_s"),
        Field(
            "busbw_gbps",
            "Algorithm bandwidth times the factor of the operation.",
            f"{path}.busbw_bytes_per_s",
        ),
        Field(
            "slowest_rank",
            "Rank that is clearly the slowest, if one is.",
            f"{path}.slowest_rank",
            "int",
        ),
        Field(
            "late_rank", "Rank that the others wait for, if they do.", f"{path}.late_rank", "int"
        ),
        Field(
            "clock",
            "What was read: clock of the host, or events of the device.",
            f"{path}.clock",
            "text",
        ),
    ]


def interval_fields(
    name: str, low: Callable[[Any], Cell] | str, high: Callable[[Any], Cell] | str
) -> list[Field]:
    """The ends of the interval of the field ``name``, which pages leave out."""
    stem, _, unit = name.rpartition("_")
    return [
        TableField(f"{stem}_low_{unit}", f"Lower end of the 95 % interval of {name}.", low),
        TableField(f"{stem}_high_{unit}", f"Upper end of the 95 % interval of {name}.", high),
    ]


def ratio_fields(path: str, help: str) -> list[Field]:
    """The fields of a ratio and its interval. ``path``: of their owner. ``help``: of the ratio."""
    return [
        Field("ratio", help, f"{path}.ratio", direction="lower"),
        Field("ratio_low", "Lower end of the 95 % interval of the ratio.", f"{path}.ratio_low"),
        Field("ratio_high", "Upper end of the 95 % interval of the ratio.", f"{path}.ratio_high"),
    ]


def wrong_field(of: str = "verification.wrong") -> Field:
    """The number of wrong elements. ``of``: the attribute with it."""
    help = "Wrong elements that the check found; empty without a check."
    return Field("wrong", help, of, "int", direction="lower")


def explained_fields(*, on_page: Collection[str] = ("channels",)) -> list[Field]:
    """What the library did; empty without ``--explain``. ``on_page``: the keys that pages have."""
    fields = [
        Field("kernel", "Kernel that the library launched.", _explained("kernel"), "text"),
        Field("algorithm", "Algorithm that the library chose.", _explained("algorithm"), "text"),
        Field("protocol", "Protocol that the library chose.", _explained("protocol"), "text"),
        Field("channels", "Channels that the library used.", _explained("channels"), "int"),
        Field("explained_by", "Source of what ran.", _explained("source"), "text"),
        Field("explanation", "Why what ran is unknown.", _explained("reason"), "text"),
    ]
    return [replace(one, on_page=one.key in on_page) for one in fields]


def _explained(name: str) -> Callable[[Any], Any]:
    """A number of 0 is unknown."""
    unknown = None if name == "channels" else ""
    return lambda result: (
        unknown if result.explanation is None else getattr(result.explanation, name) or unknown
    )


def method_of_case(header: Header, ccl: str) -> str:
    """The differences of the method from the default; empty if there are none."""
    return "; ".join(unusual_method(header, ccl))


@dataclass(frozen=True)
class CaseRow:
    """The row of a result. ``names``: of devices. ``methods``: by library, see ``method``."""

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

    def device(self, end: int) -> str:
        """The name of a device of a pair; empty for a case of all ranks."""
        pair = self.result.case.pair
        return "" if pair is None else self.names[pair[end]]


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


_GAUGES = {
    **{"time_us": "time_seconds", "device_us": "device_time_seconds"},
    **{f"{name}_us": f"time_{name}_seconds" for name in ("min", "p95", "p99", "max")},
    **{"algbw_gbps": "algbw_bytes_per_second", "busbw_gbps": "busbw_bytes_per_second"},
    **{"samples": "case_samples", "wrong": "wrong_elements"},
}
_SPREAD = ("min_us", "p95_us", "p99_us", "max_us")
#: The fields of a result, for tables of cases of all ranks and of pairs.
_OF_RESULT = (
    *case_fields("result.case"),
    *status_fields(lambda row: reason_text(row.result), "result.status"),
    *summary_fields("result.summary"),
    Field(
        "device_us",
        "Median time that the devices need, where launches determine the time of an operation.",
        "result.device.summary.time_s",
    ),
    Field(
        "device_half_width",
        "Half of the 95 % confidence interval of the time of the devices, as a share.",
        "result.device.summary.half_width",
        direction="lower",
    ),
    Field(
        "device_samples",
        "Samples of the time of the devices.",
        "result.device.summary.samples",
        "int",
    ),
    Field(
        "device_converged",
        "Whether the time of the devices reached the requested precision.",
        "result.device.converged",
        "bool",
    ),
    Field(
        "device_reason", "Why the time of the devices is unknown.", "result.device_reason", "text"
    ),
    wrong_field("result.verification.wrong"),
    Field("route", "How the operation was composed, if not by one call.", "result.route", "text"),
    Field(
        "cycle",
        "Number of the cycle of a soak or of -N, from 0; tables count from 1.",
        "result.cycle",
        "int",
    ),
    Field(
        "converged",
        "Whether the median reached the requested precision.",
        lambda row: int(row.result.converged) if _has_samples(row.result.summary) else None,
        "bool",
    ),
    Field("method", "Differences of the method from the default.", "method", "text"),
    *explained_fields(
        on_page=("kernel", "algorithm", "protocol", "channels", "explained_by", "explanation")
    ),
)
_CASES = tuple(replace(one, gauge=_GAUGES.get(one.key, "")) for one in _OF_RESULT)
_PAIR = (
    Field("first", "First device of a pair.", lambda row: row.device(0), "text"),
    Field("second", "Second device of a pair.", lambda row: row.device(1), "text"),
)
_BESIDE = (
    TableField("beside", "Other pairs that were measured at once.", _of_pair("beside"), "int"),
    TableField(
        "at_once_ratio",
        "Time of the pair beside the others over its time alone, at one probed size.",
        _of_pair("at_once_ratio"),
        direction="lower",
    ),
)


def _fields(all: Sequence[Field]) -> Fields:
    return Fields(
        all,
        gauges="cclmark",
        labels=CASE_LABELS,
        noun="a case",
        ok="case_ok",
        rows=case_rows,
        known=known_of_cases,
    )


#: Of cases of all ranks.
CASE_FIELDS = _fields(_CASES)
#: Of cases of pairs.
PAIR_FIELDS = _fields([*_PAIR, *_CASES, *_BESIDE])
#: One table for files with cases of all ranks and of pairs: columns that do not apply are empty.
EXPORTED_CASES = _fields([*_CASES, *_PAIR, *_BESIDE])
#: Of a page with cases.
SHARE_COLUMNS = (
    Column("of_link_limit_percent", "float", "Bus bandwidth over the limit of the links."),
    Column("of_reference_percent", "float", "Figure over that of the nearest reference."),
    Column("reference", "text", "The nearest reference."),
)


def measure_case(series: Series, result: CaseResult, run: RunLabels) -> None:
    """Sets the gauges of one case."""
    if result.status == "skipped":
        return
    case = result.case
    row = CaseRow(run.devices, lambda ccl: "", result)
    pair = () if case.pair is None else (("first", row.device(0)), ("second", row.device(1)))
    labels = CASE_FIELDS.labels_of(row, run, *pair, *run.method)
    series.begin(labels)
    # A correct cycle does not hide an earlier wrong one.
    series.worst(CASE_FIELDS.ok_gauge, labels, float(result.status == "ok"), min)
    gauges = {one.key: CASE_FIELDS.gauge_of(one) for one in _CASES if one.gauge}
    wrong = gauges.pop("wrong")
    if result.verification is not None:
        series.worst(wrong, labels, result.verification.wrong, max)
    series.clear(labels, gauges.values())
    if result.summary is not None:
        single = _SPREAD if result.summary.samples == 1 else ()
        CASE_FIELDS.set_gauges(series, row, labels, without=("wrong", *single))


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
    return abridged(operations, 3)


METHOD_OF_CASES = (
    "A sample is a batch of operations between a barrier and the last rank's end. Curves show "
    "the median over samples; bands reach from the fastest sample to the 95th percentile. Bus "
    "bandwidth is size over time, times the factor that makes it comparable with a link's rate "
    "whatever the number of ranks (as in nccl-tests)."
)
