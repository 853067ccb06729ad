"""Matrices and curves as lines of a terminal."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.chart_model import (
    ChartCurve,
    Heat,
    Lines,
    beyond,
    key_of,
    marked,
    spread_limits,
)
from cclmark.document.grid import (
    curve_lines,
    curve_table,
    curves,
    grid_lines,
    heat_lines,
    hidden_line,
    visible_width,
)
from cclmark.document.paint import ansi, unpainted


def grid(rows, columns, cells, width):
    return grid_lines(rows, columns, cells, paint=unpainted, width=width)


def test_columns_of_a_matrix_are_as_wide_as_the_widest_name():
    assert grid(["a", "name"], ["x", "y"], [["1", "2"], ["3", ""]], 80) == [
        "               x         y",
        "     a         1         2",
        "  name         3",
    ]
    assert grid(["a"], ["a long name!"], [["1"]], 80)[0] == " " * 8 + "a long name!"
    assert grid(["longer name"], [], [[]], 80) == []


@given(st.integers(1, 9), st.integers(1, 120), st.integers(1, 20))
def test_parts_of_a_matrix_fit_and_have_every_cell_once(columns, width, length):
    names = [f"{number:0{length}}" for number in range(columns)]
    lines = grid(["r"], names, [[f"c{number}" for number in range(columns)]], width)
    heads, rows = lines[::2], lines[1::2]
    assert " ".join(heads).split() == names
    assert " ".join(rows).replace("r", "").split() == [f"c{number}" for number in range(columns)]
    cell = max(9, length + 1) + 1
    for line in lines:
        assert len(line) <= max(width, 6 + cell)
    most = max(1, (width - 6) // cell)
    assert len(heads) == -(-columns // most)


def test_colours_take_no_room():
    assert visible_width(ansi("abc", "red")) == 3
    assert visible_width("m" + ansi("m", "red") + "m") == 3
    (_, plain_row), (_, painted) = (
        grid(["r"], ["x"], [[cell]], 80) for cell in ("1", ansi("1", "red"))
    )
    assert painted.replace("\x1b[1;31m", "").replace("\x1b[0m", "") == plain_row


def test_a_limit_of_devices_is_stated():
    assert hidden_line(8, 8, unpainted) == []
    assert hidden_line(9, 8, unpainted)[0].startswith("  1 of 9 devices is not shown")
    assert hidden_line(10, 8, unpainted)[0].startswith("  2 of 10 devices are not shown")


def heat(title, values, **options):
    names = [f"D{number}" for number in range(len(values))]
    texts = [["" if value is None else f"{value:g}" for value in row] for row in values]
    given = {"rows": names, "columns": names[: len(values[0])], "hover": texts, **options}
    return Heat(title, title, "Says.", "to", "GB/s", values=values, texts=texts, **given)


def styles_of(*heats, width=200, most=9):
    seen = []
    heat_lines(heats, lambda text, style: seen.append((text.strip(), style)) or text, width, most)
    return dict(seen)


def test_colours_reach_from_the_worst_to_the_best_value():
    found = styles_of(heat("m", [[1.0, None], [2.0, 4.0]], wrong=[(0, 1)]))
    assert (found["1"], found["2"], found["4"], found[""]) == ("heat0", "heat2", "heat6", "red")
    found = styles_of(heat("m", [[1.0, 4.0], [2.0, 3.0]], higher_is_better=False))
    assert (found["1"], found["2"], found["3"], found["4"]) == ("heat6", "heat4", "heat2", "heat0")
    assert styles_of(heat("m", [[5.0, 5.0], [5.0, 5.0]]))["5"] == "dim"
    found = styles_of(heat("m", [[0.0, 1.0], [-3.0, 3.0]], centred=True))
    assert (found["0"], found["-3"], found["1"], found["3"]) == ("dim", "heat0", "heat4", "heat6")


@pytest.mark.parametrize(
    ("values", "options", "scale"),
    [
        ([[1.0, 4.0]], {}, (1, 4)),
        ([[2.0, 3.0]], {"least_span": 4}, (0.5, 4.5)),
        ([[2.0, 3.0]], {"least_span": 1}, (2, 3)),
        ([[2.0, 3.0]], {"least_span": 1.5}, (1.75, 3.25)),
        ([[-2.0, 3.0]], {"centred": True}, (-3, 3)),
        ([[-4.0, 3.0]], {"centred": True}, (-4, 4)),
        ([[-0.5, 0.5]], {"centred": True, "least_span": 2}, (-2, 2)),
        ([[None]], {}, (0, 0)),
    ],
)
def test_the_scale_of_a_map_has_a_least_range(values, options, scale):
    assert heat("m", values, **options).scale == scale


def test_maps_stand_side_by_side_where_they_fit():
    two = [heat(f"all: {name}", [[1.0]], group="all") for name in ("first", "second")]
    beside = heat_lines(two, unpainted, 80, 9)
    assert any("first" in line and "second" in line for line in beside)
    stacked = heat_lines(two, unpainted, 30, 9)
    assert not any("first" in line and "second" in line for line in stacked)
    widths = [max(map(len, beside)) + change for change in (0, -1)]
    fits = [
        any("first" in one and "second" in one for one in heat_lines(two, unpainted, width, 9))
        for width in widths
    ]
    assert fits == [True, False]


def test_a_group_of_one_map_has_the_title_of_the_group_and_a_caption():
    lines = heat_lines([heat("all: one", [[1.0]], group="all")], unpainted, 80, 9)
    assert lines[:3] == ["", "  all", "  one"]


def test_devices_beyond_a_limit_are_left_out_of_rows_and_columns():
    values = [[float(3 * row + column) for column in range(3)] for row in range(3)]
    lines = heat_lines([heat("m", values, of_devices=True)], unpainted, 80, 2)
    text = "\n".join(lines)
    assert "D1" in text
    assert "D2" not in text
    assert "1 of 3 devices is not shown" in lines[-1]
    many = heat("m", values, of_devices=True, rows=["a", "b", "c"])
    assert "c" in [line.split()[0] for line in heat_lines([many], unpainted, 80, 2) if line]
    assert "D2" in "\n".join(heat_lines([heat("m", values)], unpainted, 80, 2))


def lines(*series, **options):
    return Lines("k", "Title", "Says.", "size", "GB/s", series, **options)


def test_figures_of_curves_are_a_table():
    chart = lines(ChartCurve("up", [8, 4096], [1.0, 2.0]), ChartCurve("one", [8], [0.5]))
    table = curve_table(chart)
    assert (table.head, table.sides) == (("", "up", "one"), ">>>")
    assert table.rows == [["8 B", "1.00", "0.500"], ["4 KiB", "2.00", "-"]]
    assert curve_table(chart, "ab").head == ("", "a up", "b one")
    numbers = curve_table(lines(ChartCurve("up", [1.5], [1.0]), x_kind="number"))
    assert numbers.rows == [["1.5", "1.00"]]


@pytest.mark.parametrize(("number", "is_drawn"), [(1, True), (12, True), (13, False)])
def test_few_curves_are_drawn(number, is_drawn):
    chart = lines(*(ChartCurve(f"c{one}", [8, 16], [1.0, 2.0]) for one in range(number)))
    assert any("└" in line for line in curve_lines(chart, unpainted, 200)) == is_drawn


def test_one_place_is_no_drawing():
    assert curves([{8.0: 1.0}], {8.0: "8"}, 80) == []
    assert curves([{8.0: 0.0, 16.0: 0.0}], {8.0: "8", 16.0: "16"}, 80) == []
    assert curves([{8.0: 0.0, 16.0: 1.0}], {8.0: "8", 16.0: "16"}, 80) != []


def test_curves_rise_to_the_right():
    names = {1.0: "1", 2.0: "2", 3.0: "3"}
    found = curves([{1.0: 1.0, 2.0: 10.0, 3.0: 100.0}, {2.0: 10.0}], names, 80)
    assert len(found) == 16
    assert found[0] == "      100 │" + "a".rjust(27)
    assert found[13] == "        1 │" + "a".rjust(9)
    assert found[7].endswith("ab")
    assert found[14] == " " * 10 + "└" + "─" * 27
    assert found[15] == " " * 11 + "".join(one.rjust(9) for one in "123")


def test_values_of_the_axis_have_no_exponent_where_whole_numbers_do():
    names = {1.0: "1", 2.0: "2"}
    for least, text in ((999.0, "999 │"), (1000.0, "1000 │"), (0.0012345, "0.00123 │")):
        assert text in curves([{1.0: least, 2.0: least}], names, 80)[-3]


def test_letters_that_do_not_fit_are_a_plus():
    same = [{1.0: 1.0, 2.0: 2.0}] * 4
    found = curves(same, {1.0: "1", 2.0: "2"}, 11 + 1 + 8)
    assert found[0].endswith(" ab+")
    assert "abc" in curves(same[:3], {1.0: "1", 2.0: "2"}, 20)[0]


@given(st.integers(2, 60), st.integers(20, 200))
def test_drawings_fit_and_keep_the_last_place(places, width):
    names = {float(place): str(place) for place in range(places)}
    found = curves([dict.fromkeys(names, 1.0)], names, width)
    assert max(map(len, found)) <= max(width, 12 + 8)
    labels = [int(one) for one in found[-1].split()]
    assert labels[-1] == places - 1
    assert len({after - before for before, after in pairwise(labels)}) <= 1
    room = max(2, (width - 12) // 4)
    assert len(labels) == -(-places // -(-places // room))


def box(low, high):
    return (low, 0.0, 0.0, 0.0, high)


def test_an_outlier_beyond_the_axis_is_named():
    boxes = [box(-1.0, 2.0)] * 20
    assert spread_limits(boxes) is None
    low, high = spread_limits([*boxes, box(-1.0, 500.0), box(-90.0, 2.0)])
    room = 0.05 * 3
    assert (low, high) == pytest.approx((-1 - room, 2 + room))
    assert beyond([(boxes[0], "x")], None) == []
    named = [(box(low, high), "edge"), (box(-1, 500), "far"), (box(-90, 2), "low")]
    (text,) = beyond(named, (low, high))
    assert text.endswith("reach to +500 % (far), -90 % (low)")
    assert text.startswith(f"the axis ends at {low:+.1f} and {high:+.1f} %")
    (text,) = beyond([(box(0, 100.0 + one), str(one)) for one in range(4)], (-1, 1))
    assert text.endswith("+103 % (3), +102 % (2), +101 % (1) and 1 more")
    (text,) = beyond([(box(0, 100.0 + one), str(one)) for one in range(3)], (-1, 1))
    assert text.endswith("+100 % (0)")


def test_small_deviations_are_no_outliers():
    assert spread_limits([box(-0.1, 0.1)] * 20 + [box(-0.1, 10.0)]) is None
    assert spread_limits([box(-0.1, 0.1)] * 20 + [box(-0.1, 10.1)]) is not None


def test_keys_are_unique_file_names():
    taken = set()
    assert [key_of(" All reduce: µs! ", taken) for _ in range(3)] == [
        *("all-reduce-s", "all-reduce-s-2", "all-reduce-s-3"),
    ]
    assert len(key_of("a" * 300, taken)) == 100
    assert [one.key for one in marked([lines(), lines()], "-2")] == ["k-2", "k-2"]
