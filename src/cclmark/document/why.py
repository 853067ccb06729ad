"""Why the library chose what ran: its predictions beside the measured times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cclmark.analysis.irregularities import choice_changes
from cclmark.document.blocks import Table
from cclmark.document.text import counted, format_time_us
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Explanation
from cclmark.work.sizes import format_size

_MOST_OFF = 0.20  # of a prediction, before it is reported


def prediction_tables(results: Iterable[CaseResult]) -> list[Table]:
    """Returns a table for each operation and placement that has predictions.

    A row has the size, the measured time, its difference from the prediction of the chosen
    algorithm, and all predictions, the chosen one with an asterisk. The measured time is the
    device's where launches determine the time of a call, since predictions do not include launches.
    Pages have these tables in a section of their own.
    """
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
    return [
        _table(sorted(section, key=lambda one: one.case.size_bytes))
        for section in sections.values()
    ]


def _table(results: Sequence[CaseResult]) -> Table:
    case = results[0].case
    title = " ".join(filter(None, (case.operation, case.dtype, case.reduction, case.placement)))
    names = list(dict.fromkeys(name for one in results for name in _explained(one).predicted_s))
    head = ("size", "measured", "off", *names)
    return Table(
        f"{title} · {case.ccl}: predictions in µs (* chosen) beside the measured time",
        head,
        [_row(one, names) for one in results],
        ">" * len(head),
        [*_changes(results), _summary(results)],
        looks=[(row, 2, "look") for row, one in enumerate(results) if _is_off(one)],
        on_page=False,
    )


def measured_s(result: CaseResult) -> float:
    """The time that predictions are compared with, in seconds."""
    summary = result.device.summary if result.device is not None else result.summary
    assert summary is not None
    return summary.time_s


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
        result.case.size_words(),
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
    for change in choice_changes(results):
        before_s, after_s = measured_s(change.before), measured_s(change.after)
        if not before_s or change.before.case.size_bytes <= 0:
            continue
        larger = change.size_bytes / change.before.case.size_bytes
        lines.append(
            f"{format_size(change.size_bytes)}: {change.words}; {larger:g} times the data takes "
            f"{after_s / before_s:.2f} times as long"
        )
    return lines


def _summary(results: Sequence[CaseResult]) -> str:
    off = sum(map(_is_off, results))
    known = sum(_off(one) is not None for one in results)
    if not known:
        return "the library predicted nothing for the kernels that ran"
    return f"{off} of {counted(known, 'prediction')} off by more than {_MOST_OFF:.0%}"
