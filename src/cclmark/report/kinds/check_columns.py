"""The columns of checks. ``duration_ms``: on rank 0, including the creation of the inputs."""

from __future__ import annotations

from cclmark.document.columns import Cell, Layout, columns
from cclmark.report.kinds.check_table import verdict_of_check
from cclmark.kinds.check.result import CheckResult

CHECK_COLUMNS = ("check", "backend", "verdict", "duration_ms", "reason")


def check_cells(result: CheckResult) -> list[Cell]:
    """Returns a cell for each of CHECK_COLUMNS."""
    check = result.check
    duration_ms = result.duration_s * 1e3
    return [check.name, check.backend, verdict_of_check(result), duration_ms, result.reason]


CHECK_LAYOUT = Layout(
    columns(CHECK_COLUMNS, texts="check backend verdict reason"),
    lambda header: lambda result: [check_cells(result)],
)
