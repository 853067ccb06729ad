"""``cclmark overlap``: collectives beside compute, on the host and on fakes."""

import re

import pytest

from cclmark.kinds.overlap.figures import figures_of, summaries_of
from cclmark.kinds.overlap.result import OverlapResult
from examples import exhaustive

# Shorter operations of ranks that share processors are repeated with longer and longer phases.
ON_HOST = ("overlap", "--devices", "host:2", "-b", "1M", "-e", "1M", "--rounds", "2")
# A thread of the collective and one of the compute: with two ranks on two processors, nothing may
# run entirely beside the other work.
ON_ONE = ("overlap", "--devices", "host:1", "-b", "64K", "-e", "256K", "--matrix", "64")
OF_ONE_SIZE = ("overlap", "--devices", "host:1", "-b", "64K", "-e", "64K", "--rounds", "2")
ONE_SIZE = ("-b", "64K", "-e", "64K", "--rounds", "2")
ON_FAKES = ("overlap", "-g", "2", *ONE_SIZE, "--matrix", "62")
# For what each rank does by itself: a phase keeps every rank at work for the same time.
ON_ONE_FAKE = ("overlap", "-g", "1", *ONE_SIZE, "--matrix", "62")


def test_both_are_measured_alone_and_at_once_in_every_round(cclmark):
    # 3: nothing ran entirely beside the other work
    run = cclmark(*ON_HOST, "--matrix", "48", code=(0, 3))
    journal = run.journal
    assert journal.kind == "overlap"
    places = [(one.overlap.round, one.overlap.case.size_bytes) for one in journal.of(OverlapResult)]
    assert places == [(0, 1 << 20), (1, 1 << 20)]
    for one in journal.of(OverlapResult):
        assert one.is_checked
        assert one.compute_findings == []
        assert one.overlap.compute.extent == 48
        assert one.communication_alone is not None
        assert one.compute_alone is not None
        assert one.together is not None
        assert [len(marks) for marks in one.communication_alone.compute_s] == [0, 0]
        assert [len(marks) for marks in one.compute_alone.communication_s] == [0, 0]
        for marks in (*one.together.communication_s, *one.together.compute_s):
            assert len(marks) > 8
            assert marks == sorted(marks)
        # The figures are those of the recorded times.
        found = figures_of(one.communication_alone, one.compute_alone, one.together)
        assert one.figures == found
        assert (one.status == "ok") == (found is not None)
    assert "beside matmul 48 x 48 x 48 float32" in run.out
    if any(one.status == "ok" for one in journal.of(OverlapResult)):
        assert "blocked loop of the engine" in run.out
    assert "slow-down (95 %)" in run.out


def test_figures_of_every_round_are_plausible(cclmark):
    """By default sizes grow by a factor of four."""
    # 3: nothing ran entirely beside the other work, on a busy machine.
    run = cclmark(*ON_ONE, "--rounds", "3", code=(0, 3))
    results = run.journal.of(OverlapResult)
    places = [(one.overlap.round, one.overlap.case.size_bytes) for one in results]
    assert places == [(number, size) for number in range(3) for size in (65536, 262144)]
    assert {one.status for one in results} <= {"ok", "skipped"}
    measured = [one for one in results if one.status == "ok"]
    assert (run.code == 0) == bool(measured)
    for one in measured:
        figures = one.figures
        assert 1 <= one.attempts <= 4
        assert 0 < figures.communication_evaluated <= 1
        assert 0 < figures.compute_evaluated <= 1
        assert not figures.launch_bound  # nothing is launched
        # No processor executes 2 × 64³ operations within 100 ns, or copies faster than 1 TB/s.
        assert min(figures.compute_alone_s, figures.compute_s) > 1e-7
        assert min(figures.communication_alone_s, figures.communication_s) > 1e-8
    assert [one.case.size_bytes for one in summaries_of(results)] == [65536, 262144]


def test_a_triad_beside_several_operations_is_measured_in_bytes(cclmark):
    # 3: nothing ran entirely beside the other work, on a busy machine.
    plan = ("overlap", "all_gather,broadcast", *OF_ONE_SIZE[1:])
    run = cclmark(*plan, "--compute", "memory", "--array", "64K", code=(0, 3))
    operations = {one.overlap.case.operation for one in run.journal.of(OverlapResult)}
    assert operations == {"all_gather", "broadcast"}
    assert "beside triad on arrays of 64 KiB" in run.out
    assert "compute GB/s" in run.out
    assert all(one.overlap.compute.work == 3 * 65536 for one in run.journal.of(OverlapResult))
    assert all(one.is_checked for one in run.journal.of(OverlapResult) if one.status != "skipped")
    assert all(one.compute_findings == [] for one in run.journal.of(OverlapResult))


def test_a_journal_of_it_is_resumed(cclmark, cut):
    plan = (*OF_ONE_SIZE, "--matrix", "64")
    resumed = cclmark(*plan, "--resume", cut(cclmark(*plan), 2))  # the header and a result
    assert len(resumed.journal.of(OverlapResult)) == 2
    assert resumed.journal.header.continues is not None


BAD_INPUT = {
    "all_reduced": "unknown operation 'all_reduced'",
    "--compute sorting": "'sorting' is not one of 'matmul', 'memory'",
    "--matrix 8": "is not a whole number from 16 to 65536",
    "--matrix 64 --compute memory": "--matrix requires --compute matmul",
    "--array 1M": "--array requires --compute memory",
    "--array lots --compute memory": "--array",
    "--array 8 --compute memory": "is not a size of at least 4K",
    "--rounds 1": "is not a whole number from 2 to 1000",
    "--vary placement=sideways": "unknown value 'sideways'",
    "--ccl shm,mpi": "--ccl: overlap measures one library",
    "--timing graph": "No such option",
    "-e 512K": "1 MiB must not be above -e (--end) of 512 KiB",
}


@pytest.mark.parametrize("arguments", BAD_INPUT)
def test_flags_that_cannot_be_measured(refused, arguments):
    words = ("overlap", "--devices", "host:2", *arguments.split())
    refused(*words, because=BAD_INPUT[arguments])


@pytest.mark.parametrize(
    ("flags", "options", "words"),
    [
        (
            *(("--matrix", "32768"), {"products": True}),
            r"matmul 32768 x 32768 x 32768 bfloat16 requires 6 GiB of memory per rank"
            r"(.|\n)*use a smaller --matrix",
        ),
        (
            *((), {"products": True, "CCLMARK_FAKE_CUBLASLT_UNSUPPORTED": "1"}),
            "on rank 1: cublasLtMatmul failed: the functionality requested is not supported",
        ),
        (
            *((), {"products": True, "CCLMARK_FAKE_ARCHITECTURE": "70"}),
            r"cublasLtMatmulAlgoGetHeuristic(.|\n)*not supported",
        ),
        (
            *((), {}),
            r"pip install nvidia-cublas(.|\n)*"
            "CCLMARK_CUBLASLT_LIBRARY is set to this path: correct or unset it",
        ),
    ],
)
def test_products_that_are_not_possible_end_all_ranks_at_once(
    cclmark, fake_cuda, flags, options, words
):
    # Longer than this test waits: no rank waits for the deadline of the phase.
    run = cclmark(*ON_FAKES, "--timeout", "1000", *flags, env=fake_cuda.env(**options), code=3)
    assert re.search(words, run.err)
    assert "cclmark: journal" not in run.err or run.journal.of(OverlapResult) == []


def test_a_product_on_devices_is_that_of_cublaslt(cclmark, fake_cuda):
    run = cclmark(
        *(*ON_ONE_FAKE, "--vary", "NCCL_PROTO=Simple", "--explain"),
        env=fake_cuda.env(products=True),
    )
    results = run.journal.of(OverlapResult)
    assert {one.status for one in results} <= {"ok", "skipped"}
    assert all(one.is_checked and not one.compute_findings for one in results)
    assert {one.implementation for one in results} == {"cuBLASLt 12.8.4"}
    assert str(fake_cuda.cublaslt.resolve()) in run.out
    # Settings of communicators: the ranks are started once in each round.
    assert not any(one.overlap.variant.process for one in results)
    protocols = {
        one.overlap.variant.describe(): one.explanation.protocol
        for one in results
        if one.explanation is not None
    }
    explained = [one.overlap.variant.describe() for one in results if one.explanation is not None]
    assert len(explained) == len(set(explained)) == 2  # each once, though measured in two rounds
    assert protocols["NCCL_PROTO=Simple"] == "SIMPLE"
    assert protocols["default"] == "LL"
    assert "ran with NCCL_PROTO=Simple: " in run.out
    assert any(one.together.enqueue_s for one in results if one.together is not None)


@pytest.mark.parametrize("kind", [exhaustive("local"), "symmetric"])
def test_registered_buffers_beside_a_product(cclmark, fake_cuda, kind):
    vary = ("--vary", f"registration={kind}")
    run = cclmark(*ON_ONE_FAKE, *vary, env=fake_cuda.env(products=True))
    results = run.journal.of(OverlapResult)
    assert {one.status for one in results} <= {"ok", "skipped"}
    variants = {one.overlap.variant.describe() for one in results}
    assert variants == {"default", f"registration={kind}"}
    assert all(one.is_checked and not one.compute_findings for one in results)


@pytest.mark.parametrize("misread", ["factors", "transposed"])
def test_an_interface_that_is_misread_shows(cclmark, fake_cuda, misread):
    env = fake_cuda.env(products=True, CCLMARK_FAKE_CUBLASLT_MISREAD=misread)
    run = cclmark(*ON_ONE_FAKE, env=env, code=1)
    assert all(one.status == "wrong" for one in run.journal.of(OverlapResult))
    for one in run.journal.of(OverlapResult):
        (finding,) = one.compute_findings
        assert finding.wrong > 62 * 62 / 2


@pytest.mark.parametrize(
    ("variable", "value", "of_collective", "of_compute"),
    [
        ("CCLMARK_FAKE_CUBLASLT_WRONG", "0", [], [(0, 1, 0)]),
        ("CCLMARK_FAKE_NCCL_CORRUPT", "0:AllReduce:7", [(0, 1, 7)], []),
    ],
)
def test_one_wrong_element_is_attributed_to_the_product_or_the_collective(
    cclmark, fake_cuda, variable, value, of_collective, of_compute
):
    run = cclmark(*ON_ONE_FAKE, env=fake_cuda.env(products=True, **{variable: value}), code=1)
    for one in run.journal.of(OverlapResult):
        for found, expected in (
            (one.verification.findings, of_collective),
            (one.compute_findings, of_compute),
        ):
            assert [(it.rank, it.wrong, it.first_element) for it in found] == expected
        assert all(float(it.actual) == -float(it.expected) for it in one.compute_findings)


def test_a_wrong_product_is_found_with_its_rank(cclmark, fake_cuda):
    env = fake_cuda.env(products=True, CCLMARK_FAKE_CUBLASLT_WRONG="1")
    run = cclmark(*ON_FAKES, env=env, code=1)
    found = [it.rank for one in run.journal.of(OverlapResult) for it in one.compute_findings]
    assert {*found} == {1}


def test_a_newer_cublaslt_than_the_driver_is_listed_with_the_reason(cclmark, fake_cuda, tmp_path):
    newer = tmp_path / "libcublasLt.so.99"
    newer.symlink_to(fake_cuda.cublaslt)
    env = fake_cuda.env(CCLMARK_CUBLASLT_LIBRARY="", CCLMARK_CUBLASLT_WHEELS=str(newer))
    run = cclmark(*ON_ONE_FAKE, env=env, code=3)
    assert f"{newer}: not tried: it is for CUDA 99, and the driver supports CUDA 13.0" in run.err
    assert "cannot be loaded" in run.err
    usable = tmp_path / "libcublasLt.so.12.8.99"  # the number after .so counts
    usable.symlink_to(fake_cuda.cublaslt)
    found = {"CCLMARK_CUBLASLT_LIBRARY": "", "CCLMARK_CUBLASLT_WHEELS": f"{newer}:{usable}"}
    run = cclmark(*ON_ONE_FAKE, env=fake_cuda.env(**found))
    assert {one.implementation for one in run.journal.of(OverlapResult)} == {"cuBLASLt 12.8.4"}


def test_a_variant_that_dies_is_recorded_and_the_others_go_on(cclmark, fake_cuda):
    run = cclmark(
        *(*ON_ONE_FAKE, "--allow-unknown-settings", "--vary", "CCLMARK_FAKE_NCCL_FAIL=0:AllReduce"),
        env=fake_cuda.env(products=True),
    )
    statuses = {
        name: [
            one.status
            for one in run.journal.of(OverlapResult)
            if one.overlap.variant.describe() == name
        ]
        for name in ("default", "CCLMARK_FAKE_NCCL_FAIL=0:AllReduce")
    }
    assert set(statuses["default"]) <= {"ok", "skipped"}
    assert statuses["CCLMARK_FAKE_NCCL_FAIL=0:AllReduce"] == ["died", "skipped"]
    assert "is not measured any more" in run.err
