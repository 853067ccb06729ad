"""The page of changes over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from cclmark.analysis.change import Change
from cclmark.document.text import format_time_us
from cclmark.history.history_model import StoredRun
from cclmark.history.lists import (
    MOST_LINES,
    SHORT_ID,
    Trends,
    TrendStep,
    context_of,
    course_of,
    in_order,
    mark_of,
    started_of,
    tally_of,
    title_of,
    trends_of,
    verdict_of,
)
from cclmark.history.store import History
from cclmark.history.trend import Trend
from cclmark.printable import plain
from cclmark.serve.pages import html
from cclmark.serve.parameters import address, filter_by

PageLink = tuple[str, str]  # a text and where it leads


@dataclass(frozen=True)
class Changed:
    """A case that changed: its times before and after, and the ratio with its interval."""

    case: str
    size: str
    before_us: str
    after_us: str
    ratio: str
    interval: str
    verdict: str


@dataclass(frozen=True)
class TrendChange:
    """Two runs between which cases changed, ordered by ratio, the furthest from 1 first."""

    before: PageLink
    after: PageLink
    comparison: str
    differences: Sequence[str]
    changed: Sequence[Changed]


@dataclass(frozen=True)
class TrendRow:
    """A series: its newest times as blocks, and its changes, each with the run where it began."""

    size: str
    flows: str
    runs: int
    first_us: str
    last_us: str
    course: str
    changes: Sequence[tuple[str, str, PageLink]]


@dataclass(frozen=True)
class Block:
    """The series of one operation on one machine."""

    machine: str
    name: str
    rows: Sequence[TrendRow]


def trend_page(history: History, fields: Mapping[str, str], everything: bool) -> str:
    """Renders the changes first, then the series. Raises RefusalError, MissingError."""
    which = filter_by(fields)
    found = trends_of(*history.series(which), history.headers)
    shown = list(found.trends)
    if len(shown) > MOST_LINES and not everything:
        shown = [trend for trend in shown if trend.changes]
    return html(
        "trend",
        title="Trend",
        here="/trend",
        place=plain(history.name),
        fields=fields,
        choices=history.choices(),
        told=title_of(found),
        tally=tally_of(found),
        places=[_place(step) for step in reversed(found.steps)],
        blocks=_blocks(shown, found),
        hidden=len(found.trends) - len(shown),
        all=address("/trend", *fields.items(), ("all", "1")),
    )


def _place(step: TrendStep) -> TrendChange:
    by_distance = sorted(step.changed, key=lambda one: -abs(math.log(one[1].ratio)))
    return TrendChange(
        before=_link(step.before),
        after=_link(step.after),
        comparison=address("/compare", *(("run", run.run_id) for run in (step.before, step.after))),
        differences=step.differences,
        changed=[_changed(trend, change) for trend, change in by_distance],
    )


def _changed(trend: Trend, change: Change) -> Changed:
    thing = trend.series.thing
    return Changed(
        case=(f"{thing.group_words()} {thing.flow_words()}".rstrip() + mark_of(trend)),
        size=thing.size_words(),
        before_us=format_time_us(change.before_s),
        after_us=format_time_us(change.after_s),
        ratio=f"{change.ratio:.3f}",
        interval=f"{change.low:.3f} - {change.high:.3f}",
        verdict=verdict_of(change),
    )


def _blocks(shown: Sequence[Trend], found: Trends) -> list[Block]:
    def head(trend: Trend) -> tuple[str, str]:
        return context_of(trend), trend.series.thing.group_words()

    return [
        Block(machine, name, [_row(trend, found) for trend in trends])
        for (machine, name), trends in groupby(in_order(shown), key=head)
    ]


def _row(trend: Trend, found: Trends) -> TrendRow:
    thing = trend.series.thing
    return TrendRow(
        size=thing.size_words(),
        flows=thing.flow_words(),
        runs=len(trend.runs),
        first_us=format_time_us(trend.times_s[0]),
        last_us=format_time_us(trend.times_s[-1]),
        course=course_of(trend.times_s),
        changes=[
            (
                verdict_of(change),
                f"{change.ratio:.3f} ({change.low:.3f} - {change.high:.3f})",
                _link(found.runs[trend.ends_of(change)[1]]),
            )
            for change in trend.changes
        ],
    )


def _link(run: StoredRun) -> PageLink:
    text = f"{run.run_id[:SHORT_ID]} ({started_of(run)})"
    return text, address("/run", ("run", run.run_id))
