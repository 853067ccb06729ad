"""Measured steps, and the rate of compute with which the formulas have them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace as replaced

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.base.statistics import quantile
from cclmark_planning.job_options import JobOptions
from cclmark_planning.need.plan import Assumption, Need
from cclmark_planning.need.request import planned_needs
from cclmark_planning.scale.frameworks import PRECISIONS
from cclmark_planning.scaling.figures import step_of
from cclmark_planning.tables import read_table, whole_number

COLUMNS = ("gpus", "layout", "batch", "micro_batch", "sequence", "step_s", "recompute", "precision")
_REQUIRED = ("gpus", "batch", "micro_batch", "sequence", "step_s")
_HEAD = "gpus,layout,batch,micro_batch,sequence,step_s"
_MOST = 1 << 30
_ROUNDS = 60
# Of the steps, and the standard deviations within which so many of a normal distribution are.
_MOST_STEPS, _OF_NORMAL = 0.8, 1.2816
_SLOWEST, _FASTEST = 1e9, 1e17  # FLOP/s of a GPU
#: Standard deviations of the logarithm of the rate of compute: assumed, measured by a journal or a
#: single step, and the least of several steps. Of the published steps in benchmarks/scale, half
#: differ by less than 5 to 10 % from those with one calibration.
ASSUMED_SPREAD, ONE_STEP_SPREAD, LEAST_SPREAD = 0.25, 0.12, 0.03


class MeasuredStep(NamedTuple):
    """A job and its measured step."""

    need: Need
    step_s: float


def read_steps(path: Path, flags: JobOptions) -> list[MeasuredStep]:
    """The measured steps of a table (.csv). Raises UsageError.

    ``flags``: model, network and what else all rows have in common.
    """
    where = f"--steps {plain(str(path))}"
    return read_table(path, where, COLUMNS, _REQUIRED, _HEAD, lambda cells: _step(cells, flags))


def _step(cells: Mapping[str, str], flags: JobOptions) -> MeasuredStep:
    step_s = float(cells["step_s"])
    if not 0 < step_s < math.inf:
        raise UsageError(f"step_s {cells['step_s']} is no time")
    precision = cells.get("precision", "")
    if precision and precision not in PRECISIONS:
        raise UsageError(f"precision {precision!r}: choose from {', '.join(PRECISIONS)}")
    recompute = cells.get("recompute", "")
    if recompute not in ("", "yes", "no"):
        raise UsageError(f"recompute {recompute!r}: write yes or no")
    own = replace(
        flags,
        gpus=[whole_number(cells["gpus"], "gpus", _MOST)],
        parallel=cells.get("layout", "").replace(";", ","),
        batch=whole_number(cells["batch"], "batch", _MOST),
        micro_batch=whole_number(cells["micro_batch"], "micro_batch", _MOST),
        sequence=whole_number(cells["sequence"], "sequence", _MOST),
        recompute=recompute == "yes" if recompute else flags.recompute,
        precision=precision or flags.precision,
    )
    need = planned_needs(own)[0]
    if need.job.nodes > 1 and not need.network.bps:
        raise UsageError(f"{need.job.nodes} nodes require --network, for example --network 8x400")
    return MeasuredStep(need, step_s)


def flops_of(one: MeasuredStep) -> float | None:
    """The rate of compute with which the step is the measured one, in FLOP/s of a GPU.

    None if communication alone takes longer.
    """
    low, high = _SLOWEST, _FASTEST
    if step_of(replaced(one.need, flops=high)).step_s > one.step_s:
        return None
    for _ in range(_ROUNDS):
        middle = math.sqrt(low * high)
        is_slow = step_of(replaced(one.need, flops=middle)).step_s > one.step_s
        low, high = (middle, high) if is_slow else (low, middle)
    return high


class Calibration(NamedTuple):
    """``flops``: of a GPU while it computes; ``spread``: standard deviation of its logarithm."""

    flops: float
    spread: float

    def on(self, need: Need, assumption: Assumption | None = None) -> Need:
        """The job with this rate of compute."""
        others = tuple(one for one in need.assumptions if one.name != "compute")
        added = (assumption,) if assumption is not None else ()
        return replaced(need, flops=self.flops, assumptions=(*added, *others))


def calibrated(rates: Sequence[float]) -> Calibration:
    """From the rates of measured steps: their median, and the spread that four of five have, which
    single steps that something else limits change little."""
    logs = [math.log(one) for one in rates]
    middle = median(logs)
    spread = quantile(sorted(abs(one - middle) for one in logs), _MOST_STEPS) / _OF_NORMAL
    if len(logs) < 3:
        spread = ONE_STEP_SPREAD
    return Calibration(math.exp(middle), max(LEAST_SPREAD, spread))


def utilization_time_s(need: Need, others: Sequence[MeasuredStep]) -> float:
    """The naive step: the model FLOPs in a second of a GPU are the median of other steps."""
    rate = median(one.need.job.operations / one.need.job.devices / one.step_s for one in others)
    return need.job.operations / need.job.devices / rate
