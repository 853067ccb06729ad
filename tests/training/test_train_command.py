"""``cclmark train`` on the host: measured, checked, compared, refused, and interrupted."""

import math

import pytest

from cclmark.base.statistics import median
from cclmark_training.figures import figures_of
from cclmark_training.result import TrainingResult
from examples import exhaustive
from fake_backends import find_fakes
from patience import waits

SHORT = ("-n", "4", "-w", "1", "--batch", "2", "--sequence", "32", *waits(30))
LITTLE = (
    *("train", "--devices", "host:2", "-n", "1", "-w", "1", "--import", "little_memory"),
    *waits(30),
)
LITTLE_ENV = {"CCLMARK_FAKE_FREE": str(2 << 20)}
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


@pytest.mark.usefixtures("torch", "no_leaks")
class TestBackends:
    """Three backends in a run: gloo, one with a fault, and one that does not exist."""

    @pytest.fixture(scope="class")
    @staticmethod
    def whole(cclmark_in, tmp_path_factory, torch):
        return cclmark_in(
            find_fakes(tmp_path_factory.mktemp("train"), "drifting_backend", "over_gloo"),
            *("train", "--devices", "host:2", *SHORT, "--layers", "1", "--rounds", "1"),
            *("--ccl", "gloo,drifting,nowhere", "--import", "drifting_backend"),
            code=1,
        )

    def test_steps_losses_and_parts_of_the_default(self, whole):
        one = whole.journal.of(TrainingResult)[0]
        assert (one.status, one.training.ccl, one.training.parallel) == ("ok", "torch:gloo", "ddp")
        assert [len(times) for times in one.step_s] == [4, 4]
        assert [len(times) for times in one.alone_s] == [4, 4]
        assert one.warmup_steps == 1
        assert len(one.losses) == 1 + 1 + 4  # the first timed block begins with another step
        # Random initial values know nothing of the tokens.
        assert one.losses[0] == pytest.approx(math.log(512), abs=0.1)
        assert one.check.elements == one.training.model.parameters
        assert one.check.differences == []
        assert one.estimated_bytes < one.free_bytes
        assert one.timeline is not None
        found = figures_of(one)
        assert found.step_s == median([max(pair) for pair in zip(*one.step_s, strict=True)])
        for rank in range(2):
            communication_s = one.timeline.communication_s[rank]
            assert 0 < one.timeline.exposed_s[rank] <= communication_s + 1e-9
            busy_s = one.timeline.compute_s[rank] + one.timeline.exposed_s[rank]
            assert busy_s <= one.timeline.step_s[rank] * (1 + 1e-6)

    def test_a_backend_under_which_replicas_drift_is_found(self, whole):
        one = whole.journal.of(TrainingResult)[1]
        assert (one.status, one.training.ccl) == ("wrong", "torch:drifting")
        assert [difference.rank for difference in one.check.differences] == [0, 1]
        assert "the parameters of ranks 0 and 1 differ from each other" in one.reason
        assert "WRONG in tiny with ddp" in whole.out
        assert "losses of torch:drifting and torch:gloo over 6 steps: largest" in whole.out

    def test_a_backend_that_is_missing_is_skipped_with_its_reason(self, whole):
        one = whole.journal.of(TrainingResult)[2]
        assert (one.status, one.training.ccl) == ("skipped", "torch:nowhere")
        assert "skipped: torch 2" in whole.out
        assert "has no backend nowhere" in whole.out


@pytest.mark.usefixtures("torch", "no_leaks")
class TestRuns:
    @pytest.fixture(scope="class")
    @staticmethod
    def refused(cclmark_in, tmp_path_factory, torch):
        directory = find_fakes(tmp_path_factory.mktemp("refused"), "little_memory")
        return cclmark_in(directory, *LITTLE, env=LITTLE_ENV, code=3)

    @pytest.fixture(scope="class")
    @staticmethod
    def pipelines(cclmark_in, tmp_path_factory, torch):
        return cclmark_in(
            tmp_path_factory.mktemp("pipelines"),
            *("train", "--devices", "host:2", "--parallel", "pp", *SHORT, "--rounds", "1"),
            *("--vary", "GLOO_SOCKET_IFNAME=none0", "--allow-unknown-settings"),
        )

    def test_stages_of_a_pipeline_report_the_loss_of_the_last_one(self, pipelines):
        one = pipelines.journal.of(TrainingResult)[0]
        assert one.training.microbatches == 2
        assert one.losses[0] == pytest.approx(math.log(512), abs=0.1)
        assert one.alone_s == []
        assert one.check.elements == 512 * 64
        assert one.check.differences == []
        assert (
            "pipeline parallel (Schedule1F1B), 2 ranks, batch 2 x 32, 2 microbatches"
            in pipelines.out
        )

    def test_mixed_types_of_experts_that_are_balanced_with_a_given_peak(self, cclmark):
        run = cclmark(
            *("train", "--devices", "host:2", "--parallel", "fsdp", "--model", "tiny-moe", *SHORT),
            *("--layers", "1", "--dtype", "mixed", "--vocabulary", "1024", "--peak", "0.5"),
        )
        (one,) = run.journal.of(TrainingResult)
        assert (one.training.dtype, one.training.balance_weight) == ("mixed", 0.01)
        assert (one.training.model.vocabulary, one.training.peak_flops) == (1024, 0.5e12)
        # The reported loss is the cross entropy, without that of the balance.
        assert one.losses[0] == pytest.approx(math.log(1024), abs=0.1)
        assert "mixed (float32, products in bfloat16), adamw, balance loss 0.01" in run.out
        assert "MFU of the peak, 0.5 TFLOP/s for each device (given by --peak)" in run.out

    @pytest.mark.parametrize(
        ("parallel", "model", "rank"),
        [
            exhaustive("zero1", "tiny", 0),
            ("ep", "tiny-moe", 1),
        ],
    )
    def test_a_changed_parameter_is_found(self, cclmark, parallel, model, rank):
        run = cclmark(
            *("train", "--devices", "host:2", "--parallel", parallel, "--model", model, *SHORT),
            *("--layers", "1", "--inject", f"corrupt:rank={rank},index=5"),
            code=1,
        )
        (one,) = run.journal.of(TrainingResult)
        found = [(each.rank, each.tensors, each.first) for each in one.check.differences]
        # Of two ranks none is the majority.
        assert found == [(0, 1, "embedding.weight"), (1, 1, "embedding.weight")]
        assert "the parameters of ranks 0 and 1 differ from each other" in run.out

    def test_a_changed_embedding_of_the_last_stage_is_found(self, cclmark):
        run = cclmark(
            *("train", "--devices", "host:3", "--parallel", "pp", "--layers", "3", *SHORT),
            *("--batch", "3", "--inject", "corrupt:rank=2,index=5"),
            code=1,
        )
        (one,) = run.journal.of(TrainingResult)
        assert [each.rank for each in one.check.differences] == [0, 2]
        assert "the parameters of ranks 0 and 2 differ from each other" in one.reason

    def test_rounds_repeat_the_losses_and_are_resumed(self, cclmark, tmp_path):
        artifact = tmp_path / "environment.sh"
        artifact.write_text("export NCCL_ALGO=Ring\nexport NCCL_PROTO=LL\n")
        arguments = (*ALONE, "--layers", "1", "--rounds", "2", "--artifact", str(artifact))
        first = cclmark(*arguments)
        losses = [one.losses for one in first.journal.of(TrainingResult)]
        assert len(losses) == 4
        assert losses == [losses[0]] * 4
        assert (
            "losses of NCCL_ALGO=Ring NCCL_PROTO=LL in 2 rounds: largest difference 0" in first.out
        )
        assert "two rounds do not determine an interval: raise --rounds" in first.out
        lines = first.journal_path.read_bytes().splitlines(keepends=True)
        part = tmp_path / "part.jsonl"
        part.write_bytes(b"".join(lines[:4]))  # the header and three results
        resumed = cclmark(*arguments, "--resume", str(part))
        assert [one.losses for one in resumed.journal.of(TrainingResult)] == losses
        other = cclmark(*ALONE, "--layers", "1", "--seed", "2", "--resume", str(part), code=2)
        assert "settings (--vary)" in other.err or "rounds" in other.err

    def test_a_variable_reaches_the_ranks_of_its_variant_alone(self, pipelines):
        trainings = pipelines.journal.of(TrainingResult)
        status = {one.training.variant.describe(): one.status for one in trainings}
        assert status == {"default": "ok", "GLOO_SOCKET_IFNAME=none0": "skipped"}
        assert "GLOO_SOCKET_IFNAME=none0" in pipelines.out

    def test_what_cannot_fit_is_refused_with_what_would(self, cclmark):
        run = cclmark(*ALONE, "--model", "gpt2-xl", "--batch", "100000", code=3)
        assert "gpt2-xl, 48 layers, 1,557,611,200 parameters, none over 1 rank" in run.err
        assert "requires at least" in run.err
        assert run.journal.of(TrainingResult) == []

    def test_the_refusal_is_one_message(self, refused):
        assert refused.message.startswith(
            "cclmark: tiny, 2 layers, 141,056 parameters, ddp over 2 ranks, batch 4 x 128, float32,"
        )
        (line,) = (one for one in refused.err.splitlines() if "journal" not in one)
        assert "; 2 MiB are free: it fits by this estimate with --parallel fsdp " in line
        assert "rank 0" not in refused.err + refused.out

    def test_the_advice_of_a_refusal_is_accepted(self, refused, cclmark, tmp_path):
        find_fakes(tmp_path, "little_memory")
        advice = (
            refused.message.splitlines()[0].partition("this estimate with ")[2].split(", or")[0]
        )
        assert advice == "--parallel fsdp --dtype bfloat16 --batch 1"
        run = cclmark(*LITTLE, *advice.split(), env=LITTLE_ENV)
        (one,) = run.journal.of(TrainingResult)
        assert (one.status, one.free_bytes) == ("ok", 2 << 20)
        assert one.estimated_bytes <= one.free_bytes

    def test_a_rank_that_dies_in_a_step_ends_the_run(self, cclmark, tmp_path):
        (tmp_path / "killed_in_a_step.py").write_text(_KILLED)
        ended = cclmark(
            *("train", "--devices", "host:2", "--parallel", "zero1", "--import"),
            *("killed_in_a_step", *SHORT, "--layers", "1"),
            code=4,
        )
        assert "was killed by SIGKILL during timing" in ended.message
        assert "tiny with zero1" in ended.message


@pytest.mark.usefixtures("torch", "no_leaks")
class TestLayouts:
    """Stages with unequal replicas on four ranks, one of which has a changed parameter."""

    @pytest.fixture(scope="class")
    @staticmethod
    def found(cclmark_in, tmp_path_factory, torch):
        return cclmark_in(
            tmp_path_factory.mktemp("layouts"),
            *("train", "--devices", "host:4", "--layout", "pp=2,dp=2", "--microbatches", "3,2"),
            *("--global-batch", "5", *SHORT[:4], "--sequence", "16", *waits(60)),
            *("--inject", "corrupt:rank=3,index=5"),
            code=1,
        )

    def test_the_title_states_the_layout_and_the_microbatches(self, found):
        (one,) = found.journal.of(TrainingResult)
        assert (one.training.arrangement, one.training.global_batch) == ("pp=2,dp=2", 5)
        assert (
            "pp=2 pipeline parallel (Schedule1F1B), dp=2 data parallel (DistributedDataParallel), "
            "4 ranks, batch 3 x 16, microbatches 3 + 2, global batch 5, all in float32" in found.out
        )

    def test_calls_are_listed_by_group_beside_the_step(self, found):
        (one,) = found.journal.of(TrainingResult)
        assert one.training_s > sum(one.step_s[0])
        assert {(each.group, each.operation) for each in one.groups} == {
            ("pp", "send"),
            ("dp", "all_reduce"),
            ("embedding", "all_reduce"),
        }
        (table,) = (text for text in found.out.split("\n\n") if "by group" in text)
        assert "3 send 12 KiB" in table
        assert "1 all_reduce 128 KiB" in table

    def test_a_replica_that_differs_is_found(self, found):
        (one,) = found.journal.of(TrainingResult)
        # The first parameter of rank 3 is the embedding that all four ranks hold.
        assert [each.rank for each in one.check.differences] == [3]
        assert one.check.differences[0].first == "embedding.weight"
        assert "the parameters of rank 3 differ from the other ranks" in one.reason


@pytest.mark.usefixtures("torch", "no_leaks")
@pytest.mark.parametrize("layout", [exhaustive(one) for one in ("fsdp=2", "tp=2", "pp=2")])
def test_two_backends_side_by_side(cclmark, tmp_path, layout):
    find_fakes(tmp_path, "second_backend")
    run = cclmark(
        *("train", "--devices", "host:2", "--layout", layout, *SHORT, "--rounds", "1"),
        *("--ccl", "gloo,second", "--import", "second_backend"),
    )
    one, other = run.journal.of(TrainingResult)
    assert (one.status, other.status, other.training.ccl) == ("ok", "ok", "torch:second")
    assert other.losses == pytest.approx(one.losses, abs=1e-6)
    assert other.groups == one.groups != []
    # torch's profiler has the operations of gloo by that name only.
    assert other.timeline is None
    assert "communication is unknown: torch's profiler records no operation of second" in run.out


BAD_INPUT = {
    "--layout tp=2,dp=2": "--layout tp=2,dp=2 has 4 ranks, but there are 2",
    "--layout tp=2 --parallel tp": "--layout and --parallel exclude each other",
    "--layout cp=2": "'cp' is no dimension: choose from tp, pp, dp, fsdp",
    "--batch 3 --global-batch 4": "contradicts --global-batch 4: leave one out",
    "--recipe flagscale-llama3-8b": "has the layout tp=4,pp=2, but 2 is no multiple",
    "--recipe flagscale-llama3-8b --model gpt2": "is a training of llama3-8b, not gpt2",
    "--parallel none": "--parallel none trains on one rank, but there are 2",
    "--peak 0": "--peak",
    "--ccl torch:": "write a backend of torch",
    "--ccl nccl": "torch:nccl supports cuda and hip and maca and cudart devices, not host",
    "--ccl gloo,second --vary A=1": "exclude each other",
    "--vary registration=none": "train varies variables of the environment only",
    "--inject hang:rank=0,case=0": "supports only the faults corrupt and delay",
    "--inject corrupt:rank=0,index=32768": "the first parameter has 32768 elements",
    "--inject corrupt:rank=0,index=1 -c 0": "would not be detected",
    "--parallel tp --inject corrupt:rank=0,index=1": "would not be detected",
    "--artifact absent.sh": "does not exist",
}


@pytest.mark.parametrize("arguments", BAD_INPUT)
def test_flags_that_cannot_be_measured(cclmark, arguments):
    run = cclmark("train", "--devices", "host:2", *arguments.split(), code=2)
    assert BAD_INPUT[arguments] in run.err
    assert run.written() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [("rm -rf /\n", "is not export NAME=VALUE"), ("# nothing\n", "contains no variable")],
)
def test_an_artifact_that_is_no_environment_file(cclmark, tmp_path, text, message):
    file = tmp_path / "environment.sh"
    file.write_text(text)
    run = cclmark("train", "--devices", "host:2", "--artifact", str(file), code=2)
    assert message in run.err


def test_torch_that_is_not_installed(cclmark, torch_not_installed):
    run = cclmark("train", "--devices", "host:2", env=torch_not_installed, code=3)
    assert run.err.strip() == "cclmark: torch is not installed: pip install torch"
    assert run.written() == []
