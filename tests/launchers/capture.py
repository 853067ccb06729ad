"""What launchers tell the processes that they start: `environments.json`, out of the real ones.

    python tests/launchers/capture.py > tests/launchers/environments.json

takes all of it anew. Paths are left out; numbers of processes and ports are those of that time.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from hosts import OWN_DIRECTORY, Hosts, two_hosts
from slurm import Slurm, slurm

HERE = Path(__file__).parent
MPIS = HERE.parents[1] / "build" / "mpi"
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


def launchers(hosts: Hosts) -> Iterator[tuple[str, int, list[str]]]:
    """The name of each, the number of processes that it starts, and what stands before them."""
    known = {
        "torchrun": f"{sys.executable} -m torch.distributed.run",
        "first": hosts.first.address,
        "agent": hosts.agent,
        **{name: MPIS / name / "bin" / "mpirun" for name in ("openmpi", "mpich")},
    }
    for line in (HERE / "launchers.txt").read_text().splitlines()[1:]:
        name, tasks, *command = line.format(**known).split()
        yield name, int(tasks), command


def taken(command: list[str], tasks: int, cluster: Slurm, directory: Path) -> list[dict]:
    """The environments of the processes that a launcher starts, in no certain order."""
    into = Path(tempfile.mkdtemp(dir=directory))
    extra = _AS_ROOT if any("openmpi" in word for word in command) else {}
    path = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    program = [sys.executable, str(HERE / "programs" / "environment.py"), str(into)]
    if command[:1] == ["sbatch"]:
        script = into / "script.sh"
        script.write_text(f"#!/bin/sh\n{' '.join(program)}\n")
        program = [str(script)]
    done = subprocess.run(
        [*cluster.hosts.first.at(into), *command, *program],
        cwd=into,
        env={**path, "HOME": "/root", "LANG": "C.UTF-8", **cluster.environment, **extra},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    found = [json.loads(file.read_text()) for file in sorted(into.glob("*.json"))]
    assert len(found) == tasks, f"{command}: {len(found)} processes\n{done.stderr}"
    return [
        {
            "hostname": task.pop("hostname"),
            "environment": {
                name: _PATH.sub("/path", text)
                for name, text in sorted(task.items())
                if not name.startswith(_ORDINARY) and name not in extra
            },
        }
        for task in found
    ]


def main() -> None:
    """Prints the file, one line a process."""
    parts = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (directory / "hosts").mkdir()
        (directory / "slurm").mkdir()
        hosts = stack.enter_context(two_hosts(directory / "hosts"))
        cluster = stack.enter_context(slurm(directory / "slurm", hosts))
        for name, tasks, command in launchers(hosts):
            found = taken(command, tasks, cluster, directory)
            lines = ",\n".join(f"   {json.dumps(task)}" for task in found)
            words = json.dumps(_PATH.sub("/path", " ".join(command)))
            parts.append(f' "{name}": {{\n  "command": {words},\n  "tasks": [\n{lines}\n  ]\n }}')
    print("{\n" + ",\n".join(parts) + "\n}")


if __name__ == "__main__":
    main()
