"""Fields of a case and of what ran, which several kinds have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from cclmark.report.columns import ColumnKind
from cclmark.report.document.fields import Field

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
