"""The time of each case over the runs of a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.change import THRESHOLD, Change, changes
from cclmark.analysis.ratio import RunMedian
from cclmark.analysis.run_noise import LAUNCHES, RunNoise, run_noise
from cclmark.analysis.statistics import NORMAL_975, median
from cclmark.history.history_model import Figure, StoredSeries

_WIDEST = 10.0  # the largest half-width that is used: larger ones are equally uncertain


@dataclass(frozen=True)
class Trend:
    """A series with a time for each of its ``runs``, which are numbers, from the oldest on."""

    series: StoredSeries
    runs: Sequence[int]
    times_s: Sequence[float]
    changes: Sequence[Change]

    def ends_of(self, change: Change) -> tuple[int, int]:
        """The last run of the old level and the first of the new one."""
        return self.runs[change.last], self.runs[change.place]


def trends(all_series: Sequence[StoredSeries], threshold: float = THRESHOLD) -> list[Trend]:
    """Each series with its changes of at least ``threshold``, a share.

    The cycles of a run count as one run, because they share its process.
    """
    merged = [_merged(series.figures) for series in all_series]
    points: list[list[RunMedian]] = [
        [
            (time_s, None if width is None else (min(width, _WIDEST) / NORMAL_975) ** 2)
            for _, time_s, width in own
        ]
        for own in merged
    ]
    noises = [_noise(series) for series in all_series]
    return [
        Trend(series, [figure[0] for figure in figures], [time_s for time_s, _ in own], list(found))
        for series, figures, own, found in zip(
            all_series, merged, points, changes(points, noises, threshold), strict=True
        )
    ]


def _noise(series: StoredSeries) -> RunNoise | None:
    """The noise of one run: of the machine, else assumed; None if it is unknown, and on hosts."""
    if series.on_host:
        return None
    if series.noise is not None or not series.is_measured_machine:
        return series.noise
    if series.calls:
        return LAUNCHES
    return run_noise(series.thing, series.timing, series.barrier, device=series.of_device)


def _merged(figures: Sequence[Figure]) -> Sequence[Figure]:
    """One figure for each run: medians, as in cclmark compare."""
    if len({figure[0] for figure in figures}) == len(figures):
        return figures
    by_run: dict[int, list[Figure]] = {}
    for figure in figures:
        by_run.setdefault(figure[0], []).append(figure)
    found: list[Figure] = []
    for run, own in by_run.items():
        widths = [width for _, _, width in own if width is not None]
        width = median(widths) if len(widths) == len(own) else None
        found.append((run, median([time_s for _, time_s, _ in own]), width))
    return found
