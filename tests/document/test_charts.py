"""Charts hold what the journal says, as pictures and as lines of a terminal too."""

import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from cclmark.base.errors import MissingError
from cclmark.document import chart_model
from cclmark.document.chart_model import Chart, ChartCurve, Heat, Lines, spread_limits
from cclmark.document.document_text import document_of
from cclmark.document.grid import (
    curves,
    grid_lines,
    heat_lines,
    hidden_line,
)
from cclmark.document.naming import NamedRun, groups_of
from cclmark.document.paint import unpainted
from cclmark.kinds.collective.charts import collective_charts
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.report import pictures
from cclmark.report.pictures import picture
from goldens import require_stated
from places import H200X4

COLLECTIVES = read_journal(H200X4 / "report" / "collectives.jsonl")
COPIES = read_journal(H200X4 / "report" / "p2p.jsonl")
RUNS = [NamedRun("run", COLLECTIVES)]
BANDWIDTH, TIME, SPREAD, RANKS = collective_charts(groups_of(RUNS)[0], "all_reduce", RUNS)
SVG = "{http://www.w3.org/2000/svg}"


def first_heat(journal):
    document = document_of(report_kind(journal.kind).document, NamedRun("run", journal))
    return next(one for one in document.blocks if isinstance(one, Heat))


def lines(*curves, **options):
    return Lines("key", "Title", "It is about.", "message size", "GB/s", curves, **options)


def texts_of(svg):
    """The root of a drawing, and all texts in it."""
    root = ET.fromstring(svg)
    return root, ["".join(one.itertext()).strip() for one in root.iter(f"{SVG}text")]


EVERY_KIND: dict[str, Chart] = {
    "lines": BANDWIDTH,
    "logarithmic lines": TIME,
    "boxes": SPREAD,
    "centred heat": RANKS,
    "heat": first_heat(COPIES),
    "heat without values": replace(
        RANKS, values=[[None]], rows=["a"], columns=["b"], texts=[["-"]]
    ),
    "hostile": Lines(
        "k", "$\\frac<b>$ _x", "", "a & b", "$y$", [ChartCurve("</svg><script>", [8, 16], [1, 2])]
    ),
}


@pytest.mark.parametrize("name", EVERY_KIND)
def test_pictures_are_pictures(name):
    pytest.importorskip("matplotlib")
    chart = EVERY_KIND[name]
    png, svg = picture(chart, "png"), picture(chart, "svg")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) > 5000
    root, texts = texts_of(svg)
    assert chart.title in texts
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_no_two_of_many_curves_look_alike_and_equal_values_are_not_at_the_upper_end():
    figure = pytest.importorskip("matplotlib.figure").Figure
    series = [
        ChartCurve(f"{number} {dashed}", [8, 16], [613.7] * 2, colour=number, dashed=dashed)
        for number in range(96)
        for dashed in (False, True)
    ]
    faint = [ChartCurve(f"{one}", [8, 16], [613.7] * 2, colour=one, faint=True) for one in (0, 1)]
    axes = figure().subplots()
    pictures.draw_lines(axes, lines(*series, *faint))
    looks = {
        (one.get_color(), str(one._dash_pattern), one.get_marker(), one.get_markerfacecolor())
        for one in axes.lines
    }
    assert len(looks) == len(series) + 2
    low, high = axes.get_ylim()
    assert low == 0
    assert 630 < high < 700


def test_a_missing_matplotlib_is_reported_with_the_extra_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingError, match=r"pip install 'cclmark\[pictures\]'"):
        picture(lines(), "svg")


# Matrices and curves as lines of a terminal.


def grid(rows, columns, cells, width=80):
    return grid_lines(rows, columns, cells, paint=unpainted, width=width)


def heat(title, values, **options):
    names = [f"D{number}" for number in range(len(values))]
    texts = [["" if value is None else f"{value:g}" for value in row] for row in values]
    given = {"rows": names, "columns": names[: len(values[0])], "hover": texts, **options}
    return Heat(title, title, "Says.", "to", "GB/s", values=values, texts=texts, **given)


NINE = [[float(3 * row + column) for column in range(3)] for row in range(3)]
TWO_MAPS = [heat(f"all: {name}", [[1.0]], group="all") for name in ("first", "second")]
BESIDE = max(map(len, heat_lines(TWO_MAPS, unpainted, 200, 9)))
#: Maps, the width, and the most devices.
MAPS = {
    "side by side": (TWO_MAPS, BESIDE, 9),
    "a column less": (TWO_MAPS, BESIDE - 1, 9),
    "group of one": ([heat("all: one", [[1.0]], group="all")], 80, 9),
    "two of three devices": ([heat("m", NINE, of_devices=True)], 80, 2),
    "two of three devices, other rows": ([heat("m", NINE, of_devices=True, rows="abc")], 80, 2),
    "of three others": ([heat("m", NINE)], 80, 2),
}


def series(*curves, **options):
    return Lines("k", "Title", "Says.", "size", "GB/s", curves, **options)


def points(number, *values):
    return [dict(enumerate(values or (1.0, 2.0), 1)) for _ in range(number)]


#: Curves, and the width.
CURVES = {
    "rising": ([{1: 1.0, 2: 10.0, 3: 100.0}, {2: 10.0}], 80),
    "one place": (points(1, 1.0), 80),
    "zeros": (points(1, 0.0, 0.0), 80),
    "one zero": (points(1, 0.0, 1.0), 80),
    "whole numbers": (points(1, 1000.0, 1000.0), 80),
    "three digits": (points(1, 999.0, 999.0), 80),
    "small": (points(1, 0.0012345, 0.0012345), 80),
    "four alike": (points(4), 20),
    "three alike": (points(3), 20),
}


def test_matrices_and_curves_as_lines():
    """Maps stand side by side where they fit, and devices beyond a limit are left out."""
    found = {
        "matrix": grid(["a", "name"], ["x", "y"], [["1", "2"], ["3", ""]]),
        "long name": grid(["a"], ["a long name!"], [["1"]]),
        "no columns": grid(["longer name"], [], [[]]),
        **{f"{number} devices": hidden_line(number, 8, unpainted) for number in (8, 9, 10)},
    }
    for name, (maps, width, most) in MAPS.items():
        found[f"map: {name}"] = heat_lines(maps, unpainted, width, most)
    names = {place: str(place) for place in (1, 2, 3)}
    for name, (own, width) in CURVES.items():
        used = {place: names[place] for one in own for place in one}
        found[f"curves: {name}"] = curves(own, used, width)
    require_stated("words/grid.txt", found)


def box(low, high):
    return (low, 0.0, 0.0, 0.0, high)


def test_an_outlier_beyond_the_axis_is_named():
    boxes = [box(-1.0, 2.0)] * 20
    far = [box(-1.0, 500.0), box(-90.0, 2.0)]
    assert spread_limits(boxes) is None
    low, high = spread_limits([*boxes, *far])
    assert (low, high) == pytest.approx((-1 - 0.05 * 3, 2 + 0.05 * 3))
    # Many that reach far are no outliers, and neither are small deviations.
    assert spread_limits([*boxes, *far * 5]) is None
    assert spread_limits([box(-0.1, 0.1)] * 20 + [box(-0.1, 10.0)]) is None
    assert spread_limits([box(-0.1, 0.1)] * 20 + [box(-0.1, 10.1)]) is not None
    named = [(box(low, high), "edge"), *zip(far, ("far", "low"), strict=True)]
    (text,) = chart_model.beyond(named, (low, high))
    assert text.startswith(f"the axis ends at {low:+.1f} and {high:+.1f} %")
    assert text.endswith("reach to +500 % (far), -90 % (low)")


def test_keys_are_unique_file_names():
    taken = set()
    keys = [chart_model.key_of(" All reduce: µs! ", taken) for _ in range(3)]
    assert keys == ["all-reduce-s", "all-reduce-s-2", "all-reduce-s-3"]
    assert len(chart_model.key_of("a" * 300, taken)) == 100
    keys = [chart_model.key_of(name, taken) for name in ("a/b" * 100, "a?b" * 100, "../x")]
    assert len({*keys}) == 3
    assert all(len(key) <= 110 and "/" not in key and ".." not in key for key in keys)
    assert [one.key for one in chart_model.marked([series(), series()], "-2")] == ["k-2", "k-2"]
