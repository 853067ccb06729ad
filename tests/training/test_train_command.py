import math
from pathlib import Path

import pytest

from cclmark.base.statistics import median
from cclmark_training.figures import figures_of
from cclmark_training.result import TrainingResult
from fake_backends import find_fakes
from patience import waits
from refusals import require_refusals

SHORT = ("-n", "4", "-w", "1", "--batch", "2", "--sequence", "32", *waits(30))
ON_TWO = ("train", "--devices", "host:2", *SHORT)
ALONE = ("train", "--devices", "host:1", *SHORT)
# A rank that is killed in a timed step: the warm-up has one step, and each block begins with one.
_KILLED = """
import os, signal

import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

steps = []


def end(*_):
    steps.append(1)
    if len(steps) == 4 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


register_optimizer_step_post_hook(end)
"""

needs_torch = pytest.mark.usefixtures("torch", "no_leaks")


def results_of(run):
    return run.journal.of(TrainingResult)


def differing(result):
    """The ranks that differ, with the first parameter in which they do."""
    return [(one.rank, one.first) for one in result.check.differences]


@needs_torch
def test_gloo_beside_a_backend_with_a_fault_and_one_that_does_not_exist(cclmark, tmp_path):
    find_fakes(tmp_path, "drifting_backend", "over_gloo")
    words = ("--layers", "1", "--rounds", "1", "--import", "drifting_backend")
    run = cclmark(*ON_TWO, *words, "--ccl", "gloo,drifting,nowhere", code=1)
    one, drifting, missing = results_of(run)
    assert (one.status, one.training.ccl, one.training.parallel) == ("ok", "torch:gloo", "ddp")
    assert [len(times) for times in (*one.step_s, *one.alone_s)] == [4] * 4
    assert one.warmup_steps == 1
    assert len(one.losses) == 1 + 1 + 4  # the first timed block begins with another step
    # Random initial values know nothing of the tokens.
    assert one.losses[0] == pytest.approx(math.log(512), abs=0.1)
    assert (one.check.elements, one.check.differences) == (one.training.model.parameters, [])
    assert one.estimated_bytes < one.free_bytes
    step_s = [max(pair) for pair in zip(*one.step_s, strict=True)]
    assert figures_of(one).step_s == median(step_s)
    timeline = one.timeline
    for rank in range(2):
        assert 0 < timeline.exposed_s[rank] <= timeline.communication_s[rank] + 1e-9
        busy_s = timeline.compute_s[rank] + timeline.exposed_s[rank]
        assert busy_s <= timeline.step_s[rank] * (1 + 1e-6)

    assert (drifting.status, drifting.training.ccl) == ("wrong", "torch:drifting")
    assert [rank for rank, _ in differing(drifting)] == [0, 1]
    assert "the parameters of ranks 0 and 1 differ from each other" in drifting.reason
    assert "WRONG in tiny with ddp" in run.out
    assert "losses of torch:drifting and torch:gloo over 6 steps: largest" in run.out

    assert (missing.status, missing.training.ccl) == ("skipped", "torch:nowhere")
    assert "skipped: torch 2" in run.out
    assert "has no backend nowhere" in run.out


@needs_torch
def test_stages_of_a_pipeline_report_the_loss_of_the_last_one(cclmark):
    """A variable reaches the ranks of its variant alone."""
    vary = ("--vary", "GLOO_SOCKET_IFNAME=none0", "--allow-unknown-settings")
    run = cclmark(*ON_TWO, "--parallel", "pp", "--rounds", "1", *vary)
    status = {one.training.variant.describe(): one.status for one in results_of(run)}
    assert status == {"default": "ok", "GLOO_SOCKET_IFNAME=none0": "skipped"}
    assert "GLOO_SOCKET_IFNAME=none0" in run.out
    one = results_of(run)[0]
    assert one.training.microbatches == 2
    assert one.losses[0] == pytest.approx(math.log(512), abs=0.1)
    assert one.alone_s == []
    assert (one.check.elements, one.check.differences) == (512 * 64, [])
    title = "pipeline parallel (Schedule1F1B), 2 ranks, batch 2 x 32, 2 microbatches"
    assert title in run.out


@needs_torch
def test_mixed_types_of_experts_that_are_balanced_with_a_given_peak(cclmark):
    words = ("--model", "tiny-moe", "--layers", "1", "--dtype", "mixed", "--vocabulary", "1024")
    run = cclmark(*ON_TWO, "--parallel", "fsdp", *words, "--peak", "0.5")
    (one,) = results_of(run)
    assert (one.training.dtype, one.training.balance_weight) == ("mixed", 0.01)
    assert (one.training.model.vocabulary, one.training.peak_flops) == (1024, 0.5e12)
    # The reported loss is the cross entropy, without that of the balance.
    assert one.losses[0] == pytest.approx(math.log(1024), abs=0.1)
    assert "mixed (float32, products in bfloat16), adamw, balance loss 0.01" in run.out
    assert "MFU of the peak, 0.5 TFLOP/s for each device (given by --peak)" in run.out


@needs_torch
def test_a_changed_parameter_is_found(cclmark):
    """Of two ranks none is the majority."""
    words = ("--parallel", "ep", "--model", "tiny-moe", "--layers", "1")
    run = cclmark(*ON_TWO, *words, "--inject", "corrupt:rank=1,index=5", code=1)
    (one,) = results_of(run)
    assert differing(one) == [(rank, "embedding.weight") for rank in (0, 1)]
    assert {each.tensors for each in one.check.differences} == {1}
    assert "the parameters of ranks 0 and 1 differ from each other" in one.reason
    assert one.reason in run.out


@needs_torch
def test_rounds_repeat_the_losses_and_are_resumed(cclmark, tmp_path):
    artifact = tmp_path / "environment.sh"
    artifact.write_text("export NCCL_ALGO=Ring\nexport NCCL_PROTO=LL\n")
    arguments = (*ALONE, "--layers", "1", "--rounds", "2", "--artifact", str(artifact))
    first = cclmark(*arguments)
    losses = [one.losses for one in results_of(first)]
    assert losses == [losses[0]] * 4
    variant = "NCCL_ALGO=Ring NCCL_PROTO=LL"
    assert f"losses of {variant} in 2 rounds: largest difference 0" in first.out
    assert "two rounds do not determine an interval: raise --rounds" in first.out
    lines = first.journal_path.read_bytes().splitlines(keepends=True)
    part = tmp_path / "part.jsonl"
    part.write_bytes(b"".join(lines[:4]))  # the header and three results
    resumed = cclmark(*arguments, "--resume", str(part))
    assert [one.losses for one in results_of(resumed)] == losses


@needs_torch
def test_what_cannot_fit_is_refused_in_one_message(cclmark, tmp_path):
    find_fakes(tmp_path, "little_memory")
    words = ("-n", "1", "-w", "1", "--import", "little_memory", *waits(30))
    env = {"CCLMARK_FAKE_FREE": str(2 << 20)}
    refused = cclmark("train", "--devices", "host:2", *words, env=env, code=3)
    (line,) = (one for one in refused.err.splitlines() if "journal" not in one)
    assert "tiny, 2 layers, 141,056 parameters, ddp over 2 ranks, batch 4 x 128, float32," in line
    assert "--parallel fsdp --dtype bfloat16 --batch 1" in line
    assert "rank 0" not in refused.err + refused.out
    assert results_of(refused) == []


@needs_torch
def test_a_rank_that_dies_in_a_step_ends_the_run(cclmark, tmp_path):
    (tmp_path / "killed_in_a_step.py").write_text(_KILLED)
    words = ("--parallel", "zero1", "--import", "killed_in_a_step", "--layers", "1")
    ended = cclmark(*ON_TWO, *words, code=4)
    assert "was killed by SIGKILL during timing" in ended.message
    assert "tiny with zero1" in ended.message


@needs_torch
def test_stages_with_unequal_replicas_of_which_one_has_a_changed_parameter(cclmark):
    run = cclmark(
        *("train", "--devices", "host:4", "--layout", "pp=2,dp=2", "--microbatches", "3,2"),
        *("--global-batch", "5", "-n", "4", "-w", "1", "--sequence", "16", *waits(60)),
        *("--inject", "corrupt:rank=3,index=5"),
        code=1,
    )
    (one,) = results_of(run)
    assert (one.training.arrangement, one.training.global_batch) == ("pp=2,dp=2", 5)
    assert (
        "pp=2 pipeline parallel (Schedule1F1B), dp=2 data parallel (DistributedDataParallel), "
        "4 ranks, batch 3 x 16, microbatches 3 + 2, global batch 5, all in float32" in run.out
    )
    # Calls are listed by group beside the step.
    assert one.training_s > sum(one.step_s[0])
    calls = {(each.group, each.operation) for each in one.groups}
    assert calls == {("pp", "send"), ("dp", "all_reduce"), ("embedding", "all_reduce")}
    (table,) = (text for text in run.out.split("\n\n") if "by group" in text)
    assert "3 send 12 KiB" in table
    assert "1 all_reduce 128 KiB" in table
    # The first parameter of rank 3 is the embedding that all four ranks hold.
    assert differing(one) == [(3, "embedding.weight")]
    assert "the parameters of rank 3 differ from the other ranks" in one.reason


def test_flags_that_cannot_be_measured(tag, tmp_path, tmp_path_factory, torch):
    artifacts = tmp_path_factory.mktemp("artifacts")
    names = {f"{name}.sh": str(artifacts / f"{name}.sh") for name in ("COMMAND", "COMMENT")}
    for text, file in zip(("rm -rf /\n", "# nothing\n"), names.values(), strict=True):
        Path(file).write_text(text)
    stored = Path(__file__).with_name("refused_commands.txt")
    require_refusals(stored, tag, tmp_path, ("train", "--devices", "host:2"), names)


def test_torch_that_is_not_installed(cclmark, torch_not_installed):
    run = cclmark("train", "--devices", "host:2", env=torch_not_installed, code=3)
    assert run.err.strip() == "cclmark: torch is not installed: pip install torch"
    assert run.written() == []
