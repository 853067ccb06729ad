import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cclmark_planning.scale.frameworks import MEGATRON, TORCH
from cclmark_planning.scale.layout import parse_job_layout
from cclmark_planning.scale.planned_models import ALL_MODELS
from cclmark_planning.scale.traffic import traffic_of
from cclmark_planning.scale.training_job import TrainingJob, check_job, layers_of, stages_of
from goldens import refusal, require_outcomes
from places import TESTS

LLAMA = ALL_MODELS["llama3-8b"]


def job_of(parallel, devices=16, model=LLAMA, batch=64, **changes):
    layout = parse_job_layout(parallel).on(devices)
    settings = {"micro_batch": 1, "sequence": 1024, "per_node": 8, **changes}
    return TrainingJob(model, layout, batch, **settings)


def bytes_by(job, stage=0):
    check_job(job)
    found = {}
    for one in traffic_of(job, stage):
        key = one.group, one.operation
        found[key] = found.get(key, 0) + one.total_bytes
    return found


def test_replicas_reduce_each_gradient_once():
    assert bytes_by(job_of("")) == {("dp", "all_reduce"): pytest.approx(2 * LLAMA.parameters)}
    found = traffic_of(job_of(""), 0)
    # What crosses from a node of a ring is shared by its devices.
    sent = 2 * LLAMA.parameters * 2 * 15 / 16
    assert sum(one.network_bytes for one in found) == pytest.approx(sent / 8)
    assert sum(one.node_bytes for one in found) == pytest.approx(sent)


def test_buckets_contain_whole_tensors():
    # The calls of a step of llama3.2-1b in bfloat16 that NCCL reported on two GPUs; the last one
    # contains the embedding.
    model = ALL_MODELS["llama3.2-1b"]
    found = traffic_of(job_of("", 2, model=model, batch=2), 0)
    assert {one.size_bytes: one.messages for one in found} == {
        **{33_554_432: 32, 54_534_144: 15, 546_316_288: 1, 33_558_528: 1}
    }
    assert [one.size_bytes for one in found if one.alone] == [546_316_288]


def test_the_optimizer_of_megatron_divides_the_all_reduce():
    whole = bytes_by(job_of("", framework=MEGATRON))["dp", "all_reduce"]
    parts = bytes_by(job_of("zero=1", framework=MEGATRON))
    assert parts == {
        ("dp", "reduce_scatter"): pytest.approx(whole),
        ("dp", "all_gather"): pytest.approx(whole),
    }


def test_shards_are_gathered_twice_and_reduced_once_for_each_micro_batch():
    # ZeRO, arXiv 1910.02054, section 7.2.2: three times the parameters. The last unit is gathered
    # once, see fully_shard.
    found = bytes_by(job_of("zero=3", batch=16))
    head = 2 * LLAMA.head_parameters
    assert found["dp", "reduce_scatter"] == 2 * LLAMA.parameters
    assert found["dp", "all_gather"] == 4 * LLAMA.parameters - head
    several = bytes_by(job_of("zero=3", batch=48))
    assert several == {name: 3 * size for name, size in found.items()}
    held = bytes_by(job_of("zero=3", batch=48, holds=True))
    assert held["dp", "reduce_scatter"] == found["dp", "reduce_scatter"]


def test_copies_of_shards_reduce_what_a_device_has():
    found = bytes_by(job_of("zero=3,shard=8", batch=16))
    assert found["copies", "all_reduce"] == 2 * LLAMA.parameters / 8


def test_tensor_parallelism_reduces_activations_twice_in_each_pass():
    job = job_of("tp=8", framework=MEGATRON)
    found = bytes_by(job)
    activations = 1024 * LLAMA.width * 2
    layers = 4 * LLAMA.layers * activations * job.micro_batches
    ends = 2 * activations * job.micro_batches  # embedding, and the gradient of the head
    loss = 3 * 1024 * 4 * job.micro_batches
    assert found["tp", "all_reduce"] == layers + ends + loss
    again = bytes_by(job_of("tp=8", framework=MEGATRON, recompute=True))
    assert again["tp", "all_reduce"] - found["tp", "all_reduce"] == layers / 2


def test_parts_of_stages_multiply_the_messages_of_a_pipeline():
    plain = bytes_by(job_of("pp=4", framework=MEGATRON), 1)["pp", "send"]
    parts = bytes_by(job_of("pp=4,vp=4", framework=MEGATRON), 1)["pp", "send"]
    assert parts == 4 * plain
    assert plain == 2 * 16 * 1024 * LLAMA.width * 2


def test_tokens_travel_to_experts_and_back_in_both_passes():
    model = ALL_MODELS["mixtral-8x7b"]
    job = job_of("ep=8", model=model)
    tokens = 1024 * 2 * model.width * 2  # two experts for each
    size = 4 * model.layers * tokens * job.micro_batches
    assert bytes_by(job)["ep", "alltoall"] == size
    [one] = [one for one in traffic_of(job, 0) if one.operation == "alltoall"]
    assert (one.nodes, one.network_bytes, one.node_bytes) == (1, 0, size * 7 / 8)


def test_keys_and_values_pass_all_other_devices():
    job = job_of("cp=4", framework=MEGATRON)
    size = 256 * LLAMA.key_value_width * 2
    found = bytes_by(job)["cp", "send"]
    assert found == 3 * 3 * size * LLAMA.layers * job.micro_batches


def test_gathers_and_reductions_without_compute_beside_them():
    alone = [one for one in traffic_of(job_of("zero=3", batch=32), 0) if one.alone]
    embedding = 2 * LLAMA.vocabulary * LLAMA.width
    layer = 2 * LLAMA.layer_parameters
    # In both micro-batches: the first gathers, of embedding and layer, and the last reduction.
    assert sorted((one.operation, one.size_bytes, one.alone) for one in alone) == [
        ("all_gather", layer, 2),
        ("all_gather", embedding, 2),
        ("reduce_scatter", embedding, 2),
    ]
    kept = traffic_of(job_of("zero=3,pp=2", batch=32), 0)
    assert {one.window for one in kept if one.operation == "all_gather"} == {"first forward"}


def test_experts_are_part_of_the_shards_unless_devices_share_them():
    model = ALL_MODELS["mixtral-8x7b"]
    found = bytes_by(job_of("zero=3,shard=8", model=model, batch=16))
    assert found["dp", "reduce_scatter"] == pytest.approx(2 * model.parameters)
    assert not any(group == "experts" for group, _ in found)


def test_stages_of_unequal_layers():
    job = job_of("pp=5", 5, batch=8)  # 6, 6, 7, 6 and 7 layers
    assert sorted(stages_of(job).values()) == [6, 6, 7, 7]
    assert stages_of(job)[4] == 7


def test_embedding_and_head_of_megatron_count_as_layers_where_layers_do_not_divide():
    """BLOOM: 70 layers on 12 stages, 5 beside the embedding and 5 beside the head."""
    job = job_of("pp=12", 12, batch=96, framework=MEGATRON, model=ALL_MODELS["bloom-176b"])
    assert [len(layers_of(job, stage)) for stage in range(12)] == [5, *[6] * 10, 5]
    assert [one for stage in range(12) for one in layers_of(job, stage)] == [*range(70)]
    even = job_of("pp=10", 10, batch=96, framework=MEGATRON, model=ALL_MODELS["bloom-176b"])
    assert {len(layers_of(even, stage)) for stage in range(10)} == {7}


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([TORCH, MEGATRON]),
    st.booleans(),
)
def test_no_message_is_empty_or_lost(tp, pp, dp, zero, framework, by_sequence):
    assume(tp > 1 or not by_sequence)
    text = f"tp={tp},pp={pp},dp={dp},zero={zero},sp={int(by_sequence)}"
    job = job_of(text, tp * pp * dp, framework=framework, batch=64)
    check_job(job)
    for stage in range(pp):
        for one in traffic_of(job, stage):
            assert one.ranks > 1
            assert one.total_bytes > 0
            # All that a device sends goes to its node or to others; on one node, to that alone.
            assert one.network_bytes + one.node_bytes > 0
            assert one.nodes > 1 or not one.network_bytes
    if not zero and dp > 1:  # the gradients of all stages together are those of the model
        sent = sum(bytes_by(job, stage)["dp", "all_reduce"] for stage in range(pp))
        tied_twice = 2 * LLAMA.width * LLAMA.vocabulary * (tp - 1)  # torch: equal embeddings
        assert 2 * LLAMA.parameters / tp <= sent <= 2 * LLAMA.parameters + tied_twice


def test_jobs_that_are_not_possible_are_refused():
    def outcome(line):
        changes = json.loads(line)
        model = ALL_MODELS[changes.pop("model", "llama3-8b")]
        if changes.pop("megatron", False):
            changes["framework"] = MEGATRON
        return refusal(lambda: check_job(job_of(changes.pop("layout"), model=model, **changes)))

    require_outcomes(TESTS / "scale" / "refused_jobs.txt", outcome)
