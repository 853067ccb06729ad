"""Charts of a soak over time: the times of cases, and the clocks and temperatures of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cclmark.analysis.statistics import median
from cclmark.base.grouping import by_key
from cclmark.document.chart_model import ChartCurve, Level, Lines, Mark
from cclmark.document.device_labels import device_labels
from cclmark.document.naming import NamedRun
from cclmark.document.page.page_model import Section
from cclmark.document.text import counted
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Condition

_LEAST_CYCLES = 8
_MOST_CURVES = 8
_BINS = 200
_MOST_MARKS = 6
_UNITS = ((7200.0, "h", 3600.0), (120.0, "min", 60.0), (0.0, "s", 1.0))
_HEAT = "thermal"  # in the reasons of a limited clock

_Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class _Clock:
    """The time axis of a run. ``begin_s`` and ``end_s``: seconds since 1970."""

    begin_s: float
    end_s: float

    @property
    def unit(self) -> tuple[str, float]:
        """The unit of the axis, and its seconds."""
        span = self.end_s - self.begin_s
        return next((name, factor) for least, name, factor in _UNITS if span >= least)

    def place(self, at_s: float) -> float:
        """The place on the axis."""
        return (at_s - self.begin_s) / self.unit[1]

    def curve(self, name: str, points: _Points, colour: int) -> ChartCurve:
        """The medians of points in equal parts of the time, with a band of all of them."""
        width = (self.end_s - self.begin_s) / _BINS
        bins = by_key((int((at_s - self.begin_s) / width), y) for at_s, y in sorted(points))
        return ChartCurve(
            name,
            [self.place(self.begin_s + (number + 0.5) * width) for number in bins],
            [median(own) for own in bins.values()],
            low=[min(own) for own in bins.values()],
            high=[max(own) for own in bins.values()],
            colour=colour,
        )


def over_time(run: NamedRun, mark: str = "", name: str = "") -> Section | None:
    """Returns the section of a run with several cycles; None for another one.

    ``mark`` and ``name``: the ends of its keys and of its title among several runs.
    """
    journal = run.journal
    moments = [one.started_at_s for one in journal.cases if one.started_at_s > 0]
    moments += [one.at_s for one in journal.conditions]
    cycles = len({one.cycle for one in journal.cases})
    if cycles < _LEAST_CYCLES or not moments or max(moments) <= min(moments):
        return None
    clock = _Clock(min(moments), max(moments))
    charts = [one for one in _charts(journal, clock, mark) if one.series]
    words = [f"{counted(cycles, 'cycle')}; bands contain all values of a moment."]
    return Section(f"over-time{mark}", f"Over time{name}", words, charts) if charts else None


def _charts(journal: Journal, clock: _Clock, mark: str) -> Iterator[Lines]:
    yield Lines(
        f"over-time-cases{mark}",
        "Time of a case over its median",
        "The time of each case over its median, against the time since the start of the run.",
        f"time since the start [{clock.unit[0]}]",
        "time / median",
        _of_cases(journal, clock),
        x_kind="number",
        zero_based=False,
        levels=[Level("median", 1.0)],
        marks=_throttled(journal, clock),
    )
    for key, title, unit, value in _READINGS:
        yield Lines(
            f"over-time-{key}{mark}",
            title,
            f"{title} against the time since the start of the run.",
            f"time since the start [{clock.unit[0]}]",
            f"{title.lower()} [{unit}]",
            _of_devices(journal, clock, value),
            x_kind="number",
            zero_based=False,
            marks=_throttled(journal, clock),
        )


def _clock_mhz(one: Condition) -> float | None:
    return None if one.clock_hz is None else one.clock_hz / 1e6


_READINGS: Sequence[tuple[str, str, str, Callable[[Condition], float | None]]] = (
    ("clocks", "Clock", "MHz", _clock_mhz),
    ("temperatures", "Temperature", "°C", lambda one: one.temperature_c),
)


def _of_cases(journal: Journal, clock: _Clock) -> list[ChartCurve]:
    """A curve for each of the largest cases."""
    times = by_key(
        (one.case, (one.started_at_s, one.summary.time_s))
        for one in journal.cases
        if one.summary is not None and one.status == "ok" and one.started_at_s > 0
    )
    largest = sorted(times.items(), key=lambda entry: -entry[0].size_bytes)[:_MOST_CURVES]
    curves = []
    for number, (case, own) in enumerate(largest):
        usual = median([time_s for _, time_s in own])
        if usual > 0:
            points = [(at_s, time_s / usual) for at_s, time_s in own]
            curves.append(clock.curve(case.describe(), points, number))
    return curves


def _of_devices(
    journal: Journal, clock: _Clock, value: Callable[[Condition], float | None]
) -> list[ChartCurve]:
    readings = by_key(
        (one.rank, (one.at_s, y)) for one in journal.conditions if (y := value(one)) is not None
    )
    labels = device_labels(journal.header.devices)
    return [
        clock.curve(labels[rank] if rank < len(labels) else f"rank {rank}", points, number)
        for number, (rank, points) in enumerate(sorted(readings.items()))
    ]


def _throttled(journal: Journal, clock: _Clock) -> list[Mark]:
    """When heat first limited the clock of each device."""
    first: dict[int, float] = {}
    counts: dict[int, int] = {}
    for one in sorted(journal.conditions, key=lambda one: one.at_s):
        before = counts.get(one.rank)
        counts[one.rank] = one.throttle_count or 0
        is_hot = any(_HEAT in reason for reason in one.reasons)
        if is_hot or (before is not None and counts[one.rank] > before):
            first.setdefault(one.rank, one.at_s)
    labels = device_labels(journal.header.devices)
    return [
        Mark(f"{labels[rank] if rank < len(labels) else rank}: throttled", clock.place(at_s))
        for rank, at_s in list(first.items())[:_MOST_MARKS]
    ]
