"""Why the library chose what ran: its predictions beside the measured times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
from cclmark.report.wording.paint import Paint
from cclmark.report.wording.text import format_time_us
from cclmark.results.kinds import CaseResult
from cclmark.results.schema import Explanation

_MOST_OFF = 0.20  # of a prediction, before it is reported
_GAP = "  "


def why_lines(results: Iterable[CaseResult], paint: Paint) -> list[str]:
    """Returns a table for each operation and placement: sizes, measured times and predictions.

    Below it, where the choice changes, and how many predictions are off by more than 20 %. The
    measured time is the device's where launches determine the time of a call, since predictions do
    not include launches. One line instead if results are explained and the library predicted
    nothing; empty if none is explained.
    """
    results = list(results)
    sections: dict[tuple[object, ...], list[CaseResult]] = {}
    for result in results:
        found = result.explanation
        if found is not None and found.predicted_s and result.summary and result.cycle == 0:
            case = result.case
            where = (
                case.operation,
                case.ccl,
                case.dtype,
                case.reduction,
                case.root,
                case.placement,
            )
            sections.setdefault(where, []).append(result)
    lines: list[str] = []
    for section in sections.values():
        lines += ["", *_section_lines(sorted(section, key=lambda one: one.case.size_bytes), paint)]
    if not lines and any(one.explanation is not None for one in results):
        return ["  no predictions: only libraries with NCCL's tuner interface report them"]
    return lines


def measured_s(result: CaseResult) -> float:
    """The time that predictions are compared with, in seconds."""
    summary = result.device.summary if result.device is not None else result.summary
    assert summary is not None
    return summary.time_s


def _section_lines(results: Sequence[CaseResult], paint: Paint) -> list[str]:
    case = results[0].case
    title = " ".join(filter(None, (case.operation, case.dtype, case.reduction, case.placement)))
    head = f"  {title} · {case.ccl}: predictions in µs (* chosen) beside the measured time"
    names = list(dict.fromkeys(name for one in results for name in _explained(one).predicted_s))
    rows = [["size", "measured", "off", *names]]
    rows += [_row(one, names) for one in results]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [paint(head, "bold")]
    for number, (row, one) in enumerate(zip(rows, [None, *results], strict=True)):
        cells = [f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)]
        if one is not None and _is_off(one):
            cells[2] = paint(cells[2], "yellow")
        line = "    " + _GAP.join(cells)
        lines.append(paint(line, "dim") if number == 0 else line)
    return [*lines, *_changes(results), *_summary(results)]


def _explained(result: CaseResult) -> Explanation:
    assert result.explanation is not None
    return result.explanation


def _chosen(result: CaseResult) -> str:
    found = _explained(result)
    return f"{found.algorithm} {found.protocol}"


def _row(result: CaseResult, names: Sequence[str]) -> list[str]:
    predicted_s = _explained(result).predicted_s
    off = _off(result)
    cells = [
        format_size(result.case.size_bytes) if moves_data(result.case.operation) else "-",
        format_time_us(measured_s(result)),
        "-" if off is None else f"{off:+.0%}",
    ]
    for name in names:
        text = format_time_us(predicted_s[name]) if name in predicted_s else "-"
        cells.append(f"*{text}" if name == _chosen(result) else text)
    return cells


def _off(result: CaseResult) -> float | None:
    """By which share the measured time is above the prediction; None without a prediction."""
    predicted_s = _explained(result).predicted_s.get(_chosen(result))
    return measured_s(result) / predicted_s - 1 if predicted_s else None


def _is_off(result: CaseResult) -> bool:
    off = _off(result)
    return off is not None and abs(off) > _MOST_OFF


def _changes(results: Sequence[CaseResult]) -> list[str]:
    """Where the kernel or the protocol changes from one size to the next, and what that does."""
    lines = []
    for before, after in pairwise(results):
        first, second = _explained(before).choice, _explained(after).choice
        if first == second or not measured_s(before):
            continue
        factor = measured_s(after) / measured_s(before)
        larger = after.case.size_bytes / before.case.size_bytes
        lines.append(
            f"    {format_size(after.case.size_bytes)}: {first} → {second}; {larger:g} times the "
            f"data takes {factor:.2f} times as long"
        )
    return lines


def _summary(results: Sequence[CaseResult]) -> list[str]:
    off = sum(map(_is_off, results))
    known = sum(_off(one) is not None for one in results)
    if not known:
        return ["    the library predicted nothing for the kernels that ran"]
    return [f"    {off} of {known} predictions are off by more than {_MOST_OFF:.0%}"]
