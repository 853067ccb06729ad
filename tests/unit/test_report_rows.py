"""Which results share a row, and when the row is handed out."""

from pathlib import Path

import msgspec
import pytest

from cclmark.document.placement_rows import RowCollector
from cclmark.kinds.registry import read_journal

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
OUT, IN, OUT_NEXT, IN_NEXT = SAMPLE.results[:4]


def of_operation(result, operation):
    return msgspec.structs.replace(
        result, case=msgspec.structs.replace(result.case, operation=operation)
    )


def placements(rows):
    return [(row.out_of_place is not None, row.in_place is not None) for row in rows]


def test_a_row_comes_with_its_second_placement():
    collector = RowCollector()
    assert collector.add(OUT) == []
    (row,) = collector.add(IN)
    assert (row.out_of_place, row.in_place) == (OUT, IN)
    assert row.results == (OUT, IN)
    assert collector.finish() == []


def test_in_place_may_come_first():
    collector = RowCollector()
    collector.add(IN)
    (row,) = collector.add(OUT)
    assert row.results == (OUT, IN)


def test_one_placement_is_noticed_after_the_first_row():
    collector = RowCollector()
    assert collector.add(OUT) == []
    assert placements(collector.add(OUT_NEXT)) == [(True, False), (True, False)]
    assert placements(collector.add(OUT)) == [(True, False)]
    assert collector.finish() == []


def test_what_one_operation_lacks_is_not_held_against_the_next():
    collector = RowCollector()
    collector.add(of_operation(OUT, "alltoallv"))
    collector.add(of_operation(OUT_NEXT, "alltoallv"))
    assert collector.add(OUT) == []
    assert placements(collector.add(IN)) == [(True, True)]


@pytest.mark.parametrize(
    ("collector", "result"),
    [(RowCollector(single=True), OUT), (RowCollector(), of_operation(OUT, "barrier"))],
)
def test_what_cannot_have_a_second_placement_comes_at_once(collector, result):
    assert placements(collector.add(result)) == [(True, False)]
    assert collector.finish() == []


def test_the_last_row_comes_at_the_end():
    collector = RowCollector()
    collector.add(IN)
    (row,) = collector.finish()
    assert (row.out_of_place, row.in_place) == (None, IN)
    assert row.case == IN.case


def test_cycles_do_not_mix():
    collector = RowCollector()
    collector.add(OUT)
    later = msgspec.structs.replace(IN, cycle=1)
    assert placements(collector.add(later)) == [(True, False), (False, True)]


def test_the_same_placement_twice_is_two_rows():
    collector = RowCollector()
    collector.add(OUT)
    assert len(collector.add(OUT)) == 2


def test_the_figures_of_a_row_are_those_of_the_placement_that_has_some():
    collector = RowCollector()
    skipped = msgspec.structs.replace(OUT, status="skipped", summary=None)
    collector.add(skipped)
    (row,) = collector.add(IN)
    assert row.summary == IN.summary
    (row,) = RowCollector(single=True).add(skipped)
    assert row.summary is None
