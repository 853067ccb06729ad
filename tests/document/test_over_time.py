"""Soaks over time: cases, clocks and temperatures on one axis, and when heat limits a clock."""

import dataclasses
import re

import pytest
from msgspec.structs import replace

from cclmark.document.naming import NamedRun
from cclmark.document.page.chart_svg import views_of
from cclmark.journal.schema import Condition
from cclmark.kinds.collective.soak import over_time
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
    (chart,) = section.charts
    cases, clocks, temperatures = chart.parts
    assert chart.x_title == "time since the start [min]"
    assert [one.y_title for one in chart.parts] == [
        *("time / median", "clock [MHz]", "temperature [°C]"),
    ]
    assert [one.name for one in clocks.series] == ["DEV0: clock", "DEV1: clock"]
    assert clocks.series[0].y[0] == 1900
    assert temperatures.series[0].y[-1] == 79
    assert [one.colour for one in clocks.series] == [one.colour for one in temperatures.series]
    assert len({one.colour for one in (*cases.series, *clocks.series)}) == 3
    assert set(cases.series[0].y) == {1 / 1.5, 2 / 1.5}
    assert max(cases.series[0].x) == pytest.approx(29, abs=0.2)
    assert cases.marks == []
    assert chart.spans == []


def test_panels_are_one_drawing_with_one_axis_of_time():
    run = soak(30)
    for number in (20, 21, 40, 41):
        run.journal.conditions[number].reasons = ["thermal slowdown"]
    (chart,) = over_time(run).charts
    (view,) = views_of(chart)
    assert view.svg.count('class="axis"') == 1
    assert view.svg.count("time since the start") == 1
    for title in ("time / median", "clock [MHz]", "temperature [°C]"):
        assert view.svg.count(title) == 1
    begin, height = (
        float(view.svg.split('viewBox="')[1].split('"')[0].split()[at]) for at in (1, 3)
    )
    curves = re.findall(r'class="curve[^>]* d="M[-\d.]+ ([-\d.]+)', view.svg)
    heights = [*map(float, curves)]
    assert len(heights) == len(chart.series)
    assert begin < heights[0] < heights[1] < heights[3] < begin + height
    assert view.svg.count("<rect") == len(chart.spans) == 2
    (rect, _) = re.findall(r'<rect[^>]* y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"', view.svg)
    assert float(rect[2]) > 300
    assert "Shaded" in over_time(run).words[1]


def test_without_readings_of_devices_it_is_a_usual_chart():
    run = soak(30)
    run.journal.conditions.clear()
    (chart,) = over_time(run).charts
    assert len(chart.parts) == 1
    (view,) = views_of(chart)
    assert 'viewBox="0 0 600 300"' in view.svg


@pytest.mark.parametrize("of", [{"reasons": ["thermal slowdown"]}, {"reasons": ["power cap"]}])
def test_the_moment_is_marked_when_heat_limits_a_clock(of):
    (chart,) = over_time(soak(10, **of)).charts
    is_hot = of["reasons"] == ["thermal slowdown"]
    assert [one.name for one in chart.marks] == (["DEV0: throttled", "DEV1: throttled"] * is_hot)
    assert len(chart.spans) == is_hot
    if is_hot:
        ((begin, end),) = chart.spans
        assert (begin, end) == pytest.approx((1 / 60, 9 + 1 / 60))


def test_a_count_that_rises_is_heat_too():
    run = soak(10)
    for number, one in enumerate(run.journal.conditions):
        one.throttle_count = 7 + (number >= 10) * (one.rank == 1)
    (chart,) = over_time(run).charts
    (mark,) = chart.marks
    assert mark.name == "DEV1: throttled"
    ((begin, end),) = chart.spans
    assert (begin, end) == pytest.approx((4, 5), abs=0.1)
    assert mark.x == begin


def test_few_cycles_have_no_course():
    assert over_time(soak(3)) is None
    assert over_time(NamedRun("run", COLLECTIVES)) is None


def test_among_several_runs_keys_and_titles_differ():
    section = over_time(soak(10), "-1", " (night)")
    assert (section.key, section.title) == ("over-time-1", "Over time (night)")
    assert {one.key[-2:] for one in section.charts} == {"-1"}
