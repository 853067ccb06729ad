"""``cclmark need``."""

import csv
import json
from pathlib import Path

import pytest

from cclmark_planning.need.figures import needed_by, step_on
from cclmark_planning.need.result import NeedResult
from places import TESTS
from refusals import require_refusals

FSDP = ("need", "--model", "llama3-8b", "--gpus", "8,64", "--parallel", "zero=3")
TRAIN, OVERLAP, PROFILE = (
    str(TESTS / "journals" / f"{name}.jsonl") for name in ("train", "overlap", "profile")
)


def test_impossible_jobs_are_refused(tag, tmp_path):
    names = {path.name: str(path) for path in (TESTS / "journals").iterdir()}
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [], names)


def results_of(run):
    return run.journal.of(NeedResult)


def test_more_nodes_need_as_much_of_each_gpu(cclmark):
    run = cclmark(*FSDP)
    one, several, *variants = results_of(run)
    assert one.needed.bps == 0
    assert several.needed.bps > 0
    assert {each.need.variant for each in variants} > {"no overlap", "twice the batch", "zero=1"}
    assert "8      1   " in run.out
    assert "verdict    result: 64 GPUs: " in run.out


def test_a_network_that_is_not_enough_fails_on_request(cclmark):
    fails = ("--fail-if-not-enough", "--network")
    slow = cclmark(*FSDP, *fails, "1x100", code=1)
    assert "verdict    not enough" in slow.out
    assert slow.journal.footer.exit_code == 1
    cclmark(*FSDP, *fails, "400", code=0)


def test_a_job_that_does_not_fit_is_named(cclmark):
    words = ("need", "--model", "llama3-8b", "--gpus", "512")
    out = " ".join(cclmark(*words).out.split())
    assert "512 GPUs of 80 GB: the job takes at least" in out
    assert "does not fit" not in out.partition("verdict")[2].partition("notable")[0]
    assert "the job takes at least" not in cclmark(*words, "--parallel", "zero=3").out


def test_a_network_is_judged_by_the_time_that_it_adds(cclmark):
    slow = cclmark(*FSDP, "--network", "1x100", "--format", "json")
    assert json.loads(slow.out)["verdict"]["word"] == "not enough"
    [result] = [one for one in results_of(slow) if one.need.job.devices == 64][:1]
    # 100 Gb/s of a node of eight, in bytes, of which 90 % are achieved.
    assert result.need.network.bps * 8 == 100e9 / 8
    assert result.need.network.efficiency == 0.9
    fast = cclmark(*FSDP, "--network", "400")
    assert "verdict    enough: 64 GPUs with 400 Gb/s (3200 for a node)" in fast.out


def test_compute_and_overlap_are_those_of_journals(cclmark):
    job = ("need", "--model", "gpt2", "--gpus", "64", "--measured")
    run = cclmark(*job, TRAIN, "--overlap", OVERLAP)
    need = results_of(run)[0].need
    named = {one.name: one for one in need.assumptions}
    assert named["compute"].measured
    assert "with another model: gpt2-254m with ddp on 2 ranks" in named["compute"].source
    assert 0 < need.hidden.dp == need.hidden.cp < 1
    assert "The rate of compute is assumed" not in run.out
    one, two = (
        results_of(cclmark(*job, PROFILE, "--measured-tokens", tokens))[0].need.flops
        for tokens in ("4096", "8192")
    )
    assert two == pytest.approx(2 * one)


def test_fields_are_those_of_the_journal(cclmark):
    run = cclmark(*FSDP, "--network", "100", "--format", "csv")
    rows = [*csv.DictReader(run.out.splitlines())]
    for row, result in zip(rows, results_of(run), strict=True):
        assert float(row["needed_gbit"]) == pytest.approx(result.needed.bps * 8e-9)
        judged = step_on(result, 100e9 / 8)
        assert float(row["step_ms"]) == pytest.approx(judged.step_s * 1e3)
        assert needed_by(result.need, result.index) == result


def test_nothing_is_sent_within_a_node_and_by_one_gpu(cclmark):
    """The first and last stage of a tied embedding are on one node, however far apart."""
    run = cclmark("need", "--model", "gpt2-xl", "--gpus", "8", "--parallel", "pp=4")
    assert "8 GPUs send nothing to other nodes in a step" in run.out
    lone = ("--gpus", "1", "--accelerator", "L40S", "--gpus-per-node", "1")
    run = cclmark("need", "--model", "llama3-8b", *lone)
    assert "1 GPU sends nothing to other nodes in a step" in run.out
    assert "messages of a GPU" not in run.out


def test_latencies_alone_may_be_too_long(cclmark):
    job = ("need", "--model", "llama3-8b", "--gpus", "16384", "--parallel", "zero=3")
    run = cclmark(*job, "--latency", "30", "--network", "8x400")
    assert run.journal.of(NeedResult)[0].needed.bps is None
    alone = "no line rate is enough: with latencies between nodes alone"
    assert f"notable    16,384 GPUs: {alone}" in run.out
    assert "verdict    not enough" in run.out
