"""Soaks over time: cases, clocks and temperatures on one axis, and when heat limits a clock."""

import dataclasses

import pytest
from msgspec.structs import replace

from cclmark.document.naming import NamedRun
from cclmark.journal.schema import Condition
from cclmark.kinds.collective.over_time import over_time
from reports import COLLECTIVES

FIRST = COLLECTIVES.results[0]


def soak(cycles, **condition):
    results, conditions = [], []
    for cycle in range(cycles):
        at_s = 1e9 + 60.0 * cycle
        summary = replace(FIRST.summary, time_s=1e-5 * (1 + cycle % 2))
        results.append(replace(FIRST, cycle=cycle, started_at_s=at_s, summary=summary))
        for rank in (0, 1):
            own = {"clock_hz": 1.9e9, "temperature_c": 50.0 + cycle, **condition}
            conditions.append(Condition(rank, 0, cycle, at_s + 1, **own))
    return NamedRun(
        "soak", dataclasses.replace(COLLECTIVES, results=results, conditions=conditions)
    )


def test_cases_clocks_and_temperatures_have_one_time_axis():
    section = over_time(soak(30))
    assert [one.key for one in section.charts] == [
        *("over-time-cases", "over-time-clocks", "over-time-temperatures"),
    ]
    assert {one.x_title for one in section.charts} == {"time since the start [min]"}
    cases, clocks, temperatures = section.charts
    assert [one.name for one in clocks.series] == ["DEV0", "DEV1"]
    assert clocks.series[0].y[0] == 1900
    assert temperatures.series[0].y[-1] == 79
    assert set(cases.series[0].y) == {1 / 1.5, 2 / 1.5}
    assert max(cases.series[0].x) == pytest.approx(29, abs=0.2)
    assert cases.marks == []


@pytest.mark.parametrize("of", [{"reasons": ["thermal slowdown"]}, {"reasons": ["power cap"]}])
def test_the_moment_is_marked_when_heat_limits_a_clock(of):
    marks = over_time(soak(10, **of)).charts[0].marks
    is_hot = of["reasons"] == ["thermal slowdown"]
    assert [one.name for one in marks] == (["DEV0: throttled", "DEV1: throttled"] * is_hot)


def test_a_count_that_rises_is_heat_too():
    run = soak(10)
    for number, one in enumerate(run.journal.conditions):
        one.throttle_count = 7 + (number >= 10) * (one.rank == 1)
    (mark,) = over_time(run).charts[0].marks
    assert mark.name == "DEV1: throttled"
    assert mark.x == pytest.approx(5, abs=0.1)


def test_few_cycles_have_no_course():
    assert over_time(soak(3)) is None
    assert over_time(NamedRun("run", COLLECTIVES)) is None


def test_among_several_runs_keys_and_titles_differ():
    section = over_time(soak(10), "-1", " (night)")
    assert (section.key, section.title) == ("over-time-1", "Over time (night)")
    assert {one.key[-2:] for one in section.charts} == {"-1"}
