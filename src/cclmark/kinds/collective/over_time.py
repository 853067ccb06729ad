"""Charts of a soak over time: the times of cases, and the clocks and temperatures of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cclmark.base.grouping import by_key
from cclmark.base.statistics import median
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

    def together(self, spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """The places of spans, of which those are one that a drawing cannot separate."""
        found: list[tuple[float, float]] = []
        least = (self.end_s - self.begin_s) / _BINS
        for begin_s, end_s in sorted(spans):
            if found and begin_s - found[-1][1] <= least:
                found[-1] = found[-1][0], max(found[-1][1], end_s)
            else:
                found.append((begin_s, end_s))
        return [(self.place(begin_s), self.place(end_s)) for begin_s, end_s in found]

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
    chart = _chart(journal, clock, mark)
    words = [f"{counted(cycles, 'cycle')}; bands contain all values of a moment."]
    if chart.spans:
        words.append("Shaded: the clock of a device was limited by heat.")
    return Section(f"over-time{mark}", f"Over time{name}", words, [chart]) if chart.series else None


def _chart(journal: Journal, clock: _Clock, mark: str) -> Lines:
    """The times of cases, clocks and temperatures below each other, over one axis of time."""
    curves = _of_cases(journal, clock)
    first = len(curves)  # the colour of the first device
    for panel, (title, _, value) in enumerate(_READINGS, start=1):
        for one in _of_devices(journal, clock, value):
            name, colour = f"{one.name}: {title}", first + one.colour
            curves.append(replace(one, name=name, colour=colour, panel=panel))
    throttled = _throttled(journal)
    labels = device_labels(journal.header.devices)
    return Lines(
        f"over-time{mark}",
        "Cases, clocks and temperatures over time",
        "The time of each case over its median, and the clocks and temperatures of the devices, "
        "against the time since the start of the run.",
        f"time since the start [{clock.unit[0]}]",
        "time / median",
        curves,
        x_kind="number",
        zero_based=False,
        levels=[Level("median", 1.0)],
        marks=[
            Mark(
                f"{labels[rank] if rank < len(labels) else rank}: throttled",
                clock.place(own[0][0]),
            )
            for rank, own in [*throttled.items()][:_MOST_MARKS]
        ],
        panels=[f"{title} [{unit}]" for title, unit, _ in _READINGS],
        spans=clock.together([span for own in throttled.values() for span in own]),
    )


def _clock_mhz(one: Condition) -> float | None:
    return None if one.clock_hz is None else one.clock_hz / 1e6


_READINGS: Sequence[tuple[str, str, Callable[[Condition], float | None]]] = (
    ("clock", "MHz", _clock_mhz),
    ("temperature", "°C", lambda one: one.temperature_c),
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


def _throttled(journal: Journal) -> dict[int, list[tuple[float, float]]]:
    """When heat limited the clock of each device, in seconds since 1970: up to a reading that
    reports it, from the reading before on.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    before: dict[int, Condition] = {}
    for one in sorted(journal.conditions, key=lambda one: one.at_s):
        last = before.get(one.rank)
        is_counted = last is not None and (one.throttle_count or 0) > (last.throttle_count or 0)
        if is_counted or any(_HEAT in reason for reason in one.reasons):
            found.setdefault(one.rank, []).append((last.at_s if last else one.at_s, one.at_s))
        before[one.rank] = one
    return found
