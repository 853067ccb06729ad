"""Intervals, periods, waiting, and profiles that are assembled of observed processes."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.blocks import Evidence, RunContent
from cclmark.document.naming import NamedRun
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Footer
from cclmark.kinds.registry import read_journal
from cclmark.profile.observed import (
    ObservedCall,
    ObservedGroup,
    ObservedOperation,
    ObservedProcess,
)
from cclmark.profile.profile_assembly import assembled_profile, waits_of
from cclmark.profile.profile_gaps import absent_of, differences_of
from cclmark.profile.repetitions import Period, period_of
from cclmark.work.intervals import length_of, lengths_within, union_of, without
from cclmark_programs.profile.document import (
    FIELDS,
    document_of_profile,
    process_rows,
    remarks_of,
)
from cclmark_programs.profile.figures import completed, sums_of, waits_of_processes
from goldens import outline, require_golden
from places import TESTS

US = 1000
HEADER = read_journal(TESTS / "journals" / "profile.jsonl").header
INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def moments(intervals):
    return {at for begin, end in intervals for at in range(begin, end)}


@given(INTERVALS)
def test_a_union_covers_the_same_time_once(intervals):
    union = union_of(intervals)
    assert moments(union) == moments(intervals)
    assert length_of(union) == len(moments(intervals))
    assert all(one[1] < other[0] for one, other in pairwise(union))


@given(INTERVALS, INTERVALS)
def test_what_others_leave_free(intervals, others):
    free = without(union_of(intervals), union_of(others))
    assert moments(free) == moments(intervals) - moments(others)
    assert length_of(free) == len(moments(free))


@given(INTERVALS, INTERVALS)
def test_lengths_within_parts(intervals, others):
    parts = union_of(others)
    expected = [len(moments(intervals) & moments([part])) for part in parts]
    assert lengths_within(union_of(intervals), parts) == expected


@pytest.mark.parametrize(
    ("sequence", "period"),
    [
        ([9, 8] + [1, 2, 2, 3] * 5 + [7], Period(2, 4, 5)),
        ([1, 1, 1, 2] * 6, Period(0, 4, 6)),
        ([5] * 4 + [1, 2] * 9 + [4, 4, 4, 6], Period(4, 2, 9)),
        ([1, 2] * 2, None),  # two repetitions show no loop
        ([1] * 30, None),
        ([*range(40)], None),
        ([], None),
    ],
)
def test_the_period_of_calls(sequence, period):
    assert period_of(sequence) == period


@given(st.lists(st.integers(0, 3), max_size=60))
def test_a_period_repeats(sequence):
    found = period_of(sequence)
    if found is not None:
        part = sequence[found.begin : found.begin + found.calls * found.repeats]
        assert part == part[: found.calls] * found.repeats
        assert found.repeats >= 3


def process_of(rank, durations_us, operation="all_reduce", begin_us=0, **more):
    """A rank that calls one operation again and again, every 1000 µs."""
    own = ObservedOperation("g", operation, "nccl", "float32", 256, 1024, kernel="ring")
    own.calls = own.timed = len(durations_us)
    own.bytes = 1024 * own.calls
    own.total_ns = sum(durations_us) * US
    own.least_ns = min(durations_us) * US
    own.most_ns = max(durations_us) * US
    calls = []
    for number, duration_us in enumerate(durations_us):
        begin_ns = (1 + begin_us + number * 1000) * US
        calls.append(ObservedCall(0, number, begin_ns, begin_ns, begin_ns + duration_us * US))
    group = ObservedGroup("g", "world", 2, rank)
    return ObservedProcess(
        rank, "host", 10 + rank, "nccl 2.28.9", {"g": group}, [own], calls, **more
    )


def test_the_rank_with_the_shortest_kernels_is_the_one_that_others_wait_for():
    early, late = process_of(0, [100, 110, 90, 95]), process_of(1, [40, 40, 40, 93], begin_us=60)
    found = waits_of([early, late])
    assert found[0][0].total_ns == (60 + 70 + 50) * US
    assert found[1][0].total_ns == 0
    assert [one[0].last for one in found] == [0, 3]  # 2 µs are no sign of waiting
    assembled = assembled_profile("plug-in", [early, late])
    waits = waits_of_processes(assembled.results)
    assert waits[0].wait_s == pytest.approx(180e-6)
    assert (waits[1].last, waits[1].compared) == (3, 4)
    waiting, last = remarks_of(assembled.results, assembled.profile)
    assert waiting.sentence.startswith("rank 0 waits for others")
    assert [one.value for one in waiting.evidence] == [pytest.approx(180)]
    assert last.sentence.startswith("rank 1 arrives last in 3 of 4 calls")
    assert last.evidence == (Evidence("last", 3, "calls", "rank 1", ">", 2),)


@pytest.mark.parametrize("operation", ["broadcast", "send", "reduce"])
def test_operations_whose_ranks_end_at_different_times_are_not_compared(operation):
    assert waits_of([process_of(0, [100], operation), process_of(1, [40], operation)]) == [{}, {}]


def test_exposed_and_overlapped_communication():
    kernels = [(1 * US, 51 * US), (1041 * US, 1201 * US)]
    process = process_of(
        0, [100, 100], kernels=kernels, steps=[(0, 1000 * US), (1000 * US, 2000 * US)]
    )
    assembled = assembled_profile("kineto", [process])
    (found,) = assembled.profile.processes
    assert found.communication_s == pytest.approx(200e-6)
    assert found.exposed_s == pytest.approx((50 + 40) * 1e-6)
    assert found.compute_s == pytest.approx(210e-6)
    assert found.span_s == pytest.approx(2000e-6)
    assert (found.steps, found.step_s) == (2, pytest.approx(1000e-6))
    assert found.step_communication_s == pytest.approx(100e-6)
    assert assembled.results[0].figures[0].exposed_s == pytest.approx(90e-6)
    (window,) = assembled.profile.window
    assert [one.beside_s for one in window] == pytest.approx([50e-6, 60e-6])
    (row,) = process_rows(assembled.results, assembled.profile)
    assert {"10.0%", "4.5%", "10.5%"} <= set(row)


def test_differences_between_ranks_and_absent_ranks_are_reported():
    processes = [process_of(0, [100] * 3), process_of(1, [100] * 2)]
    assembled = assembled_profile("plug-in", processes)
    assert differences_of(assembled.profile, assembled.results) == [
        "all_reduce of 1 KiB float32 in group 0: rank 1 called it 2 times, rank 0 3 times"
    ]
    assert absent_of(assembled.profile) == []
    alone = assembled_profile("plug-in", processes[:1])
    assert absent_of(alone.profile)[0].startswith("1 of 2 ranks of a group are not part")
    assert differences_of(alone.profile, alone.results) == []


def test_ranks_may_call_an_alltoallv_with_counts_of_their_own():
    processes = [process_of(0, [100], "alltoallv"), process_of(1, [100], "alltoallv")]
    processes[1].operations[0].size_bytes = 2048
    assembled = assembled_profile("kineto", processes)
    assert len(assembled.results) == 2
    assert differences_of(assembled.profile, assembled.results) == []


def test_the_time_of_messages_in_one_kernel_counts_once():
    process = process_of(0, [100] * 3, "send")
    process.calls = [ObservedCall(0, number, US, US, 101 * US) for number in range(3)]
    (figures,) = assembled_profile("plug-in", [process]).results[0].figures
    assert figures.total_s == pytest.approx(100e-6)
    assert figures.median_s == pytest.approx(100e-6)
    process.calls = process.calls[:2]  # not all are listed
    (figures,) = assembled_profile("plug-in", [process]).results[0].figures
    assert figures.total_s is None


def test_a_window_is_one_step_in_the_order_of_its_calls():
    process = process_of(0, [100])
    other = ObservedOperation("g", "all_gather", "nccl", "float32", 64, 512, calls=5)
    process.operations.append(other)
    process.calls = [
        ObservedCall(place, number, at, at, at + 50 * US, number % 2)
        for number in range(5)
        for place, at in ((0, (1 + number * 1000) * US), (1, (501 + number * 1000) * US))
    ]
    assembled = assembled_profile("plug-in", [process])
    (window,) = assembled.profile.window
    assert [one.begin_s for one in window] == [0.0, pytest.approx(500e-6)]
    names = [assembled.results[one.index].profiled.operation for one in window]
    assert names == ["all_reduce", "all_gather"]
    assert assembled.profile.processes[0].step_s == pytest.approx(1000e-6)
    assert assembled.profile.processes[0].step_calls == 2


def test_steps_by_the_clock_of_the_host_are_not_compared_with_times_of_kernels():
    hours_ns = 5 * 3600 * 1_000_000_000
    process = process_of(0, [100])
    process.operations.append(
        ObservedOperation("g", "all_gather", "nccl", "float32", 64, 512, calls=5)
    )
    calls = []
    for number in range(5):
        at_ns = (1 + number * 1000) * US
        begin_ns = at_ns + hours_ns
        # The kernel of one first call of a step has no times.
        times = (0, 0) if number == 2 else (begin_ns, begin_ns + 50 * US)
        calls.append(ObservedCall(0, number, at_ns, *times))
        calls.append(
            ObservedCall(1, number, at_ns + 500 * US, begin_ns + 500 * US, begin_ns + 550 * US)
        )
    process.calls = calls
    (found,) = assembled_profile("plug-in", [process]).profile.processes
    assert found.step_s == pytest.approx(1000e-6)
    assert found.step_communication_s is None
    assert found.communication_s == pytest.approx(450e-6)


def test_equal_operations_of_equal_groups_are_one_row():
    processes = [process_of(0, [100]), process_of(1, [90])]
    for number, process in enumerate(processes):
        process.groups = {f"g{number}": ObservedGroup(f"g{number}", "tp", 2, 0)}
        process.operations[0].group = f"g{number}"
    assembled = assembled_profile("plug-in", processes)
    assert len(assembled.results) == 2
    (row,) = sums_of(assembled.results, assembled.profile)
    assert sorted(row.groups) == [0, 1]
    assert row.calls == (1, 1)
    assert row.total_s == pytest.approx(95e-6)


def test_results_without_the_line_of_their_profile_are_shown():
    results = assembled_profile(
        "plug-in", [process_of(0, [100] * 3), process_of(1, [40] * 3)]
    ).results
    whole = completed(None, results)
    assert [(one.rank, one.calls) for one in whole.processes] == [(0, 3), (1, 3)]
    assert [row[0] for row in process_rows(results, whole)] == ["0", "1"]
    assert remarks_of(results, whole) == []
    results[0].figures[0].process = 1 << 60
    assert len(completed(None, results).processes) == 2
    assert remarks_of(results, completed(None, results)) == []


def content_of(assembled, **more):
    return RunContent(
        HEADER, assembled.results, Footer("", 0, 0.0, **more), profile=assembled.profile
    )


def of_two(first_us, second_us, **profile):
    assembled = assembled_profile("plug-in", [process_of(0, first_us), process_of(1, second_us)])
    for name, value in profile.items():
        setattr(assembled.profile, name, value)
    return assembled


def of_equal_ranks():
    """Drawings keep the processes apart."""
    assembled = of_two([100, 90], [40, 50])
    assembled.profile.processes[1].rank = 0
    return assembled


def of_many():
    """More operations and processes than tables show."""
    processes = [process_of(rank, [100]) for rank in range(40)]
    for process in processes:
        process.operations = [
            ObservedOperation("g", "all_reduce", "nccl", "float32", 1, size, calls=1)
            for size in range(1, 61)
        ]
        process.calls = []
    return assembled_profile("plug-in", processes)


ENDED = {"message": "the program ended with exit code 9", "problems": ["lost"]}
DOCUMENTS = {
    "usual": content_of(of_two([300] * 3, [100] * 3)),
    "waits": content_of(of_two([100] * 4, [40] * 4)),
    "failed": content_of(of_two([100], [100], program_exit_code=9), **ENDED),
    "no-end": replace(content_of(of_two([100], [100])), footer=None),
    "equal-ranks": content_of(of_equal_ranks()),
    "many": content_of(of_many()),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name):
    found = outline(document_of_profile(DOCUMENTS[name]))
    require_golden(f"pages/profile-{name}.txt", found)


def test_rows_are_of_processes_and_those_of_pages_of_all_together():
    (result,) = assembled_profile(
        "plug-in", [process_of(0, [100, 300]), process_of(1, [40])]
    ).results
    rows = [*FIELDS.layout.rows_of(HEADER, None)(result)]
    place = [one.name for one in FIELDS.layout.columns].index("calls")
    assert [row[place] for row in rows] == [2, 1]
    cells = FIELDS.page_cells(NamedRun("a", Journal(header=HEADER, results=[result])))(result)
    assert (cells["calls"], cells["ranks"], cells["total_us"]) == (3, 2, pytest.approx(440))
    assert cells["median_us"] == pytest.approx((200 + 40) / 2)
