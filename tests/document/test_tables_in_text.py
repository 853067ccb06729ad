"""Tables in texts of any width, and what continues, groups and shades them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.blocks import Document, Facts, Finding, Groups, Listing, Table
from cclmark.document.chart_model import Heat
from cclmark.document.document_text import MarkdownLines, TextLines, table_lines
from cclmark.document.paint import unpainted
from cclmark.document.report_kind import View
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceDescription
from samples import header_of, usual_settings

GROUPS = Groups(("out-of-place", "in-place"), 2, "placement", ("out", "in"))


def grouped(rows, **options):
    head = ("size", "count", "time", "rate", "time", "rate")
    return Table("t", head, rows, ">>>>>>", groups=GROUPS, **options)


ROW = ("1 KiB", "256", "1.00", "2.00", "3.00", "4.00")


def lines_of(table, width=None):
    heads, rows = table_lines(table, unpainted, width)
    return heads, rows


def test_groups_stand_side_by_side_where_they_fit():
    table = grouped([ROW])
    heads, rows = lines_of(table)
    assert heads == [
        " " * 14 + "  out-of-place  ─in-place─",
        "   size  count  time  rate  time  rate",
    ]
    assert rows == ["  1 KiB    256  1.00  2.00  3.00  4.00"]
    whole = len(rows[0])
    assert lines_of(table, whole) == (heads, rows)
    stacked_heads, stacked = lines_of(table, whole - 1)
    assert stacked_heads == ["   size  count  placement  time  rate"]
    assert stacked == [
        "  1 KiB    256  out        1.00  2.00",
        " " * 16 + "in         3.00  4.00",
    ]


def test_groups_without_cells_have_no_line_of_their_own():
    rows = [(*ROW[:4], "", ""), (*ROW[:2], "", "", *ROW[4:]), (*ROW[:2], "", "", "", "")]
    _, lines = lines_of(grouped(rows), 37)
    assert [line.split() for line in lines] == [
        ["1", "KiB", "256", "out", "1.00", "2.00"],
        ["1", "KiB", "256", "in", "3.00", "4.00"],
        ["1", "KiB", "256"],
    ]


def test_optional_columns_are_left_out_one_after_the_other():
    table = grouped([ROW], optional=(1, 0))
    assert lines_of(table, 37)[0] == ["   size  count  placement  time  rate"]
    assert lines_of(table, 36)[0] == ["   size  placement  time  rate"]
    assert lines_of(table, 29)[0] == ["  placement  time  rate"]
    assert lines_of(table, 5)[0] == ["  placement  time  rate"]
    single = Table("t", ("a", "b"), [("1", "2")], "<>", optional=(1,))
    assert lines_of(single, 4)[0] == ["  a"]
    assert lines_of(single, 6)[0] == ["  a  b"]


def test_a_row_of_fewer_cells_ends_with_its_reason():
    table = Table("t", ("a", "b", "c"), [("1", "2", "3"), ("4", "failed: why")], "<<<")
    assert lines_of(table)[1] == ["  1  2  3", "  4  failed: why"]
    below = Table(
        "t", ("a", "b", "why"), [("1", "2", "x\ny"), ("3", "4", "")], "<<<", is_last_below=True
    )
    assert lines_of(below) == (["  a  b"], ["  1  2", "     x", "     y", "  3  4"])


def test_cells_and_rows_that_stand_out_are_painted():
    def paint(text, style):
        return f"<{style}>{text}</>"

    looks = [(0, 0, "good"), (1, 1, "look"), (1, 0, "note")]
    table = Table("t", ("a", "b"), [("1", "2"), ("3", "4")], "<>", looks=looks)
    assert table_lines(table, paint, None)[1] == ["  <green>1</>  2", "  3  <yellow>4</>"]
    wrong = Table("t", ("a", "b"), [("1", "2"), ("3", "4")], "<>", wrong=[1])
    assert table_lines(wrong, paint, None)[1] == ["  1  2", "<red>  3  4</>"]
    reason = Table("t", ("a", "b", "c"), [("1", "x")], "<<<", looks=[(0, 2, "bad")])
    assert table_lines(reason, paint, None)[1] == ["  1  <red>x</>"]


@given(st.lists(st.lists(st.text("abc", max_size=6), min_size=3, max_size=3), max_size=4))
def test_columns_are_as_wide_as_their_widest_cell(rows):
    heads, lines = lines_of(Table("t", ("x", "y", "z"), rows, "<>>"))
    widths = [max(map(len, column)) for column in zip("xyz", *rows, strict=True)]
    for cells, line in zip([*["xyz"], *rows], [*heads, *lines], strict=True):
        first, second, third = cells
        expected = f"  {first:<{widths[0]}}  {second:>{widths[1]}}  {third:>{widths[2]}}"
        assert line == expected.rstrip()


def text_of(*blocks, markdown=False, **view):
    lines = (MarkdownLines if markdown else TextLines)(View(**view))
    return lines.blocks(blocks)


@pytest.mark.parametrize("markdown", [False, True])
def test_only_the_same_series_of_given_widths_continues(markdown):
    def part(title, **options):
        return Table(title, ("a",), [(title,)], "<", **options)

    def heads(*tables):
        lines = text_of(*tables, markdown=markdown)
        return sum(line.strip() in ("a", "| a |") for line in lines)

    assert heads(part("t", widths=[3]), part("t", widths=[3])) == 1
    assert heads(part("t", widths=[3]), part("u", widths=[3])) == 2
    assert heads(part("t", widths=[3], series="s"), part("u", widths=[3], series="s")) == 1
    assert heads(part("t"), part("t")) == 2
    assert heads(part("t", widths=[3]), part("t")) == 2


def test_a_table_that_belongs_to_another_has_no_empty_line():
    table = Table("one", ("a",), [("1",)], "<", belongs=True)
    assert text_of(table) == ["  one", "  a", "  1"]
    assert text_of(Table("one", ("a",), [("1",)], "<")) == ["", "  one", "  a", "  1"]


def heat(title, **options):
    return Heat(title, title, "S.", "to", "u", ["A"], ["A"], [[1.0]], [["1"]], [[""]], **options)


def test_details_and_other_maps_of_a_group_are_not_written_twice():
    both = [heat("g: a", group="g"), heat("g: b", group="g")]
    assert "\n".join(text_of(*both)).count("  g") == 1
    assert text_of(heat("d", is_detail=True)) == []
    assert text_of(heat("d", is_detail=True), details=True) != []
    shown = text_of(heat("m", meaning=["of", "links"], reasons=["why"]), markdown=True)
    assert shown == [
        "",
        "## m",
        "",
        "of; links",
        "",
        "| to | A |",
        "|---|---:|",
        "| A | 1 |",
        "",
        "- why",
    ]
    assert text_of(heat("g: a", group="g"), markdown=True)[3] == "**a**"


def test_statements_are_below_their_subject():
    findings = [
        Finding("notice", "note", "a"),
        Finding("notice", "bad", "b", "s"),
        Finding("notice", "note", "c", "s", "do it"),
        Finding("notice", "note", "outcome", is_outcome=True),
        Finding("notice", "note", "d"),
        Finding("notice", "note", "e", "s"),
    ]
    document = Document("t", "", [], findings, "done", notes=["n"], figures=["f"])
    assert [*TextLines(View()).statements(document)] == [
        *("  f", "  a", "  s:", "    b", "    c", "      do it", "  d", "  s:", "    e", "  n"),
        "  done",
    ]
    assert [*MarkdownLines(View()).statements(document)][3:6] == ["  - b", "  - c", "    - do it"]
    narrow = TextLines(View(columns=40))
    assert next(narrow.statements(Document("t", "", outcome="word " * 12))).count("\n") == 1


def test_facts_and_listings():
    assert text_of(Facts([("a", "1"), ("a", "2")]))[0] == "  a          1"
    assert text_of(Facts([("a", "1")]), markdown=True) == ["", "- a: 1"]
    assert text_of(Listing("t", ["x ", "y"])) == ["", "  t", "  x", "  y"]
    assert text_of(Listing("t", ["x"]), markdown=True) == ["", "## t", "", "```text", "x", "```"]
    assert MarkdownLines(View()).early("why") == ["", "Ended early: why"]


def test_a_view_is_of_several_hosts_if_devices_or_the_head_are():
    def hosts(*names):
        devices = [
            DeviceDescription(rank, name, "cuda", 0, "", 0) for rank, name in enumerate(names)
        ]
        header = header_of(usual_settings())
        header.devices = devices
        return View(Journal(header, [])).hosts

    assert [hosts("a"), hosts("a", "a"), hosts("a", "b")] == [False, False, True]
