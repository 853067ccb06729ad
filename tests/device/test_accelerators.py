"""The main job on real accelerators: ``pytest -m device tests/device``."""

import os
import signal
import subprocess
import sys
import time

import pytest

from cclmark.kinds.registry import read_journal

pytestmark = pytest.mark.device


def require_types(journal, forms, lacking=()):
    """Requires that 5 reductions of 14 types were right in ``forms``: operations times placements.

    ``lacking``: the types that the library does not have, which are skipped.
    """
    assert len(journal.results) == 14 * 5 * forms
    skipped = [result for result in journal.results if result.status == "skipped"]
    assert {result.case.dtype for result in skipped} == {*lacking}
    assert len(skipped) == len(lacking) * 5 * forms
    assert {result.status for result in journal.results} <= {"ok", "skipped"}


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
    require_types(journal, 2 * 2, lacking=("int16", "uint16"))


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
        *([*SMALL, *flags] for flags in (["-z", "1"], ["-m", "4"], ["-R", "1"], ["-R", "2"])),
        [*SMALL, "-n", "20", "-w", "5"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_roots_uneven_parts_processors_and_every_way_of_timing_are_right(measured, command):
    _, journal = measured(*command)
    assert {result.status for result in journal.results} == {"ok"}


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "alltoall"])
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


@pytest.mark.usefixtures("two_devices")
def test_a_corrupted_element_is_caught_through_torch(measured):
    pytest.importorskip("torch")
    flags = ["-b", "4M", "-e", "4M", "--ccl", "torch:nccl", "--inject", "corrupt:rank=1,index=77"]
    _, journal = measured("all_reduce", *flags, code=1)
    (finding,) = journal.results[-1].verification.findings
    assert (finding.rank, finding.wrong, finding.first_element) == (1, 1, 77)


def start_endless(tmp_path, *flags):
    journal = tmp_path / "endless.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "cclmark", "all_reduce", "-b", "1M", "-e", "1M", "-N", "0", *flags,
         "--journal", str(journal)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        if journal.exists() and len(journal.read_bytes().splitlines()) > 5:
            return process, journal, [d.pid for d in read_journal(journal).header.devices]
        time.sleep(0.1)
    process.kill()
    raise AssertionError(process.communicate())


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGSTOP, "is stopped")]
)
def test_a_rank_that_dies_or_hangs_ends_the_run_and_is_named(tmp_path, number, word):
    process, journal, pids = start_endless(tmp_path, "--timeout", "5")
    os.kill(pids[1], number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 4
    assert f"rank 1 (cuda:1, pid {pids[1]})" in errors
    assert word in errors
    assert "all_reduce 1 MiB" in errors
    assert all(gone(pid) for pid in pids)
    assert read_journal(journal).footer.exit_code == 4
    assert len(read_journal(journal).results) > 3


def test_ctrl_c_ends_everything(tmp_path):
    process, journal, pids = start_endless(tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert all(gone(pid) for pid in pids)
    assert read_journal(journal).footer.exit_code == 130


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("way", [[], ["--through-host"]], ids=["direct", "through-host"])
def test_islands_give_what_one_library_would(measured, way):
    flags = ["--ccl", "bridge", "-b", "1K", "-e", "64M", "-f", "256", "--islands", "0,1", "-g", "2"]
    _, journal = measured("collectives", *flags, *way)
    assert {result.status for result in journal.results} == {"ok"}
    expected = "through pinned host memory" if way else "direct peer copies"
    assert all(result.route.endswith(expected) for result in journal.results)


@pytest.mark.usefixtures("two_devices")
def test_islands_reduce_every_type(measured):
    flags = ["--ccl", "bridge", "-b", "2M", "-e", "2M", "--islands", "0,1", "-g", "2"]
    _, journal = measured("all_reduce", *flags, "-d", "all", "-o", "all")
    # The bridge reduces between islands of one device, and has the types that NCCL lacks.
    require_types(journal, 2)


def test_flagcx_is_right(measured):
    if "CCLMARK_FLAGCX_LIBRARY" not in os.environ:
        pytest.skip("CCLMARK_FLAGCX_LIBRARY names no FlagCX")
    flags = ["--ccl", "flagcx", "-b", "1K", "-e", "16M", "-f", "128"]
    require_all_operations(measured("collectives", *flags)[1])
