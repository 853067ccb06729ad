"""The columns of replays: a row for each variant and round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cclmark.analysis.replay_summaries import communication_of, slowest_of, span_of, step_of_result
from cclmark.analysis.statistics import median_interval
from cclmark.report.columns import Cell, Layout, Row, columns
from cclmark.results.kinds import ReplayResult
from cclmark.results.schema import Header

_MS_PER_S = 1e3
_OF_REPLAY = "variant round ccl ranks program calls groups gaps compute fit status reason"
_FIGURES = (
    "communication_ms program_communication_ms span_ms span_low_ms span_high_ms program_span_ms "
    "step_ms program_step_ms enqueue_ms"
)
_OTHERS = "steps wrong"
_TEXTS = "variant ccl program gaps compute fit status reason"
_WHOLE = "round ranks calls groups steps wrong"


def _rows(header: Header) -> Callable[[ReplayResult], Iterable[Row]]:
    return lambda result: [replay_cells(result)]


def replay_cells(result: ReplayResult) -> list[Cell]:
    """Returns a cell for each column. Rounds are counted from 1."""
    one = result.replay
    return [
        *(one.variant.describe(), one.round + 1, one.ccl, one.ranks, one.program, one.calls),
        *(one.groups, one.gaps, one.beside),
        *(one.fit, result.status, result.reason),
        *(None if value is None else value * _MS_PER_S for value in _figures(result)),
        len(result.span_s[0]) if result.is_measured else None,
        None if result.verification is None else result.verification.wrong,
    ]


def _figures(result: ReplayResult) -> list[float | None]:
    original = result.replay.original
    program_s = sum(original.communication_s) / len(original.communication_s or [0])
    known = bool(original.communication_s)
    of_program = (
        program_s if known else None,
        max(original.span_s) if known else None,
        max(original.step_s, default=None),
    )
    if not result.is_measured:
        return [None, of_program[0], None, None, None, of_program[1], None, of_program[2], None]
    low_s, high_s = median_interval(slowest_of(result.span_s)) or (None, None)
    return [
        *(communication_of(result), of_program[0], span_of(result), low_s, high_s),
        *(of_program[1], step_of_result(result), of_program[2], result.enqueue_s),
    ]


REPLAYS = Layout(columns(f"{_OF_REPLAY} {_FIGURES} {_OTHERS}", texts=_TEXTS, whole=_WHOLE), _rows)
