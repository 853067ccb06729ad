"""What a fit chooses from the errors of its candidates."""

from __future__ import annotations

import pytest

from cclmark.kinds.replay.document import fit_notice, gaps_line
from cclmark.kinds.replay.figures import ReplaySummary
from cclmark.kinds.replay.plan import OriginalStep, Replay
from cclmark.kinds.replay.request import chosen_of, computes_for, fit_plan, others_of
from cclmark.plan.computations import Compute
from cclmark.plan.variants import DEFAULT

SMALL, LARGE = Compute("matmul", "bfloat16", 1024), Compute("matmul", "bfloat16", 4096)


def replay(gaps="keep", compute=None, step_s=(0.05,)):
    original = OriginalStep(span_s=(0.05,), communication_s=(0.01,), step_s=step_s)
    return Replay(
        *(DEFAULT, 0, "nccl", 2, "p.jsonl", "", 24, 1, gaps),
        original=original,
        compute=compute,
    )


def tried(*candidates):
    """Of (gaps, compute, error of the communication, error of the step)."""
    return [
        ReplaySummary(
            DEFAULT,
            replay(gaps, compute, () if step is None else (0.05,)),
            "ok",
            "",
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


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        (DDP, ("fixed", LARGE, "fitted")),
        # Other gaps are chosen only if they are clearly nearer.
        ([("keep", None, 0.01, 0.0), ("fixed", None, 0.0, 0.0)], ("keep", None, "fitted")),
        ([("keep", None, 0.03, 0.0), ("fixed", None, 0.0, 0.0)], ("fixed", None, "fitted")),
        # Likewise a compute, and of several the first.
        ([("keep", None, 0.01, 0.0), ("keep", SMALL, 0.0, 0.0)], ("keep", None, "fitted")),
        (
            [("keep", None, 0.2, 0.0), ("keep", SMALL, 0.01, 0.0), ("keep", LARGE, 0.0, 0.0)],
            ("keep", SMALL, "fitted"),
        ),
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


def test_without_candidates_nothing_is_chosen():
    assert chosen_of([]) is None


def test_what_was_tried_is_told_with_its_errors():
    candidates = tried(*DDP)
    text = fit_notice(chosen_of(candidates), candidates)
    assert text.startswith(
        "--compute fit chose fixed, matmul 4096 x 4096 x 4096 bfloat16 (communication +0.4 %, "
        "step -0.2 %); tried: keep, no compute (communication -25.0 %, step -4.6 %); keep, matmul"
    )
    assert text.endswith("; 1 more")
    alone = tried(("keep", None, -0.5, None))
    assert fit_notice(chosen_of(alone), alone) == (
        "--compute fit found nothing that fits; the nearest is keep, no compute (communication "
        "-50.0 %)"
    )
    assert gaps_line(chosen_of(alone)).endswith(
        "as in the program (nothing fits; this is nearest to the program's communication)"
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
