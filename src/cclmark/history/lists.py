"""The changes of each case over the runs of a history; runs and times as tables, JSON and CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from cclmark.analysis.change import LEAST_POINTS, THRESHOLD, Change, changes
from cclmark.analysis.ratio import RunMedian
from cclmark.analysis.run_noise import LAUNCHES, RunNoise, run_noise
from cclmark.base.statistics import NORMAL_975, median
from cclmark.document.blocks import (
    Document,
    Evidence,
    Finding,
    Severity,
    Table,
    TableColumn,
    table_of,
    without_empty_columns,
)
from cclmark.document.columns import csv_line
from cclmark.document.document_text import table_lines
from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import counted, format_time_us
from cclmark.history.history_model import Figure, SeriesKind, StoredRun, StoredSeries
from cclmark.journal.item_results import AUTO, THROUGHPUT
from cclmark.journal.resume import differing_settings
from cclmark.journal.schema import Header
from cclmark.journal.surroundings import surroundings_changed

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
    """Each series with its changes of at least ``threshold``. Cycles share a process: one run."""
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


_KINDS: dict[SeriesKind, str] = {
    "time": "",
    "device": " · device time, of cases that launches set",
    "calls": " · cost of a call, set by launches",
}
_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST_BLOCKS = 32
_LEAST_SPAN = math.log(1.1)  # of a logarithm: smaller differences are drawn as such
_USUAL_METHODS = (AUTO, THROUGHPUT)  # the defaults on accelerators and on the host
_OF_RUN = ("run_id", "started_at", "hostname", "devices", "libraries", "driver", "command")
MOST_LINES = 60  # series in a table without a request for all


@dataclass(frozen=True)
class TrendStep:
    """The changes between two runs, and the other differences between these runs."""

    before: StoredRun
    after: StoredRun
    changed: Sequence[tuple[Trend, Change]]
    differences: Sequence[str]

    @property
    def largest_first(self) -> list[tuple[Trend, Change]]:
        """The changes in the order of their size."""
        return sorted(self.changed, key=lambda one: -abs(math.log(one[1].ratio)))


@dataclass(frozen=True)
class Trends:
    """All series, their runs by number, and their changes by the runs before and after.

    ``threshold``: the smallest reported change, as a share.
    """

    trends: Sequence[Trend]
    runs: Mapping[int, StoredRun]
    steps: Sequence[TrendStep]
    threshold: float = THRESHOLD


def trend_document(found: Trends, *, everything: bool = True) -> Document:
    """Composes the series (only changed ones if series are many), and the changes between runs."""
    shown = list(found.trends)
    if len(shown) > MOST_LINES and not everything:
        shown = [trend for trend in shown if trend.changes]
    hidden = len(found.trends) - len(shown)
    rest = f"{hidden} series without a change are not shown: --all shows them"
    return Document(
        title_of(found),
        "",
        blocks=[*_tables(shown, found.steps)],
        findings=[one for step in found.steps for one in _of_step(step)],
        notes=[rest] if hidden else [],
        outcome=tally_of(found),
    )


def _look_of(change: Change) -> Severity:
    return "bad" if change.ratio > 1 else "good"


_OF_SERIES = (
    TableColumn("size", lambda trend: trend.series.thing.size_words(), ">"),
    TableColumn("between", lambda trend: trend.series.thing.flow_words()),
    TableColumn("runs", lambda trend: str(len(trend.runs)), ">"),
    TableColumn("first µs", lambda trend: format_time_us(trend.times_s[0]), ">"),
    TableColumn("last µs", lambda trend: format_time_us(trend.times_s[-1]), ">"),
    TableColumn(
        "course",
        lambda trend: course_of(trend.times_s),
        look=lambda trend: _look_of(trend.changes[-1]) if trend.changes else "",
    ),
)
_OF_CHANGE = (
    TableColumn("case", lambda one: case_of(one[0])),
    TableColumn("size", lambda one: one[0].series.thing.size_words(), ">"),
    TableColumn("before µs", lambda one: format_time_us(one[1].before_s), ">"),
    TableColumn("after µs", lambda one: format_time_us(one[1].after_s), ">"),
    TableColumn("after / before", lambda one: f"{one[1].ratio:.3f}", ">"),
    TableColumn("95 % interval", lambda one: interval_of(one[1])),
    TableColumn("verdict", lambda one: verdict_of(one[1]), look=lambda one: _look_of(one[1])),
)


def _tables(shown: Sequence[Trend], steps: Sequence[TrendStep]) -> Iterator[Table]:
    """The series of each operation and machine, then the changes between runs."""
    for (context, name), own in groupby(in_order(shown), heading_of):
        yield table_of(f"{name} on {context}", _OF_SERIES, [*own], is_detail=True)
    for step in steps:
        yield table_of(_between(step), _OF_CHANGE, step.largest_first)


def _of_step(step: TrendStep) -> Iterator[Finding]:
    """The largest changes between two runs, and the other differences between these runs."""
    where = _between(step)
    kinds: tuple[tuple[str, Severity], ...] = (("slower", "look"), ("faster", "good"))
    for word, severity in kinds:
        if found := [one for one in step.largest_first if verdict_of(one[1]) == word]:
            trend, change = found[0]
            thing = trend.series.thing
            most = f"{thing.group_words()}, {thing.size_words()}{mark_of(trend)}"
            text = f"{len(found)} {word}, most of all {most}: {change.ratio:.3f} times as long"
            evidence = (Evidence.of("ratio", change.ratio, most, 1),)
            yield Finding(word, severity, text, subject=where, evidence=evidence)
    for text in step.differences or ("nothing that the journals record",):
        yield Finding("differences", "note", f"differs: {text}", subject=where)


def trend_json(found: Trends) -> str:
    """Returns all series with all times in seconds, the changes and the runs."""
    document = {
        "threshold": found.threshold,
        "runs": [{name: getattr(run, name) for name in _OF_RUN} for run in found.runs.values()],
        "series": [_object(trend, found.runs) for trend in found.trends],
        "steps": [
            {
                "before": step.before.run_id,
                "after": step.after.run_id,
                "differences": list(step.differences),
                "changes": len(step.changed),
            }
            for step in found.steps
        ],
    }
    return json.dumps(document, ensure_ascii=True) + "\n"


_FIGURES: dict[SeriesKind, str] = {"time": "time", "device": "device", "calls": "call"}


def _object(trend: Trend, runs: Mapping[int, StoredRun]) -> dict[str, object]:
    series = trend.series
    changed = []
    for change in trend.changes:
        before, after = trend.ends_of(change)
        changed.append(
            {
                "verdict": verdict_of(change),
                "before": runs[before].run_id,
                "after": runs[after].run_id,
                "ratio": change.ratio,
                "low": change.low,
                "high": change.high,
                "chance": change.chance,
            }
        )
    return {
        "what": series.thing.describe(),
        "ccl": series.thing.ccl or None,
        "size_bytes": series.thing.size_bytes,
        "machine": series.machine,
        "method": series.method,
        "clock": series.clock,
        "figure": _FIGURES[series.kind],
        "runs": [runs[number].run_id for number in trend.runs],
        "times_s": list(trend.times_s),
        "changes": changed,
    }


def title_of(found: Trends) -> str:
    """Returns the number of runs, their dates, and the number of machines."""
    runs = list(found.runs.values())
    if not runs:
        return "no runs"
    when = f"from {started_of(runs[0])} to {started_of(runs[-1])}"
    if len(runs) == 1:
        when = f"of {started_of(runs[0])}"
    machines = len({trend.series.machine for trend in found.trends})
    return (
        f"{counted(len(runs), 'run')} {when}, {len(found.trends)} series on "
        f"{counted(machines, 'machine')}"
    )


def tally_of(found: Trends) -> str:
    """Counts the series that changed by the threshold or more, and those with too few runs."""
    short = sum(len(trend.runs) < LEAST_POINTS for trend in found.trends)
    slower = sum(change.ratio > 1 for trend in found.trends for change in trend.changes)
    faster = sum(len(trend.changes) for trend in found.trends) - slower
    changed = sum(bool(trend.changes) for trend in found.trends)
    by = f"by {found.threshold * 100:.3g} % or more"
    text = f"{changed} of {len(found.trends)} series changed {by}: {slower} slower, {faster} faster"
    if not changed:
        text = f"no change in {len(found.trends) - short} series {by}"
    if short:
        few = f"{short} not judged: fewer than {LEAST_POINTS} runs are too few to find a change"
        text = f"{text}; {few}" if short < len(found.trends) else few
    return text


def in_order(shown: Sequence[Trend]) -> list[Trend]:
    """Sorts series by machine, by group and by size."""
    heads: dict[str, int] = {}
    groups: dict[str, int] = {}
    for trend in shown:
        heads.setdefault(context_of(trend), len(heads))
        groups.setdefault(trend.series.thing.group_words(), len(groups))

    def key(trend: Trend) -> tuple[int, int, int]:
        thing = trend.series.thing
        return heads[context_of(trend)], groups[thing.group_words()], thing.size_bytes

    return sorted(shown, key=key)


def context_of(trend: Trend) -> str:
    """Returns the machine, and the method, the clock and the figure if they are not the default."""
    series = trend.series
    method = "" if series.method in _USUAL_METHODS else f" · {series.method}"
    clock = "" if series.clock in ("device", "") else f" · {series.clock} clock"
    return f"{series.machine}{method}{clock}{_KINDS[series.kind]}"


def heading_of(trend: Trend) -> tuple[str, str]:
    """Returns what the series of a table share: the machine and method, and the operation."""
    return context_of(trend), trend.series.thing.group_words()


def mark_of(trend: Trend) -> str:
    """Returns which figure a series has, for a separate line; empty for the default figure."""
    return {"time": "", "device": " (device time)", "calls": " (cost of a call)"}[trend.series.kind]


def course_of(times_s: Sequence[float]) -> str:
    """Draws the newest times as a line of blocks, on a logarithmic scale."""
    logs = [math.log(time_s) for time_s in times_s[-_MOST_BLOCKS:]]
    middle = (min(logs) + max(logs)) / 2
    span = max(max(logs) - min(logs), _LEAST_SPAN)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(((log - middle) / span + 0.5) * steps)] for log in logs)


def _between(step: TrendStep) -> str:
    return f"between runs {name_of(step.before)} and {name_of(step.after)}"


def name_of(run: StoredRun) -> str:
    """Returns the first characters of a run's id, and its start."""
    return f"{run.run_id[:SHORT_ID]} ({started_of(run)})"


def case_of(trend: Trend) -> str:
    """Returns the case of a series without its size, and which figure the series has."""
    thing = trend.series.thing
    return f"{thing.group_words()} {thing.flow_words()}".rstrip() + mark_of(trend)


def interval_of(change: Change) -> str:
    """Returns the ends of the interval of a ratio."""
    return f"{change.low:.3f} - {change.high:.3f}"


def verdict_of(change: Change) -> str:
    """Returns ``slower`` or ``faster``."""
    return "slower" if change.ratio > 1 else "faster"


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


SHORT_ID = 12  # characters of a run's id in tables; commands accept any prefix
_HEADS = ("run", "started (UTC)", "machine", "measured", "cases", "code", "labels")
_MOST_MEASURED = 3  # operations of a run listed by name
_COLUMNS = (
    *("run_id", "started_at", "hostname", "devices", "operations", "ccls", "libraries", "driver"),
    *("cclmark_version", "cases", "not_ok", "damaged_lines", "exit_code", "labels", "method"),
    *("command", "source", "added_at", "continues"),
)


def runs_table(
    runs: Sequence[StoredRun], total: int, paint: Paint = unpainted, width: int | None = None
) -> str:
    """Returns a row for each run, and the number of runs that are not shown.

    An exit code of 0 has no text. ``width``: of a line at most, None for any.
    """
    if not runs:
        return "no runs\n"
    failed = [at for at, run in enumerate(runs) if run.exit_code == 1 or run.not_ok]
    # Times have the side of numbers, because narrow texts wrap the others.
    table = Table("", _HEADS, [*map(_cells, runs)], "<><<>><", wrong=failed)
    heads, rows = table_lines(without_empty_columns(table), paint, width)
    lines = [*(paint(head, "dim") for head in heads), *rows]
    if total > len(runs):
        lines += ["", f"{len(runs)} of {total} runs; --limit N shows more, --limit 0 all"]
    return "\n".join(lines) + "\n"


def runs_json(runs: Sequence[StoredRun], total: int) -> str:
    """Returns all fields of each run, and the total number of runs."""
    found = {"total": total, "runs": [run_object(run) for run in runs]}
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"


def run_object(run: StoredRun) -> dict[str, object]:
    """Returns a run's fields for JSON and CSV."""
    values = asdict(run)
    return {name: values[name] for name in (*_COLUMNS, "machine")}


def runs_csv(runs: Sequence[StoredRun]) -> str:
    """Returns a line for each run; several values in a cell are separated by commas."""
    lines = [csv_line(_COLUMNS)]
    for run in runs:
        values = run_object(run)
        lines.append(csv_line([_cell(values[name]) for name in _COLUMNS]))
    return "".join(lines)


def run_facts(run: StoredRun) -> list[tuple[str, str]]:
    """Returns what the history knows of a run besides its figures."""
    end = "journal without an end" if run.exit_code is None else f"exit code {run.exit_code}"
    damaged = f"{counted(run.damaged_lines, 'line')} of the journal, left out"
    return [
        ("run", run.run_id),
        ("labels", ", ".join(run.labels) or "none"),
        ("started", run.started_at),
        ("ended", end),
        ("command", run.command),
        ("journal", run.source),
        ("added", run.added_at),
        *([("continues", run.continues)] if run.continues else []),
        *([("damaged", damaged)] if run.damaged_lines else []),
    ]


def started_of(run: StoredRun) -> str:
    """Returns the start of the run, to the second."""
    return run.started_at[:19].replace("T", " ")


def _cells(run: StoredRun) -> list[str]:
    machine = ", ".join(filter(None, (run.hostname, run.devices)))
    code = "-" if run.exit_code is None else str(run.exit_code or "")
    cells = [run.run_id[:SHORT_ID], started_of(run), machine, measured_by(run), str(run.cases)]
    return [*cells, code, ", ".join(run.labels)]


def measured_by(run: StoredRun) -> str:
    """Returns the first operations of a run, and its libraries."""
    more = ", …" if len(run.operations) > _MOST_MEASURED else ""
    return f"{', '.join(run.operations[:_MOST_MEASURED])}{more} · {', '.join(run.ccls)}"


def _cell(value: object) -> str | int | None:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if isinstance(value, int) or value is None else str(value)
