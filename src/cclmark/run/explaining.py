"""Observes what the library does for each case, without measuring it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cclmark import _engine as engine
from cclmark.explain.operation import Operation
from cclmark.plan.cases import Case
from cclmark.plan.libraries import plug_ins_of
from cclmark.rendezvous.messages import Explained
from cclmark.run.all_or_none import in_step
from cclmark.run.engine_operation import operation_of
from cclmark.run.instruments import Instruments, Observation
from cclmark.run.rank import Rank


class CaseExplainer:
    """Runs cases once on one rank, in step with the same object on the others."""

    def __init__(
        self,
        rank: Rank,
        session: engine.Session,
        instruments: Instruments,
        enter: Callable[[str, int], None],
    ) -> None:
        self._rank = rank
        self._session = session
        self._instruments = instruments
        self._enter = enter

    def run(self, index: int, case: Case) -> None:
        """Runs the case once and sends what was observed. Raises EngineError."""
        self._enter("explaining", 0)
        settings = self._rank.job.settings
        try:
            in_step(self._rank.agreement, partial(self._prepare, case))
            self._instruments.begin()
            batch = engine.Batch(
                timing=engine.Timing.throughput, iterations=1, group=settings.group
            )
            in_step(self._rank.agreement, partial(self._session.run, batch))
            observation = self._observation(case)
        except engine.UnsupportedError as error:
            observation = Observation("unknown", str(error), [], {})
        self._send(index, observation)

    def _prepare(self, case: Case) -> None:
        seed = self._rank.job.settings.seed
        self._session.prepare(operation_of(case), case.in_place, seed)

    def _observation(self, case: Case) -> Observation:
        if plug_ins_of(case.ccl):
            return self._instruments.observation()
        if kernel := self._session.kernel:
            return Observation("engine", "", [_built_in(case, kernel)], {})
        reason = f"{case.ccl} has no interface that reports what it does"
        return Observation("unknown", reason, [], {})

    def _send(self, index: int, found: Observation) -> None:
        job = self._rank.job
        self._rank.client.send(
            Explained(
                rank=job.rank,
                token=job.token,
                index=index,
                source=found.source,
                reason=found.reason,
                operations=found.operations,
                predicted_s=found.predicted_s,
            )
        )


def _built_in(case: Case, kernel: str) -> Operation:
    return Operation(case.operation, case.dtype, case.count, -1, kernel, "", "", 0)
