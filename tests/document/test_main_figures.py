"""Main figures of collectives: peaks, latencies, ranks that stand out, libraries, cycles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.analysis.findings import comparisons, findings, is_staged, measured, settled
from cclmark.api import Run
from cclmark.document.naming import NamedRun, colours, curve_names, group_titles, groups_of
from cclmark.document.page.page import render
from cclmark.document.peaks import peaks_of
from cclmark.document.remarks import staged_mark
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceTime, Imported
from cclmark.kinds.collective.charts import collective_sections
from cclmark.kinds.registry import read_journal
from cclmark.report.run_page import page_of
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


@pytest.mark.parametrize(
    ("cycles", "duration_s", "of"),
    [(1, 0.0, ""), (3, 0.0, ", medians of 3 cycles"), (3, 60.0, ", first cycle")],
)
def test_the_peak_of_a_text_is_of_the_first_cycle_or_of_all(cycles, duration_s, of):
    text = Run(run_of(cycles, duration_s=duration_s), "a").text()
    (line,) = [one for one in text.splitlines() if "peak bus bandwidth" in one]
    assert line.endswith(f"1 KiB{of}")


def test_peaks_of_several_operations_say_what_they_are_of():
    both = ("all_reduce", "broadcast")
    title = "Peak bus bandwidth and time of the smallest message"
    assert f"{title}, first cycle\n" in Run(run_of(2, duration_s=9.0, operations=both), "").text()
    assert f"{title}\n" in Run(run_of(1, operations=both), "").text()
    runs = [NamedRun(str(cycles), run_of(cycles)) for cycles in (1, 2, 3)]
    assert "cycles" not in str(peaks_of(runs[:1]).notes)
    assert "Figures are medians of several cycles: 2." in peaks_of(runs[1:2]).notes
    assert "Figures are medians of several cycles: 2 of 2, 3 of 3." in peaks_of(runs).notes


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


def test_a_row_with_the_copy_is_no_headline_where_a_plain_one_exists():
    """Not even where the plain one did not converge and is slower."""

    def slower(one):
        if one.case.in_place:
            return one
        times = {"time_s": one.summary.time_s * 10}
        times["busbw_bytes_per_s"] = one.summary.busbw_bytes_per_s / 10
        return replace(one, converged=False, summary=replace(one.summary, **times))

    journal = of_operation("alltoall", slower)
    in_place = [one for one in journal.results if one.case.in_place]
    plain = [one.summary.busbw_bytes_per_s for one in journal.results if not one.case.in_place]
    (found,), (alone,) = findings(journal.results), findings(in_place)
    assert not (found.peak.case.in_place or found.latency.case.in_place)
    assert found.peak.summary.busbw_bytes_per_s == max(plain)
    assert alone.peak.case.in_place and alone.latency.case.in_place
    text = exported(case_text(), journal)
    (line,) = [one for one in text.splitlines() if "peak bus bandwidth" in one]
    assert "out-of-place (not converged, ±" in line
    assert "in-place" not in line
    assert "*" not in line


def test_the_page_explains_it_beside_the_charts_and_above_the_cases():
    page = page_of([NamedRun("", COLLECTIVES)])
    marked = {section.title for section in page.sections if section.words and section.charts}
    assert marked == {"alltoall", "alltoallv", "sendrecv"}
    shown = render(page).split("<script", 1)[0]
    assert shown.count("copying the input aside") == 4
    assert page_of([NamedRun("", of_operation("all_reduce"))]).rows.notes == []
