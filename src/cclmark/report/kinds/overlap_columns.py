"""The columns of overlaps: a row for each variant, case and round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cclmark.analysis.summary import algorithm_bandwidth, bus_factor
from cclmark.report.columns import Cell, Layout, Row, columns
from cclmark.report.kinds.case_columns import explained_cells, what_cells
from cclmark.report.wording.text import BYTES_PER_GB, US_PER_S
from cclmark.results.kinds import OverlapResult
from cclmark.results.schema import Header

_OF_OVERLAP = (
    "variant round operation ccl ranks dtype reduction root placement size_bytes count compute "
    "compute_dtype extent status reason"
)
_FIGURES = (
    "alone_us beside_us slow_down alone_busbw_gbps beside_busbw_gbps compute_alone_us "
    "compute_beside_us compute_slow_down compute_alone_per_s compute_beside_per_s evaluated "
    "compute_evaluated launch_bound compute_launch_bound together_launch_bound"
)
_OTHERS = (
    "attempts wrong compute_wrong implementation kernel algorithm protocol channels explained_by "
    "explanation"
)
_TEXTS = (
    "variant operation ccl dtype reduction placement compute compute_dtype status reason "
    "implementation kernel algorithm protocol explained_by explanation"
)
_WHOLE = "round ranks root size_bytes count extent attempts wrong compute_wrong channels"
_FLAGS = "launch_bound compute_launch_bound together_launch_bound"
_NUMBER = len(_FIGURES.split())


def _rows(header: Header) -> Callable[[OverlapResult], Iterable[Row]]:
    return lambda result: [overlap_cells(result)]


def overlap_cells(result: OverlapResult) -> list[Cell]:
    """Returns a cell for each column. Rounds are counted from 1."""
    overlap, verification = result.overlap, result.verification
    return [
        overlap.variant.describe(),
        overlap.round + 1,
        *what_cells(overlap.case),
        overlap.compute.name,
        overlap.compute.dtype,
        overlap.compute.extent,
        result.status,
        result.reason,
        *_figure_cells(result),
        None if result.together is None else result.attempts,
        None if verification is None else verification.wrong,
        None if verification is None else sum(one.wrong for one in result.compute_findings),
        result.implementation,
        *explained_cells(result.explanation),
    ]


def _figure_cells(result: OverlapResult) -> list[Cell]:
    figures, case, work = result.figures, result.overlap.case, result.overlap.compute.work
    if figures is None:
        return [None] * _NUMBER
    factor = bus_factor(case) / BYTES_PER_GB
    return [
        figures.communication_alone_s * US_PER_S,
        figures.communication_s * US_PER_S,
        figures.communication_s / figures.communication_alone_s,
        algorithm_bandwidth(case.size_bytes, figures.communication_alone_s) * factor,
        algorithm_bandwidth(case.size_bytes, figures.communication_s) * factor,
        figures.compute_alone_s * US_PER_S,
        figures.compute_s * US_PER_S,
        figures.compute_s / figures.compute_alone_s,
        work / figures.compute_alone_s,
        work / figures.compute_s,
        figures.communication_evaluated,
        figures.compute_evaluated,
        int(figures.launch_bound),
        int(figures.compute_launch_bound),
        int(figures.together_launch_bound),
    ]


OVERLAPS = Layout(
    columns(f"{_OF_OVERLAP} {_FIGURES} {_OTHERS}", texts=_TEXTS, whole=_WHOLE, flags=_FLAGS),
    _rows,
)
