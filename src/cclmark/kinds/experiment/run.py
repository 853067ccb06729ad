"""Trials of an experiment on one rank."""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.kinds.experiment.plan import Trial
from cclmark.kinds.experiment.result import TrialResult
from cclmark.plan.items import items_of
from cclmark.results.item_results import CaseResult
from cclmark.run.context import RankContext
from cclmark.run.measure import CaseRunner, batches_of
from cclmark.run.variant_runner import Measure, run_variants


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the trials; rank 0 reports."""
    rank = context.rank
    trials = items_of(rank.planned, Trial)

    def measurer(session: engine.Session) -> Measure:
        runner = CaseRunner(
            session,
            rank.agreement,
            context.job.settings,
            [],
            rank.enter,
            compares=True,
            batches=batches_of(context.job),
        )
        return lambda index: _trial_result(trials[index], runner.run(index, trials[index].case, 0))

    run_variants(context, trials, measurer)


def _trial_result(trial: Trial, measured: CaseResult) -> TrialResult:
    return TrialResult(
        index=measured.index,
        trial=trial,
        status=measured.status,
        reason=measured.reason,
        converged=measured.converged,
        started_at_s=measured.started_at_s,
        duration_s=measured.duration_s,
        samples=measured.samples,
        summary=measured.summary,
        device=measured.device,
        verification=measured.verification,
    )
