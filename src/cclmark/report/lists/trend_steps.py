"""Series of a history with their changes, and what else changed between the same runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cclmark.analysis.change import THRESHOLD, Change
from cclmark.history.history_model import StoredRun, StoredSeries
from cclmark.history.trend import Trend, trends
from cclmark.report.lists.trend_lines import Step, Trends
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
    """A history's ``series`` with their changes of ``threshold``, a share, or more.

    ``headers_of`` gives the headers of runs by their numbers, as History.headers does.
    """
    found = trends(series, threshold)
    return Trends(found, runs, _steps(found, runs, headers_of), threshold)


def _steps(
    found: Sequence[Trend], runs: Mapping[int, StoredRun], headers_of: HeadersOf
) -> list[Step]:
    """The changes by the runs between which they are, with what else changed there."""
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
            *surroundings_changed(then, now),
        ]
        steps.append(Step(runs[before], runs[after], by_ends[before, after], differences))
    return steps
