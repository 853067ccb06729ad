"""What a soak says: the first cycle as a table, progress meanwhile, the drift at the end.

Its charts over time are the times of cases, and the clocks and temperatures of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from cclmark.base.grouping import by_key
from cclmark.base.statistics import median
from cclmark.document.blocks import (
    SEVERITY_ORDER,
    Block,
    Document,
    Evidence,
    Facts,
    Finding,
    TableColumn,
    table_of,
)
from cclmark.document.chart_model import ChartCurve, Level, Lines, Mark
from cclmark.document.device_labels import device_labels
from cclmark.document.document_text import DocumentText
from cclmark.document.insight_words import amount, listed
from cclmark.document.naming import NamedRun
from cclmark.document.page.page_model import Section
from cclmark.document.remarks import problems
from cclmark.document.text import clock_text, counted, format_time_us
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Condition, Header
from cclmark.kinds.collective.figures import Drift, SoakFigures
from cclmark.work.cases import Case

_FIRST_SUMMARY_S = 10.0
_MOST_BETWEEN_S = 600.0
_MOST_UNKNOWN = 8  # cases with too few cycles that have their own line
_MOST_NAMED = 8


def of_first_cycle(header: Header) -> Header:
    """The header with which the first cycle is shown."""
    settings = msgspec.structs.replace(header.settings, cycles=1, duration_s=0.0)
    return msgspec.structs.replace(header, settings=settings, planned_cases=0)


def with_drift(document: Document, soak: SoakFigures, header: Header) -> Document:
    """The document of a first cycle, with what the later ones show."""
    text = f"{soak.checked} of {soak.statuses.total()} results checked, "
    text += f"{soak.statuses['wrong']} wrong"
    others = {one: number for one, number in soak.statuses.items() if one not in ("ok", "wrong")}
    findings = [*_drift(soak, header), *document.findings]
    return replace(
        document,
        opening=[Facts([("soak", clock_text(header.settings.duration_s))])],
        closing=[*_tables(soak, header), *document.closing],
        findings=sorted(findings, key=lambda one: SEVERITY_ORDER[one.severity]),
        outcome=text + "".join(f", {number} {status}" for status, number in others.items()),
        is_wrong=bool(soak.statuses["wrong"]),
        figures=[f"{one}, first cycle" for one in document.figures],
    )


def _tables(soak: SoakFigures, header: Header) -> Iterator[Block]:
    """The drift of each case."""
    drifts = soak.drifts()
    if sum(drift.apart is None for drift in drifts.values()) > _MOST_UNKNOWN:
        drifts = {case: drift for case, drift in drifts.items() if drift.apart is not None}
    names = _names(drifts, header)
    if drifts:
        yield table_of(
            f"drift: the {_parts([*drifts.values()])}, medians",
            [
                TableColumn("case", lambda case: names[case]),
                TableColumn("cycles", lambda case: str(drifts[case].cycles), ">"),
                TableColumn("first µs", lambda case: format_time_us(drifts[case].first_s), ">"),
                TableColumn("last µs", lambda case: format_time_us(drifts[case].last_s), ">"),
                TableColumn("ratio", lambda case: f"{drifts[case].ratio:.3f}", ">"),
                TableColumn("worst", lambda case: _worst(drifts[case], soak.times[case].cycles)),
                TableColumn(
                    "",
                    lambda case: _verdict(drifts[case]),
                    look=lambda case: "look" if drifts[case].apart else "",
                ),
            ],
            [*drifts],
        )


def _drift(soak: SoakFigures, header: Header) -> Iterator[Finding]:
    """Which cases became slower or faster beyond their intervals, and which cannot be judged."""
    drifts = soak.drifts()
    names = _names(drifts, header)
    unknown = sum(drift.apart is None for drift in drifts.values())
    apart = {case: drift for case, drift in drifts.items() if drift.apart}
    known = len(drifts) - unknown
    for word in ("slower", "faster"):
        own = {case: drift for case, drift in apart.items() if _verdict(drift) == word}
        named = listed([names[case] for case in [*own][:_MOST_NAMED]], len(own))
        if own:
            yield Finding(
                "drift",
                "look" if word == "slower" else "note",
                f"drift: {amount(len(own), 'case')} of {known} {word} at the end, beyond the 95 % "
                f"intervals: {named}",
                evidence=tuple(
                    figure
                    for case, drift in [*own.items()][:_MOST_NAMED]
                    for figure in _evidence(names[case], drift)
                ),
            )
    if known and not apart:
        text = f"drift: none of {counted(known, 'case')} is slower or faster at the end, beyond the"
        yield Finding("drift", "good", f"{text} 95 % intervals")
    if unknown:
        text = f"drift: {amount(unknown, 'case')} of {len(drifts)} with too few cycles for "
        yield Finding("drift", "unknown", f"{text}intervals")


def _evidence(name: str, drift: Drift) -> tuple[Evidence, Evidence]:
    """The last median beside the first one, and their ratio."""
    return (
        Evidence.of("time_us", drift.last_s, name, drift.first_s),
        Evidence.of("ratio", drift.ratio, name, 1.0),
    )


def _names(cases: Mapping[Case, Any], header: Header) -> dict[Case, str]:
    several = len({library.name for library in header.libraries}) > 1
    return {case: f"{case.ccl} {case.describe()}" if several else case.describe() for case in cases}


def _verdict(drift: Drift) -> str:
    if not drift.apart:
        return ""
    return "slower" if drift.ratio > 1 else "faster"


def _worst(drift: Drift, cycles: Sequence[int]) -> str:
    return f"× {drift.worst_ratio:.2f} in cycle {cycles[drift.worst] + 1}"


def _parts(drifts: list[Drift]) -> str:
    parts = {drift.part for drift in drifts}
    if parts == {1}:
        return "first and the last cycle"
    number = f"{min(parts)} to {max(parts)}" if len(parts) > 1 else str(max(parts))
    return f"first and the last {number} cycles"


class SoakText(DocumentText):
    """A document, of a soak with its progress: problems of later cycles, and summaries."""

    def __init__(self, *arguments: Any, every_s: float, **named: Any) -> None:
        """``every_s``: the interval of summaries, 0 for a growing interval."""
        super().__init__(*arguments, **named)
        self._every_s = every_s
        self._due_s = every_s or _FIRST_SUMMARY_S

    def add(self, result: CaseResult) -> str:
        """Returns a row of a first cycle; later only problems, and a summary if one is due."""
        text = super().add(result)
        soak = self._reduction
        if result.cycle == 0 or not isinstance(soak, SoakFigures):
            return text
        when = clock_text(soak.elapsed_s)
        for problem in problems(result):
            line = f"  {when}  cycle {result.cycle + 1}, {self._name(result.case)}: {problem}"
            text += self._view.paint(line, "red") + "\n"
        if soak.elapsed_s < self._due_s:
            return text
        if self._every_s:
            self._due_s = self._every_s * (soak.elapsed_s // self._every_s + 1)
        else:
            self._due_s = soak.elapsed_s + min(soak.elapsed_s, _MOST_BETWEEN_S)
        return f"{text}  {when}  cycle {result.cycle + 1}: {self._summary(soak)}\n"

    def _summary(self, soak: SoakFigures) -> str:
        text = f"{soak.checked} results checked, {soak.statuses['wrong']} wrong"
        if ratios := soak.ratios():
            most, case = max(ratios, key=lambda one: one[0])
            text += f"; time over that at first: median {median([one for one, _ in ratios]):.3f}, "
            text += f"most {most:.3f} ({self._name(case)})"
        hottest = [one.temperature_c.most for one in self._conditions.devices.values()]
        degrees = [one for one in hottest if one is not None]
        return text + (f"; up to {max(degrees):.0f} °C" if degrees else "")

    def _name(self, case: Case) -> str:
        assert self._header is not None
        return _names({case: None}, self._header)[case]


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


_READINGS: Sequence[tuple[str, str, Callable[[Condition], float | None]]] = (
    ("clock", "MHz", lambda one: None if one.clock_hz is None else one.clock_hz / 1e6),
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
