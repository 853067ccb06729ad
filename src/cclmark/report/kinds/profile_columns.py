"""The columns of profiles: a row for each operation and process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cclmark.document.columns import Cell, Layout, Row, columns
from cclmark.report.kinds.step_columns import STEP_NAMES, step_cells_of_profile
from cclmark.report.wording.profile_words import choices_text
from cclmark.document.text import US_PER_S
from cclmark.results.item_results import ProfileResult
from cclmark.results.schema import Header, ProfileFigures

_NAMES = (
    "operation ccl group group_ranks dtype count size_bytes range process calls bytes unreported "
    f"timed total_us median_us min_us max_us wait_us compared last exposed_us ran {STEP_NAMES}"
)
_TEXTS = "operation ccl dtype ran"
_WHOLE = (
    "group group_ranks count size_bytes process calls bytes unreported timed compared last "
    "timed_steps"
)


def _rows(header: Header) -> Callable[[ProfileResult], Iterable[Row]]:
    return lambda result: [profile_cells(result, one) for one in result.figures]


def profile_cells(result: ProfileResult, figures: ProfileFigures) -> list[Cell]:
    """Returns a cell for each column but those of steps, which are of the whole program."""
    operation = result.profiled
    return [
        operation.operation,
        operation.ccl,
        operation.group,
        operation.group_ranks,
        operation.dtype,
        operation.count,
        operation.size_bytes,
        int(operation.is_range),
        figures.process,
        figures.calls,
        figures.bytes,
        figures.unreported,
        figures.timed,
        _us(figures.total_s),
        _us(figures.median_s),
        _us(figures.least_s),
        _us(figures.most_s),
        _us(figures.wait_s),
        figures.compared,
        figures.last,
        _us(figures.exposed_s),
        choices_text(result.choices),
    ]


def _us(time_s: float | None) -> float | None:
    return None if time_s is None else time_s * US_PER_S


PROFILES = Layout(
    columns(_NAMES, texts=_TEXTS, whole=_WHOLE, flags="range"), _rows, common=step_cells_of_profile
)
