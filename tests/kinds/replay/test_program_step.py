"""The step of a profile that can be replayed."""

import dataclasses

import pytest
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.journal.item_results import ProfileResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    Profile,
    ProfiledCall,
    ProfileFigures,
    ProfileGroup,
    ProfileProcess,
)
from cclmark.work.profiled import ProfiledOperation
from cclmark_programs.replay.deadlocks import Launch, join_deadlocked
from cclmark_programs.replay.document import change_text, ms, ratio_text
from cclmark_programs.replay.plan import EXCHANGE
from cclmark_programs.replay.program_step import step_of
from goldens import require_golden

US = 1e-6


def operation(name, group=0, ranks=2, count=256, dtype="float32", is_range=False):
    return ProfiledOperation(name, "nccl", group, ranks, dtype, count, count * 4, is_range)


def journal_of(operations, windows, groups=None, step_s=None, steps=5, source="plug-in"):
    """A profile without a header, which the step does not need."""
    ranks = len(windows)
    groups = groups or [list(range(ranks))]
    results = [
        ProfileResult(number, one, [ProfileFigures(0, 1, one.size_bytes)])
        for number, one in enumerate(operations)
    ]
    profile = Profile(
        source,
        groups=[ProfileGroup("", str(number), list(own)) for number, own in enumerate(groups)],
        processes=[
            ProfileProcess(
                *(rank, "host", 1, 10, 10),
                steps=steps,
                step_s=step_s,
                step_calls=len(window) * bool(steps),
            )
            for rank, window in enumerate(windows)
        ],
        window=[[ProfiledCall(*one) for one in window] for window in windows],
    )
    return Journal(header=None, results=results, profile=profile)


def test_ranks_are_aligned_at_the_end_of_their_first_common_call():
    # Rank 1 arrives 30 us late: its kernel is so much shorter.
    windows = [
        [(0, 0.0, 100 * US, 0), (0, 200 * US, 50 * US, 0)],
        [(0, 0.0, 70 * US, 0), (0, 170 * US, 50 * US, 0)],
    ]
    found = step_of(journal_of([operation("all_reduce")], windows, step_s=400 * US), "p")
    begins = [[round(one.begin_s / US) for one in own] for own in found.step.calls]
    assert begins == [[0, 200], [30, 200]]
    assert found.original.span_s == pytest.approx((250 * US, 220 * US))
    assert found.original.communication_s == pytest.approx((150 * US, 120 * US))
    assert found.original.tail_s == pytest.approx(150 * US)
    assert found.remarks == []


def test_operations_that_overlap_on_two_streams_count_once():
    windows = [[(0, 0.0, 100 * US, 0), (1, 50 * US, 100 * US, 1)]] * 2
    parts = [operation("all_reduce"), operation("all_gather")]
    found = step_of(journal_of(parts, windows), "p")
    assert found.original.communication_s == pytest.approx((150 * US, 150 * US))
    assert [one.stream for one in found.step.calls[0]] == [0, 1]


def test_a_send_and_a_receive_of_one_kernel_are_counted_as_the_send_on_every_rank():
    parts = [operation("send"), operation("recv")]
    both = [(0, 0.0, 10 * US, 0, 1), (1, 0.0, 10 * US, 0, 1)]
    other = [(1, 0.0, 10 * US, 0, 0), (0, 0.0, 10 * US, 0, 0)]
    found = step_of(journal_of(parts, [both, other]), "p")
    assert [[one.operation for one in calls] for calls in found.step.calls] == [[0], [0]]
    assert not any("roots" in text for text in found.remarks)


def test_a_rank_receives_its_own_calls_only():
    parts = [operation("all_reduce", ranks=3), operation("send", ranks=3)]
    parts.append(operation("recv", ranks=3))
    windows = [
        [(0, 0.0, 10 * US, 0), (1, 20 * US, 10 * US, 0, 1)],
        [(0, 0.0, 10 * US, 0), (2, 20 * US, 30 * US, 0, 0)],
        [(0, 0.0, 10 * US, 0)],
    ]
    step = step_of(journal_of(parts, windows), "p").step
    assert [one.calls for one in step.by_rank()] == list(step.calls)
    assert [len(one.calls) for one in step.by_rank()] == [2, 2, 1]
    assert len({one.length_s for one in step.by_rank()}) == 1
    assert step.by_rank()[2].length_s == pytest.approx(50 * US)
    assert step.by_rank()[2].groups == step.groups


def test_messages_of_one_kernel_are_one_exchange_with_the_senders_rows():
    # Rank 0 sends to both others at once; the third part lies behind the first one.
    parts = [operation("send", ranks=3, count=8), operation("send", ranks=3, count=16)]
    parts += [operation("recv", ranks=3, count=8), operation("recv", ranks=3, count=16)]
    windows = [
        [(0, 0.0, 10 * US, 0, 1), (1, 0.0, 10 * US, 0, 2)],
        [(2, 0.0, 10 * US, 0, 0)],
        [(3, 0.0, 10 * US, 0, 0)],
    ]
    found = step_of(journal_of(parts, windows), "p")
    (first,), (second,), (third,) = found.step.calls
    assert {one.collective for one in (first, second, third)} == {EXCHANGE}
    row = (0, 8, 16, 0, 0, 0, 0, 0, 0)
    assert first.matrix == second.matrix == third.matrix == row


def test_a_pipeline_whose_ranks_call_different_operations():
    parts = [operation("send"), operation("recv"), operation("all_reduce", group=1, ranks=1)]
    windows = [
        [(0, 0.0, 10 * US, 0, 1), (1, 500 * US, 10 * US, 0, 1)],
        [(1, 0.0, 10 * US, 0, 0), (0, 480 * US, 10 * US, 0, 0)],
    ]
    found = step_of(journal_of(parts, windows), "p")
    assert [len(own) for own in found.step.calls] == [2, 2]
    assert [one.matrix for one in found.step.calls[0]] == [(0, 256, 0, 0), (0, 0, 256, 0)]


def test_messages_that_would_wait_for_each_other_are_joined():
    # Both send first: a library with a rendezvous would hang, so it was one group call.
    parts = [operation("send"), operation("recv")]
    windows = [[(0, 0.0, 5 * US, 0, 1 - rank), (1, 9 * US, 5 * US, 0, 1 - rank)] for rank in (0, 1)]
    found = step_of(journal_of(parts, windows), "p")
    assert [len(own) for own in found.step.calls] == [1, 1]
    assert found.step.calls[0][0].matrix == (0, 256, 256, 0)


def test_collectives_on_one_stream_in_another_order_never_complete():
    parts = [operation("all_reduce"), operation("all_gather", group=1)]

    def launches(*, is_apart):
        return [
            [Launch((ProfiledCall(one, 0.0, US, one * is_apart),)) for one in order]
            for order in ((0, 1), (1, 0))
        ]

    assert join_deadlocked(launches(is_apart=False), parts, [(0, 1), (0, 1)]) == [0, 1]
    # On two streams they complete, and get an order that is the same on both ranks.
    apart = launches(is_apart=True)
    assert join_deadlocked(apart, parts, [(0, 1), (0, 1)]) == []
    first, second = ([one.first.index for one in own] for own in apart)
    assert first == second


def test_only_ranks_that_wait_for_each_other_have_messages_joined():
    # Rank 0 only waits for rank 1, which waits for rank 2 and that one for rank 1.
    parts = [operation("send", ranks=3), operation("recv", ranks=3)]

    def calls(*given):
        return [
            (one, number * 20 * US, 5 * US, 0, peer) for number, (one, peer) in enumerate(given)
        ]

    windows = [
        calls((0, 1), (0, 1)),
        calls((0, 2), (1, 2), (1, 0), (1, 0)),
        calls((0, 1), (1, 1)),
    ]
    found = step_of(journal_of(parts, windows), "p")
    assert [len(own) for own in found.step.calls] == [2, 3, 1]


def test_messages_to_one_peer_stay_apart_however_close_they_are():
    parts = [operation("send"), operation("recv")]
    sends = [(0, 0.0, 5 * US, 0, 1), (0, 5.8 * US, 5 * US, 0, 1)]
    receives = [(1, 0.0, 5 * US, 0, 0), (1, 8 * US, 5 * US, 0, 0)]
    found = step_of(journal_of(parts, [sends, receives]), "p")
    assert [len(own) for own in found.step.calls] == [2, 2]


def test_messages_of_many_ranks_are_refused():
    ranks = 300
    parts = [operation("send", ranks=ranks), operation("recv", ranks=ranks)]
    windows = [
        [(0, 0.0, US, 0, (rank + 1) % ranks), (1, 0.0, US, 0, (rank - 1) % ranks)]
        for rank in range(ranks)
    ]
    with pytest.raises(UsageError, match="too many to replay"):
        step_of(journal_of(parts, windows), "p")


def test_larger_groups_come_first():
    parts = [operation("all_reduce", group=1), operation("all_reduce", group=0, ranks=0)]
    parts.append(operation("all_reduce", group=2))
    low = [(0, 0.0, US, 0), (1, 9 * US, US, 0)]
    high = [(2, 0.0, US, 0), (1, 9 * US, US, 0)]
    groups = [[], [0, 1], [2, 3]]
    found = step_of(journal_of(parts, [low, low, high, high], groups=groups), "p")
    assert found.step.groups == ((0, 1, 2, 3), (0, 1), (2, 3))


def test_marked_steps_that_the_listed_calls_are_not_have_no_time():
    call = (0, 0.0, 10 * US, 0)
    journal = journal_of([operation("all_reduce")], [[call], [call]], step_s=1e-3)
    for one in journal.profile.processes:
        one.step_calls = 0
    found = step_of(journal, "p")
    assert found.original.step_s == ()
    assert found.original.span_s == pytest.approx((10 * US, 10 * US))
    assert "may not form one step" in " ".join(found.remarks)


def test_groups_without_calls_are_left_out():
    parts = [operation("all_reduce", group=1)]
    windows = [[(0, 0.0, US, 0)]] * 2
    found = step_of(journal_of(parts, windows, groups=[[0, None], [1, 0]]), "p")
    assert found.step.groups == ((1, 0),)
    assert found.step.calls[0][0].group == 0


def test_a_group_without_known_ranks_is_of_all_that_call_it():
    call = (0, 0.0, US, 0)
    found = step_of(journal_of([operation("all_reduce")], [[call], [call]], groups=[[]]), "p")
    assert found.step.groups == ((0, 1),)
    assert "all are assumed" in " ".join(found.remarks)


REFUSED = [
    (
        [operation("all_reduce"), operation("all_gather")],
        [[(0, 0.0, US, 0)], [(1, 0.0, US, 0)]],
        None,
    ),
    ([operation("all_reduce")], [[(0, 0.0, US, 0)], [(0, 0.0, US, 0), (0, 9.0, US, 0)]], None),
    ([operation("send")], [[], [(0, 0.0, US, 0, 0)]], None),
    (
        [operation("recv"), operation("send", count=8)],
        [[(0, 0.0, US, 0, 1)], [(1, 0.0, US, 0, 0)]],
        None,
    ),
    ([operation("all_reduce")], [[(0, 0.0, US, 0)]], [[0, None]]),
    ([operation("all_reduce")], [[(0, 0.0, US, 0)]], [[0, 7]]),
    ([operation("all_reduce")], [[(0, 0.0, US, 0)], []], [[]]),
    ([operation("all_reduce")], [[(0, 0.0, US, 0)]] * 2, [[0, 0]]),
    ([operation("all_reduce")], [[(0, 0.0, US, 0)]] * 2, [[0, -1]]),
    ([operation("all_reduce")], [[(0, 0.0, US, 0)]] * 2, [[0]]),
    ([operation("all_reduce")], [[(0, 1e300, US, 0)]], None),
    ([operation("all_reduce")], [[(0, float("nan"), US, 0)]], None),
    ([operation("all_reduce", count=1 << 60)], [[(0, 0.0, US, 0)]], None),
    ([operation("all_reduce")], [[(3, 0.0, US, 0)]], None),
    ([operation("alltoallv")], [[(0, 0.0, US, 0)]], None),
    ([operation("unheard")], [[(0, 0.0, US, 0)]], None),
    ([operation("all_reduce", dtype="")], [[(0, 0.0, US, 0)]], None),
    ([operation("send")], [[(0, 0.0, US, 0)]], None),
    ([operation("send")], [[(0, 0.0, US, 0, 5)]], None),
    ([operation("all_reduce")], [[]], None),
]


def test_steps_that_cannot_be_replayed_are_refused():
    refusals = []
    for parts, windows, groups in REFUSED:
        with pytest.raises(UsageError) as error:
            step_of(journal_of(parts, windows, groups), "p")
        refusals.append(str(error.value))
    require_golden("texts/replay-refusals.txt", "\n".join([*refusals, ""]))


def test_what_is_assumed_is_told():
    parts = [operation("broadcast"), operation("all_reduce", is_range=True)]
    windows = [[(0, 0.0, 0.0, 0), (1, US, 0.0, 0)]] * 2
    found = step_of(journal_of(parts, windows, steps=0), "p")
    told = " ".join(found.remarks)
    assert "may not form one step" in told
    assert "smallest count" in told
    assert "roots of broadcast" in told
    assert found.original.span_s == ()


def test_short_times_and_large_differences_are_readable():
    assert [ms(one) for one in (7.109e-3, 41.2e-6, 0.04e-6)] == ["7.109", "0.04120", "0.00004"]
    assert ms(None) == "-"
    assert [change_text(one) for one in (-0.6, 0.031)] == ["-60.0 %", "+3.1 %"]
    assert change_text(160.4) == "161 times as long"
    assert (ratio_text(0.0172), ratio_text(44011.6)) == ("0.017", "44,012")


def test_calls_that_ranks_share_have_the_time_of_the_rank_that_waits_least():
    parts = [operation("all_reduce"), operation("broadcast"), operation("send"), operation("recv")]
    windows = [
        [
            (0, 0.0, 100 * US, 0),
            (1, 200 * US, 50 * US, 0),
            (2, 300 * US, 20 * US, 0, 1),
            (3, 300 * US, 20 * US, 0, 1),
        ],
        [
            (0, 0.0, 70 * US, 0),
            (1, 200 * US, 50 * US, 0),
            (2, 300 * US, 30 * US, 0, 0),
            (3, 300 * US, 30 * US, 0, 0),
        ],
    ]
    step = step_of(journal_of(parts, windows, source="kineto"), "p").step
    # What a root has sent it does not wait for: the time of a broadcast is not known to be shared.
    assert [[one.number for one in own] for own in step.calls] == [[0, -1, 1], [0, -1, 1]]
    assert step.own_s == pytest.approx((70 * US, 20 * US))
    # Without knowledge of other kernels, they may run beside all of a call.
    assert [one.beside_s for one in step.calls[0]] == pytest.approx([100 * US, 50 * US, 20 * US])
    assert not any(one.is_partial for one in step.calls[0])
    (part, _) = step.by_rank([3, 0])
    assert (part.own_s, part.traffic) == (step.own_s, (3, 0))
    assert step.by_rank()[0].traffic is None
    # NCCL reports messages to the plug-in without the end of their kernels.
    found = step_of(journal_of(parts, windows), "p")
    assert [[one.number for one in own] for own in found.step.calls] == [[0, -1, -1], [0, -1, -1]]
    assert found.step.own_s == pytest.approx((70 * US,))
    assert [one.is_partial for one in found.step.calls[0]] == [False, False, True]
    assert any("sends and receives are not compared" in one for one in found.remarks)
    assert found.original.communication_s == pytest.approx((150 * US, 120 * US))
    messages = [[one for one in window if one[0] > 1] for window in windows]
    alone = step_of(journal_of(parts, messages), "p").original
    assert (alone.communication_s, alone.span_s) == ((), pytest.approx((20 * US, 30 * US)))


@pytest.mark.parametrize("stream", [0, 1])
def test_a_call_beside_which_nothing_runs_is_not_slowed_down(stream):
    """On other streams than those of rank 0, too, the work beside its call is known."""
    windows = [
        [(0, 0.0, 100 * US, 0, -1, 0.0), (0, 200 * US, 100 * US, 0, -1, 40 * US)],
        [(0, 0.0, 100 * US, 0, -1, 0.0), (0, 200 * US, 100 * US, stream, -1, 0.0)],
    ]
    step = step_of(journal_of([operation("all_reduce")], windows), "p").step
    assert step.own_s == pytest.approx((0.0, 100 * US))
    assert [one.beside_s for one in step.calls[0]] == pytest.approx([0.0, 40 * US])


def test_without_times_no_call_is_compared():
    windows = [[(0, 0.0, 0.0, 0)], [(0, 0.0, 0.0, 0)]]
    step = step_of(journal_of([operation("all_reduce")], windows), "p").step
    assert step.own_s == ()
    assert step.calls[0][0].number == -1


def test_calls_of_which_one_rank_has_no_times_are_not_shared():
    windows = [[(0, 0.0, 10 * US, 0)], [(0, 0.0, 0.0, 0)]]
    step = step_of(journal_of([operation("all_reduce")], windows), "p").step
    assert step.own_s == ()
    assert [own[0].number for own in step.calls] == [-1, -1]
    assert [own[0].time_s for own in step.calls] == [pytest.approx(10 * US), 0.0]


@pytest.mark.parametrize(("beside_s", "most_s"), [(2 * US, 2 * US), (50 * US, 10.4 * US)])
def test_a_kernel_of_messages_lasts_from_the_first_begin_to_the_last_end(beside_s, most_s):
    parts = [operation("send"), operation("recv")]
    windows = [
        [(0, 0.4 * US, 10 * US, 0, 1 - rank, 1 * US), (1, 0.0, 10 * US, 0, 1 - rank, beside_s)]
        for rank in (0, 1)
    ]
    step = step_of(journal_of(parts, windows), "p").step
    ((call,), _) = step.calls
    assert (call.begin_s, call.time_s) == (0.0, pytest.approx(10.4 * US))
    assert call.beside_s == pytest.approx(most_s)


def test_a_call_that_ends_after_more_than_an_hour_is_refused():
    windows = [[(0, 3000.0, 1000.0, 0)]] * 2
    with pytest.raises(UsageError, match="its step is longer than an hour"):
        step_of(journal_of([operation("all_reduce")], windows), "p")


@pytest.mark.parametrize("beside_s", [-1.0, float("nan"), 1e9])
def test_impossible_times_of_other_kernels_are_refused(beside_s):
    windows = [[(0, 0.0, 100 * US, 0, -1, beside_s)]] * 2
    with pytest.raises(UsageError, match="impossible time"):
        step_of(journal_of([operation("all_reduce")], windows), "p")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"size_bytes": 1028}, "256 elements do not have 1028 bytes"),
        ({"size_bytes": 2048}, "256 elements do not have 2048 bytes"),  # as of an all_gather
        ({"count": 1 << 40}, "do not have 1024 bytes"),
        ({"group_ranks": 1 << 20}, "its group has 2 ranks, not 1048576"),
    ],
)
def test_operations_that_contradict_themselves_are_refused(changes, says):
    damaged = replace(operation("all_reduce"), **changes)
    with pytest.raises(UsageError, match=says):
        step_of(journal_of([damaged], [[(0, 0.0, US, 0)]] * 2), "p")


def test_sizes_of_all_parts_are_accepted():
    whole = replace(operation("all_gather"), size_bytes=2 * 1024)
    assert step_of(journal_of([whole], [[(0, 0.0, US, 0)]] * 2), "p").step.calls


def test_a_profile_with_left_out_lines_is_refused():
    """Calls refer to operations by number: without one of them, others would be replayed."""
    parts = [operation("all_reduce"), operation("all_gather")]
    whole = journal_of(parts, [[(0, 0.0, US, 0)]] * 2)
    for changed in (
        dataclasses.replace(whole, damaged_lines=1),
        dataclasses.replace(whole, results=whole.results[1:]),
    ):
        with pytest.raises(UsageError, match="lines are missing"):
            step_of(changed, "p")
