"""Overlaps on one rank: collectives beside a compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import cclmark._engine as engine
from cclmark.analysis.stopping import WarmUp
from cclmark.journal.schema import Settings, Verification, WrongOutput
from cclmark.kinds.overlap.figures import (
    Lengths,
    balanced,
    figures_of,
    lengths_for,
    longer,
    phase_order,
    select,
    time_of_spans,
)
from cclmark.kinds.overlap.plan import Overlap
from cclmark.kinds.overlap.result import OverlapResult, OverlapTimes
from cclmark.rank.all_or_none import GRACE_S, in_step
from cclmark.rank.context import RankContext
from cclmark.rank.engine_values import operation_of
from cclmark.rank.item_loop import CaseLoop, Measure
from cclmark.rank.measure import rounded_s, verification_of
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import open_compute
from cclmark.work.items import items_of

_DURATION_S = 0.04  # of a phase, if operations are short
_PROBE_S = 0.004
_MOST_PROBED = 4096
_NOTHING = (0, 1)
_MOST_ATTEMPTS = 4  # if no operation ran entirely beside the other work
_LONGEST_REPEATED_S = 1.0  # a longer phase is not repeated with more operations
_WARM_UP = WarmUp(agreement=0.05, most_batches=4, most_time_s=0.3)
_CHECKED_BESIDE = 4  # products that run beside the collective that is checked

_NO_OVERLAP = (
    "no operation ran entirely beside the other work, or the clock of the device is too coarse for "
    "these operations: measure a larger --begin or --matrix"
)


@dataclass(eq=False)
class OverlapRunner:
    """Measures overlaps on one rank, in step with the same object on the others.

    Decisions depend only on times shared by all ranks, so all ranks decide alike. ``is_host``:
    whether the device works inside the call, so that nothing is launched.
    """

    _session: engine.Session
    _rank: Rank
    _settings: Settings
    _compute: engine.Compute
    is_host: bool
    _compute_s: float = 0.0

    def run(self, index: int, overlap: Overlap) -> OverlapResult:
        """Measures and checks one overlap. A case that the library does not support is skipped."""
        begin_s, started_at_s = time.monotonic(), time.time()
        rank, case = self._rank, overlap.case
        rank.enter("preparing")
        try:
            prepare = partial(
                self._session.prepare, operation_of(case), case.in_place, self._settings.seed
            )
            in_step(rank.agreement, prepare)
            rank.enter("warm-up")
            first = partial(self._run, Lengths((1, 1), _NOTHING))
            in_step(rank.agreement, first, GRACE_S)
        except engine.UnsupportedError as error:
            return OverlapResult(index, overlap, "skipped", str(error))
        lengths = self._lengths()
        attempts = 1
        communication, compute, together = self._phases(overlap.round, lengths)
        while (
            select(together) is None
            and attempts < _MOST_ATTEMPTS
            and time_of_spans(together) < _LONGEST_REPEATED_S
        ):
            attempts += 1
            lengths = longer(lengths)
            communication, compute, together = self._phases(overlap.round, lengths)
        figures = figures_of(communication, compute, together)
        verification, findings = self._verify(case.dtype) if self._settings.check else (None, [])
        is_wrong = bool(findings) or (verification is not None and verification.wrong > 0)
        status = "wrong" if is_wrong else "ok" if figures is not None else "skipped"
        return OverlapResult(
            index=index,
            overlap=overlap,
            status=status,
            reason=_NO_OVERLAP if figures is None else "",
            started_at_s=started_at_s,
            duration_s=time.monotonic() - begin_s,
            implementation=self._compute.implementation,
            implementation_path=self._compute.path,
            communication_alone=communication,
            compute_alone=compute,
            together=together,
            attempts=attempts,
            figures=figures,
            verification=verification,
            compute_findings=findings,
        )

    def _run(self, lengths: Lengths) -> OverlapTimes:
        measured = self._session.run_beside(
            _spans(lengths.communication), _spans(lengths.compute), self._compute
        )
        return OverlapTimes(
            communication_s=rounded_s(measured.communication_s),
            compute_s=rounded_s(measured.compute_s),
            enqueue_s=[] if self.is_host else rounded_s([measured.enqueue_s])[0],
            communication_operations=lengths.communication[1],
            compute_operations=lengths.compute[1],
        )

    def _lengths(self) -> Lengths:
        """Probes both alone, then both at once, and returns the lengths of the measured phases.

        The devices are warm afterwards: both work at once until two runs take equally long.
        """
        sent_s = self._probe(lambda number: Lengths((1, number), _NOTHING))
        if self._compute_s == 0.0:
            self._compute_s = self._probe(lambda number: Lengths(_NOTHING, (1, number)))
        lengths = lengths_for(sent_s, self._compute_s, _DURATION_S)
        lengths = balanced(lengths, self._run(lengths))
        times_s: list[float] = []
        while not _WARM_UP.done(times_s, sum(times_s)):
            times_s.append(time_of_spans(self._run(lengths)))
        return lengths

    def _probe(self, lengths: Callable[[int], Lengths]) -> float:
        """The time of one operation, by a number of them that takes _PROBE_S or longer."""
        number = 1
        self._run(lengths(number))  # connects, compiles and maps memory
        while True:
            times = self._run(lengths(number))
            marks = [one for one in (*times.communication_s, *times.compute_s) if one]
            elapsed_s = max(one[-1] - one[0] for one in marks)
            if elapsed_s >= _PROBE_S or number >= _MOST_PROBED:
                return max(elapsed_s, 1e-9) / number
            number = min(_MOST_PROBED, max(2 * number, int(number * _PROBE_S / (elapsed_s + 1e-9))))

    def _phases(
        self, number: int, lengths: Lengths
    ) -> tuple[OverlapTimes, OverlapTimes, OverlapTimes]:
        """The collective alone, the compute alone and both, in the order of this round."""
        plans = [
            Lengths(lengths.communication, _NOTHING),
            Lengths(_NOTHING, lengths.compute),
            lengths,
        ]
        found: dict[int, OverlapTimes] = {}
        for step, place in enumerate(phase_order(number)):
            self._rank.enter("timing", step)
            found[place] = self._run(plans[place])
        return found[0], found[1], found[2]

    def _verify(self, dtype: str) -> tuple[Verification, list[WrongOutput]]:
        """Checks the output of a collective that runs beside products, and of the last product."""
        self._rank.enter("verification")
        begin_s = time.monotonic()
        spans, compute = _spans((1, _CHECKED_BESIDE)), self._compute
        verification = verification_of(
            lambda: self._session.verify_beside(spans, compute, None),
            self._settings.check,
            dtype,
            "host" if self._session.checked_on_host else "device",
            begin_s,
        )
        return verification, self._check_compute()

    def _check_compute(self) -> list[WrongOutput]:
        own = self._session.check_compute(self._compute)
        figures = [float(own.wrong), float(own.first_element), own.expected, own.actual]
        gathered = self._rank.rank_group.gather(figures)
        found = []
        for rank in range(self._rank.job.ranks):
            wrong, first, expected, actual = gathered[4 * rank : 4 * rank + 4]
            if wrong:
                found.append(
                    WrongOutput(rank, int(wrong), int(first), f"{expected:g}", f"{actual:g}")
                )
        return found


def _spans(length: tuple[int, int]) -> engine.Spans:
    return engine.Spans(count=length[0], operations=length[1])


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the overlaps; rank 0 reports."""
    rank = context.rank
    overlaps = items_of(rank.planned, Overlap)
    is_host = context.devices[0].info.runtime == "host"
    opened: list[engine.Compute] = []

    def measurer(session: engine.Session) -> Measure:
        runner = OverlapRunner(session, rank, context.job.settings, opened[0], is_host=is_host)
        return lambda index: runner.run(index, overlaps[index])

    def prepare() -> None:
        rank.enter("preparing")
        opened.append(open_compute(context, overlaps[0].compute))

    explains = context.instruments is not None
    loop = CaseLoop(
        context, overlaps, measurer, prepare=None if explains else prepare, starts_threads=True
    )
    loop.run()
