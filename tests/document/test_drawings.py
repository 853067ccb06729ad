"""Drawings of a page: ranks on circles by host, stages on an axis of time, and charts."""

import re
import xml.etree.ElementTree as ET
from itertools import accumulate, pairwise

import pytest

from cclmark.document.chart_model import Boxes, ChartCurve, Heat, Lines
from cclmark.document.device_labels import device_labels, pair_name, way_between
from cclmark.document.page.chart_svg import legend_of, look_of, markers_of, views_of
from cclmark.document.page.drawings import DiagramLayout, DiagramLine, stage_bars
from cclmark.journal.schema import DeviceDescription, TracedStage
from cclmark.work.cases import Case
from goldens import outline, require_stated


def drawn_of(*sizes, lines=(), legend=()):
    hosts = [f"h{host}" for host, size in enumerate(sizes) for _ in range(size)]
    return DiagramLayout(dict(enumerate(hosts))).drawn("t", "says", [*lines], [*legend])


TO_AND_FRO = [DiagramLine(0, 1, 3), DiagramLine(1, 0)]
ARROWS = [DiagramLine(0, 1, arrow=True), DiagramLine(1, 0, arrow=True)]
NOWHERE = [DiagramLine(0, 9), DiagramLine(9, 0), DiagramLine(1, 1)]


def stages(*rows):
    return {number: [TracedStage(*one) for one in row] for number, row in enumerate(rows)}


def bars(*rows, names=None):
    return stage_bars("t", "rank", stages(*rows), names)


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


def lines(*curves, **properties):
    return Lines("key", "Title", "It says.", "message size", "GB/s", curves, **properties)


def curve(*values, name="a", **properties):
    return ChartCurve(name, SIZES[: len(values)], [*values], **properties)


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
    (path,) = of_class(drawn(lines(curve(*range(10, 18)))), "curve")
    found = points(path)
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
    assert len(points(path)) == 6
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


def heat(*values, **properties):
    rows, columns = ([f"DEV{one}" for one in range(len(own))] for own in (values, values[0]))
    cells = [["x" if one is None else f"{one:.0f}" for one in row] for row in values]
    return Heat("k", "T", "", "to", "GB/s", rows, columns, values, cells, cells, **properties)


def test_a_cell_is_drawn_in_the_colour_of_its_value():
    tree = drawn(heat([None, 100.0], [200.0, 150.0]))
    opacities = {one.get("d"): one.get("fill-opacity") for one in of_class(tree, "best")}
    cells = ("M1 0h1v1h-1z", "M0 1h1v1h-1z", "M1 1h1v1h-1z")
    assert [opacities[cell] for cell in cells] == ["0", "1", "0.5"]
    assert of_class(tree, "none")[0].get("d") == "M0 0h1v1h-1z"
    assert texts(tree, "v") == ["x100", "200150"]
    assert texts(tree, "strong") == ["200"]
    centred = drawn(heat([-10.0, 5.0], centred=True))
    for name, opacity in (("less", "1"), ("more", "0.5")):
        assert of_class(centred, name)[0].get("fill-opacity") == opacity
    assert of_class(drawn(heat([1.0, 2.0], higher_is_better=False)), "worst")
