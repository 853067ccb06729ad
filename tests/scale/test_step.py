import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_traffic import job_of

from cclmark_planning.scale.frameworks import MEGATRON, TORCH
from cclmark_planning.scale.planned_models import ALL_MODELS
from cclmark_planning.scale.step import (
    AMPLE,
    HiddenShares,
    Network,
    compute_seconds,
    needed_network,
    step_time,
    time_of,
    usual_shares,
)
from cclmark_planning.scale.traffic import traffic_of
from examples import examples

FLOPS, MEMORY = 400e12, 2.7e12
NOTHING = HiddenShares(dp=0.0, cp=0.0)
FAST = Network(node_bps=1e12, latency_s=0.0, node_latency_s=0.0)


def step_of(job, network, hidden=HiddenShares(), flops=FLOPS):  # noqa: B008 - frozen
    return step_time(job, traffic_of(job, 0), compute_seconds(job, flops, MEMORY), network, hidden)


def test_compute_is_that_of_all_tokens():
    job = job_of("")
    whole = job.model.operations_per_token(1024)
    a_token_s = 64 * 1024 / (16 * FLOPS)
    assert compute_seconds(job, FLOPS, MEMORY) == pytest.approx(whole * a_token_s)
    head = 6 * job.model.vocabulary * job.model.width  # is not repeated
    again = compute_seconds(job_of("", recompute=True), FLOPS, MEMORY)
    assert again == pytest.approx((head + (whole - head) * 4 / 3) * a_token_s)


def test_tensor_parallelism_repeats_what_it_does_not_divide():
    for name, passes in (("llama3-8b", 22), ("gpt3-6.7b", 28)):
        model = ALL_MODELS[name]
        job, by_sequence = (
            job_of(one, model=model, framework=MEGATRON) for one in ("tp=8", "tp=8,sp=1")
        )
        alone_s = compute_seconds(job_of("", model=model), FLOPS, MEMORY)
        assert compute_seconds(by_sequence, FLOPS, MEMORY) == pytest.approx(alone_s)
        # Passes over the activations of a layer, of which an eighth is in the compute already.
        moved = job.tokens / job.layout.dp * model.width * 2 * passes * model.layers * 7 / 8
        repeated_s = compute_seconds(job, FLOPS, MEMORY) - alone_s
        assert repeated_s == pytest.approx(moved / MEMORY)


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
    slow = step_of(job, FAST.with_bps(1e7))
    window_s = slow.compute_s * 2 / 3 / 4
    assert slow.exposed_s == pytest.approx(slow.communication_s - window_s)
    quick = step_of(job, FAST.with_bps(1e12))
    [last] = [one for one in traffic_of(job, 0) if one.alone]
    last_s = time_of(last, FAST.with_bps(1e12)) / last.messages
    assert quick.exposed_s == pytest.approx(last_s)


def test_no_second_of_compute_hides_two_messages():
    job = job_of("zero=3,ep=8", 64, model=ALL_MODELS["mixtral-8x7b"])
    all_hidden = HiddenShares(1.0, 1.0, 1.0, 1.0, 1.0)
    for bps in (1e8, 1e9, 1e10):
        step = step_of(job, FAST.with_bps(bps), all_hidden)
        assert step.step_s >= step.communication_s * (1 - 1e-9)


def test_the_slowest_stage_determines_compute():
    job = job_of("pp=24", 24, batch=24)  # 1 or 2 of 32 layers, and the head
    model = job.model
    whole = compute_seconds(job_of("", 1, batch=24), FLOPS, MEMORY)
    head = 6 * model.vocabulary * model.width / model.operations_per_token(1024)
    assert compute_seconds(job, FLOPS, MEMORY) == pytest.approx(
        whole * ((1 - head) / 32 * 2 + head)
    )


def test_ranks_of_tensor_parallelism_compute_a_shared_head_as_a_whole():
    model = ALL_MODELS["llama3.2-1b"]
    alone_s = compute_seconds(job_of("", model=model), FLOPS, MEMORY)
    torch, megatron = (
        compute_seconds(job_of("tp=2,sp=1", model=model, framework=one), FLOPS, MEMORY)
        for one in (TORCH, MEGATRON)
    )
    head = 6 * model.vocabulary * model.width / model.operations_per_token(1024)
    assert megatron == pytest.approx(alone_s)
    assert torch == pytest.approx(alone_s * (1 + head))


def test_megatron_overlaps_less_by_default():
    assert usual_shares(job_of("", framework=MEGATRON)) == HiddenShares(dp=0.0)
    assert usual_shares(job_of("pp=2,vp=2", framework=MEGATRON)).pp == 1
    assert usual_shares(job_of("")) == HiddenShares()


def test_the_bubble_of_a_pipeline():
    job = job_of("pp=4,tp=4", framework=MEGATRON)
    step = step_of(job, FAST.with_bps(1e12))
    repeated_s = step.exposed_s - step.exposed_by_group["dp"]
    assert step.bubble_s == pytest.approx(3 / job.micro_batches * (step.compute_s + repeated_s))
    parts = step_of(job_of("pp=4,vp=2,tp=4", framework=MEGATRON), FAST.with_bps(1e15))
    assert parts.bubble_s < 0.6 * step.bubble_s


LAYOUTS = ("", "zero=3", "tp=8", "tp=2,pp=2", "pp=4", "zero=1,tp=4")


@settings(max_examples=examples(40), deadline=None)
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
    infinite_s = step(network.with_bps(1e16)).step_s
    limits = ((needed.bps, needed.without.step_s, share), (needed.ample_bps, infinite_s, AMPLE))
    for bps, ideal_s, slow_down in limits:
        if bps is None:
            assert infinite_s > ideal_s * (1 + slow_down)
        elif bps:
            longest_s = ideal_s * (1 + slow_down)
            assert step(network.with_bps(bps)).step_s <= longest_s * (1 + 1e-9)
            assert step(network.with_bps(bps * 0.99)).step_s > longest_s
    if needed.exposed_bps:
        assert step(network.with_bps(needed.exposed_bps)).exposed_share <= share + 1e-9
        assert step(network.with_bps(needed.exposed_bps * 0.99)).exposed_share > share
    elif needed.exposed_bps is None:
        assert step(network.with_bps(1e16)).exposed_share > share
    if needed.latency_s is not None:
        quick, slow = (
            step(Network(3e11, one, 3e-6, efficiency, 1e16)).step_s for one in (0, needed.latency_s)
        )
        assert slow == pytest.approx(quick * (1 + AMPLE), rel=1e-6)


def test_line_rates_are_of_interfaces_of_which_transfers_achieve_a_share():
    job = job_of("")
    half = Network(1e12, 0.0, 0.0, 0.5)
    step = needed_network(lambda one: step_of(job, one), half, 0.1)
    whole = needed_network(lambda one: step_of(job, one), FAST, 0.1)
    assert step.bps == pytest.approx(2 * whole.bps)
