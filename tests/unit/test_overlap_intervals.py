"""Which operations count as beside other work, and their times."""

from __future__ import annotations

import pytest

from cclmark.kinds.overlap.figures import (
    LEAST_SPANS,
    SPANS,
    CountedSpans,
    Lengths,
    balanced,
    figures_of,
    lengths_for,
    longer,
    select,
)
from cclmark.kinds.overlap.result import OverlapTimes


def evenly(begin_s, span_s, spans):
    return [begin_s + span_s * number for number in range(spans + 1)]


def times(communication=(), compute=(), enqueue_s=(), operations=(1, 1)):
    return OverlapTimes(list(communication), list(compute), list(enqueue_s), *operations)


def alone(*by_rank, operations=1):
    return times(by_rank, [[]] * len(by_rank), operations=(operations, 1))


def computed(*by_rank, operations=1):
    return times([[]] * len(by_rank), by_rank, operations=(1, operations))


def test_only_spans_within_the_time_of_both_streams_count():
    # The compute begins during the third collective and ends during the seventh.
    found = select(times([evenly(0, 10, 10)], [evenly(25, 5, 8)]))
    assert found == CountedSpans((3, 6), ((1, 7),))
    # A product that ends exactly with the collectives counts, a longer one does not.
    assert select(times([evenly(0, 10, 10)], [evenly(25, 5.001, 8)])) == CountedSpans(
        (3, 6), ((1, 6),)
    )


def test_the_first_span_of_a_stream_does_not_count():
    found = select(times([evenly(0, 10, 4)], [evenly(0, 10, 4)]))
    assert found == CountedSpans((1, 4), ((1, 4),))


def test_a_collective_counts_if_it_is_beside_compute_on_every_rank():
    late, early = evenly(20, 4, 20), evenly(0, 4, 15)  # until 100 and 60
    found = select(times([evenly(0, 10, 10), evenly(1, 10, 10)], [late, early]))
    assert found is not None
    # Rank 0 from 20 on, rank 1 until 60: collectives 2 to 4 of both ranks.
    assert found.communication == (2, 5)
    # Products from 20 to 50 on rank 0, without its first one, and from 21 to 51 on rank 1.
    assert found.compute == ((1, 7), (6, 12))


@pytest.mark.parametrize(
    ("communication", "compute"),
    [
        (evenly(0, 10, 5), evenly(60, 10, 5)),  # one after the other
        (evenly(0, 10, 5), evenly(11, 1, 5)),  # the compute is within one collective
        (evenly(11, 1, 5), evenly(0, 10, 5)),
        (evenly(0, 10, 1), evenly(0, 1, 20)),  # a single span, which is the first
    ],
)
def test_nothing_counts_if_no_operation_is_entirely_beside_the_other_work(communication, compute):
    assert select(times([communication], [compute])) is None
    assert (
        figures_of(alone([0, 1, 2]), computed([0, 1, 2]), times([communication], [compute])) is None
    )


def test_times_are_those_of_one_operation_on_the_slowest_rank():
    figures = figures_of(
        alone([0, 3, 5, 7], [0, 2, 3, 4], operations=2),
        computed([0, 1, 4, 7], [0, 1, 2, 3], operations=3),
        times(
            [evenly(0, 4, 10), evenly(0, 4, 10)],
            [evenly(0, 6, 7), evenly(0, 9, 5)],
            operations=(2, 3),
        ),
    )
    assert figures is not None
    assert figures.communication_alone_s == 2 / 2  # spans of 2 s after the first, of rank 0
    assert figures.compute_alone_s == 3 / 3
    assert figures.communication_s == 4 / 2
    assert figures.compute_s == 9 / 3  # rank 1
    # Collectives 1 to 9 of 10 (until 40 s). Products from 4 to 40 s: 1 to 5 of 7, and 1 to 3 of 5.
    assert figures.communication_evaluated == 9 / 10
    assert figures.compute_evaluated == 3 / 5


def test_unequal_spans_are_averaged_by_their_time_not_by_their_number_before():
    together = times([[0, 1, 3, 4, 8, 9]], [evenly(0, 0.5, 30)])
    figures = figures_of(alone([0, 1, 2]), computed([0, 0.5, 1.0]), together)
    assert figures is not None
    assert figures.communication_s == (9 - 1) / 4
    assert figures.compute_s == 0.5


def test_launches_are_compared_with_the_time_of_the_collective_alone():
    together = times([evenly(0, 1, 5)], [evenly(0, 1, 5)])
    for enqueue_s, bound in ((0.5, False), (0.9, True)):
        measured = times([evenly(0, 0.1, 10)], [[]], [enqueue_s])
        figures = figures_of(measured, computed([0, 1, 2]), together)
        assert figures is not None
        assert figures.launch_bound == bound
    figures = figures_of(alone([0, 1, 2]), computed([0, 1, 2]), together)
    assert figures is not None
    assert not figures.launch_bound  # devices that work inside the call


@pytest.mark.parametrize(
    ("communication_s", "compute_s", "duration_s"),
    [(1e-5, 1.5e-3, 0.04), (5e-3, 1.5e-3, 0.04), (0.02, 1e-6, 0.04), (1e-3, 1e-3, 1e-3)],
)
def test_both_streams_alone_take_about_the_same_time(communication_s, compute_s, duration_s):
    lengths = lengths_for(communication_s, compute_s, duration_s)
    sent = lengths.communication[0] * lengths.communication[1] * communication_s
    worked = lengths.compute[0] * lengths.compute[1] * compute_s
    least = max(duration_s, LEAST_SPANS * max(communication_s, compute_s))
    for total_s in (sent, worked):
        assert least <= total_s * 1.0001
        assert total_s < 1.5 * least
    for spans, operations in (lengths.communication, lengths.compute):
        assert LEAST_SPANS <= spans <= SPANS
        assert operations >= 1


def test_the_stream_that_ends_first_gets_more_operations():
    lengths = Lengths((10, 1), (10, 4))
    both = times([evenly(0, 3, 10)], [evenly(0, 1, 10)])
    assert balanced(lengths, both) == Lengths((10, 1), (24, 5))  # 120 instead of 40 products
    both = times([evenly(0, 1, 10)], [evenly(0, 2, 10)])
    assert balanced(lengths, both) == Lengths((20, 1), (10, 4))
    both = times([evenly(0, 100, 10)], [evenly(0, 1, 10)])
    assert balanced(lengths, both) == Lengths((10, 1), (23, 7))  # 4 times 40, in whole spans
    assert longer(Lengths((8, 1), (24, 10))) == Lengths((16, 1), (24, 20))


def test_the_slowest_collectives_and_the_fastest_compute_decide_the_balance():
    lengths = Lengths((10, 1), (10, 1))
    both = times([evenly(0, 2, 10), evenly(0, 4, 10)], [evenly(0, 1, 10), evenly(0, 2, 10)])
    assert balanced(lengths, both) == Lengths((10, 1), (20, 2))
