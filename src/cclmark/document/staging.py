"""The mark of rows whose time includes cclmark's copy of the input."""

from __future__ import annotations

from collections.abc import Iterable

from cclmark.analysis.findings import is_staged
from cclmark.results.item_results import CaseResult

STAGED_MARK = "*"
STAGED_NOTE = (
    "the time includes copying the input aside: in place, input and output of this operation "
    "overlap, which libraries leave undefined; in-place figures of nccl-tests, which times the "
    "undefined call, are not comparable"
)


def staged_mark(result: CaseResult) -> str:
    """Returns STAGED_MARK for a measured case whose time includes that copy, else empty."""
    return STAGED_MARK if is_staged(result) else ""


def staged_legend(results: Iterable[CaseResult]) -> list[str]:
    """Returns the footnote that explains STAGED_MARK; empty if no result has it."""
    return [f"{STAGED_MARK} {STAGED_NOTE}"] if any(map(staged_mark, results)) else []
