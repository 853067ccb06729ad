"""Charts hold what the journal says: as pictures, as drawings of a page, and as lines."""

import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest

from cclmark.base.errors import MissingError
from cclmark.document import chart_model
from cclmark.document.chart_model import Boxes, Chart, ChartCurve, Heat, Lines, spread_limits
from cclmark.document.device_labels import device_labels, pair_name, way_between
from cclmark.document.document_text import document_of
from cclmark.document.grid import curves, grid_lines, heat_lines, hidden_line
from cclmark.document.naming import NamedRun, groups_of
from cclmark.document.page.chart_svg import legend_of, look_of, markers_of, views_of
from cclmark.document.page.drawings import DiagramLayout, DiagramLine, stage_bars
from cclmark.document.paint import unpainted
from cclmark.journal.schema import DeviceDescription, TracedStage
from cclmark.kinds.collective.charts import collective_charts
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.report import pictures
from cclmark.report.pictures import picture
from cclmark.work.cases import Case
from goldens import outline, require_stated
from places import H200X4

COLLECTIVES = read_journal(H200X4 / "report" / "collectives.jsonl")
COPIES = NamedRun("run", read_journal(H200X4 / "report" / "p2p.jsonl"))
RUNS = [NamedRun("run", COLLECTIVES)]
BANDWIDTH, TIME, SPREAD, RANKS = collective_charts(groups_of(RUNS)[0], "all_reduce", RUNS)
SVG = "{http://www.w3.org/2000/svg}"


def lines(*curves, **options):
    return Lines("key", "Title", "It is about.", "message size", "GB/s", curves, **options)


DOCUMENT = document_of(report_kind(COPIES.journal.kind).document, COPIES)
EVERY_KIND: dict[str, Chart] = {
    "lines": BANDWIDTH,
    "logarithmic lines": TIME,
    "boxes": SPREAD,
    "centred heat": RANKS,
    "heat": next(one for one in DOCUMENT.blocks if isinstance(one, Heat)),
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
    root = ET.fromstring(svg)
    assert chart.title in ["".join(one.itertext()).strip() for one in root.iter(f"{SVG}text")]
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
    assert [one.key for one in chart_model.marked([lines()] * 2, "-2")] == ["key-2"] * 2


def drawn_of(*sizes, lines=(), legend=()):
    hosts = [f"h{host}" for host, size in enumerate(sizes) for _ in range(size)]
    return DiagramLayout(dict(enumerate(hosts))).drawn("t", "says", [*lines], [*legend])


TO_AND_FRO = [DiagramLine(0, 1, 3), DiagramLine(1, 0)]
ARROWS = [DiagramLine(0, 1, arrow=True), DiagramLine(1, 0, arrow=True)]
NOWHERE = [DiagramLine(0, 9), DiagramLine(9, 0), DiagramLine(1, 1)]


def bars(*rows):
    stages = {number: [TracedStage(*one) for one in row] for number, row in enumerate(rows)}
    return stage_bars("t", "rank", stages)


SEND_AND_RECEIVE = [("send", 0.0, 0.5), ("recv", 0.5, 0.3, 1024)]


def test_drawings_of_ranks_and_of_stages():
    """Hosts fill rows of a square; one rank is in the middle, two are side by side, more clockwise
    from the top. Lines end at the edge of ranks and keep apart. Stages are bars on an axis of round
    times, and those without time are seen.
    """
    found = {
        "one rank": drawn_of(1),
        "two ranks": drawn_of(2, lines=[*TO_AND_FRO, *ARROWS]),
        "four ranks": drawn_of(4),
        "five hosts": drawn_of(*[1] * 5),
        "unknown ranks": drawn_of(2, lines=NOWHERE, legend=[(0, "x")]),
        "stages of two ranks": bars(SEND_AND_RECEIVE, [("send", 0.0, 0.8)]),
        "stage without time": bars([("a", 0.0, 0.0)]),
        "no stages": bars(),
    }
    require_stated("words/drawings.txt", {name: outline(one)[:-1] for name, one in found.items()})


def test_devices_have_the_names_that_distinguish_them():
    for places, labels in (
        ([("a", 0), ("a", 2), ("b", 0)], ["HOST0:DEV0", "HOST0:DEV2", "HOST1:DEV0"]),
        ([("a", 0, "GPU 1"), ("a", 0, "nic"), ("a", 1)], ["GPU1", "nic", "DEV1"]),
        ([("a", 0, "x"), ("a", 0, "x"), ("a", 1, "y")], ["x#0", "x#1", "y"]),
    ):
        devices = [
            DeviceDescription(rank, host, "cuda", index, *(name or [""]), 0)
            for rank, (host, index, *name) in enumerate(places)
        ]
        assert device_labels(devices) == labels


def test_an_arrow_has_the_direction_of_the_data():
    for operation, root, way in (
        ("broadcast", 0, "A → C"),
        ("broadcast", 1, "C → A"),
        ("reduce", 1, "A → C"),
        ("send", None, "A → C"),
        ("all_reduce", None, "A–C"),
    ):
        case = Case(operation, "nccl", 2, "float32", 8, 2, False, root=root, pair=(0, 2))
        assert way_between(case, "ABC") == way
    assert pair_name((1, 0), "all_gather", "AB") == "B–A"


# Charts: what is where, and that no text becomes markup.


SIZES = [float(8 << 2 * number) for number in range(8)]


def curve(*values, name="a", **properties):
    return ChartCurve(name, SIZES[: len(values)], [*values], **properties)


def drawn(chart, number=0):
    return ET.fromstring(views_of(chart)[number].svg)


def of_class(tree, name):
    return [one for one in tree.iter() if name in one.get("class", "").split()]


def points_of(path):
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
    (path,) = of_class(drawn(lines(curve(*range(10, 18)))), "curve")
    found = points_of(path)
    assert len(found) == 8
    assert [x for x, _ in found] == sorted(x for x, _ in found)
    assert [y for _, y in found] == sorted((y for _, y in found), reverse=True)
    gaps = {round(b[0] - a[0]) for a, b in pairwise(found)}
    assert max(gaps) - min(gaps) <= 1  # sizes are on a logarithmic axis


WIDE = [0.01, 0.1, 0.2, 1.0, 20.0, 300.0, 340.0]
LINEAR, LOGARITHMIC = "Linear axis", "Logarithmic axis"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (range(10, 18), [LINEAR, LOGARITHMIC]),
        ([0.001, *WIDE], [LOGARITHMIC, LINEAR]),
        # Negative values have no place on a logarithmic one.
        ([-1.0, *WIDE], [LINEAR]),
    ],
)
def test_an_axis_on_which_half_of_the_points_were_at_zero_is_logarithmic(values, names):
    assert [one.name for one in views_of(lines(curve(*values)))] == names


def test_values_that_are_no_numbers_interrupt_a_curve():
    nan, inf = float("nan"), float("inf")
    (path,) = of_class(drawn(lines(curve(1.0, nan, 2.0, 3.0, inf, 4.0, 5.0, 6.0))), "curve")
    assert path.get("d").count("M") == 3
    assert "h0" in path.get("d").split("M")[1]
    assert len(points_of(path)) == 6
    for chart, text in (
        (lines(), "No values"),
        (lines(curve(nan)), "No values"),
        (Boxes("k", "T", "", "", "%", ["8 B"], []), "No samples"),
        (Heat("k", "T", "", "", "", [], [], [], [], []), "No values"),
    ):
        assert text in views_of(chart)[0].svg


def test_no_two_of_many_curves_look_alike():
    curves = [curve(1.0, colour=number, dashed=dashed) for number in range(96) for dashed in (0, 1)]
    curves += [curve(1.0, colour=number, faint=True) for number in (0, 1)]
    looks = {(look.colour, look.dash, look.marker) for look in map(look_of, curves)}
    swatches = {swatch for _, swatch in legend_of(lines(*curves))}
    assert len(looks) == len(swatches) == len(curves)
    used = {one.get("marker-mid") for one in of_class(drawn(lines(*curves)), "curve")} - {None}
    assert used == {f"url(#{id})" for id in markers_of([lines(*curves)])}


def map_of(*values, **properties):
    rows, columns = ([f"DEV{one}" for one in range(len(own))] for own in (values, values[0]))
    cells = [["x" if one is None else f"{one:.0f}" for one in row] for row in values]
    return Heat("k", "T", "", "to", "GB/s", rows, columns, values, cells, cells, **properties)


def test_a_cell_is_drawn_in_the_colour_of_its_value():
    tree = drawn(map_of([None, 100.0], [200.0, 150.0]))
    opacities = {one.get("d"): one.get("fill-opacity") for one in of_class(tree, "best")}
    cells = ("M1 0h1v1h-1z", "M0 1h1v1h-1z", "M1 1h1v1h-1z")
    assert [opacities[cell] for cell in cells] == ["0", "1", "0.5"]
    assert of_class(tree, "none")[0].get("d") == "M0 0h1v1h-1z"
    assert texts(tree, "v") == ["x100", "200150"]
    assert texts(tree, "strong") == ["200"]
    centred = drawn(map_of([-10.0, 5.0], centred=True))
    for name, opacity in (("less", "1"), ("more", "0.5")):
        assert of_class(centred, name)[0].get("fill-opacity") == opacity
    assert of_class(drawn(map_of([1.0, 2.0], higher_is_better=False)), "worst")
