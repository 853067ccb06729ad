"""What tuned settings cost a program: the slow-down of a matrix product beside its collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cclmark.kinds.overlap.figures import OverlapSummary
from cclmark.kinds.tune.target import assigned_options
from cclmark.kinds.tune.tune_result import OperationResult, TuneResult
from cclmark.plan.cases import Case
from cclmark.plan.variants import PROCESS, Assignment, Variant


@dataclass(frozen=True)
class CaseCost:
    """The slow-downs in one case, by default and as deployed; None: not measured."""

    result: OperationResult
    case: Case
    before: OverlapSummary | None
    after: OverlapSummary | None


@dataclass(frozen=True)
class SmCost:
    """The costs by case. ``reason``: why there are none. ``journal``: of the measurement."""

    cases: Sequence[CaseCost]
    journal: Path
    reason: str = ""


def largest_tuned(one: OperationResult, cases: Sequence[Case]) -> Case | None:
    """The largest of the cases to which a proven rule applies; None without one."""
    proven = () if one.proof is None else one.proof.proven
    covered = [case for case in cases if any(each.rule.covers(case.size_bytes) for each in proven)]
    return max(covered, key=lambda case: case.size_bytes, default=None)


def deployed_variant(result: TuneResult, one: OperationResult, case: Case) -> Variant:
    """The variant that runs a case of an operation as a user would, with the artifacts."""
    variables = [Assignment(*pair, PROCESS) for pair in result.variables.items()]
    variables += assigned_options(result.options)
    for each in () if one.proof is None else one.proof.proven:
        changes = one.choices[each.rule.variant].program_changes
        if changes and each.rule.covers(case.size_bytes):
            variables += changes
            break
    return Variant(tuple(variables))
