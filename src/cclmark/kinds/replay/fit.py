"""Chooses what a replay does between its calls, so that they take as long as in the program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from cclmark.errors import EXIT_OK
from cclmark.kinds.replay.choices import FITTED, LARGE_ERROR, NEAREST, WAIT_ROUNDS, steps_of_round
from cclmark.kinds.replay.figures import ReplaySummary, summaries_of_replays
from cclmark.kinds.replay.plan import Replay
from cclmark.kinds.replay.result import ReplayResult
from cclmark.launch.request import Outcome, Request
from cclmark.plan.computations import Compute
from cclmark.plan.work_beside import MATMUL, TRIAD
from cclmark.recording.recorder import record

# All candidates are measured in turn, several times: what drifts affects all alike.
_PASSES = 3
_WARM_UP_STEPS, _LEAST_STEPS, _MOST_STEPS = 2, 2, 5
_OTHER_STEPS = 2  # before the warm-up, and to allocate
_USUAL_S = 120.0  # of all candidates, if their steps are short enough
# Of the sum of logarithmic errors: so few steps do not distinguish smaller differences from noise.
_CLEAR = 0.02
# Of matrices and arrays. A call waits for the blocks of a product, the longer the larger it is.
_ROWS = {
    "cuda": (1024, 2048, 3072, 3584, 4096, 6144, 8192),
    "host": (64, 128, 256),
}
_TYPES = {"cuda": "bfloat16", "host": "float32"}
_ARRAYS_BYTES = {"host": (1 << 20,)}
_USUAL_ARRAYS_BYTES = (16 << 20, 64 << 20)


@dataclass(frozen=True)
class Fit:
    """``tried``: a summary for each candidate that was measured, the smallest error first.

    ``chosen``: None if none was measured. ``others``: the nearest with each of the other gaps.
    ``outcome``: of the run that measured them, with the journal.
    """

    tried: Sequence[ReplaySummary]
    chosen: Replay | None
    others: Sequence[Replay]
    outcome: Outcome
    journal: Path


@dataclass(frozen=True)
class FitPlan:
    """``replays``: the candidates, again in each pass. ``steps``: timed in each pass.

    ``candidates``: their number. ``expected_s``: the time of all steps.
    """

    replays: Sequence[Replay]
    candidates: int
    steps: int
    expected_s: float


def computes_for(runtime: str) -> list[Compute | None]:
    """Returns what may run beside the calls on devices of a runtime, first nothing."""
    products = [Compute(MATMUL, _TYPES[runtime], rows) for rows in _ROWS.get(runtime, ())]
    arrays = _ARRAYS_BYTES.get(runtime, _USUAL_ARRAYS_BYTES)
    return [None, *products, *(Compute(TRIAD, "float32", extent) for extent in arrays)]


def fit_plan(one: Replay, gaps: Sequence[str], runtime: str) -> FitPlan:
    """Returns ``one`` with each of ``gaps`` and each compute, and fewer steps if they are long."""
    replays = [
        msgspec.structs.replace(one, gaps=each, compute=compute)
        for each in gaps
        for compute in computes_for(runtime)
    ]
    number = len(replays)
    length_s = max(one.original.step_s or one.original.span_s)
    all_s = length_s * number * _PASSES
    # Once for all candidates with the same gaps. Ranks on the host wait inside the call.
    waits_s = WAIT_ROUNDS * (1 + steps_of_round(WAIT_ROUNDS, length_s)) * length_s * len(gaps)
    others = _OTHER_STEPS + _WARM_UP_STEPS
    steps = min(max(int(_USUAL_S / all_s) - others, _LEAST_STEPS), _MOST_STEPS)
    expected_s = (steps + others) * all_s + (0.0 if runtime == "host" else waits_s)
    return FitPlan(replays * _PASSES, number, steps, expected_s)


def fit(request: Request, plan: FitPlan, journal: Path) -> Fit:
    """Measures the candidates and chooses one.

    ``request``: the devices, the settings and the step. The results are in the new file
    ``journal``. Raises UsageError if it cannot be created.
    """
    settings = msgspec.structs.replace(
        request.settings, iterations=plan.steps, warmup=_WARM_UP_STEPS, check=0, inject=[]
    )
    own = replace(request, settings=settings, planned=plan.replays, pending=(), warnings=())
    _, outcome, results = record(own, journal=journal)
    summaries = summaries_of_replays(one for one in results if isinstance(one, ReplayResult))
    measured = [one for one in summaries if one.communication_error is not None]
    chosen = chosen_of(measured) if outcome.exit_code == EXIT_OK else None
    others = [] if chosen is None else others_of(measured, chosen)
    return Fit(sorted(measured, key=error_of), chosen, others, outcome, journal)


def chosen_of(measured: Sequence[ReplaySummary]) -> Replay | None:
    """The candidate that is used, None if there is none.

    ``measured``: in the order of the plan, the simplest of each gaps first. Other gaps are used
    only if the smallest error with them is clearly smaller, and of one gaps the first candidate
    whose error is not clearly larger than the smallest.
    """
    by_gaps: dict[str, list[ReplaySummary]] = {}
    for one in measured:
        by_gaps.setdefault(one.replay.gaps, []).append(one)
    best: list[ReplaySummary] = []
    for own in by_gaps.values():
        if not best or min(map(error_of, own)) < min(map(error_of, best)) - _CLEAR:
            best = own
    if not best:
        return None
    return _simplest(best)


def others_of(measured: Sequence[ReplaySummary], chosen: Replay) -> list[Replay]:
    """The candidate with each of the other gaps that would be used if there were no others.

    It reacts differently if communication takes longer: with ``keep`` all computation waits for
    it, with ``fixed`` none does. Programs are between them.
    """
    by_gaps: dict[str, list[ReplaySummary]] = {}
    for one in measured:
        if one.replay.gaps != chosen.gaps:
            by_gaps.setdefault(one.replay.gaps, []).append(one)
    return [_simplest(own) for own in by_gaps.values()]


def _simplest(candidates: Sequence[ReplaySummary]) -> Replay:
    """The first candidate whose error is not clearly larger than the smallest."""
    least = min(map(error_of, candidates))
    one = next(one for one in candidates if error_of(one) <= least + _CLEAR)
    errors = [abs(each) for each in (one.communication_error, one.step_error) if each is not None]
    fits = max(errors) <= LARGE_ERROR
    return msgspec.structs.replace(one.replay, fit=FITTED if fits else NEAREST)


def error_of(one: ReplaySummary) -> float:
    """How far communication and step are from the program's: the sum of their logarithmic ratios.

    The step counts only if it is known.
    """
    errors = [one.communication_error, one.step_error]
    return sum(abs(math.log1p(max(each, -0.999))) for each in errors if each is not None)
