from importlib import import_module

import pytest

from cclmark import _engine as engine
from cclmark.work.models import MODELS
from cclmark.work.variants import DEFAULT
from cclmark_training.plan import Training
from cclmark_training.result import ReplicaDifference


@pytest.fixture(scope="module")
def torch(torch):
    """The module torch, which takes seconds to import. More threads than one would wait for each
    other beside other tests.
    """
    module = import_module("torch")
    module.set_num_threads(1)
    return module


def module_of_torch(name):
    @pytest.fixture(scope="module")
    def module(torch):
        return import_module(f"cclmark_training.torch.{name}")

    return module


transformer = module_of_torch("transformer")
runner = module_of_torch("training_runner")
stepping = module_of_torch("stepping")


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
def test_the_model_has_as_many_parameters_as_published(name, torch, transformer):
    shape = MODELS[name]
    if shape.layers > 32:  # layers are alike, and creating one takes a millisecond
        shape = shape.with_layers(3)
    with torch.device("meta"):
        model = transformer.Transformer(shape)
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


def test_initial_values_depend_on_the_name_and_the_seed_alone(torch, transformer):
    shape, like = MODELS["tiny"], torch.empty(0)

    def value(name, seed=1):
        return transformer.initial_value(name, torch.Size((64, 64)), shape, seed, like)

    first = value("layers.0.attention.output.weight")
    assert torch.equal(first, value("layers.0.attention.output.weight"))
    assert not torch.equal(first, value("layers.1.attention.output.weight"))
    assert not torch.equal(first, value("layers.0.attention.output.weight", seed=2))
    assert float(first.std()) == pytest.approx(0.02 / (2 * shape.layers) ** 0.5, rel=0.1)
    assert float(value("embedding.weight").std()) == pytest.approx(0.02, rel=0.1)
    assert float(value("layers.0.attention_norm.weight").min()) == 1.0


def test_tokens_of_a_sequence_do_not_depend_on_the_rank_that_trains_with_it(torch, runner):
    host = torch.device("cpu")
    whole = runner.token_batches(1, 512, range(4), 100, host)
    part = runner.token_batches(1, 512, range(2, 4), 100, host)
    assert all(torch.equal(one[2:], other) for one, other in zip(whole, part, strict=True))
    assert whole[0].shape == (4, 101)
    tokens = torch.stack(whole)
    assert int(tokens.min()) >= 0
    assert int(tokens.max()) < 512
    counts = torch.bincount(tokens.flatten(), minlength=512)
    assert counts[0] > counts[10] > counts[200]


def test_a_changed_or_moved_element_changes_the_checksum(torch, runner):
    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.arange(1, 101).to(dtype).view(10, 10)
        changed = tensor.clone()
        changed[9, 9] += 1
        first = runner.checksum(tensor)
        assert first == runner.checksum(tensor.clone())
        assert first not in [runner.checksum(one) for one in (tensor.flip(0), changed)]


OUT_OF_MEMORY = (
    "CUDA error: out of memory\nCUDA kernel errors might be reported later",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "NCCL error in: x.cpp:1\nLast error:\nCuda failure 2 'out of memory'",
)


def test_memory_that_runs_out_in_a_step_is_reported_with_what_would_fit(torch, runner):
    training = Training(
        *(DEFAULT, 0, "torch:nccl", MODELS["gpt2-xl"], "ddp", 2, 64, 1024),
        *("bfloat16", "adamw", 3e-4),
    )

    def check(error, kind=engine.MissingError, match="the device ran out of memory"):
        def step():
            raise error

        with pytest.raises(kind, match=match):
            runner.within_memory(training, 80 << 30, step)

    text = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB"
    check(torch.OutOfMemoryError(text), match=r"memory \(CUDA out of memory\): gpt2-xl")
    for words in OUT_OF_MEMORY:
        wrapped = RuntimeError("[Rank 1] PipelineStage could not run forward")
        wrapped.__cause__ = RuntimeError(words)
        check(wrapped)
    host = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"
    check(RuntimeError(host), match="--batch")
    check(RuntimeError("shape mismatch"), RuntimeError, "shape")
    assert runner.within_memory(training, 80 << 30, lambda: 1) == 1


def attention(query, key, value):
    pass


SHARD = "distributed.fsdp.fully_shard"
ATTENTION = "nn.functional.scaled_dot_product_attention"


@pytest.mark.parametrize(
    ("parallel", "name", "older", "version", "lacks"),
    [
        ("fsdp", SHARD, None, "2.6", f"torch.{SHARD}"),
        ("none", ATTENTION, attention, "2.5", "parameter enable_gqa"),
    ],
)
def test_what_an_older_torch_lacks_is_reported_with_the_version_that_has_it(
    monkeypatch, torch, runner, parallel, name, older, version, lacks
):
    import_module("torch.distributed.pipelining")  # which imports functions of others itself
    if older is None:
        monkeypatch.delattr(f"torch.{name}")
    else:
        monkeypatch.setattr(f"torch.{name}", older)
    with pytest.raises(engine.MissingError) as failure:
        runner.require_features(parallel)
    text = str(failure.value)
    assert f" requires torch {version} or newer" in text
    assert f"this torch {torch.__version__} has no " in text
    assert lacks in text


@pytest.fixture
def mixture(torch, transformer):
    torch.manual_seed(3)
    found = transformer.Mixture(MODELS["tiny-moe"])
    for one in found.parameters():
        torch.nn.init.normal_(one, std=0.1)
    return found


@pytest.mark.parametrize(
    ("probabilities", "counts", "expected"),
    [
        ([[1.0, 0.0, 0.0, 0.0]] * 8, [8, 0, 0, 0], 4),
        # Fedus et al., equation 4, with f = (3/4, 1/4) and P = (0.6, 0.4).
        ([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], [3, 1], 2 * (0.45 + 0.1)),
    ],
)
def test_equal_use_of_experts_is_one_and_that_of_a_single_one_their_number(
    torch, transformer, probabilities, counts, expected
):
    found = transformer.imbalance(torch.tensor(probabilities), torch.tensor(counts))
    assert float(found) == pytest.approx(expected)


def test_the_gradient_of_the_balance_reaches_the_router_alone(torch, mixture):
    """The loss is unchanged."""
    x = torch.randn(2, 16, 64)

    def outcome(weight):
        mixture.zero_grad(set_to_none=True)
        mixture.balance_weight = weight
        loss = mixture(x).square().mean()
        loss.backward()
        gradients = (mixture.router.weight.grad.clone(), mixture.experts.up.grad.clone())
        return float(loss.detach()), *gradients

    without, usual, again = outcome(0.0), outcome(0.5), outcome(1.0)
    assert without[0] == usual[0]
    assert torch.equal(without[2], usual[2])
    added = usual[1] - without[1]
    assert float(added.abs().max()) > 0
    assert torch.allclose(again[1] - without[1], 2 * added, atol=1e-6)


STEP_S = 30.0


class Alone:
    """The only rank, which records its phases, and the clock, by which every step takes as long."""

    def __init__(self):
        self.phases = []
        self.marks = 0
        self.rank_group = self

    def enter(self, phase, batches, others_s):
        self.phases.append([phase, batches, others_s, 0])

    def barrier(self):
        pass

    def gather(self, values):
        return values

    def mark(self):
        self.marks += 1

    def read(self):
        times_s = [STEP_S] * (self.marks - 1)
        self.marks = 0
        return times_s


@pytest.mark.parametrize("fixed", [None, 25])
def test_only_the_first_step_has_the_deadline_of_any_phase(torch, stepping, fixed):
    """That of a block of steps allows for their time once a step has been measured."""
    rank = Alone()

    def step(tokens):
        rank.phases[-1][3] += 1
        return torch.zeros(())

    stepper = stepping.Stepper(rank, rank, [torch.zeros(1)])
    stepper.warm_up(step, fixed)
    stepper.sample(step, 7, 0.02, 1.0)
    first, *others = rank.phases
    assert first == ["warm-up", 0, 0.0, 1]
    assert {phase for phase, *_ in others} == {"warm-up", "timing"}
    for _, _, others_s, steps in others:
        assert others_s == 2 * steps * STEP_S
    assert fixed is None or sum(one[3] for one in (first, *others) if one[0] != "timing") == 25


KERNELS = [
    ("kernel", "gemm", 0, 5),  # of the step before
    ("kernel", "gemm", 20, 30),
    ("kernel", "elementwise", 45, 15),
    ("gpu_memcpy", "Memcpy DtoD", 100, 30),  # ends in the step behind
    ("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 50, 20),
    ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 70, 10),
    ("cuda_runtime", "cudaLaunchKernel", 0, 200),
]
OPERATORS = [
    ("cpu_op", "aten::mm", 20, 30),
    ("cpu_op", "DistributedDataParallel.forward", 10, 100),
    ("cpu_op", "gloo:all_reduce", 40, 40),
]


@pytest.mark.parametrize(
    ("backend", "end", "events", "expected_us"),
    [
        ("nccl", ("kernel", "spin_kernel(long)"), KERNELS, (100, 50, 30, 20)),
        ("gloo", ("user_annotation", "cclmark end of a step"), OPERATORS, (100, 30, 40, 30)),
        # Without work it is unknown, as without steps.
        ("nccl", ("kernel", "spin_kernel(long)"), [], None),
        ("nccl", None, [], None),
    ],
)
def test_the_timeline_between_two_ends_of_steps(stepping, backend, end, events, expected_us):
    ends = [] if end is None else [(*end, 9, 1), (*end, 109, 1)]
    listed = [stepping.ProfilerEvent("X", *one) for one in (*ends, *events)]
    busy = stepping.busy_in(listed, backend, on_host=backend == "gloo")
    if expected_us is None:
        assert busy is None
        return
    found = (busy.step_s, busy.compute_s, busy.communication_s, busy.exposed_s)
    assert found == pytest.approx([one * 1e-6 for one in expected_us])


SAME, OTHER, ABSENT = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 5.0], [-1.0] * 4


@pytest.mark.parametrize(
    ("sums", "ranks"),
    [
        # Differing ranks are found by majority.
        ([SAME, SAME, SAME], []),
        ([SAME, OTHER, SAME], [1]),
        # Without one no rank is blamed alone.
        ([SAME, OTHER], [0, 1]),
        # A rank without the tensor has no part in the comparison.
        ([SAME, ABSENT, SAME], []),
        ([SAME, ABSENT, OTHER], [0, 2]),
    ],
)
def test_ranks_that_differ(runner, sums, ranks):
    expected = [ReplicaDifference(rank, 1, "b") for rank in ranks]
    assert runner.differences_of(["a", "b"], sums) == expected
