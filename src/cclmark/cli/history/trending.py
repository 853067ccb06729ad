"""Shows the times of cases over the runs of a history, and where they changed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cclmark.analysis.change import LEAST_POINTS, THRESHOLD
from cclmark.cli.history.historical import history_at, write_all
from cclmark.cli.percent import percent_of
from cclmark.errors import EXIT_OK, EXIT_WRONG, UsageError
from cclmark.history.filters import filter_of
from cclmark.history.store import History
from cclmark.history.trend import Trend
from cclmark.recording.output import Output
from cclmark.report.lists.trend_lines import Trends, trend_json, trend_markdown, trend_table
from cclmark.report.lists.trend_steps import trends_of
from cclmark.document.paint import ansi, unpainted

# The filters by names: the field that each selects, and whether the name must be complete.
_NAMES = {
    "machine": ("host", False),
    "device": ("device", False),
    "operation": ("operation", True),
    "ccl": ("library", True),
    "label": ("label", True),
}
_MOST_NAMED = 20


def trend_runs(
    everything: bool,
    threshold: str | None,
    fail_if_slower: str | None,
    format: str,
    output: Path | None,
    db: str | None,
    **filters: str,
) -> int:
    """Prints the series that the filters select; returns the exit code.

    Raises UsageError for a name that is not in the history, for names that no run combines, and if
    ``fail_if_slower`` cannot be decided.
    """
    allowed = None if fail_if_slower is None else percent_of("--fail-if-slower", fail_if_slower)
    least = _threshold(threshold, allowed)
    history = history_at(db)
    _require_known(history, filters)
    shown = trends_of(*history.series(filter_of(**filters)), history.headers, least)
    _require_some(shown, filters)

    def text(written: Output) -> Sequence[str]:
        if format == "json":
            return [trend_json(shown)]
        if format == "markdown":
            return [trend_markdown(shown)]
        paint = ansi if written.takes_colours else unpainted
        return [trend_table(shown, everything=everything, paint=paint)]

    write_all(output, text, history)
    return EXIT_OK if allowed is None else _verdict(shown.trends, allowed)


def _threshold(text: str | None, allowed_percent: float | None) -> float:
    """Returns the least share of a reported change. Raises UsageError for one above the gate's."""
    if text is None:
        return THRESHOLD if allowed_percent is None else min(THRESHOLD, allowed_percent / 100)
    percent = percent_of("--threshold", text)
    if allowed_percent is not None and percent > allowed_percent:
        raise UsageError(
            f"--fail-if-slower {allowed_percent:.3g}% is below --threshold {percent:.3g}%, under "
            "which no change is reported: lower the threshold"
        )
    return percent / 100


def _require_known(history: History, filters: Mapping[str, str]) -> None:
    """Raises UsageError for a filter that no run of the history matches."""
    if not any(filters.get(name) for name in _NAMES):
        return
    choices = history.choices()
    known = {
        "machine": choices.hostnames,
        "device": choices.devices,
        "operation": choices.operations,
        "ccl": choices.ccls,
        "label": choices.labels,
    }
    for name, (what, whole) in _NAMES.items():
        asked = filters.get(name, "")
        if not asked:
            continue
        if whole:
            there = asked in known[name]
            text = f"no run of the history has this {what}"
        else:
            there = any(asked.lower() in each.lower() for each in known[name])
            text = f"no {what} of the history has this in its name"
        if not there:
            those = f"it has {_some(known[name])}" if known[name] else "it has none"
            raise UsageError(f"--{name} {asked!r}: {text}: {those}")


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _require_some(shown: Trends, filters: Mapping[str, str]) -> None:
    """Raises UsageError if several filters match nothing together, though each matches alone."""
    given = [f"--{name} {text!r}" for name, text in filters.items() if text]
    if given and not shown.trends:
        raise UsageError(f"no case of the history matches {' and '.join(given)}")


def _verdict(found: Sequence[Trend], allowed_percent: float) -> int:
    """Reports series whose last change is slower by so much; returns the exit code.

    Writes to standard error.

    Raises UsageError if no series has enough runs: a check that cannot fail would be reported as a
    pass.
    """
    if not found:
        raise UsageError("--fail-if-slower: no case can be judged: the history contains no times")
    if all(len(trend.runs) < LEAST_POINTS for trend in found):
        most = max(len(trend.runs) for trend in found)
        raise UsageError(
            f"--fail-if-slower: no case can be judged: every case has fewer than {LEAST_POINTS} "
            f"runs, the most {most}"
        )
    slower = [
        (trend, trend.changes[-1])
        for trend in found
        if trend.changes and trend.changes[-1].ratio >= 1 + allowed_percent / 100
    ]
    if not slower:
        return EXIT_OK
    trend, change = max(slower, key=lambda one: one[1].ratio)
    print(
        f"cclmark: {len(slower)} slower by {allowed_percent:.3g} % or more since their last "
        f"change, the worst {trend.series.thing.describe()}: {change.ratio:.3f} times as long",
        file=sys.stderr,
    )
    return EXIT_WRONG
