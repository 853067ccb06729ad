"""Charts of collectives of all ranks: bandwidth and time by size, spread of samples, ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

from cclmark.analysis.irregularities import choice_changes
from cclmark.analysis.links import link_limit
from cclmark.base.statistics import median, quantile
from cclmark.document.chart_model import (
    Boxes,
    BoxPlot,
    BoxSeries,
    Chart,
    ChartCurve,
    Heat,
    Level,
    Lines,
    Mark,
    beyond,
    spread_limits,
)
from cclmark.document.head import definition_lines, definitions_of
from cclmark.document.insight_words import listed, on_host_alone
from cclmark.document.naming import (
    ChartGroup,
    CurveKey,
    NamedRun,
    colours,
    curve_names,
    group_titles,
    groups_of,
    with_repeats,
)
from cclmark.document.page.page_model import Section
from cclmark.document.remarks import STAGED_NOTE, staged_mark
from cclmark.document.text import BYTES_PER_GB, US_PER_S, counted, format_time_us
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Header, Summary
from cclmark.journal.summaries import ACROSS_RANKS, chosen_times, combine
from cclmark.kinds.collective.soak import over_time
from cclmark.work.operations import OPERATIONS, moves_data
from cclmark.work.sizes import format_size

_MOST_RANK_ROWS = 48
_MOST_REFERENCES = 2
_MOST_MARKS = 8
_MOST_OVERVIEW = 12  # curves
_SMALL = 256 << 10  # bytes: of messages whose time is shown beside bandwidths
_WIDE = 10.0  # the longest over the shortest time on a logarithmic axis
_LEAST_SHARE = 2.0  # percent, of a limit: less cannot be told from 0
_LEAST_RANK_SPAN = 10.0  # percent, to each side


@dataclass(frozen=True)
class _OverviewCurve:
    """A curve of the overview.

    ``title``: of its operation. ``limit``: of the links, in bytes per second; None if unknown.
    """

    title: str
    name: str
    run: NamedRun
    points: Sequence[_Point]
    limit: float | None

    def curve(
        self, number: int, value: Callable[[_Point], float | None], sizes: Collection[int]
    ) -> ChartCurve:
        """The points with a value at one of ``sizes``."""
        found = [
            (point, y)
            for point in self.points
            if point.size_bytes in sizes and (y := value(point)) is not None
        ]
        return ChartCurve(
            self.name,
            [point.size_bytes for point, _ in found],
            [y for _, y in found],
            colour=number,
            hover=[_words(point) for point, _ in found],
        )

    def reference_share(self, point: _Point) -> float | None:
        """The share of the nearest reference, in percent."""
        match = self.run.notes.match(point.results[0], self.run.journal.header)
        return match.share * 100 if match is not None and match.bandwidth else None


def collective_overview(runs: Sequence[NamedRun]) -> list[Lines]:
    """Returns the bandwidth of all operations in one chart, and the time of small messages.

    Bandwidths are shares of the link limit, or of references where they are known instead.
    """
    curves = _overview_curves(runs)
    if not curves:
        return []
    more = len(curves) - _MOST_OVERVIEW
    curves = curves[:_MOST_OVERVIEW]
    sizes = sorted({point.size_bytes for one in curves for point in one.points})
    share: Callable[[_OverviewCurve, _Point], float | None] = _rate
    y_title = "bus bandwidth [GB/s]"
    if all(one.limit for one in curves):
        y_title, share = "share of the link limit [%]", _limit_share
    elif any(one.reference_share(point) for one in curves for point in one.points):
        y_title, share = "share of the reference [%]", _OverviewCurve.reference_share
    large = _from_first(curves, sizes, share) if share is not _rate else sizes
    small = [size for size in sizes if size <= _SMALL]
    latencies = small if len(small) > 1 else sizes
    notes = [f"{counted(more, 'further curve')} are in the sections below"] if more > 0 else []
    if large != sizes:
        notes.append(
            f"messages smaller than {format_size(large[0])} reach less than {_LEAST_SHARE:g} %"
        )
    names = listed([one.name for one in curves])
    titles = {one.title for one in curves}
    times_s = [
        point.summary.time_s
        for one in curves
        for point in one.points
        if point.size_bytes in latencies
    ]
    return [
        Lines(
            "overview",
            titles.pop() if len(titles) == 1 else "All operations",
            f"{y_title.partition(' [')[0].capitalize()} of {names} against message size.",
            "message size",
            y_title,
            [one.curve(number, partial(share, one), large) for number, one in enumerate(curves)],
            notes=notes,
        ),
        Lines(
            "overview-time",
            "Time of small messages" if latencies is small else "Time",
            f"Time of {names} against message size.",
            "message size",
            "time [µs]",
            [
                one.curve(number, lambda point: point.summary.time_s * US_PER_S, latencies)
                for number, one in enumerate(curves)
            ],
            y_log=max(times_s) > _WIDE * min(times_s),
        ),
    ]


def _rate(_: _OverviewCurve, point: _Point) -> float | None:
    return point.summary.busbw_bytes_per_s / BYTES_PER_GB


def _limit_share(one: _OverviewCurve, point: _Point) -> float | None:
    return point.summary.busbw_bytes_per_s / one.limit * 100 if one.limit else None


def _from_first(
    curves: Sequence[_OverviewCurve],
    sizes: Sequence[int],
    share: Callable[[_OverviewCurve, _Point], float | None],
) -> Sequence[int]:
    """The sizes from the first one on at which a share can be told from 0; all if these are few."""
    seen = [
        point.size_bytes
        for one in curves
        for point in one.points
        if (share(one, point) or 0.0) >= _LEAST_SHARE
    ]
    found = [size for size in sizes if seen and size >= min(seen)]
    return found if len(found) > 1 else sizes


def _overview_curves(runs: Sequence[NamedRun]) -> list[_OverviewCurve]:
    """A curve for each operation of each run and library: out of place if both were measured."""
    runs, firsts = with_repeats(runs)
    groups = [one for one in groups_of(runs, firsts) if moves_data(one.operation)]
    found = []
    for group, title in zip(groups, group_titles(groups), strict=True):
        points = _measured_points(group)
        kept = {
            curve: own
            for curve, own in points.items()
            if not curve[3] or (*curve[:3], False) not in points
        }
        names = curve_names([(*curve[:3], False) for curve in kept], runs)
        for curve, own in kept.items():
            run = runs[curve[0]]
            limit = link_limit(run.journal.header.links, run.journal.header.hosts)
            name = f"{title} · {names[(*curve[:3], False)]}" if len(kept) > 1 else title
            found.append(_OverviewCurve(title, name, run, own, limit))
    return found


def _measured_points(group: ChartGroup) -> dict[CurveKey, list[_Point]]:
    """The points of each curve that has some, by size."""
    points = {}
    for curve, by_size in group.curves.items():
        found = [_point(results) for _, results in sorted(by_size.items())]
        if kept := [point for point in found if point is not None]:
            points[curve] = kept
    return points


def collective_charts(group: ChartGroup, title: str, runs: Sequence[NamedRun]) -> list[Chart]:
    """Returns all charts of one operation; none if nothing was measured."""
    points = _measured_points(group)
    if not points:
        return []
    draft = _Draft(group, title, runs, points)
    if not moves_data(group.operation):
        return [chart for chart in (draft.spread(), draft.ranks()) if chart is not None]
    charts = [draft.bandwidth(), draft.time(), draft.ratio(), draft.spread(), draft.ranks()]
    return [chart for chart in charts if chart is not None]


@dataclass(frozen=True)
class _Point:
    """One case with all its cycles."""

    size_bytes: int
    results: Sequence[CaseResult]
    summary: Summary
    low_s: float
    high_s: float

    @property
    def device_s(self) -> float | None:
        """The time of the device alone; None if launches do not determine the cost of a call."""
        known = [one.device.summary.time_s for one in self.results if one.device is not None]
        return median(known) if known else None

    @cached_property
    def rows(self) -> list[list[float]]:
        """The times of the clock that the figures are from, as [sample][rank]."""
        rows: list[list[float]] = []
        row = OPERATIONS.get(self.results[0].case.operation)
        halved = row is not None and row.round_trip
        for result in self.results:
            if result.samples is not None and result.summary is not None:
                times = chosen_times(result.samples, result.summary.clock)
                rows += [[time / 2 for time in row] for row in times] if halved else times
        return rows


def _point(results: Sequence[CaseResult]) -> _Point | None:
    """Combines the cycles of a case; None if nothing was measured or all data was wrong."""
    if results[0].case.size_bytes <= 0 and moves_data(results[0].case.operation):
        return None
    good = [one for one in results if one.summary is not None and one.status == "ok"]
    found = sorted(
        (one.summary for one in good if one.summary is not None and one.summary.time_s > 0),
        key=lambda one: one.time_s,
    )
    if not found:
        return None
    middle = found[(len(found) - 1) // 2]
    low_s = min(one.min_s for one in found)
    return _Point(
        size_bytes=results[0].case.size_bytes,
        results=good,
        summary=middle,
        low_s=low_s if 0 < low_s < middle.time_s else middle.time_s,
        high_s=max(middle.time_s, *(one.p95_s for one in found)),
    )


class _Draft:
    """Draws the charts of one group."""

    def __init__(
        self,
        group: ChartGroup,
        title: str,
        runs: Sequence[NamedRun],
        points: dict[CurveKey, list[_Point]],
    ) -> None:
        self._group = group
        self._title = title
        self._runs = runs
        self._points = points
        self._names = curve_names(points, runs)
        self._colours = colours(points)

    def bandwidth(self) -> Lines:
        """Returns bus bandwidth by size, with the link limit."""
        series = []
        for curve, points in self._points.items():
            rates = [point.summary.busbw_bytes_per_s / BYTES_PER_GB for point in points]
            bounds = [
                (
                    rate * point.summary.time_s / point.high_s,
                    rate * point.summary.time_s / point.low_s,
                )
                for rate, point in zip(rates, points, strict=True)
            ]
            series.append(
                self._series(curve, points, rates, [b[0] for b in bounds], [b[1] for b in bounds])
            )
        limits = {
            limit
            for number in {curve[0] for curve in self._points}
            if (limit := self._limit(number)) is not None
        }
        series += self._references()
        levels = [Level(f"link limit {value / 1e9:.0f} GB/s", value / 1e9) for value in limits]
        best = max(
            (value, one.name, size)
            for one in series[: len(self._points)]
            for size, value in zip(one.x, one.y, strict=True)
        )
        return Lines(
            key=f"{self._group.key}-bandwidth",
            title=f"{self._title}: bus bandwidth",
            says=f"Bus bandwidth of {self._title} against message size. "
            + (
                "".join(f"{note}." for note in self._definition_notes)
                or f"The highest is {best[0]:.2f} GB/s at {format_size(int(best[2]))} ({best[1]})."
            )
            + "".join(f" The {level.name} is drawn." for level in levels)
            + self._marks_in_words,
            x_title="message size",
            y_title="bus bandwidth [GB/s]",
            series=series,
            levels=levels,
            marks=self._marks,
            notes=self._definition_notes,
        )

    @cached_property
    def _definition_notes(self) -> list[str]:
        """The tools if their definitions of a time differ, so that no curve is the best of all."""
        headers = [self._runs[number].journal.header for number, *_ in self._points]
        definitions = definitions_of(headers)
        if len(definitions) < 2:
            return []
        tools = "; ".join(listed(tools) for tools in definitions.values())
        return [f"The curves have {len(definitions)} definitions of a time: those of {tools}"]

    @cached_property
    def _marks(self) -> list[Mark]:
        """The sizes where the choice changes, ``_MOST_MARKS`` at most: a section has all."""
        changed: dict[tuple[int, str], list[str]] = {}
        explained = []
        for curve, points in self._points.items():
            results = [point.results[0] for point in points if point.results[0].explanation]
            if results:
                explained.append(self._names[curve])
            for change in choice_changes(results):
                names = changed.setdefault((change.size_bytes, change.short), [])
                names.append(self._names[curve])
        return [
            Mark(
                f"{format_size(size)}: {text}"
                + ("" if len(names) == len(explained) else f" ({', '.join(names)})"),
                size,
            )
            for (size, text), names in sorted(changed.items())[:_MOST_MARKS]
        ]

    @property
    def _marks_in_words(self) -> str:
        names = "; ".join(mark.name for mark in self._marks)
        return f" Marked are changes of the library's choice: {names}." if names else ""

    def _references(self) -> list[ChartCurve]:
        """Returns bandwidths of references with the same devices, for the sizes they cover."""
        found: dict[str, dict[int, float]] = {}
        users: dict[str, dict[str, None]] = {}
        for (number, *_), points in self._points.items():
            run = self._runs[number]
            for point in points:
                match = run.notes.match(point.results[0], run.journal.header)
                if match is not None and match.bandwidth:
                    by_size = found.setdefault(match.name, {})
                    users.setdefault(match.name, {})[run.name] = None
                    by_size[point.size_bytes] = match.bandwidth / BYTES_PER_GB
        usual = sorted(found.items(), key=lambda entry: -len(entry[1]))[:_MOST_REFERENCES]
        return [
            ChartCurve(
                f"reference{_whose(users[name], users.values())}: {name}",
                x=sorted(by_size),
                y=[rate for _, rate in sorted(by_size.items())],
                colour=number,
                faint=True,
            )
            for number, (name, by_size) in enumerate(usual)
        ]

    def time(self) -> Lines:
        """Returns time by size, on two logarithmic axes."""
        series = [
            self._series(
                curve,
                points,
                [point.summary.time_s * US_PER_S for point in points],
                [point.low_s * US_PER_S for point in points],
                [point.high_s * US_PER_S for point in points],
            )
            for curve, points in self._points.items()
        ]
        first = min((one.y[0], one.name, one.x[0]) for one in series)
        devices = self._device_series()
        return Lines(
            key=f"{self._group.key}-time",
            title=f"{self._title}: time",
            says=f"Time of one {self._title} against message size, both on logarithmic axes. "
            + (
                "".join(f"{note}." for note in self._definition_notes)
                or f"The shortest at the smallest size is {first[0]:.2f} µs at "
                f"{format_size(int(first[2]))} ({first[1]})."
            )
            + (" The time of the device is drawn where launches set it." if devices else "")
            + self._marks_in_words,
            x_title="message size",
            y_title="time [µs]",
            series=[*series, *devices],
            y_log=True,
            marks=self._marks,
            notes=self._definition_notes,
        )

    def ratio(self) -> Lines | None:
        """Returns the times of libraries over those of the first one; None for a single one."""
        by_place: dict[tuple[int, int, bool], list[CurveKey]] = {}
        for curve in self._points:
            by_place.setdefault((curve[0], *curve[2:]), []).append(curve)
        series = []
        for first, *others in by_place.values():
            usual = {one.size_bytes: one.summary.time_s for one in self._points[first]}
            for curve in others:
                found = [one for one in self._points[curve] if one.size_bytes in usual]
                colour, dashed = self._colours[curve]
                series.append(
                    ChartCurve(
                        self._names[curve],
                        [one.size_bytes for one in found],
                        [one.summary.time_s / usual[one.size_bytes] for one in found],
                        colour=colour,
                        dashed=dashed,
                    )
                )
        firsts = {curves[0][1] for curves in by_place.values()}
        if len(firsts) > 1 or not any(one.x for one in series):
            return None
        library = firsts.pop()
        return Lines(
            key=f"{self._group.key}-ratio",
            title=f"{self._title}: time over that of {library}",
            says=f"The time of each library in {self._title} over that of {library}, which is 1, "
            "against message size: above 1 is slower.",
            x_title="message size",
            y_title=f"time / time of {library}",
            series=series,
            levels=[Level(f"as {library}", 1.0)],
            y_log=True,
            notes=self._definition_notes,
        )

    def _device_series(self) -> list[ChartCurve]:
        """Returns the device times of launch-bound cases, as dashed curves."""
        first = 1 + max(colour for colour, _ in self._colours.values())
        found: list[ChartCurve] = []
        for curve, points in self._points.items():
            known = [(point, time_s) for point in points if (time_s := point.device_s) is not None]
            if known:
                name = self._names[curve]
                found.append(
                    ChartCurve(
                        name=f"{name}: device" if len(self._points) > 1 else "device",
                        x=[point.size_bytes for point, _ in known],
                        y=[time_s * US_PER_S for _, time_s in known],
                        colour=first + len(found),
                        dashed=True,
                        hover=[
                            f"{format_time_us(time_s)} µs by the device; a call costs "
                            f"{format_time_us(point.summary.time_s)} µs"
                            for point, time_s in known
                        ],
                    )
                )
        return found

    def _series(
        self,
        curve: CurveKey,
        points: Sequence[_Point],
        y: list[float],
        low: list[float],
        high: list[float],
    ) -> ChartCurve:
        colour, dashed = self._colours[curve]
        return ChartCurve(
            name=self._names[curve],
            x=[point.size_bytes for point in points],
            y=y,
            low=low if any(_is_band(point) for point in points) else (),
            high=high if any(_is_band(point) for point in points) else (),
            colour=colour,
            dashed=dashed,
            hover=[_words(point) for point in points],
        )

    def spread(self) -> Boxes | None:
        """Returns the deviation of samples from their median, by size; None without raw samples."""
        sizes = sorted({point.size_bytes for points in self._points.values() for point in points})
        series = []
        for curve, points in self._points.items():
            by_size = {point.size_bytes: _box(point, self._across(curve)) for point in points}
            if any(box is not None for box in by_size.values()):
                colour, dashed = self._colours[curve]
                boxes = [by_size.get(size) for size in sizes]
                series.append(BoxSeries(self._names[curve], boxes, colour, dashed))
        if not series:
            return None
        boxes_at = [
            (box, f"{one.name}, {_size(self._group, size)}")
            for one in series
            for size, box in zip(sizes, one.boxes, strict=True)
            if box is not None
        ]
        widest, where = max((box[4], place) for box, place in boxes_at)
        limits = spread_limits([box for box, _ in boxes_at])
        return Boxes(
            key=f"{self._group.key}-spread",
            title=f"{self._title}: spread of samples",
            says=f"How far the samples of {self._title} are from their median, by message size: "
            "boxes from the first to the third quartile, whiskers from the fastest sample to the "
            f"95th percentile, which is {widest:+.1f} % at most ({where}).",
            x_title="message size" if moves_data(self._group.operation) else "",
            y_title="sample against median [%]",
            columns=[_size(self._group, size) for size in sizes],
            series=series,
            limits=limits,
            notes=beyond(boxes_at, limits),
        )

    def ranks(self) -> Heat | None:
        """Returns ranks' times relative to their median; None without raw samples of several."""
        sizes = sorted({point.size_bytes for points in self._points.values() for point in points})
        rows: list[tuple[str, dict[int, tuple[float, float]]]] = []
        for curve, points in self._points.items():
            by_size = {point.size_bytes: _by_rank(point) for point in points}
            ranks = max((len(times) for times in by_size.values()), default=0)
            for rank in range(ranks if ranks > 1 else 0):
                cells = {}
                for size, times in by_size.items():
                    middle = median(times) if times else 0.0
                    if rank < len(times) and middle > 0:
                        cells[size] = (times[rank] / middle - 1) * 100, times[rank]
                several = len(self._points) > 1
                name = f"{self._names[curve]} · rank {rank}" if several else f"rank {rank}"
                rows.append((name, cells))
        if not any(cells for _, cells in rows):
            return None
        says = _standing_out(rows, self._group)
        notes = self._rank_notes()
        if len(rows) > _MOST_RANK_ROWS:
            notes.append(
                f"{len(rows)} rows are too many: shown are the {_MOST_RANK_ROWS} that are furthest "
                "from the others"
            )
            far = sorted(rows, key=_distance, reverse=True)[:_MOST_RANK_ROWS]
            kept = {name for name, _ in far}
            rows = [row for row in rows if row[0] in kept]
        return Heat(
            key=f"{self._group.key}-ranks",
            title=f"{self._title}: ranks",
            says=f"Each rank's own time in {self._title} against the median of the ranks. {says}",
            column_title="message size" if moves_data(self._group.operation) else "",
            unit="%",
            rows=[name for name, _ in rows],
            columns=[_size(self._group, size) for size in sizes],
            values=[
                [cells[size][0] if size in cells else None for size in sizes] for _, cells in rows
            ],
            texts=[[_percent(cells.get(size)) for size in sizes] for _, cells in rows],
            hover=[[_rank_words(cells.get(size)) for size in sizes] for _, cells in rows],
            centred=True,
            least_span=_LEAST_RANK_SPAN,
            notes=notes,
        )

    def _rank_notes(self) -> list[str]:
        """Explains the meaning of a rank's time."""
        summaries = [point.summary for points in self._points.values() for point in points]
        clocks = {summary.clock for summary in summaries}
        notes = []
        if "device" in clocks:
            journals = [self._runs[curve[0]].journal for curve in self._points]
            on_host = all(map(on_host_alone, journals))
            notes.append(
                ("of each rank's own work" if on_host else "by the device's clock")
                + ": a rank that comes late is busy for less time, since the "
                "others wait for it in theirs"
            )
        if "host" in clocks:
            notes.append("by the host's clock: waiting for the others is in it")
        if self._group.root is not None or self._group.operation in ("gather", "scatter"):
            notes.append("ranks do not do the same work here: the root's is another")
        late = Counter(one.late_rank for one in summaries if one.late_rank is not None)
        notes += [
            f"rank {rank} comes late in {counted(count, 'case')}"
            for rank, count in late.most_common(3)
        ]
        return notes

    def _limit(self, number: int) -> float | None:
        header = self._runs[number].journal.header
        return link_limit(header.links, header.hosts)

    def _across(self, curve: CurveKey) -> str:
        across = self._runs[curve[0]].journal.header.settings.across_ranks
        return across if across in ACROSS_RANKS else "max"


def _whose(runs: Collection[str], of_all: Collection[Collection[str]]) -> str:
    """Names the runs of a reference; empty if all references are for the same runs."""
    if all(set(runs) == set(others) for others in of_all):
        return ""
    names = list(runs)
    return f" of {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _is_band(point: _Point) -> bool:
    return point.low_s < point.high_s


def _size(group: ChartGroup, size_bytes: int) -> str:
    return format_size(size_bytes) if moves_data(group.operation) else group.operation


def _words(point: _Point) -> str:
    summary = point.summary
    words = [
        f"{format_time_us(summary.time_s)} µs",
        f"algbw {summary.algbw_bytes_per_s / BYTES_PER_GB:.2f}, "
        f"busbw {summary.busbw_bytes_per_s / BYTES_PER_GB:.2f} GB/s",
    ]
    samples = sum(one.summary.samples for one in point.results if one.summary is not None)
    if samples > 1:
        words_of = _repeated_words([point.results])
        cycles = f" of {len(point.results)} {words_of}" if len(point.results) > 1 else ""
        words.append(
            f"{samples} samples{cycles}, fastest {format_time_us(point.low_s)}, "
            f"95th percentile {format_time_us(point.high_s)} µs"
        )
    route = point.results[0].route
    words += [route] if route != "native" else []
    if summary.slowest_rank is not None:
        words.append(f"rank {summary.slowest_rank} is the slowest")
    if summary.late_rank is not None:
        words.append(f"rank {summary.late_rank} comes late")
    return "; ".join(words)


def _box(point: _Point, across_ranks: str) -> BoxPlot | None:
    times = sorted(combine([row for row in point.rows if row], across_ranks))
    if len(times) < 2:
        return None
    middle = quantile(times, 0.5)
    if middle <= 0:
        return None
    values = [times[0], *(quantile(times, share) for share in (0.25, 0.5, 0.75, 0.95))]
    low, first, usual, third, high = ((value / middle - 1) * 100 for value in values)
    return low, first, usual, third, high


def _by_rank(point: _Point) -> list[float]:
    """Returns the median of each rank."""
    rows = point.rows
    if not rows or len({len(row) for row in rows}) != 1:
        return []
    return [median(times) for times in zip(*rows, strict=True)]


def _distance(row: tuple[str, dict[int, tuple[float, float]]]) -> float:
    return max((abs(share) for share, _ in row[1].values()), default=0.0)


def _standing_out(
    rows: Sequence[tuple[str, dict[int, tuple[float, float]]]], group: ChartGroup
) -> str:
    _, share, name, size = max(
        (abs(share), share, name, size)
        for name, cells in rows
        for size, (share, _) in cells.items()
    )
    return f"The furthest away is {name} with {share:+.1f} % at {_size(group, size)}."


def _percent(cell: tuple[float, float] | None) -> str:
    return "" if cell is None else f"{cell[0]:+.0f}" if abs(cell[0]) >= 0.5 else "0"


def _rank_words(cell: tuple[float, float] | None) -> str:
    return "" if cell is None else f"{cell[0]:+.2f} %, {format_time_us(cell[1])} µs"


def collective_sections(runs: Sequence[NamedRun]) -> list[Section]:
    """Returns a section for each operation, with the curves of all runs, and of each soak."""
    soaks = []
    for number, run in enumerate(runs):
        ends = (f"-{number}", f" ({run.name})") if len(runs) > 1 else ("", "")
        if (section := over_time(run, *ends)) is not None:
            soaks.append(section)
    runs, firsts = with_repeats(runs)
    groups = groups_of(runs, firsts)
    sections = []
    for group, title in zip(groups, group_titles(groups), strict=True):
        charts = collective_charts(group, title, runs)
        if charts:
            curves = group.curves.values()
            of_cases = [ones for curve in curves for ones in curve.values()]
            is_staged = any(map(staged_mark, chain.from_iterable(of_cases)))
            words = [f"In place, {STAGED_NOTE}."] if is_staged else []
            if any(len(ones) > 1 for ones in of_cases):
                words.append(f"Points are medians of all {_repeated_words(of_cases)}.")
            words += _mixed([runs[number].journal.header for number, *_ in group.curves])
            sections.append(Section(group.key.translate(_SLUG), title, words, charts))
    return [*soaks, *sections]


def _repeated_words(cases: Iterable[Sequence[CaseResult]]) -> str:
    """What the results of a case differ in."""
    return "cycles" if any(one.cycle for results in cases for one in results) else "repeats"


_SLUG = str.maketrans({" ": "-", ".": "-"})


def _mixed(headers: Iterable[Header]) -> list[str]:
    """Returns the definitions of the curves' times if there are several."""
    definitions = definitions_of(headers)
    if len(definitions) < 2:
        return []
    return [
        "The curves have different definitions of a time: compare only curves of one definition.",
        *(f"{line}." for line in definition_lines(definitions)),
    ]
