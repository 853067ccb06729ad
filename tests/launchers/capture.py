"""What launchers tell the processes that they start: `environments.json`, out of the real ones.

    python tests/launchers/capture.py > tests/launchers/environments.json

takes all of it anew. Paths are left out; numbers of processes and ports are those of that time.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hosts import OWN_DIRECTORY, Hosts, two_hosts
from slurm import Slurm, nodes_of, slurm

HERE = Path(__file__).parent
MPIS = HERE.parents[1] / "build" / "mpi"
CAPTURED = HERE / "environments.json"
# What a login or a shell sets.
_ORDINARY = (
    *("PATH", "HOME", "HOSTNAME", "LANG", "LC_", "PWD", "OLDPWD", "SHLVL", "_", "USER", "LOGNAME"),
    *("MAIL", "SHELL", "PYENV_", "SSH_", "XDG_", "TMPDIR", "SLURM_CONF"),
)
_PATH = re.compile(r"(?<![\w./])/[\w.+@%-]+(?:/[\w.+@%-]*)*")
_AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_prte_tmpdir_base": OWN_DIRECTORY,
    "OMPI_MCA_orte_tmpdir_base": OWN_DIRECTORY,
}


@dataclass(frozen=True)
class Launcher:
    """A command that starts a number of processes, or the launcher's own number without one."""

    command: Sequence[str]
    tasks: int

    @property
    def extra(self) -> dict[str, str]:
        """What Open MPI requires of root."""
        return _AS_ROOT if any("openmpi" in word for word in self.command) else {}


def launchers(hosts: Hosts) -> dict[str, Launcher]:
    """All that are captured; each stands before a program's command line."""
    known = {
        "torchrun": f"{sys.executable} -m torch.distributed.run",
        "first": hosts.first.address,
        "agent": hosts.agent,
        **{name: MPIS / name / "bin" / "mpirun" for name in ("openmpi", "mpich")},
    }
    found = {}
    for line in (HERE / "launchers.txt").read_text().splitlines()[1:]:
        name, tasks, *command = line.format(**known).split()
        found[name] = Launcher(command, int(tasks))
    return found


def taken(launcher: Launcher, hosts: Hosts, cluster: Slurm, directory: Path) -> list[dict]:
    """The environments of the processes that ``launcher`` starts, in no certain order."""
    into = Path(tempfile.mkdtemp(dir=directory))
    before = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
    }
    before |= {**cluster.environment, **launcher.extra}
    program = [sys.executable, str(HERE / "programs" / "environment.py"), str(into)]
    command = [*launcher.command, *program]
    if launcher.command[:1] == ["sbatch"]:
        script = into / "script.sh"
        script.write_text(f"#!/bin/sh\n{' '.join(program)}\n")
        command = [*launcher.command, str(script)]
    done = subprocess.run(
        [*hosts.first.at(into), *command],
        cwd=into,
        env=before,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    found = [json.loads(file.read_text()) for file in sorted(into.glob("*.json"))]
    assert len(found) == launcher.tasks, f"{command}: {len(found)} processes\n{done.stderr}"
    return [
        {
            "hostname": task.pop("hostname"),
            "environment": {
                name: _PATH.sub("/path", text)
                for name, text in sorted(task.items())
                if not name.startswith(_ORDINARY) and name not in launcher.extra
            },
        }
        for task in found
    ]


def capture() -> Iterator[tuple[str, str, list[dict]]]:
    """Everything, one launcher after the other: its name, its command line, its processes."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (directory / "hosts").mkdir()
        (directory / "slurm").mkdir()
        hosts = stack.enter_context(two_hosts(directory / "hosts"))
        cluster = stack.enter_context(slurm(directory / "slurm", nodes_of(hosts)))
        for name, launcher in launchers(hosts).items():
            tasks = taken(launcher, hosts, cluster, directory)
            yield name, _PATH.sub("/path", " ".join(launcher.command)), tasks


def as_text() -> str:
    """The file, one line a process."""
    parts = []
    for name, command, tasks in capture():
        lines = ",\n".join(f"   {json.dumps(task)}" for task in tasks)
        parts.append(
            f' "{name}": {{\n  "command": {json.dumps(command)},\n  "tasks": [\n{lines}\n  ]\n }}'
        )
    return "{\n" + ",\n".join(parts) + "\n}"


if __name__ == "__main__":
    print(as_text())
