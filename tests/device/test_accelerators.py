"""The main job on real accelerators: ``pytest -m device tests/device``."""

import os
import signal

import pytest

pytestmark = pytest.mark.device


ENDLESS = ("all_reduce", "-b", "1M", "-e", "1M", "-N", "0")


def require_all_operations(journal):
    """Requires that all operations are right."""
    assert {result.status for result in journal.results} == {"ok"}
    assert len({result.case.operation for result in journal.results}) == 11


def test_every_operation_is_right_in_both_placements(measured):
    _, journal = measured("collectives", "-b", "1K", "-e", "16M", "-f", "128")
    require_all_operations(journal)
    assert {result.verification.where for result in journal.results} == {"device"}


@pytest.mark.usefixtures("two_devices")
def test_every_type_and_reduction_is_right(measured):
    flags = ["-b", "64K", "-e", "64K", "-d", "all", "-o", "all"]
    _, journal = measured("collectives", *flags, "--only", "reduce_scatter,all_reduce")
    # 14 types, 5 reductions, two operations in both placements.
    assert len(journal.results) == 14 * 5 * 4
    skipped = [result for result in journal.results if result.status == "skipped"]
    assert {result.case.dtype for result in skipped} == {"int16", "uint16"}
    assert len(skipped) == 2 * 5 * 4
    assert {result.status for result in journal.results} == {"ok", "skipped"}


ROOTED = "broadcast,reduce,gather,scatter,alltoallv"
SMALL = ["all_reduce", "-b", "8", "-e", "8M", "-f", "64"]
MIXED = ["--ccl", "bridge", "--devices", "cuda:0+host:2", "-b", "1K", "-e", "4M", "-f", "64"]


@pytest.mark.parametrize(
    "command",
    [
        ["collectives", "-b", "1M", "-e", "1M", "-r", "all", "--pattern", "skew:5", "-d",
         "bfloat16", "--only", ROOTED],
        ["collectives", *MIXED],
        *([*SMALL, "--timing", timing] for timing in ("graph", "per-op")),
        *([*SMALL, *flags] for flags in (["-z", "1"], ["-m", "4"], ["-R", "2"])),
        [*SMALL, "-n", "20", "-w", "5"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_roots_uneven_parts_processors_and_every_way_of_timing_are_right(measured, command):
    _, journal = measured(*command)
    assert {result.status for result in journal.results} == {"ok"}


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("operation", ["all_reduce", "alltoall"])
def test_one_corrupted_element_is_caught(measured, operation):
    flags = ["-b", "64M", "-e", "64M", "--inject", "corrupt:rank=1,index=1000003"]
    _, journal = measured(operation, *flags, code=1)
    for result in journal.results:
        (finding,) = result.verification.findings
        assert (finding.rank, finding.wrong, finding.first_element) == (1, 1, 1000003)
        assert finding.expected != finding.actual


def test_without_a_compiler_the_host_checks(measured, tmp_path):
    environment = {"CCLMARK_NVRTC_LIBRARY": "/nonexistent", "CCLMARK_CACHE_DIR": str(tmp_path)}
    flags = ["all_reduce", "-b", "1M", "-e", "1M"]
    _, journal = measured(*flags, environment=environment)
    assert {result.verification.where for result in journal.results} == {"host"}
    fault = ["--inject", "corrupt:rank=0,index=77"]
    measured(*flags, *fault, environment=environment, code=1)


def test_what_does_not_fit_is_skipped_and_the_rest_runs(measured):
    _, journal = measured("all_reduce", "-b", "1G", "-e", "1T", "-f", "1024", "-n", "1")
    assert [result.status for result in journal.results] == ["ok", "ok", "skipped", "skipped"]


def test_torch_beside_the_library_itself_is_right_and_compared(measured):
    pytest.importorskip("torch")
    flags = ["-b", "1K", "-e", "16M", "-f", "128", "--ccl", "nccl,torch:nccl"]
    done, journal = measured("collectives", *flags)
    assert "/ nccl" in done.stdout
    torch = [result for result in journal.results if result.case.ccl == "torch:nccl"]
    assert {result.status for result in torch} <= {"ok", "skipped"}
    right = {result.case.operation for result in torch if result.status == "ok"}
    assert len(right) == 11
    assert all(result.reason for result in torch if result.status == "skipped")


@pytest.mark.started
@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGSTOP, "is stopped")]
)
def test_a_rank_that_dies_or_hangs_ends_the_run_and_is_named(background, number, word):
    run = background(*ENDLESS, "--timeout", "5")
    pids = run.wait_for_ranks(5)
    run.signal(pids[1], number)
    ended = run.finish(60, code=4)
    assert f"rank 1 (cuda:1, pid {pids[1]})" in ended.err
    assert word in ended.err
    assert "all_reduce 1 MiB" in ended.err
    assert run.workers() == []
    assert ended.journal.footer.exit_code == 4
    assert len(ended.journal.results) > 3


@pytest.mark.started
def test_ctrl_c_ends_everything(background):
    run = background(*ENDLESS)
    run.wait_for_ranks(5)
    run.signal(run.process.pid, signal.SIGINT)
    ended = run.finish(code=130)
    assert run.workers() == []
    assert ended.journal.footer.exit_code == 130


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("way", [[], ["--through-host"]], ids=["direct", "through-host"])
def test_islands_give_what_one_library_would(measured, way):
    flags = ["--ccl", "bridge", "-b", "1K", "-e", "64M", "-f", "256", "--islands", "0,1", "-g", "2"]
    _, journal = measured("collectives", *flags, *way)
    assert {result.status for result in journal.results} == {"ok"}
    expected = "through pinned host memory" if way else "direct peer copies"
    assert all(result.route.endswith(expected) for result in journal.results)


def test_flagcx_is_right(measured):
    if "CCLMARK_FLAGCX_LIBRARY" not in os.environ:
        pytest.skip("CCLMARK_FLAGCX_LIBRARY names no FlagCX")
    flags = ["--ccl", "flagcx", "-b", "1K", "-e", "16M", "-f", "128"]
    require_all_operations(measured("collectives", *flags)[1])


@pytest.mark.usefixtures("two_devices")
def test_every_operation_of_every_pair_is_right_in_both_placements(measured):
    flags = ["-b", "100", "-e", "20M", "-f", "50", "--placement", "both", "--max-time", "0.02"]
    _, journal = measured("pairs", *flags, "-d", "float32,bfloat16", "-o", "sum,max")
    devices = len(journal.header.devices)
    assert {result.status for result in journal.results} == {"ok"}
    assert {result.verification.where for result in journal.results} == {"device"}
    assert len({result.case.pair for result in journal.results}) == devices * (devices - 1) / 2
    assert len(journal.results) == journal.header.planned_cases


@pytest.mark.usefixtures("two_devices")
def test_large_messages_of_disjoint_pairs_do_not_disturb_each_other(measured):
    flags = ["-b", "8M", "-e", "256M", "-f", "2", "--only", "all_reduce,broadcast,sendrecv"]
    _, journal = measured("pairs", *flags, "--max-time", "0.3")
    if len(journal.header.devices) < 4:
        pytest.skip("disjoint pairs take four devices")
    ratios = [result.at_once_ratio for result in journal.results if result.beside]
    assert ratios, "nothing was measured at once"
    assert max(ratios) <= 1.02


@pytest.mark.usefixtures("two_devices")
def test_corruption_is_found_at_its_pair(measured):
    flags = ["-b", "1M", "-e", "1M", "--inject", "corrupt:pair=0-1,index=9", "--max-time", "0.02"]
    _, journal = measured("pairs", *flags, code=1)
    wrong = [result for result in journal.results if result.status == "wrong"]
    assert {result.case.pair for result in wrong} == {(0, 1)}
    assert all(finding.first_element == 9 for one in wrong for finding in one.verification.findings)
