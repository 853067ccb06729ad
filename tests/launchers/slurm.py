"""A Slurm of its own: authentication, controller and the daemons of two nodes, without a trace.

Its nodes are hosts of their own, or two daemons of this machine.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hosts import Host, program_of, wait_until

from commands import completed
from ports import free_ports

CPUS_PER_NODE = 4
_CONFIGURATION = Path(__file__).with_name("slurm.conf")
_ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "unknown")


@dataclass(frozen=True)
class Node:
    """Where the daemon of a node runs: ``entrance`` stands before commands that run there."""

    name: str
    hostname: str
    address: str
    port: int
    entrance: Sequence[str] = ()


@dataclass(frozen=True)
class Slurm:
    """A running Slurm."""

    nodes: Sequence[Node]
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """What makes srun, sbatch and the others find it."""
        return {"SLURM_CONF": str(self.directory / "slurm.conf")}

    def command(self, program: str, *arguments: str) -> list[str]:
        """The command line of one of its programs, as it is given on the first node."""
        return [*self.nodes[0].entrance, program, *arguments]

    def run(
        self,
        program: str,
        *arguments: str,
        timeout_s: float = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs srun, sbatch or another to its end, with ``env`` besides; its output is text."""
        return completed(
            self.command(program, *arguments),
            stdin=subprocess.DEVNULL,
            timeout_s=timeout_s,
            cwd=self.directory,
            env={**outside(), **self.environment, **(env or {})},
        )

    def state_at_end(self, job: str, timeout_s: float) -> str:
        """The state of a job of sbatch when it has ended. ``sbatch --wait`` looks for it after 2,
        10 and 42 seconds only. TimeoutError if it does not end.
        """
        states: list[str] = []

        def has_ended() -> bool:
            shown = self.run("scontrol", "-o", "show", "job", job).stdout
            found = re.search(r"JobState=(\w+)", shown)
            states.append(found[1] if found else "unknown")
            return states[-1] not in _ALIVE

        wait_until(has_ended, f"job {job} has ended", timeout_s)
        return states[-1]


def outside() -> dict[str, str]:
    """This environment without what a Slurm around this very process says."""
    return {name: text for name, text in os.environ.items() if not name.startswith("SLURM")}


def missing() -> str:
    """Why there can be no Slurm on this machine; empty where there can."""
    for program in ("munged", "slurmctld", "slurmd", "srun"):
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian: slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "slurmd must be started by root"


def nodes_here() -> list[Node]:
    """Two nodes that are daemons of this machine."""
    name = socket.gethostname()
    return [Node(f"node{i}", name, "127.0.0.1", port) for i, port in enumerate(free_ports(2), 1)]


def nodes_of(hosts: Iterable[Host]) -> list[Node]:
    return [Node(host.name, host.name, host.address, 6818, host.entrance) for host in hosts]


@contextmanager
def slurm(directory: Path, nodes: Sequence[Node]) -> Iterator[Slurm]:
    """Starts it; ends it, and all its jobs, at the end of the block."""
    first = nodes[0]
    (port,) = free_ports(1)
    text = _CONFIGURATION.read_text().format(
        controller=first.hostname, address=first.address, port=port, directory=directory
    )
    for node in nodes:
        text += (
            f"NodeName={node.name} NodeHostname={node.hostname} NodeAddr={node.address} "
            f"Port={node.port} CPUs={CPUS_PER_NODE} Gres=gpu:8\n"
        )
        (directory / f"spool-{node.name}").mkdir()
    (directory / "state").mkdir()
    configuration = directory / "slurm.conf"
    configuration.write_text(text)
    for number in range(8):  # stand for the files of devices that scripts ask for
        (directory / f"gpu{number}").touch()
    (directory / "gres.conf").write_text(f"Name=gpu File={directory}/gpu[0-7]\n")
    (directory / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    # Hosts share /tmp, where each node would make the same directory for a step.
    (directory / "mpi.conf").write_text("PMIxCliTmpDirBase=/run\n")
    key = directory / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    cluster = Slurm(nodes, directory)
    with ExitStack() as daemons:

        def begin(entrance: Sequence[str], *command: str) -> None:
            daemons.enter_context(_daemon(directory, entrance, *command))

        files = [f"--{file}-file={directory}/munged.{file}" for file in ("pid", "log", "seed")]
        files += [f"--key-file={key}", f"--socket={directory}/munge.socket"]
        begin((), "munged", "--foreground", "--force", "--num-threads=2", *files)
        wait_until((directory / "munge.socket").exists, "munged is up")
        begin(first.entrance, "slurmctld", "-D", "-f", str(configuration))
        for node in nodes:
            begin(node.entrance, "slurmd", "-D", "-N", node.name, "-f", str(configuration))

        def idle() -> bool:
            told = cluster.run("sinfo", "--noheader", "--Node", "--format=%T")
            return told.stdout.split() == ["idle"] * len(nodes)

        try:
            wait_until(idle, f"{len(nodes)} nodes are idle")
        except TimeoutError as error:
            log = (directory / "daemons.log").read_text(errors="replace")
            raise RuntimeError(f"Slurm: {error}:\n{log[-3000:]}") from None
        try:
            yield cluster
        finally:
            with suppress(subprocess.TimeoutExpired):
                cluster.run("scancel", "--user=root", "--signal=KILL", timeout_s=10)
                cluster.run("scancel", "--user=root", timeout_s=10)


@contextmanager
def _daemon(directory: Path, entrance: Sequence[str], *command: str) -> Iterator[None]:
    with (directory / "daemons.log").open("ab") as log:
        process = subprocess.Popen(
            [*entrance, "setpriv", "--pdeathsig", "KILL", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            env=outside(),
            start_new_session=True,
        )
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.kill(program_of(process) if entrance else process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5)
