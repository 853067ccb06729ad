"""Operations of cases as values of the engine."""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.plan.cases import Case


def operation_of(case: Case) -> engine.Operation:
    """The operation of ``case``, without its placement."""
    return engine.Operation(
        collective=case.operation,
        dtype=case.dtype,
        reduction=case.reduction or "sum",
        root=case.root or 0,
        count=case.count,
        matrix=list(case.matrix),
    )
