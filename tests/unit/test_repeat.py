import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.analysis.repeat import repeats
from cclmark.plan.cases import Case
from cclmark.report.repeat import repeat_lines
from cclmark.results.schema import CaseResult, Summary

CASE = Case("all_reduce", "shm", 2, "float32", 1024, 256, False, "sum")


def result(time_s, half_width=0.01, case=CASE, cycle=0):
    summary = Summary("device", time_s, time_s, time_s, time_s, time_s, 0, 9, 1, 1, half_width)
    return CaseResult(0, case, "ok", cycle=cycle, summary=summary)


@pytest.mark.parametrize(
    ("then", "now", "apart"),
    [
        (result(1.0), result(1.005), False),
        (result(1.0), result(1.03), True),
        (result(1.0), result(0.9), True),
        (result(1.0), result(2.0, None), None),
        (result(1.0, 2.0), result(2.0), False),
    ],
)
def test_apart_where_the_intervals_have_nothing_in_common(then, now, apart):
    (found,) = repeats([then], [now])
    assert found.apart is apart
    assert found.ratio == pytest.approx(now.summary.time_s / then.summary.time_s)


def test_only_what_both_have_is_compared_cycle_by_cycle():
    other = msgspec.structs.replace(CASE, count=1)
    skipped = CaseResult(0, other, "skipped", "why")
    then = [result(1.0), result(2.0, cycle=1), result(1.0, case=other)]
    assert [it.cycle for it in repeats(then, [result(1.0, cycle=1), skipped])] == [1]
    assert repeats(then, [result(1.0, cycle=1)])[0].ratio == 0.5
    assert "nothing that was measured" in repeat_lines([], "a\x1b.jsonl")[0]


times = st.floats(1e-7, 10)
widths = st.none() | st.floats(0, 1)


@given(times, widths, times, widths)
def test_which_comes_first_does_not_matter(one_s, one_width, other_s, other_width):
    one, other = result(one_s, one_width), result(other_s, other_width)
    (there,), (back,) = repeats([one], [other]), repeats([other], [one])
    assert there.apart == back.apart
    assert there.ratio * back.ratio == pytest.approx(1)


def test_of_many_only_those_that_differ_are_shown():
    cases = [msgspec.structs.replace(CASE, count=count) for count in range(100)]
    then = [result(1.0, case=case) for case in cases]
    now = [result(1.2 if case.count == 7 else 1.0, case=case) for case in cases]
    lines = repeat_lines(repeats(then, now), "a.jsonl")
    assert len(lines) == 3
    assert lines[1].endswith("1.200  slower")
    assert "100 in both, median ratio 1.000; 1 slower and 0 faster" in lines[2]
