"""Fields of a case and of what ran, which several kinds have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from cclmark.document.columns import ColumnKind
from cclmark.document.fields import Field
from cclmark.document.text import BYTES_PER_GB
from cclmark.plan.cases import Case


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
