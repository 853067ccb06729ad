"""Drawings of a page: ranks on circles by host, and stages on an axis of time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.device_labels import device_labels, pair_name, way_between
from cclmark.document.page.drawings import (
    LOOKS,
    DiagramLayout,
    DiagramLine,
    stage_bars,
)
from cclmark.journal.schema import DeviceDescription, TracedStage
from cclmark.work.cases import Case


def layout_of(*sizes):
    ranks = [f"h{host}" for host, size in enumerate(sizes) for _ in range(size)]
    return DiagramLayout(dict(enumerate(ranks)))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7))
def test_ranks_are_apart_and_within_their_host(sizes):
    drawn = layout_of(*sizes).drawn("t", "says", [])
    assert [one.label for one in drawn.nodes] == [str(rank) for rank in range(sum(sizes))]
    for place, one in enumerate(drawn.nodes):
        assert drawn.radius <= one.x <= drawn.width - drawn.radius
        assert drawn.radius <= one.y <= drawn.height - drawn.radius
        for other in drawn.nodes[:place]:
            assert math.dist((one.x, one.y), (other.x, other.y)) > 2 * drawn.radius
    assert len(drawn.boxes) == (len(sizes) if len(sizes) > 1 else 0)
    assert len({(one.x, one.y) for one in drawn.boxes}) == len(drawn.boxes)
    for box in drawn.boxes:
        assert 0 < box.x < box.x + box.width < drawn.width
        assert 0 < box.y < box.y + box.height < drawn.height
        inside = [
            one
            for one in drawn.nodes
            if box.x < one.x < box.x + box.width and box.y < one.y < box.y + box.height
        ]
        assert len(inside) == sizes[int(box.label[1:])]


def test_hosts_fill_rows_of_a_square():
    drawn = layout_of(*[1] * 5).drawn("t", "says", [])
    columns = sorted({one.x for one in drawn.boxes})
    rows = sorted({one.y for one in drawn.boxes})
    assert (len(columns), len(rows)) == (3, 2)
    first = drawn.boxes[0]
    assert columns[1] - columns[0] == pytest.approx(first.width + 14)
    assert rows[1] - rows[0] == pytest.approx(first.height + 14)
    assert drawn.width - columns[-1] - first.width == pytest.approx(14)
    assert drawn.height - rows[-1] - first.height == pytest.approx(14)
    assert (first.x, first.y) == (14, 14)
    assert first.height == first.width + 20


def test_one_rank_is_in_the_middle_two_side_by_side_and_more_clockwise_from_the_top():
    (one,) = layout_of(1).drawn("t", "says", []).nodes
    side = 2 * (13 + 14)
    assert (one.x, one.y) == (14 + side / 2, 14 + side / 2)
    left, right = layout_of(2).drawn("t", "says", []).nodes
    assert left.y == pytest.approx(right.y)
    assert right.x - left.x == pytest.approx(88)
    top, east, bottom, west = layout_of(4).drawn("t", "says", []).nodes
    assert top.y < east.y < bottom.y
    assert west.x < top.x < east.x
    assert (west.y, bottom.x) == pytest.approx((east.y, top.x))
    many = layout_of(40).drawn("t", "says", []).nodes
    assert math.dist((many[0].x, many[0].y), (many[20].x, many[20].y)) == pytest.approx(
        2 * 40 * 62 / math.tau
    )


def test_lines_end_at_the_edge_of_ranks_and_keep_apart():
    layout = layout_of(2)
    lines = [DiagramLine(0, 1, 3), DiagramLine(1, 0), DiagramLine(0, 1, arrow=True)]
    drawn = layout.drawn("t", "says", [*lines, DiagramLine(1, 0, arrow=True)])
    left, right = drawn.nodes
    first, second, there, back = drawn.edges
    assert (first.x1, first.x2) == pytest.approx((left.x + 13, right.x - 13))
    assert (first.y1, first.y2) == pytest.approx((left.y, left.y))
    assert (first.look, first.arrow) == (3, False)
    assert (second.y1, second.y2) == pytest.approx((left.y - 4, left.y - 4))
    assert (there.x1, there.x2) == pytest.approx((left.x + 13, right.x - 18))
    assert there.y1 == pytest.approx(left.y + 4)
    assert back.y1 == pytest.approx(left.y - 4)
    assert (back.x1, back.x2) == pytest.approx((right.x - 13, left.x + 18))
    assert there.arrow


def test_lines_to_unknown_ranks_and_to_itself_are_left_out():
    none = [DiagramLine(0, 9), DiagramLine(9, 0), DiagramLine(1, 1)]
    assert layout_of(2).drawn("t", "says", none, [(0, "x")]).edges == []
    drawn = layout_of(2).drawn("t", "says", none, [(0, "x")])
    assert (drawn.title, drawn.says, drawn.legend) == ("t", "says", [(0, "x")])


def stages(*rows):
    return {number: [TracedStage(*one) for one in row] for number, row in enumerate(rows)}


def test_stages_are_bars_on_an_axis_of_round_times():
    drawn = stage_bars(
        "t", "rank", stages([("send", 0.0, 0.5), ("recv", 0.5, 0.3, 1024)], [("send", 0.0, 0.8)])
    )
    scale = (1000 - 76 - 2) / 0.8
    assert [(one.x, one.width) for one in drawn.bars] == [
        pytest.approx((76, 0.5 * scale)),
        pytest.approx((76 + 0.5 * scale, 0.3 * scale)),
        pytest.approx((76, 0.8 * scale)),
    ]
    assert [one.y for one in drawn.bars] == [0, 0, 22]
    assert [one.look for one in drawn.bars] == [0, 1, 0]
    assert drawn.rows == [(7.5, "rank 0"), (29.5, "rank 1")]
    assert drawn.bars[1].says == "rank 0: recv, 300.00 ms, 1 KiB"
    assert drawn.bars[0].says == "rank 0: send, 500.00 ms"
    assert drawn.height == 2 * 22 + 24
    assert [one.label for one in drawn.ticks] == [f"{100 * one} ms" for one in range(9)][:9]
    assert drawn.ticks[3].x == pytest.approx(76 + 0.3 * scale)
    assert drawn.legend == [(0, "send"), (1, "recv")]
    assert drawn.says == "The stages of 2 ranks over time. The longest is send, 800.00 ms."
    assert drawn.note == ""


@given(st.floats(1e-6, 1e4))
def test_an_axis_has_few_ticks_at_round_times(end_s):
    drawn = stage_bars("t", "rank", stages([("a", 0.0, end_s)]), {0: "name"})
    assert 4 <= len(drawn.ticks) <= 9
    assert drawn.ticks[0].label == "0 ms"
    step = float(drawn.ticks[1].label.split()[0])
    digits = f"{step:e}".split("e")[0]
    assert float(digits) in (1.0, 2.0, 5.0)
    assert drawn.ticks[-1].x <= 1000
    assert drawn.rows[0][1] == "name"


def test_stages_without_time_are_seen_and_very_many_rows_are_not_all_drawn():
    (bar,) = stage_bars("t", "rank", stages([("a", 0.0, 0.0)])).bars
    assert (bar.x, bar.width) == (76, 1)
    assert stage_bars("t", "rank", {}).says == "The stages of 0 ranks over time."
    many = {number: [TracedStage(f"s{number}", 0.0, 1.0)] for number in range(66)}
    drawn = stage_bars("t", "rank", many)
    assert len(drawn.rows) == 64
    assert drawn.note.startswith("2 more are in the table")
    assert [look for look, _ in drawn.legend[:LOOKS]] == [*range(LOOKS)]
    assert drawn.legend[LOOKS][0] == drawn.bars[LOOKS].look == 0
    assert stage_bars("t", "rank", dict(list(many.items())[:64])).note == ""


# The names of devices.


def device(rank, host, index, name=""):
    return DeviceDescription(rank, host, "cuda", index, name, 0)


def test_devices_have_the_names_that_distinguish_them():
    one = [device(0, "a", 0), device(1, "a", 2)]
    assert device_labels(one) == ["DEV0", "DEV2"]
    assert device_labels([*one, device(2, "b", 0)]) == ["HOST0:DEV0", "HOST0:DEV2", "HOST1:DEV0"]
    mixed = [device(0, "a", 0, "GPU 1"), device(1, "a", 0, "nic"), device(2, "a", 1)]
    assert device_labels(mixed) == ["GPU1", "nic", "DEV1"]
    alike = [device(0, "a", 0, "x"), device(1, "a", 0, "x"), device(2, "a", 1, "y")]
    assert device_labels(alike) == ["x#0", "x#1", "y"]


@pytest.mark.parametrize(
    ("operation", "root", "way"),
    [
        ("broadcast", 0, "A → C"),
        ("broadcast", 1, "C → A"),
        ("reduce", 0, "C → A"),
        ("reduce", 1, "A → C"),
        ("send", None, "A → C"),
        ("all_reduce", None, "A–C"),
    ],
)
def test_an_arrow_has_the_direction_of_the_data(operation, root, way):
    case = Case(operation, "nccl", 2, "float32", 8, 2, False, root=root, pair=(0, 2))
    assert way_between(case, "ABC") == way
    assert pair_name((1, 0), "all_gather", "AB") == "B–A"
