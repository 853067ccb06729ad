"""The columns of object calls: a row for each call."""

from __future__ import annotations

from cclmark.document.columns import Cell, Layout, columns
from cclmark.document.text import US_PER_S
from cclmark.kinds.objects.result import ObjectResult

_CALL = "operation tensor_call backend ranks content size_bytes status reason"
_FIGURES = (
    "objects_us objects_low_us objects_high_us tensors_us tensors_low_us tensors_high_us ratio "
    "ratio_low ratio_high pickling_us"
)
_OTHERS = "rounds calls tensor_calls converged wrong_ranks"
_TEXTS = "operation tensor_call backend content status reason"
_WHOLE = "ranks size_bytes rounds calls tensor_calls wrong_ranks"


def object_cells(result: ObjectResult) -> list[Cell]:
    """Returns a cell for each column."""
    call, times = result.call, result.times
    return [
        call.operation,
        call.tensor_call,
        call.backend,
        call.ranks,
        call.content,
        call.size_bytes,
        result.status,
        result.reason,
        *_figure_cells(result),
        None if times is None else len(times.objects_s),
        None if times is None else times.calls,
        None if times is None else times.tensor_calls,
        int(result.converged),
        len({one.rank for one in result.findings}) if result.checked else None,
    ]


def _figure_cells(result: ObjectResult) -> list[Cell]:
    figures = result.figures
    if figures is None:
        return [None] * len(_FIGURES.split())
    times_s = [figures.object_s, figures.object_low_s, figures.object_high_s]
    times_s += [figures.tensor_s, figures.tensor_low_s, figures.tensor_high_s]
    return [
        *(time_s * US_PER_S for time_s in times_s),
        figures.ratio,
        figures.ratio_low,
        figures.ratio_high,
        figures.pickling_s * US_PER_S,
    ]


OBJECTS_LAYOUT = Layout(
    columns(f"{_CALL} {_FIGURES} {_OTHERS}", texts=_TEXTS, whole=_WHOLE, flags="converged"),
    lambda header: lambda result: [object_cells(result)],
)
