"""A Slurm whose nodes are the two hosts: authentication, controller and daemons."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hosts import PATIENCE, Hosts, program_of, wait_until

CPUS_PER_NODE = 4
_CONFIGURATION = Path(__file__).with_name("slurm.conf")
_ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "unknown")


@dataclass(frozen=True)
class Slurm:
    """A running Slurm."""

    hosts: Hosts
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """What makes srun, sbatch and the others find it."""
        return {"SLURM_CONF": str(self.directory / "slurm.conf")}

    def run(
        self,
        program: str,
        *arguments: str,
        timeout_s: float = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs srun, sbatch or another to its end, with ``env`` besides; its output is text."""
        return subprocess.run(
            [*self.hosts.first.entrance, program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s * PATIENCE,
            check=False,
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


@contextmanager
def slurm(directory: Path, hosts: Hosts) -> Iterator[Slurm]:
    """Starts it; ends it, and all its jobs, at the end of the block."""
    text = _CONFIGURATION.read_text().format(directory=directory)
    for host in hosts:
        text += f"NodeName={host.name} NodeAddr={host.address} CPUs={CPUS_PER_NODE} Gres=gpu:8\n"
        (directory / f"spool-{host.name}").mkdir()
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
    cluster = Slurm(hosts, directory)
    with ExitStack() as daemons:

        def begin(entrance: Sequence[str], *command: str) -> None:
            daemons.enter_context(_daemon(directory, entrance, *command))

        files = [f"--{file}-file={directory}/munged.{file}" for file in ("pid", "log", "seed")]
        files += [f"--key-file={key}", f"--socket={directory}/munge.socket"]
        begin((), "munged", "--foreground", "--force", "--num-threads=2", *files)
        wait_until((directory / "munge.socket").exists, "munged is up")
        begin(hosts.first.entrance, "slurmctld", "-D", "-f", str(configuration))
        for host in hosts:
            begin(host.entrance, "slurmd", "-D", "-N", host.name, "-f", str(configuration))

        def idle() -> bool:
            told = cluster.run("sinfo", "--noheader", "--Node", "--format=%T")
            return told.stdout.split() == ["idle"] * 2

        try:
            wait_until(idle, "both nodes are idle")
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
