"""Objects of exact sizes, and the figures of object calls."""

import pickle
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark_training.objects import plan
from cclmark_training.objects.figures import figures_of
from cclmark_training.objects.result import ObjectTimes


def calls(sizes, content=plan.BYTES, operation="gather_object"):
    return plan.calls_of([operation], "gloo", 2, sizes, content)


@given(size=st.integers(24, 200_000), content=st.sampled_from(list(plan.CONTENTS)))
def test_an_object_has_the_planned_size_close_below_the_requested_one(size, content):
    (call,) = calls([size], content)
    assert len(pickle.dumps(plan.object_of(call, 1, 1))) == call.size_bytes
    # Pickles have longer headers from 256 bytes and from 64 KiB, and marks every 1000 numbers.
    assert size - 12 <= call.size_bytes <= size
    exact = [64, 1024, 16384, 1 << 18, 1 << 22]
    assert [call.size_bytes for call in calls(exact)] == exact


def test_every_rank_and_part_sends_something_else():
    (call,) = calls([64])
    sent = {plan.object_of(call, *of) for of in product((0, 1), (1, 2), (0, 1))}
    assert len(sent) == 8
    assert plan.object_of(call, 1, 2, 3) == plan.object_of(call, 1, 2, 3)
    flag = plan.ObjectCall("flag", "gloo", 2, 4, plan.FLAG)
    assert {plan.object_of(flag, rank, 1) for rank in (0, 1)} == {True, False}


def test_sizes_that_yield_the_same_object_are_one_call_and_names_choose_calls():
    assert len(calls([270, 271, 272, 273])) == 1
    assert len(calls([64, 128], operation="flag")) == 1
    with pytest.raises(UsageError, match=r"the smallest object \(numbers\) has 24 bytes"):
        calls([8, 16], "numbers")
    assert plan.chosen_calls("gather, flag") == ["flag", "gather_object"]
    assert plan.chosen_calls("all-gather-object") == ["all_gather_object"]
    with pytest.raises(UsageError, match="unknown call 'x'"):
        plan.chosen_calls("flag,x")


def test_figures_are_medians_of_the_slowest_rank_and_ratios_are_paired():
    # Both calls drift alike: their ratio is 4 in every round, of medians it would be the same.
    drift = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    times = ObjectTimes(
        objects_s=[[4e-4 * d, 1e-4] for d in drift],
        tensors_s=[[0.0, 1e-4 * d] for d in drift],
        pickling_s=[[1e-5, 0.0] for _ in drift],
        unpickling_s=[[0.0, 2e-5] for _ in drift],
        calls=20,
        tensor_calls=100,
    )
    figures = figures_of(times)
    assert figures.object_s == pytest.approx(5.2e-4)
    assert figures.tensor_s == pytest.approx(1.3e-4)
    assert (figures.object_low_s, figures.object_high_s) == pytest.approx((4e-4, 6.4e-4))
    assert (figures.ratio, figures.ratio_low, figures.ratio_high) == pytest.approx((4, 4, 4))
    assert figures.pickling_s == pytest.approx(3e-5)
    assert msgspec.json.decode(msgspec.json.encode(figures), type=type(figures)) == figures
