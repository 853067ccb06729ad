"""Measures what tuned settings cost a matrix product that runs beside the collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cclmark.errors import EXIT_OK
from cclmark.kinds.tune.sm_cost import CaseCost, SmCost, deployed_variant, largest_tuned
from cclmark.kinds.tune.tune_result import TuneResult
from cclmark.launch.request import Request
from cclmark.plan.cases import Case
from cclmark.plan.computations import Compute
from cclmark.plan.variants import DEFAULT
from cclmark.plan.work_beside import MATMUL
from cclmark.recording.overlap_measuring import measure_beside
from cclmark.recording.part import unused

_ROUNDS = 4
_LINES_OF_REASON = 2  # of a failure: which rank, and its error
_TYPE = "bfloat16"
_JOURNAL = "sm-cost"


def measure_sm_cost(
    request: Request,
    cases: Mapping[str, Sequence[Case]],
    result: TuneResult,
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
        CaseCost(one, case, found.get((name, DEFAULT)), found.get((name, deployed[name])))
        for name, (one, case) in chosen.items()
    ]
    lines = [line.strip() for line in outcome.message.splitlines()]
    reason = "" if outcome.exit_code == EXIT_OK else ": ".join(lines[:_LINES_OF_REASON])
    return SmCost(costs, journal, reason)
