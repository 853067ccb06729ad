"""Reports in Chromium: charts are drawn and answer, nothing is fetched, nothing foreign runs."""

import csv
import dataclasses
import functools
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace

from browsing import require_accessible
from cclmark.comparison.comparison_page import comparison_page
from cclmark.comparison.figures import Side, compare
from cclmark.comparison.words import Comparison
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import render
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal
from cclmark.report.run_page import page_of
from places import H200X4, RUNS
from reports import explained, hostile_case, hostile_header


def _without(name, **left_out):
    """Returns the journal ``name`` without the items that have one of these values of an attribute:
    a page of all of them takes a browser four times as long.
    """
    journal = read_journal(H200X4 / "report" / f"{name}.jsonl")
    results = [
        one
        for one in journal.results
        if not any(getattr(one.item, name) in values for name, values in left_out.items())
    ]
    assert 0 < len(results) < len(journal.results)
    return dataclasses.replace(journal, results=results)


COLLECTIVES = _without(
    "collectives",
    operation={"reduce", "reduce_scatter", "broadcast", "alltoall", "gather", "scatter"},
)


def _with_slow_pair(journal):
    """Copies from device 2 to 3 at half their rate: maps of equal values would be sentences."""

    def slowed(one):
        if one.transfer.flows[0] != (2, 3):
            return one
        own = one.summary
        rates = {"bytes_per_s": own.bytes_per_s / 2}
        rates["flow_bytes_per_s"] = [rate / 2 for rate in own.flow_bytes_per_s]
        times = {name: 2 * getattr(own, name) for name in ("time_s", "min_s", "max_s")}
        return replace(one, summary=replace(own, **times, **rates))

    return dataclasses.replace(journal, results=[*map(slowed, journal.results)])


COPIES = _with_slow_pair(_without("p2p", kernel={"ncCopy", "bulkCopy"}, direction={"read"}))
PAIRS = _without("pairs", operation={"alltoallv", "alltoall", "reduce", "reduce_scatter"})
ATTACKS = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "<svg onload=alert(3)>",
    '"><a href="javascript:alert(4)">x</a>',
    "<b>bold</b>",
)


def _comparison():
    sides = [Side(name, [read_journal(RUNS / f"{name}.jsonl")]) for name in ("default-1", "ctas8")]
    differences = ["NCCL_MAX_CTAS: not set before, 8 after"]
    return comparison_page([Comparison(*sides, differences, compare(*sides))])


def _page(*journals):
    """The page of runs, which are named by their numbers."""
    return page_of([NamedRun(f"run {place}", one) for place, one in enumerate(journals, start=1)])


def _accessible():
    """Each kind of chart and of drawing once: axe looks at every text."""
    copies, explanations = _short(_page(COPIES)), _short(_page(explained()))
    return dataclasses.replace(copies, sections=[*copies.sections, *explanations.sections])


PAGES = {
    "collectives": lambda: _only(_page(COLLECTIVES), "all_reduce", "barrier"),
    "copies": lambda: _only(
        _page(COPIES), "p2p-unidirectional", "p2p-time", "p2p-latency-write-ce"
    ),
    "pairs": lambda: _only(_page(PAIRS), "pairs-bandwidth", "pairs-all_gather"),
    "comparison": _comparison,
    "explained": lambda: _short(_page(explained())),
    "accessible": _accessible,
}


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Writes a page when a test looks at it first, and returns its place."""
    directory = tmp_path_factory.mktemp("pages")

    @functools.cache
    def place(name):
        path = directory / f"{name}.html"
        path.write_text(render(PAGES[name]()))
        return path

    return place


def _only(page, *keys):
    """The page with the charts whose keys begin so: all kinds, each drawn for one operation."""
    shown = [[one for one in own.charts if one.key.startswith(keys)] for own in page.sections]
    sections = [
        dataclasses.replace(one, charts=charts)
        for one, charts in zip(page.sections, shown, strict=True)
    ]
    return dataclasses.replace(page, sections=sections)


def _short(page):
    """The page with a short table and one chart: axe looks at every text in them."""
    sections = [dataclasses.replace(one, charts=one.charts[:1]) for one in page.sections]
    rows = dataclasses.replace(page.rows, rows=page.rows.rows[:3])
    return dataclasses.replace(page, sections=sections, rows=rows)


@pytest.fixture(scope="module")
def drawn(tabs, pages):
    """Opens a page of ``pages`` once, with all charts drawn; tests leave it as they find it.

    ``ends``: of what is to be on the first screen. ``unfolded``: sections that were.
    """
    opened = {}

    def page_called(name):
        if name not in opened:
            seen = opened[name] = tabs.new().open(pages(name))
            first = [seen.page.locator(one).first for one in FIRST_SCREEN if name in LARGE]
            boxes = [one.bounding_box() for one in first]
            seen.ends = [box["y"] + box["height"] for box in boxes]
            seen.unfolded = seen.page.locator("main > section > details[open]").count()
            assert seen.unfold() > 0
        return opened[name]

    yield page_called
    for one in opened.values():
        one.page.close()


FIRST_SCREEN = (".verdict dd", ".overview .plot", ".findings")
LARGE = ["collectives", "copies", "pairs", "comparison"]


@pytest.mark.parametrize("name", LARGE)
def test_the_first_screen_has_the_answer_every_chart_is_drawn_and_nothing_is_fetched(drawn, name):
    seen = drawn(name)
    # Maps of equal values are sentences.
    assert seen.page.locator("figure[data-chart]").count() >= (2 if name == "pairs" else 4)
    for plot in seen.page.locator("figure .plot > svg").all():
        box = plot.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 60
    assert seen.said == []
    assert seen.requests == [seen.place.as_uri()]
    assert all(end <= 800 for end in seen.ends)
    assert seen.unfolded == 0


def test_what_ran_is_drawn_and_marked(drawn):
    seen = drawn("explained")
    drawings = seen.page.locator(".diagram > svg")
    assert drawings.count() == 4
    for number in range(4):
        drawing = drawings.nth(number)
        box = drawing.bounding_box()
        for circle in drawing.locator("circle").all():
            place = circle.bounding_box()
            assert box["x"] < place["x"] < place["x"] + place["width"] < box["x"] + box["width"]
    chart = seen.page.locator("figure[data-chart=all_reduce-float32-sum-bandwidth]")
    assert chart.locator("text.mark", has_text="512 KiB: LL → LL128").count() == 1
    line = chart.locator("path.mark").first.bounding_box()
    assert line["height"] > 100
    # The names are one below the other, and cover neither each other nor the labels of the axes.
    names = [one.bounding_box() for one in chart.locator("text.mark").all()]
    labels = [one.bounding_box() for one in chart.locator(".labels text, g.y text").all()]
    assert len(names) >= 2
    for place, name in enumerate(names):
        assert name["width"] > 3 * name["height"]
        assert not any(_overlap(name, other) for other in (*names[place + 1 :], *labels))
    assert seen.said == []


def _overlap(one, other):
    """Whether two boxes have a common part of more than a border."""
    return all(
        min(one[at] + one[size], other[at] + other[size]) - max(one[at], other[at]) > 1
        for at, size in (("x", "width"), ("y", "height"))
    )


def test_hovering_over_a_point_tells_its_figures(drawn):
    seen = drawn("collectives")
    figure = seen.page.locator("figure[data-chart=all_reduce-float32-sum-time]")
    text = seen.hover(figure, figure.locator("path.curve").last, 1.0, 0.0)
    last = [one for one in COLLECTIVES.results if one.case.operation == "all_reduce"][-1]
    assert "512 MiB" in text
    assert last.case.size_bytes == 512 << 20
    assert f"{last.summary.busbw_bytes_per_s / 1e9:.2f} GB/s" in text
    assert "95th percentile" in text


def test_a_curve_is_hidden_and_shown_by_its_name_in_light_and_dark_colours(drawn):
    seen = drawn("pairs")
    page = seen.page
    figure = page.locator("figure[data-chart=pairs-bandwidth]")
    curves = figure.locator(".plot .curve:not([hidden])")
    assert curves.count() == 5
    name = figure.get_by_role("button", name="all_reduce", exact=True)
    name.focus()
    page.keyboard.press("Enter")
    assert curves.count() == 4
    assert name.get_attribute("aria-pressed") == "false"
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Switch to dark colours").click()
    assert page.evaluate(colour) != light
    assert curves.count() == 4
    name.click()
    assert curves.count() == 5
    name.dblclick()
    assert curves.count() == 1
    name.dblclick()
    assert curves.count() == 5
    page.get_by_role("button", name="Switch to light colours").click()
    assert page.evaluate(colour) == light
    assert seen.said == []


def test_the_axis_can_be_changed_by_keyboard(drawn):
    seen = drawn("collectives")
    figure = seen.page.locator("figure[data-chart=all_reduce-float32-sum-bandwidth]")
    button = figure.get_by_role("button", name="Linear axis")
    labels = figure.locator("g.y text")
    assert "0.1" in labels.all_text_contents()
    button.focus()
    seen.page.keyboard.press("Enter")
    assert labels.first.text_content() == "0"
    figure.get_by_role("button", name="Logarithmic axis").click()
    assert "0.1" in labels.all_text_contents()


@pytest.mark.parametrize(("format", "begin"), [("PNG", b"\x89PNG"), ("SVG", b"<svg ")])
def test_a_chart_is_saved_with_its_title_and_legend(drawn, format, begin):
    page = drawn("collectives").page
    figure = page.locator("figure[data-chart=all_reduce-float32-sum-bandwidth]")
    with page.expect_download() as download:
        figure.get_by_role("button", name=f"as {format}").click()
    assert download.value.suggested_filename.endswith(f"bandwidth.{format.lower()}")
    content = Path(download.value.path()).read_bytes()
    assert content.startswith(begin)
    if format == "SVG":
        tree = ET.fromstring(content)
        texts = {"".join(one.itertext()) for one in tree.iter() if one.tag.endswith("text")}
        assert {"all_reduce: bus bandwidth", "in-place", "message size"} <= texts
        assert b"var(" not in content


def test_the_table_is_filtered_sorted_and_handed_out(drawn):
    page = drawn("collectives").page
    assert page.locator("#cases tbody tr").count() == 100
    page.get_by_label("Only those with").fill("alltoallv out-of-place")
    count = sum(
        (one.case.operation, one.case.placement) == ("alltoallv", "out-of-place")
        for one in COLLECTIVES.results
    )
    assert page.locator("#count").text_content() == f"{count} of {len(COLLECTIVES.results)} rows"
    page.get_by_role("button", name="time µs").click()
    column = page.locator("#cases thead th").all_text_contents().index("time µs")
    cells = page.locator(f"#cases tbody td:nth-child({column + 1})").all_text_contents()
    times = [float(cell) for cell in cells]
    assert times == sorted(times)
    head = page.locator("#cases thead th")
    assert head.nth(column).get_attribute("aria-sort") == "ascending"
    assert head.nth(column).get_attribute("title") == "Median time of one operation."
    page.get_by_role("button", name="busbw GB/s").click()
    assert page.locator("#cases thead th[aria-sort=descending]").inner_text() == "busbw GB/s"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert len(rows) == count
    assert {row["operation"] for row in rows} == {"alltoallv"}
    page.get_by_label("Only those with").fill("")
    page.get_by_role("button", name="Show all").click()
    assert page.locator("#cases tbody tr").count() == len(COLLECTIVES.results)


def test_on_paper_every_chart_is_drawn(seen, pages, tmp_path):
    page = seen.open(pages("collectives")).page
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert page.locator("main > section > details[open]").count() == 0  # as before
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 5 < len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
    assert seen.said == []


def test_drawings_of_large_pages_are_complete(seen, tmp_path, monkeypatch):
    monkeypatch.setattr("cclmark.document.page.page._MOST_DRAWN", 0)
    path = tmp_path / "page.html"
    path.write_text(render(page_of([NamedRun("run", COLLECTIVES)])))
    page = seen.open(path).page
    assert page.locator(".plot:empty").count() > 1
    seen.unfold()
    page.wait_for_selector(".plot:empty", state="detached")
    assert page.locator(".plot > svg.chart").count() == page.locator(".plot").count()
    assert page.locator(".legend:empty").count() == 0
    pressed = page.locator(".legend button[aria-pressed=true]").count()
    assert pressed == page.locator("figure[data-chart] .legend button").count() > 1
    names = page.locator("figure[data-chart=all_reduce-float32-sum-time] .legend button")
    assert names.all_text_contents() == ["out-of-place", "in-place"]


def test_strings_of_a_journal_do_not_run(seen, tmp_path):
    """Each attack is in all strings of two journals; all of them are on one page."""
    runs = []
    for attack in ATTACKS:
        header = hostile_header(COPIES.header, attack)
        cases = [hostile_case(one, attack) for one in COLLECTIVES.results[:6]]
        for results in (cases, COPIES.transfers[:12]):
            runs.append(NamedRun(attack, Journal(header, [*results])))
    path = tmp_path / "hostile.html"
    path.write_text(render(page_of(runs, "".join(ATTACKS))))
    seen.open(path)
    seen.unfold()
    for figure in seen.page.locator("figure").all():
        plot = figure.locator(".plot").first.bounding_box()
        seen.page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] / 2)
    assert seen.said == []
    assert seen.requests == [seen.place.as_uri()]
    assert seen.page.locator("img, b, script[src], a[href^=javascript]").count() == 0


def test_pages_have_no_serious_accessibility_problem(seen, pages):
    page = seen.open(pages("accessible")).page
    seen.unfold()
    page.locator("figure .tools summary").first.click()
    for other in ("dark", "light"):
        require_accessible(page)
        page.get_by_role("button", name=f"Switch to {other} colours").click()
