"""Numbers, intervals, lists and lines as texts have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.blocks import Evidence, Finding, Gain
from cclmark.document.deviations import extremes, least_span, pairs_alike, relative
from cclmark.document.insight_words import (
    amount,
    capitalised,
    ended,
    in_sentences,
    limits_of,
    listed,
    rate_words,
)
from cclmark.document.paint import HEAT_STEPS, ansi, unpainted
from cclmark.document.reference_notes import _mark, share_text
from cclmark.document.text import (
    aligned,
    clock_text,
    counted,
    figure,
    filled,
    format_time_us,
    half_width_text,
    precision_text,
    ranks_text,
    token,
    us_text,
)


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0.9994e-6, "0.999"),
        (1e-6, "1.00"),
        (999.99e-6, "999.99"),
        (1000e-6, "1000.0"),
        (1000.5e-6, "1000.5"),
        (0.9999e0, "999900.0"),
        (1.0, "1000000"),
        (2.5, "2500000"),
    ],
)
def test_microseconds_have_at_least_four_digits(time_s, text):
    assert format_time_us(time_s) == us_text(time_s) == text
    assert us_text(None) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.00"), (1, "1.00"), (0.99951, "1.00"), (0.5, "0.500"), (12.345, "12.35"), (-2, "-2.00")],
)
def test_figures_have_two_decimals_or_three_digits(value, text):
    assert figure(value) == text


@pytest.mark.parametrize(
    ("share", "width", "sentence", "two"),
    [
        (0.031, "3.1", "±3.1 %", "±3.1 %"),
        (0.1234, "12.3", "±12.3 %", "±12 %"),
        (1.0, "100.0", "±100.0 %", "±100 %"),
        (1.001, ">100", "> ±100 %", "> ±100 %"),
    ],
)
def test_half_widths_are_percentages_that_end_at_100(share, width, sentence, two):
    assert half_width_text(share) == width
    assert precision_text(share) == sentence
    assert precision_text(share, 2) == two
    assert half_width_text(None) == "-"


def test_counts_and_lists_are_grammatical():
    assert [counted(n, "rank") for n in (0, 1, 2)] == ["0 ranks", "1 rank", "2 ranks"]
    assert counted(2, "process") == "2 processes"
    assert [amount(n, "case") for n in (1, 1234)] == ["1 case", "1,234 cases"]
    assert amount(2, "axis", "axes") == "2 axes"
    assert ranks_text([3]) == "rank 3"
    assert ranks_text([7, 0, 1]) == "ranks 0-1,7"
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        *("", "a", "a and b", "a, b and c"),
    ]
    assert listed(["a", "b"], 2) == "a and b"
    assert listed(["a", "b"], 3) == "a, b and 1 more"
    assert token(" a  b ") == "a_b"
    assert token(" ") == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(7, "0:07"), (59.9, "0:59"), (754, "12:34"), (3600, "1:00:00"), (3723, "1:02:03")],
)
def test_durations_are_clocks(seconds, text):
    assert clock_text(seconds) == text


def test_columns_are_aligned_by_their_sides():
    assert aligned([["a", "bb", ""], ["ccc", "d", "e"]], "<>>") == ["  a    bb", "  ccc   d  e"]


WORDS = st.lists(st.text(st.characters(codec="ascii", categories=["L"]), min_size=1), min_size=1)


@given(WORDS, st.integers(40, 120), st.integers(0, 9), st.integers(0, 8))
def test_filled_lines_have_the_same_words_below_an_indent(words, width, hanging, indent):
    line = " " * indent + " ".join(words)
    first, *rest = filled(line, width, hanging).split("\n")
    assert " ".join([first, *rest]).split() == words
    assert rest == [] or len(line) > width
    for part in rest:
        assert len(part) - len(part.lstrip()) == indent + hanging
    for part in (first, *rest):
        assert len(part) <= width or len(part.split()) == 1


def test_lines_of_prose_are_never_narrower_than_40():
    line = "word " * 20
    assert filled(line.strip(), 10) == filled(line.strip(), 40)
    assert len(filled(line.strip(), 40).split("\n")[0]) > 30
    assert filled("a" * 50, 50) == "a" * 50


def test_sentences_keep_names_and_end_once():
    assert capitalised("nothing needs a look") == "Nothing needs a look"
    assert capitalised("drift: none") == "Drift: none"
    for name in ("all_reduce, shm", "nccl: late", "mpi is slow", "NCCL x", "2 of 3"):
        assert capitalised(name) == name
    assert [ended(one) for one in ("a", "a.", "a!", "a?")] == ["a.", "a.", "a!", "a?"]
    one = Finding("notice", "note", "it is so", "64 KiB", "do this", is_outcome=True)
    assert in_sentences(one) == Finding("notice", "note", "64 KiB: it is so.", "", "Do this.")
    assert in_sentences(Finding("notice", "note", "so")).sentence == "So."
    assert rate_words(None) == "?"


def test_limits_name_what_they_apply_to_once():
    figures = [(Evidence.of("spread", place / 10),) for place in range(5)]
    remarks = [("late", name, figures[place]) for place, name in enumerate("abcde")]
    (all_of_them,) = limits_of([*remarks, ("late", "a", figures[0])])
    assert all_of_them.sentence == "late: a, b, c, d and e"
    assert [one.value for one in all_of_them.evidence] == pytest.approx([0, 0.1, 0.2])
    (few,) = limits_of(remarks, 2)
    assert few.sentence == "late: a, b and 3 more"
    assert [one.sentence for one in limits_of([("x", "a", ()), ("y", "a", ())])] == ["x: a", "y: a"]


@pytest.mark.parametrize(
    ("value", "usual", "lower_is_better", "text"),
    [
        (0.57, 1.0, True, "43% lower, better"),
        (0.57, 1.0, False, "43% lower, worse"),
        (1.5, 1.0, True, "50% higher, worse"),
        (1.5, 1.0, False, "50% higher, better"),
        (1.0, 1.0, True, "0% higher, worse"),
        (1.0, 812.4, True, "a factor of 812 lower, better"),
        (0.0, 5.0, True, "100% lower, better"),
        (2.0, 1.0, True, "100% higher, worse"),
    ],
)
def test_a_deviation_is_relative_to_the_usual_value(value, usual, lower_is_better, text):
    assert relative(value, usual, lower_is_better=lower_is_better) == text


def test_the_extremes_of_a_matrix_have_places():
    rows, columns = ["a", "b"], ["x", "y"]
    values = [[None, 3.0], [0.25, 2.0]]
    text = "From 0.250 (b, x) to 3.00 GB/s (a, y)."
    assert extremes(values, "GB/s", rows, columns) == text
    assert extremes([[None] * 2] * 2, "GB/s", rows, columns) == "There is no figure."
    assert least_span(values) == pytest.approx(0.2 * 2)
    assert least_span([[None]]) == 0


def test_alike_pairs_are_good_only_if_all_were_compared():
    assert pairs_alike("no pair", 0).severity == "good"
    one = pairs_alike("no pair", 1)
    assert (one.severity, one.sentence.split("; ")[1]) == (
        "note",
        "1 figure of links with fewer than 4 were not compared",
    )


def test_colours_of_a_terminal_end():
    assert ansi("a", "red") == "\x1b[1;31ma\x1b[0m"
    codes = {ansi("", f"heat{step}") for step in range(HEAT_STEPS)}
    assert len(codes) == HEAT_STEPS == 7
    assert unpainted("a", "red") == "a"


def test_shares_and_marks_of_references():
    assert [share_text(share) for share in (1.006, 9.99, 10.0)] == ["101%", "999%", ">999%"]
    assert share_text(1.006, 1) == "100.6%"
    assert [_mark(number) for number in (0, 25, 26, 27, 52, 26 * 27)] == [
        *("a", "z", "aa", "ab", "ba", "aaa"),
    ]


def test_a_gain_is_one_only_with_its_whole_interval():
    assert Gain.of(1.2, 1.0, 1.4) is None
    assert Gain.of(1.2, 1.01, 1.4, "x") == Gain(1.2, "times as fast", "x", 1.01, 1.4)


@pytest.mark.parametrize(
    ("limit", "comparison"), [(1e-6, ">"), (2e-6, "="), (3e-6, "<"), (None, "")]
)
def test_evidence_is_compared_in_its_unit(limit, comparison):
    one = Evidence.of("time_us", 2e-6, "here", limit)
    assert (one.value, one.unit, one.at) == (pytest.approx(2), "µs", "here")
    assert one.comparison == comparison
    assert one.limit == (None if limit is None else pytest.approx(limit * 1e6))
    for name, unit, value in (
        *(("busbw_gbps", "GB/s", 2e-9), ("of_cases_percent", "%", 200), ("half_width", "share", 2)),
        *(("wrong", "elements", 2), ("ratio", "times", 2), ("last", "calls", 2)),
        *(("size_bytes", "bytes", 2), ("step_ms", "ms", 2000), ("loss_difference", "", 2)),
    ):
        one = Evidence.of(name, 2.0)
        assert (one.unit, one.value) == (unit, pytest.approx(value)), name
