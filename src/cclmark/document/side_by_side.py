"""Compares libraries: a line for each size with the times, and their ratios to the first."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.library_comparison import LibraryComparison, comparisons
from cclmark.document.grid import grid_lines
from cclmark.document.paint import Paint
from cclmark.document.text import format_time_us
from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
from cclmark.results.item_results import CaseResult


def side_by_side(results: Sequence[CaseResult], paint: Paint, width: int) -> list[str]:
    """Returns the lines of a grid for each sweep that several libraries measured."""
    lines: list[str] = []
    for comparison in comparisons(results):
        lines.append("")
        lines.append(f"  {paint(f'{title(comparison.case)}: time in µs', 'bold')}")
        lines += grid_lines(
            [size_of(comparison.case, size) for size, _ in comparison.rows],
            heads(comparison),
            [cells(times) for _, times in comparison.rows],
            paint=paint,
            width=width,
        )
    return lines


def heads(comparison: LibraryComparison) -> list[str]:
    """Returns the names of the columns that ``cells`` fills."""
    first, *others = comparison.ccls
    return [first, *(text for other in others for text in (other, f"/ {first}"))]


def cells(times_s: Sequence[float | None]) -> list[str]:
    """Returns times in microseconds; each but the first is followed by its ratio to the first."""
    first, *others = times_s
    row = [_time(first)]
    for other in others:
        row += [_time(other), _ratio(other / first) if first and other is not None else "-"]
    return row


def title(case: Case) -> str:
    """Describes the sweep."""
    words = [case.operation]
    if moves_data(case.operation):
        words += [case.dtype, case.reduction or ""]
        words.append("" if case.root is None else f"root {case.root}")
        words.append(case.placement)
    return " ".join(filter(None, words))


def size_of(case: Case, size_bytes: int) -> str:
    """Returns the name of a row."""
    return format_size(size_bytes) if moves_data(case.operation) else "-"


def _time(time_s: float | None) -> str:
    return "-" if time_s is None else format_time_us(time_s)


def _ratio(value: float) -> str:
    return f"{value:.3f}" if value < 100 else f"{value:.0f}"
