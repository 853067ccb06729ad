"""Fields of a case, of its result and of what ran, which several kinds have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from cclmark.document.columns import Cell, ColumnKind
from cclmark.document.device_labels import labels
from cclmark.document.fields import Field, Fields
from cclmark.document.remarks import reason_text
from cclmark.document.text import BYTES_PER_GB
from cclmark.plan.cases import Case
from cclmark.results.item_results import CaseResult
from cclmark.results.method import unusual_method
from cclmark.results.schema import Explanation, Header


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


def method_of_case(header: Header, case: Case) -> str:
    """The differences of the method from the default; empty if there are none."""
    return "; ".join(unusual_method(header, case.ccl))


@dataclass(frozen=True)
class CaseRow:
    """The row of a result. ``names``: of the devices of the run."""

    header: Header
    names: Sequence[str]
    result: CaseResult

    @property
    def explanation(self) -> Explanation | None:
        """What the library did; None without ``--explain``."""
        return self.result.explanation

    @property
    def method(self) -> str:
        """The differences of the method from the default; empty if there are none."""
        return method_of_case(self.header, self.result.case)

    def device(self, end: int) -> str | None:
        """The name of a device of a pair; None for a case of all ranks."""
        pair = self.result.case.pair
        return None if pair is None else self.names[pair[end]]


def known_of_cases(header: Header) -> tuple[Header, Sequence[str]]:
    """The first fields of a row, equal for all results."""
    return header, labels(header.devices)


def case_rows(known: tuple[Header, Sequence[str]], result: CaseResult) -> list[CaseRow]:
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
