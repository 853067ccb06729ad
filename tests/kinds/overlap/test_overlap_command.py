"""``cclmark overlap``: collectives beside compute, on the host and on fakes."""

from itertools import product
from pathlib import Path

import pytest

from cclmark.kinds.overlap.figures import figures_of
from cclmark.kinds.overlap.result import OverlapResult
from refusals import require_refusals

# Shorter operations of ranks that share processors are repeated with longer and longer phases.
ON_HOST = ("overlap", "--devices", "host:2", "-b", "1M", "-e", "1M", "--rounds", "2")
# A thread of the collective and one of the compute: with two ranks on two processors, nothing may
# run entirely beside the other work.
ON_ONE = ("--devices", "host:1", "-b", "64K")
ONE_SIZE = ("-b", "64K", "-e", "64K", "--rounds", "2", "--matrix", "62")
ON_FAKES = ("overlap", "-g", "2", *ONE_SIZE)
# For what each rank does by itself: a phase keeps every rank at work for the same time.
ON_ONE_FAKE = ("overlap", "-g", "1", *ONE_SIZE)
BUSY = (0, 3)  # 3: nothing ran entirely beside the other work, on a busy machine


def results_of(run):
    return run.journal.of(OverlapResult)


def test_both_are_measured_alone_and_at_once_in_every_round(cclmark):
    run = cclmark(*ON_HOST, "--matrix", "48", code=BUSY)
    assert run.journal.kind == "overlap"
    places = [(one.overlap.round, one.overlap.case.size_bytes) for one in results_of(run)]
    assert places == [(0, 1 << 20), (1, 1 << 20)]
    for one in results_of(run):
        assert one.is_checked
        assert one.compute_findings == []
        assert one.overlap.compute.extent == 48
        assert one.communication_alone.compute_s == one.compute_alone.communication_s == [[], []]
        for marks in (*one.together.communication_s, *one.together.compute_s):
            assert len(marks) > 8
            assert marks == sorted(marks)
        # The figures are those of the recorded times.
        found = figures_of(one.communication_alone, one.compute_alone, one.together)
        assert one.figures == found
        assert (one.status == "ok") == (found is not None)
    assert "beside matmul 48 x 48 x 48 float32" in run.out
    if any(one.status == "ok" for one in results_of(run)):
        assert "blocked loop of the engine" in run.out
    assert "slow-down (95 %)" in run.out


def test_a_journal_is_resumed(cclmark, cut):
    """By default sizes grow by a factor of four."""
    plan = ("overlap", *ON_ONE, "-e", "256K", "--matrix", "64", "--rounds", "2")
    run = cclmark(*plan, code=BUSY)
    results = results_of(run)
    places = [(one.overlap.round, one.overlap.case.size_bytes) for one in results]
    assert places == [*product((0, 1), (65536, 262144))]
    assert (run.code == 0) == any(one.status == "ok" for one in results)
    part = cut(run, 4)  # the header and three results
    resumed = cclmark(*plan, "--resume", part, code=BUSY)
    assert len(results_of(resumed)) == 4
    assert resumed.journal.header.continues is not None


def test_a_triad_beside_several_operations_is_measured_in_bytes(cclmark):
    words = ("overlap", "all_gather,broadcast", *ON_ONE, "-e", "64K", "--rounds", "2")
    run = cclmark(*words, "--compute", "memory", "--array", "64K", code=BUSY)
    results = results_of(run)
    assert {one.overlap.case.operation for one in results} == {"all_gather", "broadcast"}
    assert "beside triad on arrays of 64 KiB" in run.out
    assert "compute GB/s" in run.out
    assert all(one.overlap.compute.work == 3 * 65536 for one in results)
    assert all(one.is_checked for one in results if one.status != "skipped")
    assert all(one.compute_findings == [] for one in results)


def test_flags_that_cannot_be_measured(tag, tmp_path):
    stored = Path(__file__).with_name("refused.txt")
    require_refusals(stored, tag, tmp_path, ("overlap", "--devices", "host:2"))


def test_a_product_on_devices_is_that_of_cublaslt(cclmark, fake_cuda):
    words = (*ON_ONE_FAKE, "--vary", "NCCL_PROTO=Simple", "--explain")
    run = cclmark(*words, env=fake_cuda.env(products=True))
    results = results_of(run)
    assert {one.status for one in results} <= {"ok", "skipped"}
    assert all(one.is_checked and not one.compute_findings for one in results)
    assert {one.implementation for one in results} == {"cuBLASLt 12.8.4"}
    assert str(fake_cuda.cublaslt.resolve()) in run.out
    # Settings of communicators: the ranks are started once in each round.
    assert not any(one.overlap.variant.process for one in results)
    explained = [one for one in results if one.explanation is not None]
    protocols = {one.overlap.variant.describe(): one.explanation.protocol for one in explained}
    assert protocols == {"default": "LL", "NCCL_PROTO=Simple": "SIMPLE"}
    assert len(explained) == 2  # each once, though measured in two rounds
    assert "ran with NCCL_PROTO=Simple: " in run.out
    assert any(one.together.enqueue_s for one in results if one.together is not None)


@pytest.mark.parametrize("misread", ["factors", "transposed"])
def test_an_interface_that_is_misread_shows(cclmark, fake_cuda, misread):
    env = fake_cuda.env(products=True, CCLMARK_FAKE_CUBLASLT_MISREAD=misread)
    for one in results_of(cclmark(*ON_ONE_FAKE, env=env, code=1)):
        assert one.status == "wrong"
        (finding,) = one.compute_findings
        assert finding.wrong > 62 * 62 / 2


@pytest.mark.parametrize(
    ("plan", "variable", "value", "of_collective", "of_compute"),
    [
        (ON_ONE_FAKE, "CCLMARK_FAKE_NCCL_CORRUPT", "0:AllReduce:7", [(0, 1, 7)], []),
        (ON_FAKES, "CCLMARK_FAKE_CUBLASLT_WRONG", "1", [], [(1, 1, 0)]),
    ],
)
def test_one_wrong_element_is_attributed_to_the_product_or_the_collective(
    cclmark, fake_cuda, plan, variable, value, of_collective, of_compute
):
    run = cclmark(*plan, env=fake_cuda.env(products=True, **{variable: value}), code=1)
    for one in results_of(run):
        for found, expected in (
            (one.verification.findings, of_collective),
            (one.compute_findings, of_compute),
        ):
            assert [(it.rank, it.wrong, it.first_element) for it in found] == expected
        assert all(float(it.actual) == -float(it.expected) for it in one.compute_findings)
