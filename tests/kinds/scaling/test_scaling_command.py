"""``cclmark predict --model``."""

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace

from cclmark.options.types import LineRate
from cclmark_planning.need.command import NeedFlags
from cclmark_planning.need.request import planned_needs
from cclmark_planning.scaling.calibration import calibrated, flops_of, read_steps
from cclmark_planning.scaling.figures import rank_correlation, result_of, step_errors, step_of
from cclmark_planning.scaling.plan import LAYOUT, MEASURED, STRONG, WEAK, ScaledJob
from cclmark_planning.scaling.result import ScaledResult
from places import REPOSITORY, TESTS
from refusals import require_refusals

JOB = ("predict", "--model", "llama3-8b", "--parallel", "zero=3", "--network", "8x400")
HEAD = "gpus,layout,batch,micro_batch,sequence,step_s\n"
TABLE = REPOSITORY / "benchmarks" / "scale" / "steps.csv"
DIMENSIONS = "family=gpt,width=3072,layers=30,heads=32,vocabulary=51200,context=2048"
MEGATRON = {
    **{"model": DIMENSIONS, "framework": "megatron", "precision": "fp16", "recompute": True},
    **{"network": LineRate(100, 8), "accelerator": "A100", "gpus": [64]},
}


def flags(**changed):
    return NeedFlags(**(MEGATRON | changed))


def results_of(run, purpose):
    found = run.journal.of(ScaledResult)
    return [one for one in found if one.scaled.purpose == purpose]


def test_a_job_scales_with_the_same_batch_and_with_one_that_grows(cclmark):
    run = cclmark(*JOB, "--gpus", "8,64,512", "--batch", "512")
    strong, weak = results_of(run, STRONG), results_of(run, WEAK)
    assert {one.scaled.need.job.batch for one in strong} == {512}
    assert [one.scaled.need.job.batch for one in weak] == [512, 4096, 32768]
    steps = [one.step.step_s for one in strong]
    assert steps[0] > 7 * steps[1] > 40 * steps[2]
    assert all(one.low_s < one.step.step_s < one.high_s for one in (*strong, *weak))
    assert weak[2].step.step_s == pytest.approx(weak[0].step.step_s, rel=0.05)
    assert "efficiency" in run.out
    assert "the error of predictions is unknown" in run.out


def test_layouts_are_ranked_among_those_that_fit(cclmark):
    run = cclmark(
        *("predict", "--model", "llama3-70b", "--gpus", "64", "--batch", "256", "--layouts"),
        *("--framework", "megatron", "--parallel", "zero=1", "--network", "8x400"),
        *("--accelerator", "H100"),
    )
    layouts = results_of(run, LAYOUT)
    steps = [one.step.step_s for one in layouts]
    assert steps and steps == sorted(steps)
    assert all(one.needed_bytes <= 80e9 for one in layouts)
    assert all(one.scaled.need.job.layout.tp * one.scaled.need.job.layout.pp > 1 for one in layouts)
    assert "do not fit into 80 GB" in run.out
    # They have the stages that divide GPUs and layers.
    run = cclmark(
        *("predict", "--model", DIMENSIONS, "--gpus", "48", "--batch", "96", "--layouts"),
        *("--network", "8x400", "--parallel", "zero=1"),
    )
    stages = {one.scaled.need.job.layout.pp for one in results_of(run, LAYOUT)}
    assert {1, 2, 3} <= stages
    assert all(30 % one == 0 for one in stages)


def test_published_steps_are_predicted_better_than_by_the_same_utilization(cclmark, tmp_path):
    steps, names = tmp_path / "steps.csv", HEAD.strip().split(",")
    with TABLE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == "3.6B"]
    steps.write_text(HEAD + "".join(",".join(row[name] for name in names) + "\n" for row in rows))
    run = cclmark(
        *("predict", "--model", DIMENSIONS, "--gpus", "64", "--batch", "512"),
        *("--framework", "megatron", "--precision", "fp16", "--recompute", "--network", "8x100"),
        *("--accelerator", "A100", "--steps", steps),
    )
    found = step_errors(run.journal.of(ScaledResult))
    assert found.number == 26
    assert found.error < 0.08 < found.baseline
    assert found.correlation > 0.8
    assert 0.8 <= found.inside / found.number <= 0.97
    assert "rank correlation" in run.out
    page = cclmark("report", run.journal_path, "-O", "page.html")
    assert "step-by-gpus" in (page.directory / "page.html").read_text()


def test_a_calibrated_rate_gives_the_measured_step(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text(f"{HEAD}64,tp=2;dp=32,512,8,2048,3.9752\n")
    (one,) = read_steps(path, flags())
    need = replace(one.need, flops=flops_of(one))
    assert scaled(need, 0.1).step.step_s == pytest.approx(3.9752, rel=1e-4)
    # Communication alone takes longer than a nanosecond.
    assert flops_of(one._replace(step_s=1e-9)) is None


def scaled(need, spread):
    """The result with so much spread of the rate of compute."""
    return result_of(ScaledJob(need, WEAK, spread))


def test_a_calibration_is_not_moved_by_steps_that_something_else_limits():
    rates = [100e12, 101e12, 99e12, 102e12, 98e12, 100e12, 101e12, 99e12, 102e12]
    quiet, disturbed = calibrated([*rates, 98e12]), calibrated([*rates, 30e12])
    assert disturbed.flops == pytest.approx(quiet.flops, rel=0.02)
    assert disturbed.spread < 0.1
    assert calibrated([100e12]).spread > quiet.spread


def test_no_noise_and_an_exact_rate_leave_no_interval_of_compute():
    need = planned_needs(flags(batch=512, parallel="dp=64"))[0]
    narrow, wide = (scaled(need, spread) for spread in (0.01, 0.3))
    assert narrow.high_s / narrow.low_s < wide.high_s / wide.low_s
    assert narrow.step.step_s == step_of(need).step_s


def test_rank_correlation():
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # With ties as scipy.stats.spearmanr has it.
    assert rank_correlation([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(0.9486832980505138)
    assert rank_correlation([1, 2], [1, 2]) is None


def test_what_cannot_be_predicted_is_refused(tag, tmp_path, tmp_path_factory):
    files = tmp_path_factory.mktemp("steps")
    texts = {
        **{"empty": "", "head": HEAD, "zero": f"{HEAD}8,dp=8,8,1,2048,0\n"},
        **{"odd": f"{HEAD}8,tp=3,8,1,2048,1\n", "fast": f"{HEAD}8,zero=3,8,1,2048,1e-9\n"},
        **{"far": f"{HEAD}64,zero=3,64,1,2048,1\n", "cells": f"{HEAD}8,zero=3,8,1,2048,1,1\n"},
        "type": f"{HEAD.strip()},precision\n8,zero=3,8,1,2048,1,fp99\n",
        "nodes": "nodes,gpus_per_node,size,busbw_gbps\n",
    }
    for name, text in texts.items():
        (files / f"{name}.csv").write_text(text)
    names = {path.name: str(path) for path in files.iterdir()}
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [], names)


def test_a_measured_rate_comes_from_a_journal(cclmark):
    run = cclmark(
        *("predict", "--model", "gpt2", "--gpus", "8", "--measured"),
        TESTS / "journals" / "train.jsonl",
    )
    assert "measured" in next(line for line in run.out.splitlines() if "compute" in line)
    assert not results_of(run, MEASURED)
