"""What tuned settings cost a program: the slow-down of a matrix product beside its collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cclmark.base.errors import EXIT_OK
from cclmark.kinds.overlap.figures import OverlapSummary, summaries_of
from cclmark.kinds.overlap.kind import KIND
from cclmark.kinds.overlap.plan import overlaps_of_pairs
from cclmark.kinds.overlap.result import OverlapResult
from cclmark.kinds.tune.result import CaseCost, OperationResult, RulesResult, SmCost
from cclmark.kinds.tune.target import assigned_options
from cclmark.launch.request import Outcome, Request
from cclmark.recording.recorder import record, unused
from cclmark.work.cases import Case
from cclmark.work.computations import Compute
from cclmark.work.variants import DEFAULT, PROCESS, Assignment, Variant
from cclmark.work.work_beside import MATMUL


def largest_tuned(one: OperationResult, cases: Sequence[Case]) -> Case | None:
    """The largest of the cases to which a proven rule applies; None without one."""
    proven = () if one.proof is None else one.proof.proven
    covered = [case for case in cases if any(each.rule.covers(case.size_bytes) for each in proven)]
    return max(covered, key=lambda case: case.size_bytes, default=None)


def deployed_variant(result: RulesResult, one: OperationResult, case: Case) -> Variant:
    """The variant that runs a case of an operation as a user would, with the artifacts."""
    variables = [Assignment(*pair, PROCESS) for pair in result.variables.items()]
    variables += assigned_options(result.options)
    for each in () if one.proof is None else one.proof.proven:
        changes = one.choices[each.rule.variant].program_changes
        if changes and each.rule.covers(case.size_bytes):
            variables += changes
            break
    return Variant(tuple(variables))


def measure_beside(
    request: Request,
    pairs: Sequence[tuple[Variant, Case]],
    compute: Compute,
    rounds: int,
    journal: Path,
) -> tuple[list[OverlapSummary], Outcome]:
    """Returns the slow-downs of a compute and of each pair's case with its variant.

    ``request``: the devices and settings. Nothing is printed; the results are in the new file
    ``journal``. Raises UsageError if it cannot be created.
    """
    planned = overlaps_of_pairs(pairs, rounds, compute)
    own = replace(request, kind=KIND, planned=planned, pending=(), warnings=())
    recorded = record(own, journal=journal)
    results = (one for one in recorded.results if isinstance(one, OverlapResult))
    return summaries_of(results), recorded.outcome


_ROUNDS = 4
_LINES_OF_REASON = 2  # of a failure: which rank, and its error
_TYPE = "bfloat16"
_JOURNAL = "sm-cost"


def measure_sm_cost(
    request: Request,
    cases: Mapping[str, Sequence[Case]],
    result: RulesResult,
    directory: Path,
    rows: int,
) -> SmCost:
    """Measures the largest case with a proven rule of each operation, by default and as deployed.

    ``cases``: of the proof, by operation. ``rows``: of the matrices. The journal of the measurement
    is written to ``directory``. Raises UsageError if it cannot be created.
    """
    chosen = {
        one.operation: (one, case)
        for one in result.operations
        if (case := largest_tuned(one, cases[one.operation])) is not None
    }
    deployed = {
        operation: deployed_variant(result, one, case) for operation, (one, case) in chosen.items()
    }
    journal = unused(directory, _JOURNAL)
    summaries, outcome = measure_beside(
        request,
        [
            pair
            for name, (_, case) in chosen.items()
            for pair in dict.fromkeys([(DEFAULT, case), (deployed[name], case)])
        ],
        Compute(MATMUL, _TYPE, rows),
        _ROUNDS,
        journal,
    )
    found = {(one.case.operation, one.variant): one for one in summaries}
    costs = [
        CaseCost(case, found.get((name, DEFAULT)), found.get((name, deployed[name])))
        for name, (_, case) in chosen.items()
    ]
    lines = [line.strip() for line in outcome.message.splitlines()]
    reason = "" if outcome.exit_code == EXIT_OK else ": ".join(lines[:_LINES_OF_REASON])
    return SmCost(costs, str(journal), reason)
