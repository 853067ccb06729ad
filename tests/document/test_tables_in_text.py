"""Tables in texts of any width, what continues, groups and shades them, and words for numbers."""

from itertools import chain

import pytest

from cclmark.document.blocks import (
    Document,
    Facts,
    Finding,
    Groups,
    Listing,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.chart_model import Heat
from cclmark.document.document_text import MarkdownLines, TextLines, table_lines
from cclmark.document.report_kind import View
from cclmark.kinds.registry import read_journal
from cclmark.report.exports import replayed
from goldens import require_stated
from places import H200X4, TESTS

JOURNALS = {
    path.stem: path
    for path in (
        *sorted((TESTS / "journals").glob("*.jsonl")),
        *(H200X4 / f"{name}.jsonl" for name in ("p2p", "p2p_blocks", "libraries", "two_hosts")),
        H200X4 / "runs" / "collectives" / "a-1.jsonl",
    )
}


@pytest.mark.parametrize("name", JOURNALS)
def test_no_line_of_a_kind_is_longer(name):
    journal = read_journal(JOURNALS[name])
    for width in (100, 120):
        lines = "".join(replayed(journal, "table", View(columns=width))).splitlines()
        assert [line for line in lines if len(line) > width] == []


def table(head, *rows, sides=None, **options):
    return Table("t", head, rows, sides or "<" * len(head), **options)


ROW = ("1 KiB", "256", "1.00", "2.00", "3.00", "4.00")
NO_CELLS = [(*ROW[:4], "", ""), (*ROW[:2], "", "", *ROW[4:]), (*ROW[:2], "", "", "", "")]
HEAD = ("size", "count", "time", "rate", "time", "rate")
GROUPS = Groups(("out-of-place", "in-place"), 2, "placement", ("out", "in"))
REMARKS = ("name", "smallest message µs", "remark")
LONG = ("b", "22.50", "a remark of many words " * 6)
SHORT = ("a", "1.00", "short")
TWO_ROWS = (("1", "2"), ("3", "4"))


def grouped(*rows, **options):
    return table(HEAD, *rows, sides=">>>>>>", groups=GROUPS, **options)


#: Tables and their widths.
TABLES = {
    "groups": (grouped(ROW), (None, 38, 37)),
    "groups without cells": (grouped(*NO_CELLS), (37,)),
    "optional columns of groups": (grouped(ROW, optional=(1, 0)), (37, 36, 29, 5)),
    "optional columns": (table("ab", "12", sides="<>", optional=(1,)), (6, 4)),
    "fewer cells": (table("abc", ("1", "2", "3"), ("4", "failed: why")), (None,)),
    "lines below": (
        table(("a", "b", "why"), ("1", "2", "x\ny"), ("3", "4", ""), is_last_below=True),
        (None,),
    ),
    "cells that stand out": (
        table("ab", *TWO_ROWS, looks=[(0, 0, "good"), (1, 1, "look"), (1, 0, "note")]),
        (None,),
    ),
    "wrong row": (table("ab", *TWO_ROWS, wrong=[1]), (None,)),
    "reason that stands out": (table("abc", ("1", "x"), looks=[(0, 2, "bad")]), (None,)),
    "long heads": (table(REMARKS, SHORT, sides="<><"), (26,)),
    "long text": (table(REMARKS, SHORT, LONG, sides="<><"), (60, 99)),
    "continued": (table(REMARKS, LONG, sides="<><", widths=(4, 20, 10)), (60,)),
}


def paint(text, style):
    return f"<{style}>{text}</>" if style and style != "dim" else text


def test_tables_of_any_width():
    """Groups stand side by side where they fit, optional columns are left out one by one, heads
    are wrapped before texts, and cells and rows that stand out are painted.
    """
    found = {}
    for name, (own, widths) in TABLES.items():
        for width in widths:
            heads, rows = table_lines(own, paint, width)
            found[f"{name}, {width}"] = [*heads, *rows]
            longest = max(map(len, chain.from_iterable(one.split("\n") for one in rows)))
            assert width is None or longest <= width or width < 37
    require_stated("words/tables.txt", found)


def text_of(*blocks, markdown=False, **view):
    return (MarkdownLines if markdown else TextLines)(View(**view)).blocks(blocks)


def heat(title, **options):
    given = {"hover": [[""]], "values": [[1.0]], "texts": [["1"]], **options}
    return Heat(title, title, "S.", "to", "u", rows=["A"], columns=["A"], **given)


FINDINGS = [
    Finding("notice", "note", "a"),
    Finding("notice", "bad", "b", "s"),
    Finding("notice", "note", "c", "s", "do it"),
    Finding("notice", "note", "outcome", is_outcome=True),
    Finding("notice", "note", "d"),
    Finding("notice", "note", "e", "s"),
]
STATED = Document("t", "", [], FINDINGS, "done", notes=["n"], figures=["f"])
BLOCKS = {
    "table": [Table("one", ("a",), [("1",)], "<")],
    "table that belongs to another": [Table("one", ("a",), [("1",)], "<", belongs=True)],
    "group of maps": [heat("g: a", group="g"), heat("g: b", group="g")],
    "map with reasons": [heat("m", meaning=["of", "links"], reasons=["why"])],
    "detail": [heat("d", is_detail=True)],
    "facts": [Facts([("a", "1"), ("a", "2")])],
    "listing": [Listing("t", ["x ", "y"])],
    "words for numbers": [
        heat("k", texts=[["inconclusive"]], numbers=[["1.500"]]),
        table_of(
            "t",
            (
                TableColumn("name", lambda row: row[0]),
                TableColumn("ratio", lambda row: row[1], number=lambda row: row[2]),
            ),
            (("a", "1.100", ""), ("b", "noise", "1.234")),
        ),
    ],
}


def test_blocks_in_texts():
    """Statements are below their subject; details and numbers are shown on request."""
    found = {}
    for name, own in BLOCKS.items():
        for view in ({}, {"markdown": True}, {"details": True}, {"numbers": True}):
            lines = text_of(*own, **view)
            if not view or lines != text_of(*own):
                found[f"{name} {view or ''}".rstrip()] = lines
    found["statements"] = [*TextLines(View()).statements(STATED)]
    found["statements in Markdown"] = [*MarkdownLines(View()).statements(STATED)]
    long = Document("t", "", outcome="word " * 12)
    found["outcome in 40 columns"] = [*TextLines(View(columns=40)).statements(long)]
    found["early end"] = MarkdownLines(View()).early("why")
    require_stated("words/blocks.txt", found)
