"""Trials of an experiment on one rank: the variants that share a process, one after the other."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from cclmark import _engine as engine
from cclmark.plan.items import items_of
from cclmark.plan.trials import Trial
from cclmark.plan.variants import COMMUNICATOR, REGISTRATION, Variant
from cclmark.results.kinds import CaseResult, TrialResult
from cclmark.run.all_or_none import in_step
from cclmark.run.context import RankContext
from cclmark.run.measure import CaseRunner
from cclmark.run.measured_libraries import Library
from cclmark.run.memory import free_on_all, reserve_for
from cclmark.run.opening import measure_each


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the trials; rank 0 reports."""
    runner = _Runner(context)
    measure_each(context, [trial.case for trial in runner.trials], runner.measure, all_needed=True)


class _Runner:
    def __init__(self, context: RankContext) -> None:
        self._context = context
        self._rank = context.rank
        self._job = context.job
        self._device = context.devices[0]
        self.trials = items_of(context.rank.planned, Trial)

    def measure(self, name: str, library: Library) -> None:
        """Measures the trials of one library, each variant with its own communicator."""
        variants = dict.fromkeys(one.variant for one in self.trials if one.case.ccl == name)
        for variant in variants:
            indices = [
                index
                for index, trial in enumerate(self.trials)
                if trial.variant == variant and trial.case.ccl == name
            ]
            # A failure before the first case is attributed to the variant's first trial.
            self._rank.case_index = indices[0]
            self._rank.enter("communicator creation")
            with _variables(variant):
                communicator = in_step(
                    self._rank.agreement, partial(library.join, self._rank, self._device)
                )
                try:
                    self._measure_on(communicator, variant, indices)
                except engine.AbortedError:
                    communicator.check()  # may raise the error that made the other ranks stop
                    raise
                del communicator

    def _measure_on(
        self, communicator: engine.Communicator, variant: Variant, indices: Sequence[int]
    ) -> None:
        job, rank = self._job, self._rank
        session = engine.Session(self._device, rank.rank_group, communicator, rank.counter)
        rank.enter("allocating buffers")
        name = variant.value_of(REGISTRATION) or job.settings.registration
        cases = [self.trials[index].case for index in indices]
        free_bytes = free_on_all(self._device, rank.rank_group, job.ranks)
        too_large = reserve_for(
            cases, session, rank.rank_group, getattr(engine.Registration, name), free_bytes
        )
        if self._context.instruments is not None:
            fitting = [index for index in indices if self.trials[index].case not in too_large]
            self._explain(session, communicator, variant, fitting)
        else:
            runner = CaseRunner(
                session, rank.agreement, job.settings, [], rank.enter, compares=True
            )
            gc.collect()
            gc.disable()
            for index in indices:
                trial = self.trials[index]
                rank.case_index = index
                if trial.case in too_large:
                    result = TrialResult(index, trial, "skipped", too_large[trial.case])
                else:
                    result = _trial_result(trial, runner.run(index, trial.case, 0))
                if job.rank == 0:
                    rank.report(result)
            gc.enable()
            del runner
        # A failure while the communicator is destroyed is the variant's too.
        rank.enter("shutdown")
        del session
        communicator.leave()
        rank.case_index = -1

    def _explain(
        self,
        session: engine.Session,
        communicator: engine.Communicator,
        variant: Variant,
        indices: Sequence[int],
    ) -> None:
        """Observes the trials instead of measuring them."""
        from cclmark.run.explaining import CaseExplainer  # not imported by ranks that measure

        instruments = self._context.instruments
        assert instruments is not None
        explainer = CaseExplainer(self._rank, session, self._rank.agreement, instruments)
        for index in indices:
            explainer.run(index, self.trials[index].case)
        if indices and variant.is_default:
            explainer.finish(self.trials[indices[0]].case.ccl, communicator)


@contextmanager
def _variables(variant: Variant) -> Iterator[None]:
    """Sets the variables that the library reads when it creates a communicator."""
    before = {name: os.environ.get(name) for name in variant.variables(COMMUNICATOR)}
    os.environ.update(variant.variables(COMMUNICATOR))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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
