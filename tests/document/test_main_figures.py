"""Main figures of collectives: peaks, latencies, ranks that stand out, libraries, cycles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.analysis.findings import comparisons, findings, is_staged, measured, settled
from cclmark.api import Run
from cclmark.document.naming import NamedRun
from cclmark.document.peaks import peaks_of
from cclmark.document.remarks import staged_mark
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceTime, Imported
from cclmark.kinds.collective.charts import collective_sections
from cclmark.kinds.registry import read_journal
from cclmark.work.operations import OPERATIONS
from goldens import outline, require_stated
from places import H200X4, TESTS
from reports import case_text, exported

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
ONE = replace(SAMPLE.results[0], status="ok", device=None, route="native", converged=True)


def of(size=8, time_s=1e-6, busbw=1e9, *, cycle=0, rank=None, status="ok", **case):
    figures = {"time_s": time_s, "busbw_bytes_per_s": busbw}
    summary = replace(ONE.summary, slowest_rank=rank, late_rank=rank, **figures)
    changed = replace(ONE.case, **{"in_place": False, "size_bytes": size, **case})
    return replace(ONE, case=changed, cycle=cycle, summary=summary, status=status)


def wrong(*figures, **case):
    return of(*figures, status="wrong", **case)


def test_the_peak_is_the_highest_and_the_latency_the_shortest_of_the_smallest_size():
    results = [
        of(8, 3e-6, 1e9),
        of(8, 2e-6, 1.5e9, in_place=True),
        of(16, 1e-6, 9e9),
        of(32, 5e-6, 8e9),
        wrong(64, 1e-9, 99e9),
        replace(of(4), summary=None),
    ]
    (one,) = findings(results)
    assert one.peak is results[2]
    assert one.latency is results[1]
    assert (one.largest_bytes, one.cycles, one.half_peak_bytes) == (32, 1, 16)
    assert [result for result, _ in measured(results)] == results[:4]
    assert findings([wrong()]) == []


@pytest.mark.parametrize(
    ("rates", "half"),
    [
        ([1, 4, 10], 32),
        ([5, 4, 10], 32),
        ([5, 6, 10], None),
        ([4, 5, 10], 16),
        ([1, 10, 9], 16),
        ([1, 10, 4], None),
        ([10, 9, 8], None),
        ([10, 4, 8], None),
    ],
)
def test_half_of_the_peak_is_reached_from_a_size_on(rates, half):
    results = [of(8 << place, busbw=rate * 1e9) for place, rate in enumerate(rates)]
    others = [of(4, busbw=1e9, in_place=True), of(2, busbw=1e9, dtype="int8")]
    assert findings([*results, *others])[0].half_peak_bytes == half


@given(st.lists(st.floats(1e-6, 1e-3), min_size=1, max_size=9, unique=True))
def test_of_several_cycles_the_lower_median_counts(times):
    results = [of(time_s=time_s, cycle=cycle) for cycle, time_s in enumerate(times)]
    (one,) = settled(results)
    assert one.summary.time_s == sorted(times)[(len(times) - 1) // 2]
    assert settled([replace(one, status="wrong") for one in results]) == []
    assert findings(results)[0].cycles == len(times)


@pytest.mark.parametrize(
    ("ranks", "found"),
    [([2, 2, None], (2, 2 / 3)), ([2, None], None), ([None], None), ([2, 3], None), ([1], (1, 1))],
)
def test_a_rank_stands_out_in_more_than_half_of_the_cases(ranks, found):
    (one,) = findings([of(8 << place, rank=rank) for place, rank in enumerate(ranks)])
    assert one.late == one.slowest == (found and pytest.approx(found))


def test_a_copy_of_the_input_is_no_main_figure_where_there_is_another():
    staged = of(operation="alltoall", in_place=True, busbw=9e9)
    plain = of(operation="alltoall")
    assert is_staged(staged)
    for other in (plain, replace(staged, route=""), replace(staged, summary=None)):
        assert not is_staged(other)
    assert not is_staged(of(in_place=True))
    assert findings([staged, plain])[0].peak is plain
    assert findings([staged])[0].peak is staged


def test_libraries_are_compared_where_both_were_measured_alike():
    results = [
        *(of(8, 1e-6), of(8, 3e-6, cycle=1), of(8, 2e-6, cycle=2), of(16, 5e-6)),
        *(of(8, 4e-6, ccl="shm"), wrong(16, ccl="shm"), of(8, ccl="shm", dtype="int8")),
    ]
    (one,) = comparisons(results)
    assert one.ccls == ["nccl", "shm"]
    assert one.rows == [(8, [2e-6, 4e-6]), (16, [5e-6, None])]
    assert comparisons(results[:4]) == []


# Tables and names of several runs.


def run(name, *results, **header):
    return NamedRun(name, Journal(replace(SAMPLE.header, links=[], **header), [*results]))


def test_the_table_of_peaks():
    results = [of(8, 2e-6, 1e9), of(16, 4e-6, 9.5e9), of(32, 5e-6, 6e9)]
    barrier = of(operation="barrier", time_s=7e-6, reduction=None)
    timed = replace(results[0], device=DeviceTime(None, replace(ONE.summary, time_s=1e-6)))
    other = {"imported": Imported("nccl-tests", "", figure="the mean")}
    first = run("a", of())
    found = {
        "one run": [run("a", *results, barrier)],
        "one with device times": [run("a", timed), run("b", *results[1:])],
        "tools with other definitions": [first, run("b", of(), **other)],
        "tools of which one measured nothing": [first, run("b", wrong(), **other)],
    }
    shown = {name: outline(peaks_of(own))[:-1] for name, own in found.items()}
    require_stated("words/peaks.txt", shown)
    assert peaks_of([run("a", wrong())]) is None


# Several cycles, and copies of the input.


COLLECTIVES = read_journal(H200X4 / "collectives.jsonl")
PAIRS = read_journal(H200X4 / "report" / "pairs.jsonl")


def run_of(cycles, *, duration_s=0.0, operations=("all_reduce",)):
    first = SAMPLE.results[0]
    results = [
        replace(first, cycle=cycle, case=replace(first.case, operation=operation))
        for cycle in range(cycles)
        for operation in operations
    ]
    settings = replace(SAMPLE.header.settings, cycles=cycles, duration_s=duration_s)
    return Journal(replace(SAMPLE.header, settings=settings), results, footer=SAMPLE.footer)


@pytest.mark.parametrize(
    ("cycles", "cases", "figure"),
    [(1, "1 case of all_reduce on", ""), (3, "1 case of all_reduce in 3 cycles on", "3 cycles.")],
)
def test_a_run_counts_cases_and_says_what_its_figure_is_of(cycles, cases, figure):
    first, *lines = repr(Run(run_of(cycles), "a")).splitlines()
    (headline,) = [line for line in lines if "all_reduce of 1 KiB takes" in line]
    assert first.startswith(cases)
    assert headline.endswith(figure)
    assert ("medians of" in headline) == (cycles > 1)
    (section,) = collective_sections([NamedRun("a", run_of(cycles))])
    assert ("Points are medians of all cycles." in section.words) == (cycles > 1)


# In place, some operations include a copy of the input.


def of_operation(operation, change=lambda one: one):
    results = [change(one) for one in COLLECTIVES.results if one.case.operation == operation]
    return Journal(COLLECTIVES.header, results, footer=COLLECTIVES.footer)


def test_the_table_of_operations_agrees_with_what_the_engine_did():
    for result in [*COLLECTIVES.results, *PAIRS.results]:
        staged = result.case.in_place and OPERATIONS[result.case.operation].staged_in_place
        assert result.route.startswith("copy aside") == staged, result.case.describe()
        assert (staged_mark(result) == "*") == staged
        for other in (replace(result, route=""), replace(result, summary=None)):
            assert staged_mark(other) == ""


@pytest.mark.parametrize(
    ("view", "mark"),
    [({}, " *"), ({"columns": 80}, " *"), ({"markdown": True}, " &#42;")],
)
def test_a_text_marks_the_time_and_explains_the_mark(view, mark):
    text = exported(case_text(**view), of_operation("sendrecv"))
    in_place = [one for one in of_operation("sendrecv").results if one.case.in_place]
    assert text.count(mark) == len(in_place) + 1
    for one in in_place:
        assert f"{mark}{one.summary.time_s * 1e6:.2f}" in text or one.summary.time_s >= 1e-3
    assert f"{mark} the time includes copying the input aside" in text
    assert mark not in exported(case_text(**view), of_operation("all_reduce"))
