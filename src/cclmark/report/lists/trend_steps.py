"""Finds the changes of a history's series, and other differences between the same runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cclmark.analysis.change import THRESHOLD, Change
from cclmark.history.history_model import StoredRun, StoredSeries
from cclmark.history.trend import Trend, trends
from cclmark.report.lists.trend_lines import Trends, TrendStep
from cclmark.results.resume import differing_settings
from cclmark.results.schema import Header
from cclmark.results.surroundings import surroundings_changed

HeadersOf = Callable[[Sequence[int]], Mapping[int, Header]]


def trends_of(
    series: Sequence[StoredSeries],
    runs: Mapping[int, StoredRun],
    headers_of: HeadersOf,
    threshold: float = THRESHOLD,
) -> Trends:
    """Returns a history's ``series`` with their changes of at least ``threshold``, a share.

    ``headers_of`` returns the headers of runs by their numbers, like History.headers.
    """
    found = trends(series, threshold)
    return Trends(found, runs, _steps(found, runs, headers_of), threshold)


def _steps(
    found: Sequence[Trend], runs: Mapping[int, StoredRun], headers_of: HeadersOf
) -> list[TrendStep]:
    """Groups changes by the runs before and after, with other differences between these runs."""
    places = {number: place for place, number in enumerate(runs)}
    by_ends: dict[tuple[int, int], list[tuple[Trend, Change]]] = {}
    for trend in found:
        for change in trend.changes:
            by_ends.setdefault(trend.ends_of(change), []).append((trend, change))
    headers = headers_of(sorted({number for ends in by_ends for number in ends}))
    steps = []
    for before, after in sorted(by_ends, key=lambda ends: (places[ends[1]], places[ends[0]])):
        then, now = headers[before], headers[after]
        differences = [
            *differing_settings(then.settings, now.settings, sides=("before", "after")),
            *surroundings_changed(then, now, "after"),
        ]
        steps.append(TrendStep(runs[before], runs[after], by_ends[before, after], differences))
    return steps
