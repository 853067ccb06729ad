"""The columns of trials: a row for each variant, case and round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cclmark.document.columns import Cell, Layout, Row, columns
from cclmark.report.kinds.case_columns import explained_cells, figure_cells, what_cells
from cclmark.document.text import US_PER_S
from cclmark.kinds.experiment.result import TrialResult
from cclmark.results.schema import Header

_OF_TRIAL = (
    "variant round operation ccl ranks dtype reduction root placement size_bytes count status "
    "reason"
)
_FIGURES = (
    "time_us min_us p95_us p99_us max_us cv half_width samples algbw_gbps busbw_gbps slowest_rank "
    "late_rank clock"
)
_OTHERS = "device_us wrong converged kernel algorithm protocol channels explained_by explanation"
_TEXTS = (
    "variant operation ccl dtype reduction placement status reason clock kernel algorithm protocol "
    "explained_by explanation"
)
_WHOLE = "round ranks root size_bytes count samples slowest_rank late_rank wrong channels"


def _rows(header: Header) -> Callable[[TrialResult], Iterable[Row]]:
    return lambda result: [trial_cells(result)]


def trial_cells(result: TrialResult) -> list[Cell]:
    """Returns a cell for each column. Rounds are counted from 1."""
    trial, verification = result.trial, result.verification
    return [
        trial.variant.describe(),
        trial.round + 1,
        *what_cells(trial.case),
        result.status,
        result.reason,
        *figure_cells(result.summary),
        None if result.device is None else result.device.summary.time_s * US_PER_S,
        None if verification is None else verification.wrong,
        None if result.summary is None else int(result.converged),
        *explained_cells(result.explanation),
    ]


TRIALS = Layout(
    columns(f"{_OF_TRIAL} {_FIGURES} {_OTHERS}", texts=_TEXTS, whole=_WHOLE, flags="converged"),
    _rows,
)
