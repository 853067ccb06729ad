"""What ran, on a page: tables, drawings, marks on curves, and findings in the summary."""

from __future__ import annotations

import re

import msgspec
import pytest

from cclmark.document.chart_model import Lines
from cclmark.document.naming import NamedRun
from cclmark.document.page.drawings import DiagramLayout, DiagramLine
from cclmark.document.page.page import render
from cclmark.explain.paths import Route
from cclmark.report.page_sections import diagrams_of, ran_sections
from cclmark.report.run_page import page_of
from cclmark.results.schema import DeviceDescription, Explanation, Paths, Ring
from reports import COLLECTIVES as BARE
from reports import explained, insights_on

replace = msgspec.structs.replace


def test_the_section_has_choices_predictions_and_connections():
    (section,) = ran_sections([NamedRun("run", explained())])
    choices, *predicted = section.tables
    assert choices.title == (
        "all_reduce float32 sum · nccl, what ran (the library's plug-in interface)"
    )
    assert [row[1] for row in choices.rows] == [
        "ring LL, 4 channels",
        "ring LL128, 4 channels",
        "ring SIMPLE, 4 channels",
    ]
    assert all("RING LL" in table.head and table.notes for table in predicted)
    (facts,) = section.facts
    assert ("ring", "0 → 1 → 2 → 3 → 0 (3 channels)") in facts.rows
    assert ("tree", "0 ← 1, 2; 2 ← 3 (4 channels)") in facts.rows


def test_without_explanations_there_is_no_section():
    assert ran_sections([NamedRun("run", BARE)]) == []


def test_each_of_several_runs_has_its_own():
    sections = ran_sections(
        [NamedRun("a", explained()), NamedRun("bare", BARE), NamedRun("b", explained())]
    )
    assert [section.title for section in sections] == ["What ran (a)", "What ran (b)"]
    assert len({section.key for section in sections}) == 2


def test_changes_are_marked_on_the_curves():
    page = page_of([NamedRun("run", explained())])
    charts = [one for section in page.sections for one in section.charts if isinstance(one, Lines)]
    assert len(charts) == 2
    for chart in charts:
        assert [mark.name for mark in chart.marks] == [
            "512 KiB: LL → LL128",
            "8 MiB: LL128 → SIMPLE",
        ]
        assert [mark.x for mark in chart.marks] == [512 << 10, 8 << 20]
        assert "changes of the library's choice: 512 KiB: LL → LL128" in chart.says


def test_a_change_of_one_curve_alone_names_the_curve():
    journal = explained()
    for result in journal.cases:
        if result.case.in_place and result.case.size_bytes < 8 << 20:
            result.explanation = replace(result.explanation, protocol="LL")
    page = page_of([NamedRun("run", journal)])
    chart = next(one for one in page.sections[0].charts if isinstance(one, Lines))
    assert [mark.name for mark in chart.marks] == [
        "512 KiB: LL → LL128 (out-of-place)",
        "8 MiB: LL → SIMPLE (in-place)",
        "8 MiB: LL128 → SIMPLE (out-of-place)",
    ]


def test_a_path_that_is_worse_than_the_links_is_a_finding():
    journal = explained(parameters={"NCCL_P2P_DISABLE": "1"}, messages=["a text of the library"])
    found = insights_on(journal)
    (warning,) = [one for one in found if "host memory" in one.sentence]
    assert warning.severity == "look"
    assert warning.sentence.endswith("NCCL_P2P_DISABLE=1 is set.")
    assert [one.severity for one in found if "a text of the library" in one.sentence] == ["note"]
    assert not [one for one in insights_on(explained("P2P/CUMEM")) if "host memory" in one.sentence]


def test_differing_ranks_and_unknown_cases_are_findings():
    journal = explained("P2P/CUMEM")
    first, second, *_ = journal.cases
    first.explanation = replace(first.explanation, reason="rank 1 ran tree")
    second.explanation = Explanation(second.index, reason="the log is full")
    texts = [one.sentence for one in insights_on(journal)]
    assert f"Rank 1 ran tree: {first.case.describe()}." in texts
    assert "What ran is unknown in 1 case: the log is full." in texts


def test_drawings_have_every_rank_and_connection():
    transports, ring, other, tree = diagrams_of(BARE.header, explained().paths[0])
    assert [len(one.edges) for one in (transports, ring, other, tree)] == [6, 4, 4, 3]
    assert {len(one.nodes) for one in (transports, ring, other, tree)} == {4}
    assert transports.legend == [(0, "SHM/direct/direct")]
    assert not any(edge.arrow for edge in transports.edges)
    assert all(edge.arrow for edge in ring.edges)


def test_hosts_are_apart_and_everything_is_within_the_drawing():
    layout = DiagramLayout({rank: f"node{rank // 8}" for rank in range(40)})
    ring = [DiagramLine(rank, (rank + 1) % 40, arrow=True) for rank in range(40)]
    drawn = layout.drawn("t", "s", ring)
    assert [box.label for box in drawn.boxes] == [f"node{number}" for number in range(5)]
    for node, box in zip(drawn.nodes, [box for box in drawn.boxes for _ in range(8)], strict=True):
        assert box.x < node.x - drawn.radius
        assert node.x + drawn.radius < box.x + box.width <= drawn.width
        assert box.y < node.y - drawn.radius
        assert node.y + drawn.radius < box.y + box.height <= drawn.height


def test_both_directions_between_two_ranks_are_visible():
    drawn = DiagramLayout({0: "a", 1: "a"}).drawn(
        "t", "s", [DiagramLine(0, 1, arrow=True), DiagramLine(1, 0, arrow=True)]
    )
    first, second = drawn.edges
    assert abs(first.y1 - second.y1) > 4
    assert first.x1 < first.x2
    assert second.x1 > second.x2


@pytest.mark.parametrize("ranks", [1, 65])
def test_one_rank_and_very_many_are_not_drawn(ranks):
    devices = [DeviceDescription(rank, "a", "cuda", rank, "d", 1) for rank in range(ranks)]
    header = replace(BARE.header, devices=devices, relations=[])
    routes = [Route(rank, (rank + 1) % ranks, "P2P/CUMEM") for rank in range(ranks)]
    paths = Paths("nccl", "log", routes=routes, rings=[Ring(list(range(ranks)), 1)])
    assert diagrams_of(header, paths) == []


def test_a_route_of_an_unknown_rank_is_left_out():
    paths = Paths("nccl", "log", routes=[Route(0, 9, "P2P/CUMEM"), Route(0, 1, "P2P/CUMEM")])
    (drawn,) = diagrams_of(BARE.header, paths)
    assert len(drawn.edges) == 1


@pytest.mark.parametrize("text", ["<svg onload=alert(1)>", "</script><script>alert(1)</script>"])
def test_texts_of_a_library_stay_text(text):
    usual = render(page_of([NamedRun("run", explained())]))
    hostile = render(
        page_of([NamedRun("run", explained(text, text, parameters={text: text}, messages=[text]))])
    )
    for tag in ("<svg", "<script", "</script"):
        assert hostile.count(tag) == usual.count(tag)
    assert not re.search(r"onload=alert\(1\)>", hostile)
