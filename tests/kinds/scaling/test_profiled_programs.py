"""``cclmark predict --job``: the step of a profiled program with more replicas."""

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.options.types import LineRate
from cclmark_planning.need.command import NeedFlags
from cclmark_planning.need.request import planned_needs
from cclmark_planning.scale.layout import parse_job_layout
from cclmark_planning.scale.profiled_step import (
    ProfiledMessages,
    ProfiledStep,
    Unknowns,
    check_growth,
    grown_step,
)
from cclmark_planning.scale.step import Network, time_of
from cclmark_planning.scale.traffic import busiest_stage, traffic_of
from cclmark_planning.scaling.figures import step_errors, step_of
from cclmark_planning.scaling.plan import MEASURED, STRONG, WEAK
from cclmark_planning.scaling.profiles import read_profiled_step
from cclmark_planning.scaling.result import ScaledResult
from kineto_events import collective, kernel, trace
from places import TESTS
from refusals import require_refusals

MS = 1000  # microseconds
STEPS, STEP_MS = 5, 20
NETWORK = Network(360e9, 14e-6, 3.4e-6, efficiency=0.9, bps=50e9)


def events_of(groups, dp_us):
    """Steps of 20 ms: 10 of compute, an all_reduce among replicas, one of neighbours."""
    events = []
    for number in range(STEPS):
        at = number * STEP_MS * MS
        step = {"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{number}"}
        step |= {"pid": 0, "tid": 7, "ts": at, "dur": STEP_MS * MS}
        events += [kernel("gemm", at, 10 * MS), step]
        for name, (ranks, elements, begin_ms) in groups.items():
            time_us = dp_us if name == "dp" else 1 * MS
            group = {"Group size": len(ranks), "Process Group Ranks": str(ranks), "Seq": number}
            group |= {"Process Group Name": name, "Process Group Description": name}
            place = (at + begin_ms * MS, time_us, elements)
            events.append(collective("allreduce", *place, **group))
    return events


def profile(cclmark, directory, ranks, dp_us, tensor=1, at_ms=10, elements=1 << 28):
    """The journal of a program: groups of ``tensor`` neighbours, replicas of the others, which
    communicate from ``at_ms`` on.
    """
    names = []
    for rank in range(ranks):
        inner = rank // tensor * tensor
        groups = {"dp": ([*range(rank % tensor, ranks, tensor)], elements, at_ms)}
        if tensor > 1:
            groups["tp"] = ([*range(inner, inner + tensor)], 1 << 20, 2)
        info = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks}}
        path = directory / f"rank{rank}-of-{ranks}.json"
        path.write_bytes(trace(events_of(groups, dp_us), rank, **info))
        names.append(path)
    journal = directory / f"on-{ranks}.jsonl"
    cclmark("import", *names, "--journal", journal)
    return journal


def of_purpose(run, purpose):
    return [one for one in run.journal.of(ScaledResult) if one.scaled.purpose == purpose]


def test_replicas_grow_and_neighbours_stay(cclmark, tmp_path):
    journal = profile(cclmark, tmp_path, 4, 4 * MS, tensor=2)
    run = cclmark(
        *("predict", "--job", journal, "--gpus", "8,32", "--network", "8x400"),
        *("--measured-tokens", "1000"),
    )
    weak, strong = of_purpose(run, WEAK), of_purpose(run, STRONG)
    assert [one.scaled.devices for one in weak] == [4, 8, 32]
    # The profiled step itself, then longer ones: the all_reduce of replicas alone grows.
    assert weak[0].step.step_s == pytest.approx(STEP_MS * 1e-3)
    assert weak[0].step.exposed_s == pytest.approx(4e-3)
    assert weak[0].step.step_s < weak[1].step.step_s < weak[2].step.step_s
    assert all(one.low_s < one.step.step_s < one.high_s for one in weak)
    assert strong[2].step.compute_s == pytest.approx(weak[2].step.compute_s / 8)
    assert [one.scaled.tokens for one in strong] == [1000] * 3
    assert [one.scaled.tokens for one in weak] == [1000, 2000, 8000]
    assert "groups of 2 ranks, each 2 apart" in " ".join(run.out.split())
    assert "the error of predictions is unknown: one number of GPUs was profiled" in run.out
    verdict = next(line for line in run.out.splitlines() if "verdict" in line)
    assert "32 GPUs with a batch that grows" in verdict
    page = cclmark("report", run.journal_path, "-O", "page.html")
    assert "step-by-gpus" in (page.directory / "page.html").read_text()


def test_a_second_profile_tells_the_error(cclmark, tmp_path):
    both = [profile(cclmark, tmp_path, 2, 4 * MS), profile(cclmark, tmp_path, 8, 7 * MS)]
    run = cclmark(
        *("predict", "--job", both[1], "--job", both[0], "--gpus", "64", "--network", "8x400")
    )
    found = of_purpose(run, MEASURED)
    assert [one.scaled.devices for one in found] == [2, 8]
    assert found[1].measured_s == pytest.approx(STEP_MS * 1e-3)
    # 1.75 times the time, as bus bandwidth has it for a ring of 2 and of 8 ranks.
    assert found[1].step.communication_s == pytest.approx(7e-3, rel=0.05)
    errors = step_errors(run.journal.of(ScaledResult))
    assert errors.number == 1
    assert errors.baseline == 0.0  # both steps take 20 ms here
    assert "measured steps, predicted from the others, differ by" in " ".join(run.out.split())
    rows = [*csv.DictReader(cclmark("export", run.journal_path, "--format", "csv").out.split("\n"))]
    assert [row["purpose"] for row in rows] == [MEASURED] * 2 + [WEAK] * 2 + [STRONG] * 2
    assert rows[0]["batch"] == rows[0]["tokens_per_s"] == ""


def test_the_layout_says_which_groups_have_a_rank_of_each_replica(cclmark, tmp_path):
    journal = profile(cclmark, tmp_path, 4, 4 * MS, tensor=2)

    def step(text):
        return read_profiled_step(journal, None, text and parse_job_layout(text))

    def growing(step):
        return {(one.ranks, one.stride): one.grows for one in step.messages}

    assert step(None) == step("tp=2")
    assert growing(step("tp=2")) == {(2, 2): True, (2, 1): False}
    assert growing(step("pp=2")) == {(2, 2): False, (2, 1): True}
    with pytest.raises(UsageError, match="no group of replicas communicates"):
        step("tp=4")


def test_exposed_time_is_that_of_the_profile(cclmark, tmp_path):
    """3 of 4 ms of the all_reduce run beside compute."""
    journal = profile(cclmark, tmp_path, 2, 4 * MS, at_ms=7, elements=1 << 22)
    step = read_profiled_step(journal, None, None)
    (one,) = step.messages
    assert (one.time_s, one.exposed_s) == (pytest.approx(4e-3), pytest.approx(1e-3))
    assert step.rest_s == pytest.approx(19e-3)
    grown = check_growth(step, 16, 8)
    shares, seconds = (grown_step(grown, NETWORK, Unknowns(hidden=hidden)) for hidden in (1.0, 0.0))
    assert shares.exposed_s == pytest.approx(shares.communication_s / 4)
    assert seconds.exposed_s == pytest.approx(seconds.communication_s - 3e-3)


def test_a_step_of_formulas_grows_as_the_formulas_have_it():
    """The messages of a planned job, as a profile would have them, on four times as many nodes."""
    job = {"model": "llama3-8b", "gpus": [16, 64], "parallel": "zero=3", "per_node": 8}
    small, large = planned_needs(NeedFlags(**job, network=LineRate(400, 8)))
    messages = tuple(
        ProfiledMessages(
            *(one.operation, one.ranks, 1, round(one.size_bytes), round(one.messages)),
            *(time_of(one, small.network), 0.0, True),
        )
        for one in traffic_of(small.job, busiest_stage(small.job))
    )
    measured = ProfiledStep("job", 16, 8, step_of(small).step_s, True, messages)
    grown = grown_step(check_growth(measured, 64, 8), small.network, Unknowns(hidden=1.0))
    assert grown.communication_s == pytest.approx(step_of(large).communication_s, rel=0.01)
    assert grown.step_s == pytest.approx(step_of(large).step_s, rel=0.05)


def test_what_compute_hides_is_bounded_by_compute():
    one = ProfiledMessages("all_reduce", 8, 1, 1 << 30, 1, 9e-3, 0.0, grows=True)
    measured = ProfiledStep("job", 8, 8, 10e-3, True, (one,))
    slow = replace(NETWORK, bps=1e9)
    grown = grown_step(check_growth(measured, 64, 8), slow, Unknowns(hidden=1.0))
    assert grown.exposed_s == pytest.approx(grown.communication_s - 10e-3)
    assert grown.step_s == pytest.approx(grown.communication_s)


def test_what_cannot_be_predicted_is_refused(cclmark, tag, tmp_path, tmp_path_factory):
    journals = [TESTS / "journals" / name for name in ("train.jsonl", "plugin.jsonl")]
    journals.append(profile(cclmark, tmp_path_factory.mktemp("profiles"), 4, 4 * MS, tensor=2))
    names = {path.name: str(path) for path in journals}
    require_refusals(Path(__file__).with_name("refused_profiles.txt"), tag, tmp_path, [], names)
