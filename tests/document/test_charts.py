"""Charts hold what the journal says, as pictures too."""

import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from cclmark.base.errors import MissingError
from cclmark.document.chart_model import Chart, ChartCurve, Heat, Lines
from cclmark.document.document_text import document_of
from cclmark.document.naming import NamedRun, groups_of
from cclmark.document.ticks import byte_ticks
from cclmark.kinds.collective.charts import collective_charts, collective_overview
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.report import pictures
from cclmark.report.pictures import picture
from cclmark.work.sizes import format_size
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
    assert svg == picture(chart, "svg")
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


def test_markers_at_the_ends_of_the_axes_are_drawn_in_full():
    pytest.importorskip("matplotlib")
    curve = ChartCurve("a curve", [1024, 1 << 20], [0.0, 40.0], colour=0)
    root, _ = texts_of(picture(lines(curve), "svg"))
    (line,) = [
        one
        for one in root.iter(f"{SVG}g")
        if len(one.findall(f".//{SVG}use")) == 2 and one.find(f"{SVG}path") is not None
    ]
    assert not [one for one in line.iter() if "clip-path" in one.attrib]


@pytest.mark.parametrize(
    ("sizes", "ticks"),
    [
        ([120_061_952], ["114.5 MiB"]),
        ([8, 8 << 10], ["8 B", "32 B", "128 B", "512 B", "2 KiB", "8 KiB"]),
        ([1 << 20, 2 << 20], ["1 MiB", "2 MiB"]),
        ([181 << 20, 370 << 20], ["200 MiB", "250 MiB", "300 MiB", "350 MiB"]),
        ([1000, 1002], ["1000 B", "1001 B", "1002 B"]),
    ],
)
def test_sizes_have_round_ticks_also_in_a_narrow_range(sizes, ticks):
    assert [format_size(tick) for tick in byte_ticks(sizes)] == ticks


@pytest.mark.parametrize(
    ("times_us", "ticks"),
    [
        ([318.2], ["280", "300", "320", "340", "360"]),
        ([330.0, 640.0], ["300", "400", "500", "600", "700"]),
        ([173.0, 2054.0], ["200", "500", "1000", "2000"]),
        ([12.0, 4416.0], ["10", "100", "1000"]),
    ],
)
def test_a_logarithmic_axis_has_readable_ticks(times_us, ticks):
    pytest.importorskip("matplotlib")
    curve = ChartCurve("a curve", [1 << (20 + at) for at in range(len(times_us))], times_us)
    _, texts = texts_of(picture(lines(curve, y_log=True), "svg"))
    assert [one for one in texts if re.fullmatch(r"[\d.]+", one)] == ticks
    assert not [one for one in texts if "10^" in one or "×" in one]


def test_the_overview_has_all_operations_and_small_messages_beside_them():
    share, time = collective_overview(RUNS)
    assert share.y_title == "share of the link limit [%]"
    assert [one.name for one in share.series] == [one.name for one in time.series]
    assert min(x for one in share.series for x in one.x) == 128 << 10
    assert max(x for one in time.series for x in one.x) <= 256 << 10
    assert share.notes == ["messages smaller than 128 KiB reach less than 2 %"]
    header = replace_struct(COLLECTIVES.header, links=[])
    rates, _ = collective_overview([NamedRun("run", replace(COLLECTIVES, header=header))])
    assert rates.y_title == "bus bandwidth [GB/s]"
