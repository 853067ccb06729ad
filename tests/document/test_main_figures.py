"""Main figures of collectives: peaks, latencies, ranks that stand out, libraries side by side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.analysis.findings import comparisons, findings, is_staged, measured, settled
from cclmark.document.naming import NamedRun, colours, curve_names, group_titles, groups_of
from cclmark.document.peaks import peaks_of
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceTime, Imported
from cclmark.kinds.registry import read_journal
from places import TESTS

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
    ("results", "names"),
    [
        ([of()], ["all_reduce"]),
        ([of(), of(ccl="shm")], ["all_reduce · nccl", "all_reduce · shm"]),
        ([of(ranks=2), of(ranks=4)], ["all_reduce · 2 ranks", "all_reduce · 4 ranks"]),
        ([of(), wrong(ccl="shm")], ["all_reduce · nccl"]),
    ],
)
def test_names_have_the_library_and_the_ranks_where_they_differ(results, names):
    assert [one.name for one in findings(results)] == names


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
    table = peaks_of([run("a", *results, barrier)])
    heads = ["operation", "peak busbw GB/s", "at", "half from", "average"]
    assert table.head == [*heads, "smallest message µs", "size"]
    assert table.rows == [
        ["all_reduce", "9.50", "16 B out-of-place", "16 B", "5.50", "2.00", "8 B"],
        ["barrier", "", "", "", "", "7.00", ""],
    ]
    assert table.sides == "<>>>>>>"
    assert peaks_of([run("a", wrong())]) is None
    timed = replace(results[0], device=DeviceTime(None, replace(ONE.summary, time_s=1e-6)))
    table = peaks_of([run("a", timed), run("b", *results[1:])])
    assert [row[0] for row in table.rows] == ["a: all_reduce", "b: all_reduce"]
    assert [row[table.head.index("device µs")] for row in table.rows] == ["1.00", ""]
    assert any("device µs" in note for note in table.notes)


def test_tools_with_other_definitions_are_not_mixed_silently():
    other = {"imported": Imported("nccl-tests", "", figure="the mean")}
    for second, is_noted in (
        (run("b", of(), **other), True),
        (run("b", of()), False),
        (run("b", wrong(), **other), False),
    ):
        notes = str(peaks_of([run("a", of()), second]).notes)
        assert ("different definitions of a time" in notes) == is_noted


def test_groups_have_the_results_of_one_operation_by_curve_and_size():
    results = [of(8), of(8, cycle=1), of(16), of(8, dtype="int8"), of(8, reduction="max")]
    results += [of(8, operation="broadcast", reduction=None, root=root) for root in (0, 1)]
    found = groups_of([run("a", *results), run("b", of(8), of(8, pair=(0, 1)))])
    titles = ["all_reduce float32 sum", "all_reduce int8 sum", "all_reduce float32 max"]
    assert group_titles(found) == [*titles, "broadcast root 0", "broadcast root 1"]
    keys = [one.replace(" ", "-") for one in titles]
    keys += [f"broadcast-float32-root{root}" for root in (0, 1)]
    assert [one.key for one in found] == keys
    first = found[0].curves
    assert [key[0] for key in first] == [0, 1]
    assert {size: len(own) for size, own in next(iter(first.values())).items()} == {8: 2, 16: 1}
    assert group_titles(found[:1]) == ["all_reduce"]
    barriers = [of(operation="barrier", dtype=dtype, reduction=None) for dtype in ("a", "b")]
    assert [one.key for one in groups_of([run("a", *barriers)])] == ["barrier"]


MPI = Imported("mpi", "")
BOTH = [(0, "nccl", 2, False), (1, "nccl", 2, False)]
OTHER_PLACE = [BOTH[0], (1, "nccl", 4, True)]


@pytest.mark.parametrize(
    ("curves", "runs", "names"),
    [
        (BOTH[:1], "ab", ["nccl"]),
        ([BOTH[0], (0, "shm", 2, False)], "ab", ["nccl", "shm"]),
        (BOTH, "ab", ["a", "b"]),
        (OTHER_PLACE, "ab", ["a 2 ranks out-of-place", "b 4 ranks in-place"]),
        (BOTH, [run("a"), run("b", imported=MPI)], ["a (cclmark)", "b (mpi)"]),
        (BOTH, [run("cclmark 1"), run("mpi 2", imported=MPI)], ["cclmark 1", "mpi 2"]),
    ],
)
def test_curves_are_named_by_what_distinguishes_them(curves, runs, names):
    runs = [run(one) if isinstance(one, str) else one for one in runs]
    assert [*curve_names(curves, runs).values()] == names


def test_placements_share_a_colour():
    curves = [(0, "nccl", 2, False), (0, "nccl", 2, True), (0, "shm", 2, False)]
    assert [*colours(curves).values()] == [(0, False), (0, True), (1, False)]
    assert [*colours(curves[1:2]).values()] == [(0, False)]
