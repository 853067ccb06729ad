"""Drawings of a page: ranks on circles by host, and stages on an axis of time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.device_labels import device_labels, pair_name, way_between
from cclmark.document.page.drawings import LOOKS, DiagramLayout, DiagramLine, stage_bars
from cclmark.journal.schema import DeviceDescription, TracedStage
from cclmark.work.cases import Case
from goldens import outline, require_stated


def drawn_of(*sizes, lines=(), legend=()):
    hosts = [f"h{host}" for host, size in enumerate(sizes) for _ in range(size)]
    return DiagramLayout(dict(enumerate(hosts))).drawn("t", "says", [*lines], [*legend])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7))
def test_ranks_are_apart_and_within_their_host(sizes):
    drawn = drawn_of(*sizes)
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
            if drawn.radius < one.x - box.x < box.width - drawn.radius
            and drawn.radius < one.y - box.y < box.height - drawn.radius
        ]
        assert len(inside) == sizes[int(box.label[1:])]


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


def test_the_circle_of_very_many_ranks_has_room_for_all():
    first, opposite = (drawn_of(40).nodes[place] for place in (0, 20))
    diameter = math.dist((first.x, first.y), (opposite.x, opposite.y))
    assert diameter == pytest.approx(2 * 40 * 62 / math.tau)


@given(st.floats(1e-6, 1e4))
def test_an_axis_has_few_ticks_at_round_times(end_s):
    drawn = bars([("a", 0.0, end_s)], names={0: "name"})
    assert 4 <= len(drawn.ticks) <= 9
    assert drawn.ticks[0].label == "0 ms"
    step = float(drawn.ticks[1].label.split()[0])
    digits = f"{step:e}".split("e")[0]
    assert float(digits) in (1.0, 2.0, 5.0)
    assert drawn.ticks[-1].x <= 1000
    assert drawn.rows[0][1] == "name"


def test_very_many_rows_are_not_all_drawn():
    many = [[(f"s{number}", 0.0, 1.0)] for number in range(66)]
    drawn = bars(*many)
    assert len(drawn.rows) == 64
    assert drawn.note.startswith("2 more are in the table")
    assert [look for look, _ in drawn.legend[:LOOKS]] == [*range(LOOKS)]
    assert drawn.legend[LOOKS][0] == drawn.bars[LOOKS].look == 0
    assert bars(*many[:64]).note == ""


@pytest.mark.parametrize(
    ("devices", "labels"),
    [
        ([("a", 0), ("a", 2)], ["DEV0", "DEV2"]),
        ([("a", 0), ("a", 2), ("b", 0)], ["HOST0:DEV0", "HOST0:DEV2", "HOST1:DEV0"]),
        ([("a", 0, "GPU 1"), ("a", 0, "nic"), ("a", 1)], ["GPU1", "nic", "DEV1"]),
        ([("a", 0, "x"), ("a", 0, "x"), ("a", 1, "y")], ["x#0", "x#1", "y"]),
    ],
)
def test_devices_have_the_names_that_distinguish_them(devices, labels):
    assert labels == device_labels(
        [
            DeviceDescription(rank, host, "cuda", index, *(name or [""]), 0)
            for rank, (host, index, *name) in enumerate(devices)
        ]
    )


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
