"""Charts hold what the journal says, and say it in a sentence too."""

import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cclmark.comparison.comparison_page import ratio_charts
from cclmark.comparison.figures import Side, compare
from cclmark.comparison.words import Comparison
from cclmark.document.chart_model import (
    Boxes,
    Chart,
    ChartCurve,
    Heat,
    Lines,
    beyond,
    key_of,
    spread_limits,
)
from cclmark.document.document_text import document_of
from cclmark.document.naming import NamedRun, group_titles, groups_of
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.errors import MissingError
from cclmark.kinds.collective.charts import collective_charts
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.plan.sizes import format_size
from cclmark.report import pictures
from cclmark.report.pictures import picture

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "h200x4"
COLLECTIVES = read_journal(RESULTS / "report" / "collectives.jsonl")
COPIES = read_journal(RESULTS / "report" / "p2p.jsonl")
PAIRS = read_journal(RESULTS / "report" / "pairs.jsonl")
LIBRARIES = read_journal(RESULTS / "report" / "nccl_and_torch.jsonl")


def charts_in(journal):
    """The charts of a document."""
    compose = report_kind(journal.kind).document
    if compose is None:
        return []
    document = document_of(compose, NamedRun("run", journal))
    return [one for one in (*document.blocks, *document.closing) if isinstance(one, Chart)]


def charts_of(journal, operation="all_reduce"):
    runs = [NamedRun("run", journal)]
    groups = groups_of(runs)
    for group, title in zip(groups, group_titles(groups), strict=True):
        if group.operation == operation:
            return {
                chart.key.rpartition("-")[2]: chart
                for chart in collective_charts(group, title, runs)
            }
    raise AssertionError(f"no {operation}")


def with_results(journal, change):
    """The journal with each result of all_reduce changed."""
    results = [
        change(result) if result.case.operation == "all_reduce" else result
        for result in journal.results
    ]
    return type(journal)(journal.header, results, footer=journal.footer)


def test_curves_are_the_figures_of_the_journal():
    charts = charts_of(COLLECTIVES)
    own = [one for one in COLLECTIVES.results if one.case.operation == "all_reduce"]
    for curve in charts["bandwidth"].series:
        placed = [one for one in own if one.case.placement == curve.name]
        assert list(curve.x) == [one.case.size_bytes for one in placed]
        assert curve.y == pytest.approx([one.summary.busbw_bytes_per_s / 1e9 for one in placed])
        for low, middle, high in zip(curve.low, curve.y, curve.high, strict=True):
            assert low <= middle * 1.0001
            assert high >= middle * 0.9999
    times = charts["time"].series[0]
    assert times.y[0] == pytest.approx(own[0].summary.time_s * 1e6)
    assert charts["time"].y_log


def test_the_limit_of_the_links_is_drawn():
    (level,) = charts_of(COLLECTIVES)["bandwidth"].levels
    assert level.name == "link limit 450 GB/s"
    assert level.value == 450
    several_hosts = msgspec.structs.replace(
        COLLECTIVES.header,
        hosts=[None, None],  # what lies between them nobody says
    )
    journal = type(COLLECTIVES)(several_hosts, COLLECTIVES.results)
    assert charts_of(journal)["bandwidth"].levels == []


def test_what_is_wrong_or_not_measured_has_no_point():
    first = COLLECTIVES.results[0]

    def change(result):
        if result.case == first.case:
            return msgspec.structs.replace(result, status="wrong")
        return result

    curve = charts_of(with_results(COLLECTIVES, change))["bandwidth"].series[0]
    assert first.case.size_bytes not in curve.x
    nothing = with_results(
        COLLECTIVES, lambda one: msgspec.structs.replace(one, status="skipped", summary=None)
    )
    assert charts_of(nothing) == {}


def test_boxes_are_in_order_round_the_median():
    for one in charts_of(COLLECTIVES)["spread"].series:
        for box in one.boxes:
            assert box == tuple(sorted(box))
            assert box[2] == 0


def test_one_outlier_does_not_flatten_the_others():
    """The axis ends before it, and a note says where it is."""
    boxes = [((-1.0, -0.5, 0.0, 0.5, high), f"{place} B") for place, high in enumerate([3.0] * 19)]
    assert spread_limits([box for box, _ in boxes]) is None
    assert beyond(boxes, None) == []
    far = [*boxes, ((-60.0, -0.5, 0.0, 0.5, 445.0), "64 KiB")]
    low, high = spread_limits([box for box, _ in far])
    assert (low, high) == (pytest.approx(-1.2), pytest.approx(3.2))
    (note,) = beyond(far, (low, high))
    assert note.endswith("reach to +445 % (64 KiB), -60 % (64 KiB)")
    # Many that reach far are no outliers.
    assert spread_limits([box for box, _ in boxes] + [far[-1][0]] * 10) is None
    quiet = [(-0.1, 0.0, 0.0, 0.1, 0.1)] * 30 + [(-0.1, 0.0, 0.0, 0.1, 8.0)]
    assert spread_limits(quiet) is None


def test_the_spread_says_what_is_beyond_its_axis():
    chart = charts_of(COLLECTIVES)["spread"]
    tops = [box[4] for one in chart.series for box in one.boxes]
    assert max(tops) > 150 > chart.limits[1]
    beyond_it = [top for top in tops if top > chart.limits[1]]
    assert 0 < len(beyond_it) < len(tops) / 10
    assert "+177 % (out-of-place, 512 B)" in chart.notes[0]
    assert "+177.0 % at most" in chart.says or "+176.6 % at most" in chart.says
    pytest.importorskip("matplotlib")
    assert "+177 % (out-of-place, 512 B)" in picture(chart, "svg").decode()


def test_references_of_other_runs_are_told_apart():
    def notes(name):
        found = ReferenceNotes()
        found.match = lambda result, header: SimpleNamespace(name=name, bandwidth=3e11)
        return found

    runs = [NamedRun("here", COLLECTIVES, notes("A")), NamedRun("there", LIBRARIES, notes("B"))]
    group = groups_of(runs)[0]
    faint = [one for one in collective_charts(group, "t", runs)[0].series if one.faint]
    assert [one.name for one in faint] == ["reference of there: B", "reference of here: A"]
    assert len({one.colour for one in faint}) == 2
    alike = [NamedRun("here", COLLECTIVES, notes("A")), NamedRun("there", LIBRARIES, notes("A"))]
    (one,) = (one for one in collective_charts(group, "t", alike)[0].series if one.faint)
    assert one.name == "reference: A"


def test_a_slow_rank_has_a_row_that_says_so():
    def change(result):
        samples = msgspec.structs.replace(
            result.samples,
            device_s=[[*row[:2], row[2] * 1.25, row[3]] for row in result.samples.device_s],
        )
        return msgspec.structs.replace(result, samples=samples)

    chart = charts_of(with_results(COLLECTIVES, change))["ranks"]
    row = chart.values[chart.rows.index("out-of-place · rank 2")]
    assert min(row) > 15
    assert "The furthest away is" in chart.says
    assert "rank 2" in chart.says


def test_a_rank_that_is_slow_at_one_size_is_shown_among_hundreds():
    def change(result):
        factor = 6 if result.case.size_bytes == 8 << 20 else 1
        rows = [
            [row[0] * (factor if rank == 17 else 1) for rank in range(300)]
            for row in result.samples.device_s
        ]
        samples = msgspec.structs.replace(result.samples, device_s=rows)
        return msgspec.structs.replace(result, samples=samples)

    chart = charts_of(with_results(COLLECTIVES, change))["ranks"]
    assert "rank 17 with +500.0 % at 8 MiB" in chart.says
    assert "out-of-place · rank 17" in chart.rows


def test_a_late_rank_is_told_beside_its_short_times():
    def change(result):
        rows = [[*row[:2], row[2] / 4, row[3]] for row in result.samples.device_s]
        return msgspec.structs.replace(
            result,
            samples=msgspec.structs.replace(result.samples, device_s=rows),
            summary=msgspec.structs.replace(result.summary, late_rank=2),
        )

    chart = charts_of(with_results(COLLECTIVES, change))["ranks"]
    assert "rank 2 with -7" in chart.says
    assert any("comes late is busy for less time" in note for note in chart.notes)
    assert any(note.startswith("rank 2 comes late in ") for note in chart.notes)
    assert charts_of(COLLECTIVES, "gather")["ranks"].notes[-1].startswith("ranks do not do the")


def test_other_numbers_of_ranks_have_curves_of_their_own():
    first = next(one for one in COLLECTIVES.results if one.case.size_bytes == 2 << 20)
    results = []
    for ranks, time_s in ((2, 10e-6), (4, 20e-6), (8, 40e-6)):
        case = msgspec.structs.replace(first.case, ranks=ranks)
        summary = msgspec.structs.replace(first.summary, time_s=time_s)
        results.append(msgspec.structs.replace(first, case=case, summary=summary))
    runs = [NamedRun("run", type(COLLECTIVES)(COLLECTIVES.header, results))]
    (group,) = groups_of(runs)
    times = collective_charts(group, "all_reduce", runs)[1]
    assert [(one.name, one.y) for one in times.series] == [
        ("2 ranks", [pytest.approx(10)]),
        ("4 ranks", [pytest.approx(20)]),
        ("8 ranks", [pytest.approx(40)]),
    ]


def test_of_very_many_ranks_the_furthest_are_shown():
    def change(result):
        rows = [[row[0]] * 299 + [row[0] * 2] for row in result.samples.device_s]
        samples = msgspec.structs.replace(result.samples, device_s=rows)
        return msgspec.structs.replace(result, samples=samples)

    chart = charts_of(with_results(COLLECTIVES, change))["ranks"]
    assert len(chart.rows) == 48
    assert "out-of-place · rank 299" in chart.rows
    assert "600 rows are too many" in chart.notes[-1]


def test_libraries_and_runs_have_curves_of_their_own():
    both = charts_of(LIBRARIES)["bandwidth"].series
    # torch's all-reduce is in place only.
    assert [(one.name, one.colour, one.dashed) for one in both] == [
        ("nccl out-of-place", 0, False),
        ("nccl in-place", 0, True),
        ("torch:nccl in-place", 1, True),
    ]
    runs = [NamedRun("monday", COLLECTIVES), NamedRun("tuesday", LIBRARIES)]
    group = groups_of(runs)[0]
    (bandwidth, *_) = collective_charts(group, "all_reduce", runs)
    assert {one.name for one in bandwidth.series} == {
        *("monday nccl out-of-place", "monday nccl in-place"),
        *("tuesday nccl out-of-place", "tuesday nccl in-place"),
        "tuesday torch:nccl in-place",
    }


def test_runs_of_one_library_each_are_called_by_their_names():
    results = [
        msgspec.structs.replace(one, case=msgspec.structs.replace(one.case, ccl="rccl"))
        for one in COLLECTIVES.results
    ]
    other = type(COLLECTIVES)(COLLECTIVES.header, results)
    runs = [NamedRun("here", COLLECTIVES), NamedRun("there", other)]
    (bandwidth, *_) = collective_charts(groups_of(runs)[0], "all_reduce", runs)
    assert {one.name for one in bandwidth.series} == {
        *("here out-of-place", "here in-place"),
        *("there out-of-place", "there in-place"),
    }


def test_cycles_of_a_soak_are_one_point():
    first = COLLECTIVES.results[0]
    again = [
        msgspec.structs.replace(
            first, cycle=cycle, summary=msgspec.structs.replace(first.summary, time_s=time_s)
        )
        for cycle, time_s in enumerate((1e-5, 3e-5, 2e-5))
    ]
    charts = charts_of(type(COLLECTIVES)(COLLECTIVES.header, again))
    assert charts["time"].series[0].y == [pytest.approx(20)]


def test_where_a_ratio_has_no_interval_there_is_no_band():
    """And where it has one there is: one size without an interval takes none from the others."""
    before, after = (read_journal(RESULTS / "runs" / f"{one}.jsonl") for one in ("simple", "ctas8"))
    unsure = 2 << 10
    results = [
        msgspec.structs.replace(one, summary=msgspec.structs.replace(one.summary, half_width=None))
        if one.case.size_bytes == unsure
        else one
        for one in after.results
    ]
    sides = Side("a", [before]), Side("b", [type(after)(after.header, results)])
    (chart,) = ratio_charts(Comparison(*sides, [], compare(*sides)))
    for one in chart.series:
        assert [size for size, low in zip(one.x, one.low, strict=True) if low is None] == [unsure]
        assert [low is None for low in one.low] == [high is None for high in one.high]
    pytest.importorskip("matplotlib")
    assert picture(chart, "svg")


def test_copies_have_a_matrix_each():
    charts = {chart.title: chart for chart in charts_in(COPIES)}
    chart = charts["Unidirectional bandwidth, write, CE, 512 MiB [GB/s]"]
    first = COPIES.transfers[0]
    assert chart.values[0][1] == pytest.approx(first.summary.bytes_per_s / 1e9)
    assert chart.values[0][0] is None
    assert [chart.texts[place][place] for place in range(4)] == ["x"] * 4
    assert [heat.texts[0][0] for heat in charts_in(PAIRS)[:2]] == ["x"] * 2
    assert chart.hover[0][1] == "396.02 GB/s, NV18"
    assert charts["Unidirectional share of the link limit, write, CE, 512 MiB [%]"].unit == "%"


def test_a_slow_link_is_marked_where_it_is():
    first = COPIES.transfers[0]
    slow = msgspec.structs.replace(
        first.summary,
        bytes_per_s=first.summary.bytes_per_s / 2,
        flow_bytes_per_s=[first.summary.bytes_per_s / 2],
    )
    journal = type(COPIES)(
        COPIES.header,
        results=[msgspec.structs.replace(first, summary=slow), *COPIES.transfers[1:]],
    )
    chart = next(one for one in charts_in(journal) if isinstance(one, Heat))
    assert chart.texts[0][1] == "198.01 ▼"
    assert "50% lower, worse than usual for NV18" in chart.hover[0][1]
    assert "From 198.01 (DEV0, DEV1)" in chart.says


def test_swept_copies_have_a_course():
    journal = read_journal(RESULTS / "p2p_blocks.jsonl")
    course = next(one for one in charts_in(journal) if isinstance(one, Lines))
    assert course.x_title == "thread blocks"
    assert course.x_kind == "number"
    assert list(course.series[0].x) == sorted(course.series[0].x)


def test_pairs_have_curves_and_matrices():
    *heats, lines = charts_in(PAIRS)
    assert isinstance(lines, Lines)
    assert "all_reduce" in {one.name for one in lines.series}
    assert {heat.unit for heat in heats} == {"GB/s", "µs"}
    assert all(heat.rows == ["DEV0", "DEV1", "DEV2", "DEV3"] for heat in heats)


def test_keys_are_unique_in_every_report():
    for journal in (COLLECTIVES, COPIES, PAIRS):
        runs = [NamedRun("run", journal)]
        charts = [
            chart
            for group, title in zip(groups_of(runs), group_titles(groups_of(runs)), strict=True)
            for chart in collective_charts(group, title, runs)
        ] + [*charts_in(journal)]
        keys = [chart.key for chart in charts]
        assert len(set(keys)) == len(keys) > 3


EVERY_KIND: dict[str, Chart] = {
    "lines": charts_of(COLLECTIVES)["bandwidth"],
    "logarithmic lines": charts_of(COLLECTIVES)["time"],
    "boxes": charts_of(COLLECTIVES)["spread"],
    "centred heat": charts_of(COLLECTIVES)["ranks"],
    "heat": charts_in(COPIES)[0],
    "heat without values": replace(
        charts_of(COLLECTIVES)["ranks"], values=[[None]], rows=["a"], columns=["b"], texts=[["-"]]
    ),
    "hostile": Lines(
        "k", "$\\frac<b>$ _x", "", "a & b", "$y$", [ChartCurve("</svg><script>", [8, 16], [1, 2])]
    ),
}


@pytest.mark.parametrize("name", EVERY_KIND)
def test_pictures_are_pictures(name):
    pytest.importorskip("matplotlib")
    chart = EVERY_KIND[name]
    png = picture(chart, "png")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) > 5000
    svg = picture(chart, "svg")
    assert svg == picture(chart, "svg")
    root = ET.fromstring(svg)
    texts = {
        "".join(element.itertext()).strip()
        for element in root.iter()
        if element.tag.endswith("text")
    }
    assert chart.title in texts
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_the_limit_is_within_the_picture():
    pytest.importorskip("matplotlib")
    svg = picture(EVERY_KIND["lines"], "svg").decode()
    place = next(line for line in svg.splitlines() if "link limit 450 GB/s" in line)
    y = (
        float(place.split("translate(")[1].split(")")[0].split()[1])
        if "translate(" in place
        else float(place.split(' y="')[1].split('"')[0])
    )
    assert y > 0


def test_no_two_of_many_curves_look_alike():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    series = [
        ChartCurve(f"{number} {dashed}", [8, 16], [1, 2], colour=number, dashed=dashed)
        for number in range(96)
        for dashed in (False, True)
    ]
    series += [ChartCurve(f"ref {one}", [8, 16], [1, 2], colour=one, faint=True) for one in (0, 1)]
    axes = Figure().subplots()
    pictures.draw_lines(axes, Lines("k", "t", "", "x", "y", series))
    looks = {
        (one.get_color(), str(one._dash_pattern), one.get_marker(), one.get_markerfacecolor())
        for one in axes.lines
    }
    assert len(looks) == len(series)


def test_the_legend_of_many_curves_takes_no_room_from_the_plot():
    pytest.importorskip("matplotlib")
    few, many = (
        [ChartCurve(f"curve number {one}", [8, 16], [1, 2], colour=one) for one in range(count)]
        for count in (3, 30)
    )
    heights = []
    for series in (few, many):
        svg = picture(Lines("k", "t", "", "x", "y", series), "svg").decode()
        patch = svg.split('id="patch_2"')[1].split(' d="')[1].split('"')[0]
        ends = [float(word) for word in patch.replace("\n", " ").split() if word[0].isdigit()]
        heights.append(max(ends[1::2]) - min(ends[1::2]))
    assert heights[1] > heights[0] * 0.9


def test_a_missing_matplotlib_is_reported_with_the_extra_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingError, match=r"pip install 'cclmark\[pictures\]'"):
        picture(Lines("k", "t", "", "x", "y", []), "svg")


def test_markers_at_the_ends_of_the_axes_are_drawn_in_full():
    pytest.importorskip("matplotlib")
    curve = ChartCurve("a curve", [1024, 1 << 20], [0.0, 40.0], colour=0)
    chart = Lines("key", "Title", "It is about.", "message size", "GB/s", [curve])
    tree = ET.fromstring(picture(chart, "svg"))
    svg = "{http://www.w3.org/2000/svg}"
    (line,) = [
        one
        for one in tree.iter(f"{svg}g")
        if len(one.findall(f".//{svg}use")) == 2 and one.find(f"{svg}path") is not None
    ]
    assert not [one for one in line.iter() if "clip-path" in one.attrib]


def test_equal_values_are_not_at_the_upper_end_of_the_axis():
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    curve = ChartCurve("a curve", [1024, 1 << 20], [613.7, 613.7], colour=0)
    chart = Lines("key", "Title", "It is about.", "message size", "GB/s", [curve])
    pictures.draw_lines(axes, chart)
    low, high = axes.get_ylim()
    assert low == 0
    assert 630 < high < 700


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
    assert [format_size(tick) for tick in pictures.byte_ticks(sizes)] == ticks


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
    chart = Lines("key", "Title", "-", "message size", "time", [curve], y_log=True)
    tree = ET.fromstring(picture(chart, "svg"))
    texts = [
        "".join(one.itertext()).strip() for one in tree.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert [one for one in texts if re.fullmatch(r"[\d.]+", one)] == ticks
    assert not [one for one in texts if "10^" in one or "×" in one]


def test_pictures_have_names_of_their_own():
    taken = set()
    keys = [key_of("a/b" * 100, taken), key_of("a?b" * 100, taken), key_of("../x", taken)]
    assert len(set(keys)) == 3
    assert all(len(key) <= 110 and "/" not in key and ".." not in key for key in keys)


def test_every_kind_is_drawn():
    assert {type(chart) for chart in EVERY_KIND.values()} == {Lines, Boxes, Heat}
