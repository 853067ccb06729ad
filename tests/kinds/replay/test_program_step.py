"""The step of a profile that can be replayed."""

import dataclasses

import pytest
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.journal import schema
from cclmark.journal.item_results import ProfileResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import ProfiledCall
from cclmark.work.profiled import ProfiledOperation
from cclmark_programs.replay.program_step import step_of
from goldens import outline, require_golden

US = 1e-6
SEND, RECV = range(2)


def operation(name, group=0, ranks=2, count=256, dtype="float32", is_range=False):
    return ProfiledOperation(name, "nccl", group, ranks, dtype, count, count * 4, is_range)


def call(index, begin_us=0.0, time_us=10.0, peer=-1, beside_us=None, stream=0):
    beside_s = None if beside_us is None else beside_us * US
    return ProfiledCall(index, begin_us * US, time_us * US, stream, peer, beside_s)


def journal_of(operations, windows, groups=None, step_s=None, steps=5, source="plug-in"):
    """A profile without a header, which the step does not need. Operations: of two ranks if they
    are names; calls: the arguments of ``call``.
    """
    parts = [operation(one) if isinstance(one, str) else one for one in operations]
    groups = groups or [list(range(len(windows)))]
    results = [
        ProfileResult(number, one, [schema.ProfileFigures(0, 1, one.size_bytes)])
        for number, one in enumerate(parts)
    ]
    processes = [
        schema.ProfileProcess(
            *(rank, "host", 1, 10, 10),
            steps=steps,
            step_s=step_s,
            step_calls=len(window) * bool(steps),
        )
        for rank, window in enumerate(windows)
    ]
    profile = schema.Profile(
        source,
        groups=[schema.ProfileGroup("", str(number), own) for number, own in enumerate(groups)],
        processes=processes,
        window=[[call(*one) for one in window] for window in windows],
    )
    return Journal(header=None, results=results, profile=profile)


def messages(ranks, *more):
    """Operations of ranks: a send and a receive, then others."""
    return [operation("send", ranks=ranks), operation("recv", ranks=ranks), *more]


FOUR = ["send", "recv", "all_reduce", "broadcast"]
SHARED = [
    [(2, 0, 100), (3, 200, 50), (SEND, 300, 20, 1), (RECV, 300, 20, 1)],
    [(2, 0, 70), (3, 200, 50), (SEND, 300, 30, 0), (RECV, 300, 30, 0)],
]
#: Operations, the calls of each rank, and what else the profile has.
STEPS = {
    # Rank 1 arrives 30 us late: its kernel is so much shorter.
    "ranks are aligned at the end of their first common call": (
        *(["all_reduce"], [[(0, 0, 100), (0, 200, 50)], [(0, 0, 70), (0, 170, 50)]]),
        {"step_s": 400 * US},
    ),
    "operations that overlap on two streams count once": (
        *(["all_reduce", "all_gather"], [[(0, 0, 100), (1, 50, 100, -1, None, 1)]] * 2, {}),
    ),
    "a send and a receive of one kernel are counted as the send on every rank": (
        *(FOUR, [[(SEND, 0, 10, 1), (RECV, 0, 10, 1)], [(RECV, 0, 10, 0), (SEND, 0, 10, 0)]], {}),
    ),
    # Rank 0 sends to both others at once; the third part lies behind the first one.
    "messages of one kernel are one exchange with the sender's rows": (
        [operation(name, ranks=3, count=count) for name in FOUR[:2] for count in (8, 16)],
        [[(0, 0, 10, 1), (1, 0, 10, 2)], [(2, 0, 10, 0)], [(3, 0, 10, 0)]],
        {},
    ),
    "a pipeline whose ranks call different operations": (
        *(FOUR, [[(SEND, 0, 10, 1), (RECV, 500, 10, 1)], [(RECV, 0, 10, 0), (SEND, 480, 10, 0)]]),
        {},
    ),
    # Both send first: a library with a rendezvous would hang, so it was one group call.
    "messages that would wait for each other are joined": (
        FOUR,
        [[(SEND, 0, 5, 1 - rank), (RECV, 9, 5, 1 - rank)] for rank in (0, 1)],
        {},
    ),
    # Rank 0 only waits for rank 1, which waits for rank 2 and that one for rank 1.
    "only ranks that wait for each other have messages joined": (
        messages(3),
        [
            [(one, number * 20, 5, peer) for number, (one, peer) in enumerate(own)]
            for own in (
                ((SEND, 1), (SEND, 1)),
                ((SEND, 2), (RECV, 2), (RECV, 0), (RECV, 0)),
                ((SEND, 1), (RECV, 1)),
            )
        ],
        {},
    ),
    "larger groups come first": (
        [operation("all_reduce", group, ranks) for group, ranks in ((1, 2), (0, 0), (2, 2))],
        [[(0, 0, 1), (1, 9, 1)]] * 2 + [[(2, 0, 1), (1, 9, 1)]] * 2,
        {"groups": [[], [0, 1], [2, 3]]},
    ),
    "a group without known ranks is of all that call it": (
        *(["all_reduce"], [[(0, 0, 1)]] * 2, {"groups": [[]]}),
    ),
    "assumptions are listed": (
        ["broadcast", operation("all_reduce", is_range=True)],
        [[(0, 0, 0), (1, 1, 0)]] * 2,
        {"steps": 0},
    ),
    # What a root has sent it does not wait for: the time of a broadcast is not known to be shared.
    # Without knowledge of other kernels, they may run beside all of a call.
    "calls that ranks share have the time of the rank that waits least": (
        *(FOUR, SHARED, {"source": "kineto"}),
    ),
    # NCCL reports messages to the plug-in without the end of their kernels.
    "messages of a plug-in have partial times": (FOUR, SHARED, {}),
    # On other streams than those of rank 0, too, the work beside its call is known.
    "a call beside which nothing runs is not slowed down": (
        ["all_reduce"],
        [
            [(0, 0, 100, -1, 0), (0, 200, 100, -1, 40)],
            [(0, 0, 100, -1, 0), (0, 200, 100, -1, 0, 1)],
        ],
        {},
    ),
    "without times no call is compared": (["all_reduce"], [[(0, 0, 0)]] * 2, {}),
    "calls of which one rank has no times are not shared": (
        *(["all_reduce"], [[(0, 0, 10)], [(0, 0, 0)]], {}),
    ),
    "a kernel of messages lasts from the first begin to the last end": (
        *(FOUR, [[(SEND, 0.4, 10, 1 - one, 1), (RECV, 0, 10, 1 - one, 50)] for one in (0, 1)], {}),
    ),
    "sizes of all parts are accepted": (
        *([replace(operation("all_gather"), size_bytes=2 * 1024)], [[(0, 0, 1)]] * 2, {}),
    ),
}


def test_the_step_that_is_replayed():
    steps = {}
    for name, (parts, windows, options) in STEPS.items():
        found = step_of(journal_of(parts, windows, **options), "p")
        own = {"groups": found.step.groups, "calls": found.step.calls, "own_s": found.step.own_s}
        told = {"original": found.original, "tail_s": found.original.tail_s}
        steps[name] = {**own, **told, "remarks": found.remarks}
    require_golden("texts/replay-steps.txt", outline(steps))


def test_a_rank_receives_its_own_calls_only():
    windows = [[(0, 0, 10), (1, 20, 10, 1)], [(0, 0, 10), (2, 20, 30, 0)], [(0, 0, 10)]]
    parts = [operation("all_reduce", ranks=3), *messages(3)]
    step = step_of(journal_of(parts, windows), "p").step
    assert [one.calls for one in step.by_rank()] == list(step.calls)
    assert [one.length_s for one in step.by_rank()] == pytest.approx([50 * US] * 3)
    assert step.by_rank()[2].groups == step.groups
    assert step.by_rank()[0].traffic is None
    (part, *_) = step.by_rank([3, 0])
    assert (part.own_s, part.traffic) == (step.own_s, (3, 0))


ONE, TWICE = [(0, 0, 1)], [[(0, 0, 1)]] * 2
RING = [[(SEND, 0, 1, (rank + 1) % 300), (RECV, 0, 1, (rank - 1) % 300)] for rank in range(300)]
DAMAGED = ({"size_bytes": 1028}, {"size_bytes": 2048}, {"count": 1 << 40}, {"group_ranks": 1 << 20})
#: Operations, the calls of each rank, and the ranks of groups.
REFUSED = [
    (["all_reduce", "all_gather"], [ONE, [(1, 0, 1)]], None),
    (["all_reduce"], [ONE, [(0, 0, 1), (0, 9e6, 1)]], None),
    (["send"], [[], [(0, 0, 1, 0)]], None),
    (["recv", operation("send", count=8)], [[(0, 0, 1, 1)], [(1, 0, 1, 0)]], None),
    *((["all_reduce"], [ONE], [ranks]) for ranks in ([0, None], [0, 7])),
    (["all_reduce"], [ONE, []], [[]]),
    *((["all_reduce"], TWICE, [ranks]) for ranks in ([0, 0], [0])),
    (["all_reduce"], [[(0, 1e306, 1)]], None),
    (["all_reduce"], [[(0, float("nan"), 1)]], None),
    ([operation("all_reduce", count=1 << 60)], [ONE], None),
    (["all_reduce"], [[(3, 0, 1)]], None),
    *(([name], [ONE], None) for name in ("alltoallv", "unheard")),
    ([operation("all_reduce", dtype="")], [ONE], None),
    (["send"], [ONE], None),
    (["send"], [[(0, 0, 1, 5)]], None),
    (["all_reduce"], [[]], None),
    (messages(300), RING, None),
    # Its step is longer than an hour.
    (["all_reduce"], [[(0, 3000e6, 1000e6)]] * 2, None),
    # Impossible times of other kernels.
    *((["all_reduce"], [[(0, 0, 100, -1, beside)]] * 2, None) for beside in (-1e6, 1e15)),
    (["all_reduce"], [[(0, 0, 100, -1, float("nan"))]] * 2, None),
    # Operations that contradict themselves.
    *(([replace(operation("all_reduce"), **changes)], TWICE, None) for changes in DAMAGED),
]


def test_steps_that_cannot_be_replayed_are_refused():
    refusals = []
    for parts, windows, groups in REFUSED:
        with pytest.raises(UsageError) as error:
            step_of(journal_of(parts, windows, groups), "p")
        refusals.append(str(error.value))
    require_golden("texts/replay-refusals.txt", "\n".join([*refusals, ""]))


def test_a_profile_with_left_out_lines_is_refused():
    """Calls refer to operations by number: without one of them, others would be replayed."""
    whole = journal_of(["all_reduce", "all_gather"], TWICE)
    for changes in ({"damaged_lines": 1}, {"results": whole.results[1:]}):
        with pytest.raises(UsageError, match="lines are missing"):
            step_of(dataclasses.replace(whole, **changes), "p")
