"""Models and parallelisms of ``cclmark train``: parameter counts, losses of one rank."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cclmark.plan.models import MODELS
from patience import scaled

pytest.importorskip("torch")

PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama3.2-1b": 1_235_814_400,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "mixtral-8x7b": 46_702_792_704,
}


@pytest.mark.parametrize("name", MODELS)
def test_the_model_has_as_many_parameters_as_published(name):
    import torch

    from cclmark.run.training.transformer import Transformer, on_meta

    shape = MODELS[name]
    if shape.layers > 32:  # layers are alike, and creating one takes a millisecond
        shape = shape.with_layers(3)
    model = on_meta(lambda: Transformer(shape), torch.bfloat16)
    assert sum(one.numel() for one in model.parameters()) == shape.parameters
    assert MODELS[name].parameters == PUBLISHED.get(name, MODELS[name].parameters)
    matrices = sum(
        one.numel()
        for key, one in model.named_parameters()
        if one.dim() > 1 and ".experts." not in key and not key.startswith(("embed", "position"))
    )
    experts = sum(one.numel() for key, one in model.named_parameters() if ".experts." in key)
    if shape.experts:
        matrices += experts * shape.active_experts // shape.experts
    if shape.tied:
        matrices += shape.vocabulary * shape.width
    assert shape.multiplied_parameters == matrices


def test_initial_values_depend_on_the_name_and_the_seed_alone():
    import torch

    from cclmark.run.training.transformer import initial_value

    shape, like = MODELS["tiny"], torch.empty(0)

    def value(name, seed=1):
        return initial_value(name, torch.Size((64, 64)), shape, seed, like)

    first = value("layers.0.attention.output.weight")
    assert torch.equal(first, value("layers.0.attention.output.weight"))
    assert not torch.equal(first, value("layers.1.attention.output.weight"))
    assert not torch.equal(first, value("layers.0.attention.output.weight", seed=2))
    assert float(first.std()) == pytest.approx(0.02 / (2 * shape.layers) ** 0.5, rel=0.1)
    assert float(value("embedding.weight").std()) == pytest.approx(0.02, rel=0.1)
    assert float(value("layers.0.attention_norm.weight").min()) == 1.0


def test_tokens_of_a_sequence_do_not_depend_on_the_rank_that_trains_with_it():
    import torch

    from cclmark.run.training.tokens import BATCHES, token_batches

    host = torch.device("cpu")
    whole = token_batches(1, 512, range(4), 100, host)
    part = token_batches(1, 512, range(2, 4), 100, host)
    assert len(whole) == BATCHES
    assert all(torch.equal(one[2:], other) for one, other in zip(whole, part, strict=True))
    assert whole[0].shape == (4, 101)
    tokens = torch.stack(whole)
    assert int(tokens.min()) >= 0
    assert int(tokens.max()) < 512
    counts = torch.bincount(tokens.flatten(), minlength=512)
    assert counts[0] > counts[10] > counts[200]


def test_a_changed_or_moved_element_changes_the_checksum():
    import torch

    from cclmark.run.training.replicas import checksum

    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.arange(1, 101).to(dtype).view(10, 10)
        first = checksum(tensor)
        assert first == checksum(tensor.clone())
        assert first != checksum(tensor.flip(0))
        changed = tensor.clone()
        changed[9, 9] += 1
        assert first != checksum(changed)


def test_memory_that_runs_out_in_a_step_is_reported_with_what_would_fit():
    import torch

    from cclmark import _engine as engine
    from cclmark.plan.trainings import Training
    from cclmark.plan.variants import DEFAULT
    from cclmark.run.training.measuring import within_memory

    training = Training(
        *(DEFAULT, 0, "torch:nccl", MODELS["gpt2-xl"], "ddp", 2, 64, 1024),
        *("bfloat16", "adamw", 3e-4),
    )

    def run_out(error):
        raise error

    text = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB"
    with pytest.raises(engine.MissingError, match=r"memory \(CUDA out of memory\): gpt2-xl"):
        within_memory(training, 80 << 30, lambda: run_out(torch.OutOfMemoryError(text)))
    for words in (
        "CUDA error: out of memory\nCUDA kernel errors might be reported later",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "NCCL error in: x.cpp:1\nLast error:\nCuda failure 2 'out of memory'",
    ):
        wrapped = RuntimeError("[Rank 1] PipelineStage could not run forward")
        wrapped.__cause__ = RuntimeError(words)
        with pytest.raises(engine.MissingError, match="the device ran out of memory"):
            within_memory(training, 80 << 30, lambda error=wrapped: run_out(error))
    host = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")
    with pytest.raises(engine.MissingError, match="--batch"):
        within_memory(training, 80 << 30, lambda: run_out(host))
    with pytest.raises(RuntimeError, match="shape"):
        within_memory(training, 80 << 30, lambda: run_out(RuntimeError("shape mismatch")))
    assert within_memory(training, 80 << 30, lambda: 1) == 1


@pytest.mark.parametrize(
    ("version", "parallel", "is_enough"),
    [
        ("2.13.0+cpu", "fsdp", True),
        ("2.7.0a0+git1", "tp", True),
        ("2.6.0", "tp", False),
        ("2.6.0+cu124", "fsdp", False),
        ("2.5.1", "ddp", True),
        ("2.4.1", "ddp", False),
        ("1.13.1", "ddp", False),
        ("unknown", "ddp", True),
    ],
)
def test_an_older_torch_is_reported_with_the_version_required(version, parallel, is_enough):
    from cclmark import _engine as engine
    from cclmark.run.training.parallelisms import require_version

    if is_enough:
        require_version(version, parallel)
        return
    with pytest.raises(
        engine.MissingError, match=rf"requires torch 2\.\d or newer.* {version[:3]}"
    ):
        require_version(version, parallel)


class TestTimeline:
    """What busy_in finds in the events of a trace: two ends of steps, 100 us apart."""

    @staticmethod
    def found(*more, on_host=False):
        from cclmark.run.training.profile import Event, busy_in

        ends = [
            ("user_annotation", "cclmark end of a step", 9, 1)
            if on_host
            else ("kernel", "spin_kernel(long)", 9, 1),
            ("user_annotation", "cclmark end of a step", 109, 1)
            if on_host
            else ("kernel", "spin_kernel(long)", 109, 1),
        ]
        events = [Event("X", *one) for one in (*ends, *more)]
        return busy_in(events, "nccl" if not on_host else "gloo", on_host=on_host)

    def test_kernels(self):
        busy = self.found(
            ("kernel", "gemm", 0, 5),  # of the step before
            ("kernel", "gemm", 20, 30),
            ("kernel", "elementwise", 45, 15),
            ("gpu_memcpy", "Memcpy DtoD", 100, 30),  # ends in the step behind
            ("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 50, 20),
            ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 70, 10),
            ("cuda_runtime", "cudaLaunchKernel", 0, 200),
        )
        assert busy.step_s == pytest.approx(100e-6)
        assert busy.compute_s == pytest.approx(50e-6)
        assert busy.communication_s == pytest.approx(30e-6)
        assert busy.exposed_s == pytest.approx(20e-6)

    def test_operators_of_the_host(self):
        busy = self.found(
            ("cpu_op", "aten::mm", 20, 30),
            ("cpu_op", "DistributedDataParallel.forward", 10, 100),
            ("cpu_op", "gloo:all_reduce", 40, 40),
            on_host=True,
        )
        assert (busy.compute_s, busy.exposed_s) == pytest.approx((30e-6, 30e-6))

    def test_a_trace_without_steps_or_work_is_unknown(self):
        from cclmark.run.training.profile import busy_in

        assert self.found() is None
        assert busy_in([], "nccl", on_host=False) is None


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """What parallel_steps.py found."""
    program = Path(__file__).with_name("parallel_steps.py")
    meeting = tmp_path_factory.mktemp("meeting") / "file"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(program), str(rank), str(meeting)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        out, err = ranks[0].communicate(timeout=scaled(90))
        ranks[1].communicate(timeout=scaled(30))
    finally:
        for rank in ranks:
            rank.kill()
    assert ranks[0].returncode == 0, err[-3000:]
    return json.loads(out)


@pytest.mark.parametrize(
    ("parallel", "model", "optimizer"),
    [
        ("ddp", "tiny", "sgd"),
        ("zero1", "tiny-llama", "adamw"),
        ("fsdp", "tiny", "sgd"),
        ("fsdp", "tiny-moe", "adamw"),
        ("tp", "tiny", "sgd"),
        ("tp", "tiny-llama", "sgd"),
        ("pp", "tiny", "sgd"),
        ("pp", "tiny-llama", "adamw"),
        ("ep", "tiny-moe", "sgd"),
    ],
)
def test_the_losses_are_those_of_one_rank_with_all_data(steps, parallel, model, optimizer):
    found = {tuple(row[:3]): row[3:] for row in steps["losses"]}
    together, alone, other = found[parallel, model, optimizer]
    assert together == pytest.approx(alone, abs=2e-5)
    # The same comparison distinguishes other data.
    assert together != pytest.approx(other, abs=2e-3)


def test_the_estimated_memory_is_a_close_lower_limit_of_what_tensors_occupy(steps):
    ratios = {tuple(row[:3]): row[3] / row[4] for row in steps["peaks"]}
    assert len(ratios) == 7
    assert all(0.75 < ratio <= 1 for ratio in ratios.values()), ratios


def test_a_step_communicates_as_often_as_documented(steps):
    counts = {tuple(row[:2]): row[2] for row in steps["communication"]}
    # Two layers, and the root unit with the tied embedding, which stays gathered.
    assert counts["fsdp", "tiny"] == {"c10d._allgather_base_": 5, "c10d._reduce_scatter_base_": 3}
    # Four layers and the embedding in both passes, and once the output head.
    assert counts["fsdp", "tiny-llama"] == {
        "c10d._allgather_base_": 11,
        "c10d._reduce_scatter_base_": 6,
    }
    assert counts["tp", "tiny"] == {"c10d_functional.all_reduce": 2 * 2 * 2}
    # An untied output head: its logits are gathered, the gradient of its input is summed.
    assert counts["tp", "tiny-llama"] == {
        "c10d_functional.all_reduce": 4 * 2 * 2 + 1,
        "c10d_functional.all_gather_into_tensor": 1,
    }
