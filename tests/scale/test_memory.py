import pytest
from msgspec.structs import replace
from test_traffic import job_of

from cclmark_planning.scale.memory import memory_bytes, most_memory_bytes
from cclmark_planning.scale.planned_models import ALL_MODELS

MIXTRAL = ALL_MODELS["mixtral-8x7b"]


def job(layout="", devices=8, **changed):
    return job_of(layout, devices, **{"batch": 512, "sequence": 2048, **changed})


def test_sixteen_bytes_of_a_parameter_as_the_paper_of_zero_counts():
    """arXiv 1910.02054, section 3.1, without activations: those of one token are small."""
    one = job(devices=1, sequence=1, batch=1, framework="megatron")
    assert memory_bytes(one, 0) == pytest.approx(16 * 8_030_261_248, rel=0.001)


def test_zero_divides_what_its_stage_divides():
    """1: the optimizer, 2: gradients too, 3: parameters too (arXiv 1910.02054, figure 1)."""
    tiny = {"sequence": 1, "batch": 64, "devices": 64, "framework": "megatron"}
    held = {zero: memory_bytes(job(f"zero={zero}", **tiny), 0) / 8_030_261_248 for zero in range(4)}
    expected = {0: 16, 1: 4 + 12 / 64, 2: 2 + 14 / 64, 3: 16 / 64}
    assert held == pytest.approx(expected, rel=0.004)


def test_activations_of_a_layer():
    """arXiv 2205.05198, equation 4 with attention recomputed: 34 s b h / t by sequence."""
    by_sequence = job("tp=8,sp=1", framework="megatron")
    more = replace(by_sequence, micro_batch=2)
    model = by_sequence.model
    layers = model.layers * 34 * 2048 * model.width / 8
    logits = 4 * 2048 * model.vocabulary / 8
    assert memory_bytes(more, 0) - memory_bytes(by_sequence, 0) == pytest.approx(layers + logits)
    without = job("tp=8", framework="megatron")
    assert memory_bytes(without, 0) > memory_bytes(by_sequence, 0)
    assert memory_bytes(replace(without, recompute=True), 0) < memory_bytes(by_sequence, 0)


def test_the_first_stage_keeps_most_micro_batches():
    pipeline = job("pp=8", devices=8, framework="megatron", sequence=8192)
    held = [memory_bytes(pipeline, stage) for stage in range(8)]
    inner = held[1:7]
    assert inner == sorted(inner, reverse=True)
    assert most_memory_bytes(pipeline) == max(held)


def test_experts_are_divided_by_their_group():
    whole = job(model=MIXTRAL, devices=8)
    shared = job("ep=8", model=MIXTRAL, devices=8)
    experts = whole.model.expert_parameters * whole.model.layers
    saved = memory_bytes(whole, 0) - memory_bytes(shared, 0)
    assert saved == pytest.approx(8 * experts * 7 / 8, rel=0.01)
