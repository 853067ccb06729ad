"""The time of a step, and the network that it requires."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_traffic import job_of

from cclmark.scale.frameworks import MEGATRON
from cclmark.scale.step import (
    ENOUGH,
    HiddenShares,
    Network,
    compute_seconds,
    needed_network,
    step_time,
)
from cclmark.scale.traffic import traffic_of

FLOPS, MEMORY = 400e12, 2.7e12
NOTHING = HiddenShares(dp=0.0, cp=0.0)
FAST = Network(node_bps=1e12, latency_s=0.0, node_latency_s=0.0)


def step_of(job, network, hidden=HiddenShares(), flops=FLOPS):  # noqa: B008 - frozen
    return step_time(job, traffic_of(job, 0), compute_seconds(job, flops, MEMORY), network, hidden)


def test_compute_is_that_of_all_tokens():
    job = job_of("")
    assert compute_seconds(job, FLOPS, MEMORY) == pytest.approx(
        job.model.operations_per_token(1024) * 64 * 1024 / (16 * FLOPS)
    )
    again = job_of("", recompute=True)
    assert compute_seconds(again, FLOPS, MEMORY) == pytest.approx(
        compute_seconds(job, FLOPS, MEMORY) * 4 / 3
    )


def test_tensor_parallelism_repeats_what_it_does_not_divide():
    job, by_sequence = job_of("tp=8"), job_of("tp=8,sp=1")
    alone_s = compute_seconds(job_of(""), FLOPS, MEMORY)
    assert compute_seconds(by_sequence, FLOPS, MEMORY) == alone_s
    # 28 passes over the activations of a layer, of which an eighth is in the compute already.
    tokens = job.tokens / job.layout.dp
    moved = tokens * job.model.width * 2 * 28 * job.model.layers * 7 / 8
    assert compute_seconds(job, FLOPS, MEMORY) - alone_s == pytest.approx(moved / MEMORY)


def test_without_overlap_all_messages_are_exposed():
    job = job_of("")
    step = step_of(job, FAST.with_bps(1e9), NOTHING)
    sent = 2 * job.model.parameters * 2 * 15 / 16 / 8
    assert step.exposed_s == pytest.approx(step.communication_s)
    assert step.communication_s == pytest.approx(sent / 1e9)
    assert step.step_s == pytest.approx(step.compute_s + sent / 1e9)
    assert step.exposed_by_group["dp"] == step.exposed_s


def test_messages_hide_at_most_as_long_as_the_compute_beside_them():
    job = job_of("")  # four micro-batches, gradients beside the last backward pass
    slow = step_of(job, FAST.with_bps(1e8))
    window_s = slow.compute_s * 2 / 3 / 4
    assert slow.exposed_s == pytest.approx(slow.communication_s - window_s)
    quick = step_of(job, FAST.with_bps(1e12))
    [traffic] = traffic_of(job, 0)
    assert quick.exposed_s == pytest.approx(quick.communication_s / traffic.messages)


def test_the_bubble_of_a_pipeline():
    job = job_of("pp=4,tp=4", framework=MEGATRON)
    step = step_of(job, FAST.with_bps(1e12))
    repeated_s = step.exposed_s - step.exposed_by_group["dp"]
    assert step.bubble_s == pytest.approx(3 / job.micro_batches * (step.compute_s + repeated_s))
    parts = step_of(job_of("pp=4,vp=2,tp=4", framework=MEGATRON), FAST.with_bps(1e15))
    assert parts.bubble_s < 0.6 * step.bubble_s


LAYOUTS = ("", "zero=3", "tp=8", "tp=2,pp=2", "pp=4", "zero=1,tp=4")


@given(
    st.sampled_from(LAYOUTS),
    st.floats(0.02, 0.5),
    st.floats(1e13, 1e15),
    st.floats(0, 1e-4),
    st.floats(0.3, 1.0),
)
def test_the_needed_rate_is_the_least_that_keeps_the_share(
    parallel, share, flops, latency_s, efficiency
):
    job = job_of(parallel)
    network = Network(3e11, latency_s, 3e-6, efficiency)

    def step(one):
        return step_of(job, one, flops=flops)

    needed = needed_network(step, network, share)
    assert needed.bps <= needed.enough_bps
    for bps, slow_down in ((needed.bps, share), (needed.enough_bps, ENOUGH)):
        if bps:
            longest_s = needed.without.step_s * (1 + slow_down)
            assert step(network.with_bps(bps)).step_s <= longest_s * (1 + 1e-9)
            assert step(network.with_bps(bps * 0.99)).step_s > longest_s
    if needed.exposed_bps:
        assert step(network.with_bps(needed.exposed_bps)).exposed_share <= share + 1e-9
        assert step(network.with_bps(needed.exposed_bps * 0.99)).exposed_share > share
    elif needed.exposed_bps is None:
        assert needed.without.exposed_share > share
    if needed.latency_s is not None:
        quick, slow = (
            step(Network(3e11, one, 3e-6, efficiency, 1e16)).step_s for one in (0, needed.latency_s)
        )
        assert slow == pytest.approx(quick * (1 + ENOUGH), rel=1e-6)


def test_line_rates_are_of_interfaces_of_which_transfers_achieve_a_share():
    job = job_of("")
    half = Network(1e12, 0.0, 0.0, 0.5)
    step = needed_network(lambda one: step_of(job, one), half, 0.1)
    whole = needed_network(lambda one: step_of(job, one), FAST, 0.1)
    assert step.bps == pytest.approx(2 * whole.bps)
