"""Fields of a case and of what ran, which several kinds have."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from cclmark.report.document.fields import Field

#: The labels of gauges of a case.
CASE_LABELS = (
    *("operation", "ccl", "ranks", "dtype", "reduction", "root", "size_bytes", "placement"),
)
_WHOLE = frozenset({"ranks", "root", "size_bytes", "count", "channels"})


def case_fields(name: str) -> list[Field]:
    """Returns the fields of a case from its operation to its count. ``name``: of the attribute that
    is the case.
    """
    keys = (*CASE_LABELS[:6], "placement", "size_bytes", "count")
    return [
        Field(
            key,
            attrgetter(f"{name}.{key}"),
            "int" if key in _WHOLE else "text",
            on_page=key != "count",
        )
        for key in keys
    ]


def explained_fields() -> list[Field]:
    """Returns the fields of what the library did; empty without ``--explain``."""
    by_key = {
        **{"kernel": "kernel", "algorithm": "algorithm", "protocol": "protocol"},
        **{"channels": "channels", "explained_by": "source", "explanation": "reason"},
    }
    return [
        Field(
            key,
            _explained(name),
            "int" if key in _WHOLE else "text",
            on_page=key == "channels",
        )
        for key, name in by_key.items()
    ]


def _explained(name: str) -> Callable[[Any], Any]:
    """A count of 0 is unknown."""
    unknown = None if name in _WHOLE else ""
    return lambda result: (
        unknown if result.explanation is None else getattr(result.explanation, name) or unknown
    )
