"""The Prometheus labels of a case, shared by the kinds that measure cases."""

from __future__ import annotations

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
