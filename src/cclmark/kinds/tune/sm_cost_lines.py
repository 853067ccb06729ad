"""The cost of tuned settings as lines: the slow-down of a matrix product before and after."""

from __future__ import annotations

from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import counted
from cclmark.kinds.overlap.document import size_text, slow_down_text
from cclmark.kinds.overlap.figures import OverlapSummary
from cclmark.kinds.tune.sm_cost import CaseCost, SmCost
from cclmark.printable import plain
from cclmark.results.schema import Explanation


def sm_cost_lines(cost: SmCost, paint: Paint = unpainted) -> list[str]:
    """Returns a line for each case, or the reason why nothing was measured."""
    known = [one for one in cost.cases if one.before is not None and one.after is not None]
    if not any(_has_figures(one) for one in known):
        reason = cost.reason or next(
            (one.reason for case in known for one in (case.before, case.after) if one), "unknown"
        )
        return ["", f"  SM cost: not measured: {plain(reason)}"]
    lines = [
        "",
        paint("  SM cost: the slow-down of a matrix product beside the collective", "bold"),
    ]
    lines += [f"    {line}" for one in known for line in _lines(one)]
    return [*lines, f"    measured by cclmark overlap: journal {plain(str(cost.journal))}"]


def _lines(one: CaseCost) -> list[str]:
    assert one.before is not None
    assert one.after is not None
    size = one.case.size_bytes
    before = _part(one.before, one.result.usual.get(size))
    after = _part(one.after, one.result.tuned.get(size))
    return [
        f"{one.case.operation} {size_text(one.case)}, {one.before.work.describe()}: before "
        f"{before}; after {after}"
    ]


def _part(summary: OverlapSummary, ran: Explanation | None) -> str:
    channels = f"{counted(ran.channels, 'channel')}, " if ran is not None and ran.channels else ""
    if summary.compute is None or summary.communication is None:
        return f"{channels}{summary.status}: {plain(summary.reason)}"
    return (
        f"{channels}{slow_down_text(summary.compute)} times as long (the collective "
        f"{slow_down_text(summary.communication)})"
    )


def _has_figures(one: CaseCost) -> bool:
    return any(part is not None and part.compute is not None for part in (one.before, one.after))
