"""Chooses what a replay does between its calls, so that they take as long as in the program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from cclmark.analysis.replays import ReplaySummary, summaries_of_replays
from cclmark.errors import EXIT_OK
from cclmark.launch.request import Outcome, Request
from cclmark.plan.overlaps import Compute
from cclmark.plan.replays import Replay
from cclmark.plan.work_beside import MATMUL, TRIAD
from cclmark.recording.part import measure_part
from cclmark.results.kinds import ReplayResult

_STEPS, _WARM_UP_STEPS = 10, 3
_FEWER_STEPS, _LONG_STEP_S = 3, 1.0
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
    """``tried``: a summary for each candidate that was measured, in the order of their errors.

    ``outcome``: of the run that measured them.
    """

    tried: Sequence[ReplaySummary]
    outcome: Outcome

    @property
    def chosen(self) -> Replay | None:
        """The candidate with the smallest error, None if none was measured."""
        if self.outcome.exit_code != EXIT_OK or not self.tried:
            return None
        return msgspec.structs.replace(self.tried[0].replay, is_fitted=True)


def computes_for(runtime: str) -> list[Compute | None]:
    """Returns what may run beside the calls on devices of a runtime, first nothing."""
    products = [Compute(MATMUL, _TYPES[runtime], rows) for rows in _ROWS.get(runtime, ())]
    arrays = _ARRAYS_BYTES.get(runtime, _USUAL_ARRAYS_BYTES)
    return [None, *products, *(Compute(TRIAD, "float32", extent) for extent in arrays)]


def fit(request: Request, one: Replay, gaps: Sequence[str], journal: Path) -> Fit:
    """Measures ``one`` with each of ``gaps`` and each compute.

    ``request``: the devices, the settings and the step. The results are in the new file
    ``journal``. Raises UsageError if it cannot be created.
    """
    longest_s = max(one.original.step_s or one.original.span_s)
    steps = _STEPS if longest_s < _LONG_STEP_S else _FEWER_STEPS
    settings = msgspec.structs.replace(
        request.settings, iterations=steps, warmup=min(_WARM_UP_STEPS, steps), check=0, inject=[]
    )
    planned = [
        msgspec.structs.replace(one, gaps=each, compute=compute)
        for each in gaps
        for compute in computes_for(request.devices.runtime)
    ]
    own = replace(request, settings=settings, planned=planned, pending=(), warnings=())
    results, outcome = measure_part(own, journal)
    summaries = [
        summaries_of_replays([result])[0] for result in results if isinstance(result, ReplayResult)
    ]
    measured = [one for one in summaries if one.communication_error is not None]
    return Fit(sorted(measured, key=error_of), outcome)


def error_of(one: ReplaySummary) -> float:
    """How far communication and step are from the program's: the sum of their logarithmic ratios.

    The step counts only if it is known.
    """
    errors = [one.communication_error, one.step_error]
    return sum(abs(math.log1p(max(each, -0.999))) for each in errors if each is not None)
