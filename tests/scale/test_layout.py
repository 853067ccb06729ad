from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark_planning.scale.layout import Group, JobLayout, parse_job_layout
from goldens import refusal, require_outcomes
from places import TESTS

DEGREES = st.sampled_from([1, 2, 3, 4, 8])


def members(group, devices):
    """The groups of a dimension, from its size and stride."""
    return {
        tuple(
            device // (group.size * group.stride) * group.size * group.stride
            + place * group.stride
            + device % group.stride
            for place in range(group.size)
        )
        for device in range(devices)
    }


def test_groups_are_those_of_megatron():
    # parallel_state.initialize_model_parallel with 16 devices, tp 2 and pp 4 in its docstring.
    groups = parse_job_layout("tp=2,pp=4").on(16).groups()
    assert members(groups["tp"], 16) == {(first, first + 1) for first in range(0, 16, 2)}
    assert (0, 4, 8, 12) in members(groups["pp"], 16)
    assert members(groups["dp"], 16) == {
        (0, 2), (1, 3), (4, 6), (5, 7), (8, 10), (9, 11), (12, 14), (13, 15)
    }  # fmt: skip


@given(DEGREES, DEGREES, DEGREES, DEGREES)
def test_each_device_is_in_one_group_of_each_dimension(tp, cp, dp, pp):
    layout = JobLayout(tp=tp, cp=cp, dp=dp, pp=pp)
    for name in ("tp", "cp", "dp", "pp"):
        listed = [one for own in members(layout.groups()[name], layout.devices) for one in own]
        assert sorted(listed) == [*range(layout.devices)]


@given(DEGREES, st.sampled_from([1, 2, 3, 4, 5, 8, 12, 16, 44]), st.sampled_from([1, 2, 4, 8]))
def test_a_node_has_as_many_of_each_group(size, stride, per_node):
    group = Group(size, stride)
    nodes = [
        Counter(one // per_node for one in own) for own in members(group, size * stride * per_node)
    ]
    numbers = {number for own in nodes for number in own.values()}
    try:
        assert {group.on_node(per_node)} == numbers
    except UsageError:
        assert len(numbers) > 1 or per_node % stride or stride % per_node


def test_replicas_follow_from_the_number_of_devices():
    layout = parse_job_layout("tp=8,pp=2,zero=1")
    assert layout.on(512) == JobLayout(tp=8, pp=2, dp=32, zero=1)
    assert layout.on(512).describe() == "tp=8,dp=32,pp=2,zero=1"
    assert parse_job_layout("fsdp=16") == JobLayout(dp=16, zero=3)
    assert parse_job_layout(" TP = 2 , sp=1 ") == JobLayout(tp=2, sp=True)


def test_layouts_that_cannot_be_are_refused():
    """That contradict themselves on so many devices, or are unreadable."""

    def outcome(line):
        text, _, devices = line.partition(" on ")
        return refusal(lambda: parse_job_layout(text).on(int(devices or 8)).describe())

    require_outcomes(TESTS / "scale" / "refused_layouts.txt", outcome)
