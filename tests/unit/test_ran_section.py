"""What ran, on a page: tables, drawings, marks on curves, and findings in the summary."""

from __future__ import annotations

import re

import msgspec
import pytest

from cclmark.document.naming import NamedRun
from cclmark.document.page.drawings import DiagramLayout, DiagramLine
from cclmark.document.page.page import render
from cclmark.explain.paths import Route
from cclmark.report.page_sections import diagrams_of
from cclmark.report.run_page import page_of
from cclmark.results.schema import DeviceDescription, Paths, Ring
from reports import COLLECTIVES as BARE
from reports import explained

replace = msgspec.structs.replace


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
