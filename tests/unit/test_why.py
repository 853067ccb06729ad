"""The table of a library's predictions beside measured times."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cclmark.comparison.figures import Side, compare
from cclmark.comparison.words import (
    Comparison,
    comparison_json,
    comparison_lines,
    comparison_markdown,
)
from cclmark.document.explained import explained_lines
from cclmark.document.why import predictions
from cclmark.kinds.registry import read_journal
from cclmark.results.journal import Journal
from cclmark.results.schema import Explanation
from reports import case_text, exported

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
replace = msgspec.structs.replace
MEASURED = next(one for one in SAMPLE.results if one.summary is not None)


def case(size_bytes, time_s, protocol, predicted_s, **more):
    found = Explanation(0, "plug-in", "ring", "RING", protocol, 2, predicted_s=predicted_s, **more)
    return replace(
        MEASURED,
        case=replace(MEASURED.case, size_bytes=size_bytes),
        summary=replace(MEASURED.summary, time_s=time_s),
        device=None,
        explanation=found,
    )


BOTH = {"RING LL": 10e-6, "RING SIMPLE": 20e-6}
SMALL = case(1024, 11e-6, "LL", BOTH)
LARGE = case(4096, 44e-6, "SIMPLE", {"RING LL": 40e-6, "RING SIMPLE": 22e-6})


def test_predictions_stand_beside_the_measured_time():
    (one,) = predictions([LARGE, SMALL])
    assert one.head == ["size", "measured", "off", "RING LL", "RING SIMPLE"]
    assert one.rows == [
        ["1 KiB", "11.00", "+10%", "*10.00", "20.00"],
        ["4 KiB", "44.00", "+100%", "40.00", "*22.00"],
    ]
    assert one.off == [False, True]
    assert one.remarks == [
        "4 KiB: ring LL → ring SIMPLE; 4 times the data takes 4.00 times as long",
        "1 of 2 predictions are off by more than 20%",
    ]


def test_the_time_of_a_call_is_not_compared_where_launches_determine_it():
    device = replace(MEASURED.device, summary=replace(MEASURED.summary, time_s=10e-6))
    (one,) = predictions([replace(SMALL, device=device)])
    assert one.rows[0][1:3] == ["10.00", "+0%"]


def test_a_kernel_without_a_prediction():
    symmetric = case(1024, 5e-6, "", BOTH)
    symmetric.explanation.algorithm, symmetric.explanation.kernel = "AGxLL_R", "symmetric"
    (one,) = predictions([symmetric])
    assert one.rows == [["1 KiB", "5.00", "-", "10.00", "20.00"]]
    assert one.remarks == ["the library predicted nothing for the kernels that ran"]


@pytest.mark.parametrize("markdown", [False, True])
def test_the_text_shows_predictions_if_requested(markdown):
    def text(*results, why=True):
        journal = Journal(SAMPLE.header, [*results], footer=SAMPLE.footer)
        return exported(case_text(why=why, markdown=markdown), journal)

    shown = text(SMALL, LARGE)
    assert shown.count("predictions in µs") == 1
    assert shown.count("1 of 2 predictions are off by more than 20%") == 1
    assert "predictions" not in text(SMALL, LARGE, why=False)
    assert "predictions" not in text(MEASURED)
    assert "none: only libraries with NCCL's tuner" in text(case(1024, 1e-6, "LL", {}))
    assert explained_lines([MEASURED]) == []


def test_sizes_with_the_same_choice_share_a_line():
    middle = case(2048, 12e-6, "LL", BOTH)
    lines = explained_lines([SMALL, middle, LARGE])
    assert [line.strip() for line in lines[1:]] == [
        "1 KiB – 2 KiB  ring LL, 2 channels",
        "4 KiB  ring SIMPLE, 2 channels",
    ]


def test_remarks_name_their_sizes():
    lines = explained_lines([SMALL, case(2048, 12e-6, "LL", BOTH, reason="rank 1 ran tree")])
    assert lines[-1].strip() == "2 KiB: rank 1 ran tree"


def test_a_comparison_says_where_something_else_ran():
    def run(*results):
        return Side("run", [Journal(SAMPLE.header, list(results))])

    same, other = case(1024, 11e-6, "LL", BOTH), case(1024, 11e-6, "SIMPLE", BOTH)
    (found,) = compare(run(SMALL), run(other))
    assert found.ran == ("ring LL × 2", "ring SIMPLE × 2")
    assert found.ran_differently
    shown = Comparison(run(SMALL), run(other), [], [found])
    assert any("ring LL × 2 → ring SIMPLE × 2" in line for line in comparison_lines(shown))
    assert "ring LL × 2 → ring SIMPLE × 2" in comparison_markdown(shown)
    assert '"ran_after": "ring SIMPLE × 2"' in comparison_json([shown])
    assert not compare(run(SMALL), run(same))[0].ran_differently
    unexplained = replace(SMALL, explanation=None)
    assert not compare(run(unexplained), run(other))[0].ran_differently
