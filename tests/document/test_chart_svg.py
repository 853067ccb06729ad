"""Drawings of charts on a page: what is where, and that no text becomes markup."""

import re
import xml.etree.ElementTree as ET
from itertools import accumulate, pairwise

import pytest

from cclmark.document.chart_model import Boxes, BoxSeries, ChartCurve, Heat, Level, Lines, Mark
from cclmark.document.page.chart_svg import legend_of, look_of, markers_of, views_of

SIZES = [float(8 << 2 * number) for number in range(8)]


def lines(*curves, **properties):
    return Lines("key", "Title", "It says.", "message size", "GB/s", curves, **properties)


def drawn(chart, number=0):
    return ET.fromstring(views_of(chart)[number].svg)


def of_class(tree, name):
    return [one for one in tree.iter() if name in one.get("class", "").split()]


def points(path):
    """The places of a path, each of whose parts is a place and the distances from it."""
    found = []
    for part in path.get("d").replace("h0", "").split("M")[1:]:
        numbers = [float(one) for one in re.findall(r"-?[\d.]+", part)]
        steps = zip(numbers[::2], numbers[1::2], strict=False)
        found += accumulate(steps, lambda at, by: (at[0] + by[0], at[1] + by[1]))
    return found


def texts(tree, name):
    return ["".join(one.itertext()) for one in of_class(tree, name)]


def test_a_curve_has_a_point_for_each_figure():
    chart = lines(ChartCurve("a", SIZES, [10.0 + at for at in range(8)]))
    (curve,) = of_class(drawn(chart), "curve")
    found = points(curve)
    assert len(found) == 8
    assert [x for x, _ in found] == sorted(x for x, _ in found)
    assert [y for _, y in found] == sorted((y for _, y in found), reverse=True)
    gaps = {round(b[0] - a[0]) for a, b in pairwise(found)}
    assert max(gaps) - min(gaps) <= 1  # sizes are on a logarithmic axis


@pytest.mark.parametrize(
    ("values", "is_log"),
    [
        ([10.0 + at for at in range(8)], False),
        ([0.001, 0.01, 0.1, 0.2, 1.0, 20.0, 300.0, 340.0], True),
        ([0.0, 0.01, 0.1, 0.2, 1.0, 20.0, 300.0, 340.0], None),
        ([-1.0, 0.01, 0.1, 0.2, 1.0, 20.0, 300.0, 340.0], None),
    ],
)
def test_an_axis_on_which_half_of_the_points_were_at_zero_is_logarithmic(values, is_log):
    """None: zeros and negative values have no place on one."""
    names = [one.name for one in views_of(lines(ChartCurve("a", SIZES, values)))]
    both = ["Linear axis", "Logarithmic axis"]
    assert names == (both[::-1] if is_log else both if is_log is False else both[:1])


def test_values_that_are_no_numbers_interrupt_a_curve():
    nan, inf = float("nan"), float("inf")
    chart = lines(ChartCurve("a", SIZES, [1.0, nan, 2.0, 3.0, inf, 4.0, 5.0, 6.0]))
    (curve,) = of_class(drawn(chart), "curve")
    assert curve.get("d").count("M") == 3
    assert "h0" in curve.get("d").split("M")[1]
    assert len(points(curve)) == 6


def test_a_chart_without_values_is_not_blank():
    assert "No values" in views_of(lines())[0].svg
    assert "No values" in views_of(lines(ChartCurve("a", [8.0], [float("nan")])))[0].svg
    assert "No samples" in views_of(Boxes("k", "T", "", "", "%", ["8 B"], []))[0].svg
    assert "No values" in views_of(Heat("k", "T", "", "", "", [], [], [], [], []))[0].svg


def test_a_band_is_an_area_and_a_bar_where_neighbours_have_none():
    gaps = [1.0, None, 1.0, None, 1.0, 1.0]
    curve = ChartCurve("a", SIZES[:6], [2.0] * 6, gaps, [3.0 if one else None for one in gaps])
    tree = drawn(lines(curve))
    (area,), (bars,) = of_class(tree, "band"), of_class(tree, "bar")
    assert len(points(area)) == 4
    assert bars.get("d").count("M") == 2


def test_levels_and_marks_are_named_and_far_levels_do_not_flatten_the_curves():
    curve = ChartCurve("a", SIZES, [10.0] * 8)
    chart = lines(
        curve, levels=[Level("limit", 12.0), Level("far", 900.0)], marks=[Mark("LL", SIZES[2])]
    )
    tree = drawn(chart)
    assert texts(tree, "level") == ["", "limit"]
    assert texts(tree, "mark") == ["", "LL"]
    assert points(of_class(tree, "curve")[0])[0][1] < 100


@pytest.mark.parametrize("is_log", [False, True])
def test_names_of_close_levels_are_at_different_ends(is_log):
    chart = lines(
        ChartCurve("a", SIZES, [1.0, *[10.0] * 7]),
        levels=[Level("one", 9.9), Level("other", 10.0)],
        y_log=is_log,
    )
    names = [one for one in of_class(drawn(chart), "level") if one.tag.endswith("text")]
    assert ["end" in one.get("class") for one in names] == [False, True]


def test_no_two_of_many_curves_look_alike():
    curves = [
        ChartCurve("c", [8.0], [1.0], colour=number, dashed=dashed)
        for number in range(96)
        for dashed in (False, True)
    ]
    curves += [ChartCurve("r", [8.0], [1.0], colour=number, faint=True) for number in (0, 1)]
    looks = {(look.colour, look.dash, look.marker) for look in map(look_of, curves)}
    assert len(looks) == len(curves)
    swatches = {swatch for _, swatch in legend_of(lines(*curves))}
    assert len(swatches) == len(curves)
    used = {one.get("marker-mid") for one in of_class(drawn(lines(*curves)), "curve")} - {None}
    assert used == {f"url(#{id})" for id in markers_of([lines(*curves)])}


def test_boxes_beyond_the_limits_end_at_them():
    boxes = [(-60.0, -1.0, 0.0, 1.0, 400.0), None]
    chart = Boxes("k", "T", "", "size", "%", ["8 B", "16 B"], [BoxSeries("a", boxes)], (-5.0, 5.0))
    (whisker,) = of_class(drawn(chart), "whisker")
    ((lowest, *lengths),) = re.findall(r"M\d+ (\d+)v(-\d+)m0(-\d+)v(-\d+)M", whisker.get("d"))
    assert lowest == "254"
    assert 254 + sum(map(int, lengths)) == 26


def heat(values, **properties):
    rows = [f"DEV{row}" for row in range(len(values))]
    columns = [f"DEV{column}" for column in range(len(values[0]))]
    cells = [["x" if one is None else f"{one:.0f}" for one in row] for row in values]
    return Heat("k", "T", "", "to", "GB/s", rows, columns, values, cells, cells, **properties)


def test_a_cell_is_drawn_in_the_colour_of_its_value():
    tree = drawn(heat([[None, 100.0], [200.0, 150.0]]))
    opacities = {one.get("d"): one.get("fill-opacity") for one in of_class(tree, "best")}
    assert opacities["M1 0h1v1h-1z"] == "0"
    assert opacities["M0 1h1v1h-1z"] == "1"
    assert opacities["M1 1h1v1h-1z"] == "0.5"
    assert of_class(tree, "none")[0].get("d") == "M0 0h1v1h-1z"
    assert texts(tree, "v") == ["x100", "200150"]
    assert texts(tree, "strong") == ["200"]
    centred = drawn(heat([[-10.0, 5.0]], centred=True))
    assert of_class(centred, "less")[0].get("fill-opacity") == "1"
    assert of_class(centred, "more")[0].get("fill-opacity") == "0.5"
    assert of_class(drawn(heat([[1.0, 2.0]], higher_is_better=False)), "worst")


def test_a_map_of_very_many_devices_has_no_texts_in_cells_and_few_labels():
    tree = drawn(heat([[float(row + column) for column in range(128)] for row in range(128)]))
    assert not texts(tree, "v")
    assert len(texts(tree, "x")) <= 12
    assert 30 < len(of_class(tree, "y")) < 70
    assert len(views_of(heat([[1.0] * 128] * 128))[0].svg) < 300_000


@pytest.mark.parametrize("text", ["</svg><script>", '"><b>', "a & b"])
def test_texts_are_escaped(text):
    chart = lines(ChartCurve(text, SIZES, [1.0] * 8), levels=[Level(text, 1.0)])
    for svg in (one.svg for one in views_of(chart)):
        assert ET.fromstring(svg) is not None
        assert "<script" not in svg
        assert "<b>" not in svg
    named = Heat("k", text, "", text, text, [text], [text], [[1.0]], [[text]], [[text]])
    assert texts(drawn(named), "v") == [text]
