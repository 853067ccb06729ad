"""The table of a library's predictions beside measured times."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cclmark.comparison.figures import Side, compare
from cclmark.comparison.words import (
    Comparison,
    comparison_json,
    comparison_lines,
    comparison_markdown,
)
from cclmark.kinds.registry import read_journal
from cclmark.results.journal import Journal
from cclmark.results.schema import Explanation

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
