"""Cells that noise decides have words, and numbers on request."""

import re

import pytest

from cclmark.analysis.ratio import RatioEstimate
from cclmark.document.blocks import TableColumn, table_of
from cclmark.document.chart_model import Heat
from cclmark.document.document_text import MarkdownLines, TextLines
from cclmark.document.report_kind import View
from cclmark.kinds.overlap.document import _word_of
from cclmark.kinds.tune.document import speed_up_words

COLUMNS = (
    TableColumn("empty", lambda row: ""),
    TableColumn("name", lambda row: row[0]),
    TableColumn("ratio", lambda row: row[1], number=lambda row: row[2]),
)
ROWS = (("a", "1.100", ""), ("b", "noise", "1.234"))


@pytest.mark.parametrize("lines", [TextLines, MarkdownLines])
def test_numbers_take_the_place_of_words_on_request(lines):
    table = table_of("t", COLUMNS, ROWS)
    words, numbers = ("\n".join(lines(View(numbers=one)).blocks([table])) for one in (False, True))
    assert "noise" in words
    assert "1.234" not in words
    assert "1.234" in numbers
    assert "noise" not in numbers
    assert "1.100" in words
    assert "1.100" in numbers


CERTAIN = RatioEstimate(-0.2, 0.01, 6, 0.0, 7)
ALIKE = RatioEstimate(0.001, 0.001, 6, 0.0, 7)
NOISE = RatioEstimate(-0.1, 0.2, 6, 0.0, 7)


@pytest.mark.parametrize(
    ("ratio", "speed_up", "slow_down"),
    [
        (CERTAIN, "1.221 (1.192 to 1.252)", "0.8"),
        (ALIKE, "no difference", "0.8"),
        (NOISE, "inconclusive", "inconclusive"),
    ],
)
def test_ratios_whose_interval_contains_1_are_words(ratio, speed_up, slow_down):
    assert speed_up_words(ratio) == speed_up
    assert _word_of(ratio, "0.8") == slow_down


def test_maps_have_numbers_on_request():
    heat = Heat(
        *("key", "title", "says", "size", "%", ["variant"], ["1 KiB", "2 KiB"]),
        values=[[None, 2.0]],
        texts=[["inconclusive", "2.000"]],
        hover=[["", ""]],
        numbers=[["1.500", "2.000"]],
    )
    words, numbers = ("\n".join(TextLines(View(numbers=one)).blocks([heat])) for one in (0, 1))
    assert re.search(r"inconclusive +2\.000", words)
    assert re.search(r"1\.500 +2\.000", numbers)
