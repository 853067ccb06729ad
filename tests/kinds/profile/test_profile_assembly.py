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
from cclmark.profile.observed import ObservedCall, ObservedGroup, ObservedOperation, ObservedProcess
from cclmark.profile.profile_assembly import assembled_profile, waits_of
from cclmark.profile.profile_gaps import absent_of, differences_of
from cclmark.profile.repetitions import Period, period_of
from cclmark.work.intervals import length_of, lengths_within, union_of, without
from cclmark_programs.profile.document import FIELDS, document_of_profile, process_rows, remarks_of
from cclmark_programs.profile.figures import sums_of, waits_of_processes
from goldens import outline, require_golden
from places import TESTS

US = 1000
HEADER = read_journal(TESTS / "journals" / "profile.jsonl").header
INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def moments(intervals):
    return {at for begin, end in intervals for at in range(begin, end)}


@given(INTERVALS, INTERVALS)
def test_intervals_cover_the_same_moments(intervals, others):
    union, parts = union_of(intervals), union_of(others)
    assert moments(union) == moments(intervals)
    assert all(one[1] < other[0] for one, other in pairwise(union))
    free = without(union, parts)
    assert moments(free) == moments(intervals) - moments(others)
    assert (length_of(union), length_of(free)) == (len(moments(union)), len(moments(free)))
    expected = [len(moments(intervals) & moments([part])) for part in parts]
    assert lengths_within(union, parts) == expected


@pytest.mark.parametrize(
    ("sequence", "period"),
    [
        ([9, 8] + [1, 2, 2, 3] * 5 + [7], Period(2, 4, 5)),
        ([1, 1, 1, 2] * 6, Period(0, 4, 6)),
        ([1, 2] * 2, None),  # two repetitions show no loop
        ([1] * 30, None),
        ([], None),
    ],
)
def test_the_period_of_calls(sequence, period):
    assert period_of(sequence) == period


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
    groups = {"g": ObservedGroup("g", "world", 2, rank)}
    return ObservedProcess(rank, "host", 10 + rank, "nccl 2.28.9", groups, [own], calls, **more)


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


def of_kernels():
    """Communication of which a part is exposed, in marked steps."""
    kernels = [(1 * US, 51 * US), (1041 * US, 1201 * US)]
    steps = [(0, 1000 * US), (1000 * US, 2000 * US)]
    return [process_of(0, [100, 100], kernels=kernels, steps=steps)]


def of_unequal_counts():
    """Ranks may call an alltoallv with counts of their own."""
    processes = [process_of(rank, [100], "alltoallv") for rank in (0, 1)]
    processes[1].operations[0].size_bytes = 2048
    return processes


def of_one_kernel(listed):
    """Messages in one kernel, whose time counts once if all are listed."""
    process = process_of(0, [100] * 3, "send")
    process.calls = [ObservedCall(0, number, US, US, 101 * US) for number in range(listed)]
    return [process]


def with_all_gathers(calls):
    process = process_of(0, [100])
    gather = ObservedOperation("g", "all_gather", "nccl", "float32", 64, 512, calls=5)
    process.operations.append(gather)
    process.calls = calls
    return [process]


def of_a_window():
    """A step in the order of its calls, on two streams."""
    begins = [(number, (1 + number * 1000) * US) for number in range(5)]
    return with_all_gathers(
        [
            ObservedCall(place, number, at, at, at + 50 * US, number % 2)
            for number, begin in begins
            for place, at in ((0, begin), (1, begin + 500 * US))
        ]
    )


def of_two_clocks():
    """Steps by the clock of the host, hours before that of kernels. The kernel of one first call of
    a step has no times.
    """
    hours_ns = 5 * 3600 * 1_000_000_000
    calls = []
    for number in range(5):
        at_ns = (1 + number * 1000) * US
        begin_ns = at_ns + hours_ns
        times = (0, 0) if number == 2 else (begin_ns, begin_ns + 50 * US)
        calls.append(ObservedCall(0, number, at_ns, *times))
        second_ns = begin_ns + 500 * US
        calls.append(ObservedCall(1, number, at_ns + 500 * US, second_ns, second_ns + 50 * US))
    return with_all_gathers(calls)


def of_equal_groups():
    """Equal operations of equal groups, which are one row."""
    processes = [process_of(0, [100]), process_of(1, [90])]
    for number, process in enumerate(processes):
        process.groups = {f"g{number}": ObservedGroup(f"g{number}", "tp", 2, 0)}
        process.operations[0].group = f"g{number}"
    return processes


ASSEMBLED = {
    "exposed communication": ("kineto", of_kernels()),
    "unequal counts": ("kineto", of_unequal_counts()),
    "three messages in one kernel": ("plug-in", of_one_kernel(3)),
    "three messages, of which two are listed": ("plug-in", of_one_kernel(2)),
    "a window": ("plug-in", of_a_window()),
    "two clocks": ("plug-in", of_two_clocks()),
    "equal groups": ("plug-in", of_equal_groups()),
    "ranks that differ": ("plug-in", [process_of(0, [100] * 3), process_of(1, [100] * 2)]),
    "an absent rank": ("plug-in", [process_of(0, [100] * 3)]),
}


def test_assembled_profiles():
    found = {}
    for name, (source, processes) in ASSEMBLED.items():
        assembled = assembled_profile(source, processes)
        profile, results = assembled.profile, assembled.results
        found[name] = {
            **{"profile": profile, "results": results},
            "sums": [
                {"groups": sorted(one.groups), "calls": one.calls, "total_s": one.total_s}
                for one in sums_of(results, profile)
            ],
            "rows": process_rows(results, profile),
            "differences": differences_of(profile, results),
            "absent": absent_of(profile),
        }
    require_golden("texts/profile-assembled.txt", outline(found))


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
    (result,) = of_two([100, 300], [40]).results
    rows = [*FIELDS.layout.rows_of(HEADER, None)(result)]
    place = [one.name for one in FIELDS.layout.columns].index("calls")
    assert [row[place] for row in rows] == [2, 1]
    cells = FIELDS.page_cells(NamedRun("a", Journal(header=HEADER, results=[result])))(result)
    assert (cells["calls"], cells["ranks"], cells["total_us"]) == (3, 2, pytest.approx(440))
    assert cells["median_us"] == pytest.approx((200 + 40) / 2)
