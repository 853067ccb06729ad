"""The columns of cases, shared by all tables of collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cclmark.document.case_fields import (
    BESIDE_FIELDS,
    CASE_FIELDS,
    PAIR_FIELDS,
    case_rows,
    known_of_cases,
)
from cclmark.document.columns import Cell, Column, Layout, Row, columns
from cclmark.document.fields import Fields
from cclmark.document.text import BYTES_PER_GB, US_PER_S
from cclmark.plan.cases import Case
from cclmark.results.item_results import CaseResult
from cclmark.results.method import unusual_method
from cclmark.results.schema import Explanation, Header, Summary

_CASE_COLUMNS = (
    "operation",
    "ccl",
    "ranks",
    "dtype",
    "reduction",
    "root",
    "placement",
    "size_bytes",
    "count",
    "status",
    "reason",
)
_FIGURE_COLUMNS = (
    "time_us",
    "min_us",
    "p95_us",
    "p99_us",
    "max_us",
    "cv",
    "half_width",
    "samples",
    "algbw_gbps",
    "busbw_gbps",
    "slowest_rank",
    "late_rank",
    "clock",
)
_DEVICE_COLUMNS = (
    *("device_us", "device_half_width", "device_samples", "device_converged", "device_reason"),
)
_OTHER_COLUMNS = ("wrong", "route", "cycle", "converged", "method")
_EXPLAINED_COLUMNS = ("kernel", "algorithm", "protocol", "channels", "explained_by", "explanation")
COLUMNS = _CASE_COLUMNS + _FIGURE_COLUMNS + _DEVICE_COLUMNS + _OTHER_COLUMNS + _EXPLAINED_COLUMNS

_TEXTS = (
    "operation ccl dtype reduction placement status reason clock route method first second "
    "device_reason kernel algorithm protocol explained_by explanation"
)
_WHOLE = (
    "ranks root size_bytes count samples device_samples slowest_rank late_rank wrong cycle beside "
    "channels"
)
_FLAGS = "converged device_converged"


def case_cells(result: CaseResult, header: Header) -> list[Cell]:
    """Returns a cell for each of COLUMNS."""
    return [
        *what_cells(result.case),
        result.status,
        result.reason,
        *figure_cells(result.summary),
        *_device_cells(result),
        *_other_cells(result),
        method_cell(result.case, header),
        *explained_cells(result.explanation),
    ]


def what_cells(case: Case) -> list[Cell]:
    """Returns the columns of a case from its operation to its count."""
    return [
        case.operation,
        case.ccl,
        case.ranks,
        case.dtype,
        case.reduction,
        case.root,
        case.placement,
        case.size_bytes,
        case.count,
    ]


def method_cell(case: Case, header: Header) -> str:
    """Describes the differences of the method from the default; empty if there are none."""
    return "; ".join(unusual_method(header, case.ccl))


def figure_cells(summary: Summary | None) -> list[Cell]:
    """Returns the columns of a case from its time to its clock; empty without figures."""
    if summary is None:
        return [None] * len(_FIGURE_COLUMNS)
    return [
        summary.time_s * US_PER_S,
        summary.min_s * US_PER_S,
        summary.p95_s * US_PER_S,
        summary.p99_s * US_PER_S,
        summary.max_s * US_PER_S,
        summary.cv,
        summary.half_width,
        summary.samples,
        summary.algbw_bytes_per_s / BYTES_PER_GB,
        summary.busbw_bytes_per_s / BYTES_PER_GB,
        summary.slowest_rank,
        summary.late_rank,
        summary.clock,
    ]


def _device_cells(result: CaseResult) -> list[Cell]:
    """Returns the device's time if launches determine the time of the row, or why it is unknown."""
    if result.device is None:
        return [None, None, None, None, result.device_reason]
    summary = result.device.summary
    return [
        summary.time_s * US_PER_S,
        summary.half_width,
        summary.samples,
        int(result.device.converged),
        result.device_reason,
    ]


def explained_cells(found: Explanation | None) -> list[Cell]:
    """Returns what the library did; empty without ``--explain``."""
    if found is None:
        return ["", "", "", None, "", ""]
    return [
        found.kernel,
        found.algorithm,
        found.protocol,
        found.channels or None,
        found.source,
        found.reason,
    ]


def _other_cells(result: CaseResult) -> list[Cell]:
    wrong = None if result.verification is None else result.verification.wrong
    converged = None if result.summary is None else int(result.converged)
    return [wrong, result.route, result.cycle, converged]


def pair_cells(result: CaseResult, names: Sequence[str]) -> list[Cell]:
    """Returns the two devices of a pair; empty cells for a case of all ranks."""
    pair = result.case.pair
    return [None, None] if pair is None else [names[number] for number in pair]


def _of_all_ranks(header: Header) -> Callable[[CaseResult], Iterable[Row]]:
    return lambda result: [case_cells(result, header)]


def _columns(names: Sequence[str]) -> list[Column]:
    return columns(names, texts=_TEXTS, whole=_WHOLE, flags=_FLAGS)


CASES = Layout(_columns(COLUMNS), _of_all_ranks)
# One table for files with cases of all ranks and of pairs: columns that do not apply are empty.
EXPORTED_CASES = Fields(
    [*CASE_FIELDS, *PAIR_FIELDS, *BESIDE_FIELDS], rows=case_rows, known=known_of_cases
).layout()
