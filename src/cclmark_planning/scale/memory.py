"""The memory of a device that a training job takes, from formulas."""

from __future__ import annotations

from cclmark_planning.scale.frameworks import TORCH
from cclmark_planning.scale.training_job import StageParameters, TrainingJob, stages_of

# Bytes of a parameter, and of the state of Adam: two moments, and with Megatron a copy in float32
# (arXiv 1910.02054, section 3.1); torch keeps moments in the type of parameters.
_TORCH = {"bf16": (2, 4), "fp16": (2, 4), "fp8": (2, 4), "fp32": (4, 8), "mixed": (4, 8)}
_MEGATRON = {**_TORCH, **dict.fromkeys(("bf16", "fp16", "fp8"), (2, 12))}
# Activations of a layer in elements of sequence x micro-batch x width: without tensor parallelism,
# divided by it, and the input alone, which recomputation keeps (arXiv 2205.05198, equations 2 to 4,
# without the scores of attention, which flash attention does not store).
_WHOLE, _DIVIDED, _INPUT = 5.0, 12.0, 1.0
_LOGITS_BYTES = 4


def memory_bytes(job: TrainingJob, stage: int) -> float:
    """What a device of a stage holds: parameters, gradients, optimizer, activations.

    A lower bound: buffers of communication, of libraries and of allocators come on top.
    """
    layout = job.layout
    units = StageParameters(job, stage).units()
    shared = sum(sum(one.tensors) for one in units)
    experts = sum(sum(one.experts) for one in units)
    shards = layout.shard or layout.replicas
    of_experts = max(1, shards * layout.tp // layout.ep)
    parameter, optimizer = (_TORCH if job.framework == TORCH else _MEGATRON)[job.precision]
    held = [
        (parameter, layout.zero >= 3),
        (job.gradient_bytes, layout.zero >= 2),
        (optimizer, layout.zero >= 1),
    ]
    state = sum(
        size * (shared / shards + experts / of_experts if is_divided else shared + experts)
        for size, is_divided in held
    )
    return state + _activations(job, stage)


def _activations(job: TrainingJob, stage: int) -> float:
    """1F1B keeps as many micro-batches as stages follow (arXiv 2104.04473, section 2.2)."""
    layout, parameters = job.layout, StageParameters(job, stage)
    tokens = job.micro_batch * job.sequence / layout.cp
    element = tokens * job.model.width * job.element_bytes
    whole = 0.0 if layout.sp else _WHOLE
    divided = (_DIVIDED + (_WHOLE if layout.sp else 0.0)) / layout.tp
    layer = element * (whole + divided)
    flying = min(job.micro_batches, layout.pp - stage) if layout.pp > 1 else 1
    kept_input = element * _INPUT / (layout.tp if layout.sp else 1)
    kept = len(parameters.layers) * (kept_input if job.recompute else layer) * flying
    if job.recompute:
        kept += layer  # of the layer that is repeated
    logits = 0.0
    if parameters.is_last:
        logits = tokens * job.model.vocabulary * _LOGITS_BYTES / layout.tp
    return kept + logits


def most_memory_bytes(job: TrainingJob) -> float:
    """Of the stage that holds most."""
    return max(memory_bytes(job, stage) for stage in stages_of(job))
