"""What a replay does beside and between its calls, and its gain at reference bandwidth."""

import pytest

from cclmark.document.reference_notes import ReferenceNotes
from cclmark.kinds.registry import read_journal
from cclmark.references.reference import Reference, Source
from cclmark.work.computations import Compute
from cclmark.work.profiled import ProfiledOperation
from cclmark.work.variants import DEFAULT
from cclmark_programs.replay.choices import TRAFFIC_ROUNDS
from cclmark_programs.replay.document import beside_references, fit_notice
from cclmark_programs.replay.figures import ReplaySummary
from cclmark_programs.replay.plan import OriginalStep, Replay
from cclmark_programs.replay.request import chosen_of, computes_for, fit_plan, others_of
from cclmark_programs.replay.result import ReplayedOperation
from cclmark_programs.replay.run import TrafficFit
from places import RESULTS

SMALL, LARGE = Compute("matmul", "bfloat16", 1024), Compute("matmul", "bfloat16", 4096)


def replay(gaps="keep", compute=None, step_s=(0.05,)):
    original = OriginalStep(span_s=(0.05,), communication_s=(0.01,), step_s=step_s)
    fields = (DEFAULT, 0, "nccl", 2, "p.jsonl", "", 24, 1, gaps)
    return Replay(*fields, original=original, compute=compute)


def tried(*candidates):
    """Of (gaps, compute, error of the communication, error of the step)."""
    return [
        ReplaySummary(
            *(DEFAULT, replay(gaps, compute, () if step is None else (0.05,)), "ok", ""),
            communication_error=communication,
            step_error=step,
        )
        for gaps, compute, communication, step in candidates
    ]


# Measured: DDP of 254 M parameters, --gaps fixed beside products of several sizes.
DDP = [
    ("keep", None, -0.25, -0.046),
    ("keep", LARGE, 0.03, 0.09),
    ("fixed", None, -0.171, -0.001),
    ("fixed", SMALL, -0.039, -0.003),
    ("fixed", LARGE, 0.004, -0.002),
]


LAST = ("keep", LARGE, 0.0, 0.0)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        (DDP, ("fixed", LARGE, "fitted")),
        # Other gaps are chosen only if they are clearly nearer.
        ([("keep", None, 0.01, 0.0), ("fixed", None, 0.0, 0.0)], ("keep", None, "fitted")),
        ([("keep", None, 0.03, 0.0), ("fixed", None, 0.0, 0.0)], ("fixed", None, "fitted")),
        # Likewise a compute, and of several the first.
        ([("keep", None, 0.2, 0.0), ("keep", SMALL, 0.01, 0.0), LAST], ("keep", SMALL, "fitted")),
        # What is nearest does not fit: by its communication, or by its step alone.
        ([("keep", None, -0.5, 0.0), ("keep", SMALL, -0.06, 0.0)], ("keep", SMALL, "nearest")),
        ([("keep", None, 0.0, 0.06)], ("keep", None, "nearest")),
        # Twice as long is as far as half as long.
        ([("keep", None, 1.0, 0.0), ("keep", SMALL, -0.45, 0.0)], ("keep", SMALL, "nearest")),
        # Steps of unknown length do not count.
        ([("keep", None, 0.1, None), ("keep", SMALL, 0.02, None)], ("keep", SMALL, "fitted")),
    ],
)
def test_the_simplest_of_the_nearest_is_chosen(candidates, expected):
    found = chosen_of(tried(*candidates))
    assert (found.gaps, found.compute, found.fit) == expected


def test_the_nearest_with_the_other_gaps_is_kept_for_variants():
    candidates = tried(*DDP)
    [other] = others_of(candidates, chosen_of(candidates))
    assert (other.gaps, other.compute, other.fit) == ("keep", LARGE, "nearest")
    assert others_of(candidates[:2], chosen_of(candidates[:2])) == []
    assert chosen_of([]) is None


def test_what_was_tried_is_told_with_its_errors():
    candidates = tried(*DDP)
    assert fit_notice(chosen_of(candidates), candidates).startswith(
        "--compute fit chose fixed, matmul 4096 x 4096 x 4096 bfloat16 (communication +0.4 %, "
        "step -0.2 %); tried: keep, no compute (communication -25.0 %, step -4.6 %); keep, matmul"
    )
    alone = tried(("keep", None, -0.5, None))
    assert fit_notice(chosen_of(alone), alone) == (
        "--compute fit found nothing that fits; the nearest is keep, no compute (communication "
        "-50.0 %)"
    )


@pytest.mark.parametrize(("step_s", "of_waits"), [(0.001, 25), (0.05, 25), (1.0, 20), (60.0, 10)])
def test_long_steps_are_repeated_less_often(step_s, of_waits):
    """Waits are corrected once with each gaps."""
    plan = fit_plan(replay(step_s=(step_s,)), ["keep", "fixed"], "cuda")
    assert plan.candidates == 2 * len(computes_for("cuda")) == 20
    assert list(plan.replays) == list(plan.replays[:20]) * 3
    assert 2 <= plan.steps <= 5
    assert plan.expected_s == pytest.approx(((plan.steps + 4) * 60 + 2 * of_waits) * step_s)
    assert plan.steps == 2 or plan.expected_s <= 120


MOST = 96
US = 1e-6


def fitted(wanted_s, time_of, most=MOST):
    """The chosen blocks where ``time_of`` gives the time of a call beside so many."""
    fit = TrafficFit(wanted_s, most)
    rounds = 0
    while (blocks := fit.next()) is not None:
        fit.add(blocks, [time_of(call, number) for call, number in enumerate(blocks)])
        rounds += 1
    assert rounds <= TRAFFIC_ROUNDS
    return fit.chosen(), rounds


def linear(_call, blocks):
    return (100 + blocks) * US


@pytest.mark.parametrize(
    ("wanted_us", "time_of", "most", "least_blocks", "most_blocks"),
    [
        # A call takes as long as in the program, within 1 %.
        *(([wanted], linear, MOST, [wanted - 101], [wanted - 99]) for wanted in (110, 117, 153)),
        # Calls that are not slowed down in the program have none. The third has none, whatever its
        # time: nothing runs beside it.
        ([100, 102, 0, 80], linear, MOST, [0] * 4, [0] * 4),
        # Each call has its own.
        ([100, 140, 180], linear, MOST, [0, 39, 79], [0, 41, 81]),
        # A call that no traffic slows down enough has what is nearest.
        ([300], lambda _, blocks: (100 + min(blocks, 20) * 2) * US, MOST, [20], [MOST]),
        # A jump between two amounts ends on the nearer side.
        ([140], lambda _, blocks: (130 if blocks < 30 else 400) * US, MOST, [0], [29]),
        ([104], linear, 1, [1], [1]),  # a device of few multiprocessors
    ],
)
def test_traffic_makes_calls_as_long_as_in_the_program(
    wanted_us, time_of, most, least_blocks, most_blocks
):
    chosen, rounds = fitted([one * US for one in wanted_us], time_of, most)
    limits = zip(least_blocks, chosen, most_blocks, strict=True)
    assert all(least <= blocks <= at_most for least, blocks, at_most in limits)
    assert rounds == 1 or max(wanted_us) > 102


HEADER = read_journal(RESULTS / "h200x4" / "report" / "collectives.jsonl").header
MIB = 1 << 20


def reference(ranks, busbw_bytes_per_s):
    return Reference(
        *(Source("rack", "rack", own=True), "all_reduce", (("H200", ranks),)),
        library="nccl",
        size_bytes=64 * MIB,
        busbw_bytes_per_s=busbw_bytes_per_s,
    )


REFERENCES = [reference(2, 250e9), reference(4, 300e9)]


def test_groups_are_compared_with_references_for_as_many_devices():
    """Of a step of 10 ms: an all-reduce of 64 MiB in each group, which takes 1 ms."""
    of = ("bfloat16", 32 * MIB, 64 * MIB)
    operations = [
        ReplayedOperation(ProfiledOperation("all_reduce", "nccl", group, ranks, *of), 1, 0.0, 0.001)
        for group, ranks in enumerate((4, 2))
    ]
    replay = Replay(DEFAULT, 0, "nccl", 4, "p.jsonl", "", 2, 2, "keep")
    summary = ReplaySummary(DEFAULT, replay, "ok", "", steps=9, span_s=0.01, operations=operations)
    notes = ReferenceNotes(lambda kinds: REFERENCES)
    whole, part = (one.sentence for one in beside_references([summary], HEADER, notes))
    # 64 MiB at a bus bandwidth of 300 GB/s over four take 336 µs, at 250 over two 268.
    assert "if 1 of 1 operation of group 0 ran at reference bandwidth" in whole
    assert "at most 6.6 % (0.664 ms) less" in whole
    assert "4 × H200" in whole
    assert "if 1 of 1 operation of group 1 (2 of 4 ranks) ran at reference bandwidth" in part
    assert "at most 7.3 % (0.732 ms) less" in part
    assert "2 × H200" in part
