"""Compares two sides: their cases, and other differences between them."""

from __future__ import annotations

from cclmark.analysis.compare import MARGIN, Side, compare
from cclmark.errors import UsageError
from cclmark.report.comparison import Comparison, libraries_of
from cclmark.report.kinds import report_kind
from cclmark.report.wording.one_sided_cases import coverage_lines
from cclmark.document.remarks import lacking
from cclmark.results.imported import differences_told
from cclmark.results.journal import Journal
from cclmark.results.resume import differing_settings
from cclmark.results.surroundings import surroundings_changed

_MOST_SAID = 4  # reasons, and kinds of cases, in a message


def require_figures(run: Journal, name: str) -> None:
    """Raises UsageError for a journal without times. ``name`` is its name in the message."""
    kind = report_kind(run.kind)
    if not run.results or not kind.has_times:
        what = kind.noun if run.results else "no results"
        lacks = "".join(f"; {text}" for text in lacking(run))
        raise UsageError(f"{name} contains {what}, and no times to compare{lacks}")


def comparison_of(before: Side, after: Side, margin: float = MARGIN) -> Comparison:
    """Compares ``after`` with ``before`` at ``margin``, and finds other differences between them.

    Raises UsageError if they have nothing in common.
    """
    kinds = [_kinds(side) for side in (before, after)]
    if not kinds[0] & kinds[1]:
        raise UsageError(
            f"{before.name} contains {' and '.join(sorted(kinds[0]))}, and {after.name} "
            f"contains {' and '.join(sorted(kinds[1]))}: these are not compared. Use two "
            "journals of the same kind"
        )
    found = compare(before, after, margin)
    if all(one.before_s is None or one.after_s is None for one in found):
        reasons = list(dict.fromkeys(one.reason for one in found if not one.absent))
        said = "; ".join([*reasons[:_MOST_SAID], *coverage_lines(found, None, _MOST_SAID)])
        raise UsageError(
            f"{before.name} and {after.name} have no measured case in common: {said}. "
            "Cases are the same where operation, size, type, reduction, root, placement and number "
            "of ranks are"
        )
    measured = coverage_lines(found, libraries_of(before, after))
    then, now = before.runs[0].header, after.runs[0].header
    if then.imported is not None or now.imported is not None:
        return Comparison(before, after, [*differences_told(then, now), *measured], found, margin)
    differences = [
        *differing_settings(then.settings, now.settings, sides=("before", "after")),
        *surroundings_changed(then, now, "after"),
        *measured,
    ]
    return Comparison(before, after, differences, found, margin)


def _kinds(side: Side) -> set[str]:
    """Returns the kinds of work of a side."""
    return {report_kind(run.kind).title for run in side.runs if run.results}
