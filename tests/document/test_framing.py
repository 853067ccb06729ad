"""What stands at the top of a page, and maps that become sentences or switch their unit."""

from dataclasses import replace

import pytest

from cclmark.document.blocks import Finding, Gain
from cclmark.document.chart_model import ChartCurve, Heat, Lines
from cclmark.document.page.page import Frame, Insights, render, uniform_words
from cclmark.document.page.page_model import Page, Rows, Section
from reports import page_data


def heat(values, key="k", title="Bandwidth [GB/s]", unit="GB/s", **properties):
    names = [f"DEV{number}" for number in range(len(values))]
    columns = [f"DEV{number}" for number in range(len(values[0]))]
    texts = [["x" if one is None else str(one) for one in row] for row in values]
    return Heat(key, title, "", "", unit, names, columns, values, texts, texts, **properties)


ALIKE = [[None, 396.02], [395.1, None]]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (heat(ALIKE), "Bandwidth: 395 to 396 GB/s in all 2 cells"),
        (heat([[None, 396.02], [396.1, None]]), "Bandwidth: 396 GB/s in all 2 cells"),
        (heat([[None, 25.31]]), "Bandwidth: 25.3 GB/s (DEV0, DEV1)"),
        (heat([[0.0, -0.4]], unit="%", title="Ranks", centred=True), "Ranks: all within ±0.4 %"),
        (heat([[0.0, -9.0]], unit="%", title="Ranks", centred=True), ""),
        (heat([[396.0, 200.0]]), ""),
        (heat([[None, None]]), ""),
        (heat(ALIKE, wrong=[(0, 0)]), ""),
        (replace(heat(ALIKE), texts=[["x", "▼ 396"], ["395", "x"]]), ""),
    ],
)
def test_a_map_of_values_that_are_alike_is_a_sentence(one, words):
    assert uniform_words(one) == words


def page(*charts, **properties):
    sections = [Section("s", "S", charts=charts), Section("t", "T", tables=[])]
    return Page("t", "s", [], [], sections, Rows([], []), **properties)


CURVE = Lines("c", "C", "", "x", "y", [ChartCurve("a", [8, 16], [1.0, 2.0])])
TWIN = heat([[None, 50.0], [44.0, None]], "twin", "Share [%]", "%", twin_of="k")


def test_the_first_curves_are_at_the_top_and_a_map_without_any():
    different = heat([[1.0, 2.0]])
    frame = Frame.of(page(different, CURVE))
    assert [*frame.overview] == [CURVE]
    assert [*frame.sections[0].charts] == [different]
    assert [*Frame.of(page(different)).overview] == [different]
    assert [*Frame.of(page(heat(ALIKE))).overview] == []
    lesser = heat([[1.0, 2.0]], "lesser")
    assert [*Frame.of(page(heat(ALIKE), lesser)).overview] == []
    assert [*Frame.of(page(heat(ALIKE), lesser, CURVE)).overview] == [CURVE]
    given = Frame.of(page(different, overview=[CURVE]))
    assert ([*given.overview], [*given.sections[0].charts]) == ([CURVE], [different])


def test_twins_are_one_chart_with_a_switch_or_one_sentence():
    different = heat([[None, 225.0], [200.0, None]])
    html = render(page(different, TWIN))
    assert html.count("<figure") == 1
    (views,) = page_data(html)["views"].values()
    assert [(name, key) for name, _, key in views] == [("GB/s", "k"), ("%", "twin")]
    assert "50" in views[1][1]
    alike = heat([[88.0, 88.1]], "twin", "Share [%]", "%", twin_of="k")
    (first, _) = Frame.of(page(heat(ALIKE), alike)).sections
    assert first.charts == []
    assert first.alike == [
        "Bandwidth: 395 to 396 GB/s in all 2 cells; 88 to 88.1 % of the link limit."
    ]


def finding(severity, name, gain=None):
    return Finding("id", severity, name, gain=gain)


def test_three_findings_are_at_the_top_the_most_severe_and_those_with_a_gain_first():
    own = [
        *(finding("look", "a"), finding("good", "g"), finding("unknown", "u")),
        *(finding("look", "b", Gain(1.2, "times as fast")), finding("note", "n")),
    ]
    groups = [("", own), ("run", [finding("bad", "c")])]
    found = Insights.of(groups)
    assert [(name, one.sentence) for name, one in found.first] == [
        ("run", "c"),
        ("", "b"),
        ("", "a"),
    ]
    assert [one.sentence for _, own in found.more for one in own] == ["u"]
    assert [one.sentence for _, own in found.passed for one in own] == ["g"]
    assert Insights.count(found.notes) == 1


def test_only_complete_commands_are_to_copy():
    one = Finding("id", "look", "s", advice="Use `cclmark compare`, then `cclmark p2p -n 3`.")
    assert Insights.command(one) == "cclmark p2p -n 3"
    assert Insights.command(finding("look", "s")) == ""
