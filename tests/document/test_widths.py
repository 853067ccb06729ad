"""Texts are no wider than a line, and lose nothing of it."""

import re
from itertools import chain

import pytest

from cclmark.document.blocks import Table
from cclmark.document.document_text import table_lines
from cclmark.document.paint import unpainted
from cclmark.document.report_kind import View
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.recording.output import Output
from cclmark.report.exports import replayed
from places import H200X4, TESTS

JOURNALS = {
    path.stem: path
    for path in (
        *sorted((TESTS / "journals").glob("*.jsonl")),
        *(H200X4 / f"{name}.jsonl" for name in ("p2p", "p2p_blocks", "libraries", "two_hosts")),
        H200X4 / "runs" / "collectives" / "a-1.jsonl",
    )
}


def words_of(lines):
    return sorted(re.findall(r"\S+", " ".join(lines)))


@pytest.mark.parametrize("name", JOURNALS)
@pytest.mark.parametrize("width", [100, 120])
def test_no_line_of_a_kind_is_longer(name, width):
    journal = read_journal(JOURNALS[name])
    lines = "".join(replayed(journal, "table", View(columns=width))).splitlines()
    assert [line for line in lines if len(line) > width] == []


def test_journals_of_all_kinds_are_looked_at():
    assert {read_journal(path).kind for path in JOURNALS.values()} >= {*KINDS} - {"pieces"}


def table(**changes):
    values = {
        "title": "t",
        "head": ("name", "smallest message µs", "remark"),
        "rows": [["a", "1.00", "short"], ["b", "22.50", "a remark of many words " * 6]],
        "sides": "<><",
    }
    return Table(**values | changes)


def test_heads_are_wrapped_before_texts():
    heads, rows = table_lines(table(rows=[["a", "1.00", "short"]]), unpainted, 26)
    assert heads == ["          smallest", "  name  message µs  remark"]
    assert rows == ["  a           1.00  short"]


@pytest.mark.parametrize("width", [60, 99])
def test_a_text_is_wrapped_within_its_column(width):
    whole, narrow = ([*chain(*table_lines(table(), unpainted, one))] for one in (None, width))
    assert words_of(narrow) == words_of(whole)
    assert max(map(len, narrow)) <= width < max(map(len, whole))
    assert narrow[-1][:16].strip() == ""


def test_numbers_that_a_line_does_not_hold_follow_below():
    head = ["name", "kind", *(f"figure{place}" for place in range(12))]
    rows = [[name, "x", *(f"{place}.25" for place in range(12))] for name in "ab"]
    wide = Table("t", head, rows, "<<" + ">" * 12)
    heads, lines = table_lines(wide, unpainted, 60)
    assert max(map(len, [*heads, *lines])) <= 60
    assert sum(line.startswith("  a ") for line in lines) > 1
    shown = {word for line in lines for word in line.split()}
    assert shown >= {*rows[0], *rows[1]}
    assert {word for line in [*heads, *lines] for word in line.split()} >= {*head}


def test_a_part_that_continues_a_table_wraps_its_last_text():
    part = table(widths=(4, 20, 10), rows=[["a", "1.00", "a remark of many words " * 6]])
    _, lines = table_lines(part, unpainted, 60)
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("columns", "expected"), [(None, 100), ("140", 140), ("0", 100), ("many", 100), ("", 100)]
)
def test_without_a_terminal_lines_have_the_columns_of_the_environment(
    monkeypatch, tmp_path, columns, expected
):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert Output(tmp_path / "x").columns == expected
    assert Output(tmp_path / "x", is_wide=True).columns is None
