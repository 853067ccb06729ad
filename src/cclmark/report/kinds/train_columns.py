"""The columns of trainings: a row for each variant and round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cclmark.analysis.statistics import median_interval
from cclmark.analysis.training_summaries import figures_of, slowest_of
from cclmark.report.columns import Cell, Layout, Row, columns
from cclmark.results.kinds import TrainingResult
from cclmark.results.schema import Header

_MS_PER_S = 1e3
_OF_TRAINING = (
    "variant round ccl ranks model layers parameters parallel batch sequence dtype optimizer "
    "microbatches status reason"
)
_FIGURES = (
    "step_ms step_low_ms step_high_ms tokens_per_s flops_per_s alone_ms cost_ms profiled_ms "
    "compute_ms exposed_ms idle_ms hidden_ms communication_ms slow_down_ms timed_steps"
)
_OTHERS = (
    "steps first_loss last_loss different_ranks peak_allocated_bytes peak_reserved_bytes "
    "estimated_bytes"
)
_TEXTS = "variant ccl model parallel dtype optimizer status reason"
_WHOLE = (
    "round ranks layers parameters batch sequence microbatches timed_steps steps different_ranks "
    "peak_allocated_bytes peak_reserved_bytes estimated_bytes"
)


def _rows(header: Header) -> Callable[[TrainingResult], Iterable[Row]]:
    return lambda result: [training_cells(result)]


def training_cells(result: TrainingResult) -> list[Cell]:
    """Returns a cell for each column. Rounds are counted from 1."""
    one, losses, check = result.training, result.losses, result.check
    return [
        *(one.variant.describe(), one.round + 1, one.ccl, one.ranks, one.model.name),
        *(one.model.layers, one.model.parameters, one.parallel, one.batch, one.sequence),
        *(one.dtype, one.optimizer, one.microbatches, result.status, result.reason),
        *_figure_cells(result),
        len(losses) or None,
        losses[0] if losses else None,
        losses[-1] if losses else None,
        None if check is None else len(check.differences),
        max(result.peak_allocated_bytes, default=None),
        max(result.peak_reserved_bytes, default=None),
        result.estimated_bytes or None,
    ]


def _figure_cells(result: TrainingResult) -> list[Cell]:
    figures = figures_of(result)
    if figures is None:
        return [None] * len(_FIGURES.split())
    interval = median_interval(slowest_of(result.step_s)) or (None, None)
    return [
        figures.step_s * _MS_PER_S,
        *(None if one is None else one * _MS_PER_S for one in interval),
        result.training.tokens / figures.step_s,
        result.training.operations / figures.step_s,
        *(
            None if one is None else one * _MS_PER_S
            for one in (
                *(figures.alone_s, figures.cost_s, figures.profiled_s, figures.compute_s),
                *(figures.exposed_s, figures.idle_s, figures.hidden_s),
                *(figures.communication_s, figures.slow_down_s),
            )
        ),
        len(result.step_s[0]),
    ]


TRAININGS = Layout(
    columns(f"{_OF_TRAINING} {_FIGURES} {_OTHERS}", texts=_TEXTS, whole=_WHOLE), _rows
)
