"""Trials of an experiment on one rank."""

from __future__ import annotations

import cclmark._engine as engine
from cclmark.journal.item_results import CaseResult
from cclmark.kinds.experiment.plan import Trial
from cclmark.kinds.experiment.result import TrialResult
from cclmark.rank.context import RankContext
from cclmark.rank.item_loop import CaseLoop, Measure
from cclmark.rank.measure import CaseRunner, batches_of
from cclmark.work.inject import RankFaults
from cclmark.work.items import items_of


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the trials; rank 0 reports."""
    rank, job = context.rank, context.job
    trials = items_of(rank.planned, Trial)

    def measurer(session: engine.Session) -> Measure:
        runner = CaseRunner(
            session,
            rank.agreement,
            job.settings,
            RankFaults(),
            rank.enter,
            compares=True,
            batches=batches_of(job),
        )
        return lambda index: _trial_result(trials[index], runner.run(index, trials[index].case, 0))

    CaseLoop(context, trials, measurer).run()


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
