"""Which launcher started this process, and which of its processes it is."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cclmark.errors import UsageError

LAUNCHER_VARIABLE = "CCLMARK_LAUNCHER"
STEP_VARIABLE = "CCLMARK_STEP"
_SPECIAL_STEPS = 0xFFFFFFF0  # from here on Slurm numbers shells and the like, no tasks
_MOST_PROCESSES = 1 << 20
_OF_PODS = "PyTorchJob or the like"
_OPEN_MPI = "Open MPI's mpirun"
_MVAPICH = "MVAPICH2's mpirun"
HYDRA = "Hydra's mpirun"
_PALS, _FLUX, _SRUN = "PALS", "Flux", "srun"
_OF_MPI = (_OPEN_MPI, _MVAPICH, HYDRA, _PALS, _FLUX, _SRUN)


@dataclass(frozen=True)
class Placement:
    """This process among those that a launcher started.

    ``process`` of ``processes``; ``local`` of ``local_size`` on this host, None where the launcher
    does not say. ``address``: the host of process 0, empty where it is not told. ``identity`` is
    the same for all processes of one start, and for no others. ``by_mpi``: they can be ranks of
    MPI. ``notices``: what was odd.
    """

    launcher: str
    process: int
    processes: int
    local: int | None
    local_size: int | None
    address: str = ""
    identity: str = ""
    by_mpi: bool = False
    notices: tuple[str, ...] = ()

    @property
    def on_one_host(self) -> bool:
        """Whether all processes are known to be on this host."""
        return self.local_size == self.processes


_Environment = Mapping[str, str]
_PARENT_PID = os.getppid()  # as early as can be: it may be gone before anything has begun


def launcher_is_gone() -> bool:
    """Whether what started this process has ended, so that nobody waits for it any more."""
    return os.getppid() != _PARENT_PID


def _torchrun(env: _Environment) -> Placement | None:
    """torchrun, Ray Train and whoever imitates them."""
    if "LOCAL_RANK" not in env:
        return None
    words = [env.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")]
    words.append(env.get("TORCHELASTIC_RESTART_COUNT", "0"))
    return _placed(
        "torchrun" if words[0] else "a launcher like torchrun",
        env,
        ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        words,
        address=env.get("MASTER_ADDR", ""),
    )


def _openmpi(env: _Environment) -> Placement | None:
    prefix = "OMPI_COMM_WORLD"
    names = [f"{prefix}_{word}" for word in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")]
    job = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", "")
    return _placed(_OPEN_MPI, env, names, [job])


def _mvapich(env: _Environment) -> Placement | None:
    prefix = "MV2_COMM_WORLD"
    names = [f"{prefix}_{word}" for word in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")]
    return _placed(_MVAPICH, env, names, [env.get("MPIRUN_ID", "")])


def _pals(env: _Environment) -> Placement | None:
    names = ("PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE")
    return _placed(_PALS, env, names, [env.get("PALS_APID", "")])


def _hydra(env: _Environment) -> Placement | None:
    if "MPI_LOCALRANKID" not in env:
        return None
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    job = env.get("PMI_JOBID") or env.get("SLURM_JOB_ID") or env.get("PBS_JOBID", "")
    return _placed(HYDRA, env, names, [job])


def _flux(env: _Environment) -> Placement | None:
    names = ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "")
    return _placed(_FLUX, env, names, [env.get("FLUX_JOB_ID", "")])


def _slurm(env: _Environment) -> Placement | None:
    """A task of srun. The shell of sbatch or salloc has a rank too, but is none."""
    step = env.get("SLURM_STEP_ID", env.get("SLURM_STEPID", ""))
    if not _is_number(step) or int(step) >= _SPECIAL_STEPS:
        return None
    size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in env else "SLURM_NTASKS"
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    local_size = _tasks_on_node(env.get("SLURM_STEP_TASKS_PER_NODE", ""), env.get("SLURM_NODEID"))
    return _placed(
        _SRUN,
        {**env, "_LOCAL_SIZE": local_size},
        ("SLURM_PROCID", size, "SLURM_LOCALID", "_LOCAL_SIZE"),
        [env.get("SLURM_JOB_ID", ""), step, env.get("SLURM_RESTART_COUNT", "0")],
        address=first_host(nodes),
    )


def _pods(env: _Environment) -> Placement | None:
    """One process in each pod, as PyTorchJob starts them. Where the pods run nobody says."""
    words = [env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", "")]
    return _placed(
        _OF_PODS,
        env,
        ("RANK", "WORLD_SIZE", "", ""),
        words,
        address=env.get("MASTER_ADDR", ""),
    )


# In the order of their precedence: who starts whom. A torchrun under srun has both's variables.
_LAUNCHERS: dict[str, Callable[[_Environment], Placement | None]] = {
    "torchrun": _torchrun,
    "openmpi": _openmpi,
    "mvapich": _mvapich,
    "pals": _pals,
    "hydra": _hydra,
    "flux": _flux,
    "slurm": _slurm,
    "pods": _pods,
}


def find_placement(env: _Environment) -> Placement | None:
    """What the launcher of this process says; None where there is none, or it started one process.

    Of several launchers' variables the innermost launcher's count, unless CCLMARK_LAUNCHER names
    one, or ``none``. Raises UsageError for numbers that cannot be.
    """
    chosen = env.get(LAUNCHER_VARIABLE, "").strip().lower()
    if chosen == "none":
        return None
    if chosen and chosen not in _LAUNCHERS:
        raise UsageError(f"{LAUNCHER_VARIABLE}={chosen}: choose from none, {', '.join(_LAUNCHERS)}")
    wanted = {chosen: _LAUNCHERS[chosen]} if chosen else _LAUNCHERS
    found = [placement for look in wanted.values() if (placement := look(env)) is not None]
    if not found:
        if chosen:
            raise UsageError(f"{LAUNCHER_VARIABLE}={chosen}: its variables are not set")
        return None
    first = found[0]
    if first.processes == 1:
        return None
    ignored = [
        f"{first.launcher} says process {first.process} of {first.processes}, {other.launcher} "
        f"{other.process} of {other.processes}: the first counts ({LAUNCHER_VARIABLE} chooses)"
        for other in found[1:]
        if other.launcher != _OF_PODS
        and (other.process, other.processes) != (first.process, first.processes)
    ]
    return replace(
        first,
        identity=_fingerprint([first.identity, env.get(STEP_VARIABLE, "")]),
        notices=tuple(ignored),
    )


def speaks(env: _Environment) -> bool:
    """Whether this process is the first, which alone speaks to the user."""
    try:
        placement = find_placement(env)
    except UsageError:
        return True
    return placement is None or placement.process == 0


def first_host(nodes: str) -> str:
    """The first host of a list in Slurm's notation: ``node[08-11,20],login`` gives ``node08``."""
    end = 0
    depth = 0
    for end, sign in enumerate(nodes + ","):  # noqa: B007 - where it ends is what is looked for
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            break
    return re.sub(r"\[([^-,\]]*)[^\]]*\]", r"\1", nodes[:end])


@dataclass(frozen=True)
class LaunchingProgram:
    """The program of an MPI that started a process. ``job``: what tells this start from others."""

    path: Path
    job: str


def launching_program(pid: int) -> LaunchingProgram | None:
    """What started process ``pid``, directly or not, None where no such program is seen."""
    names = ("mpirun", "mpiexec", "orterun", "prterun", "prte", "orted", "hydra")
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            path = Path(f"/proc/{pid}/exe").readlink()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            return None
        if path.name.startswith(names):
            # Hydra's proxies are told where their mpiexec listens.
            at = words.index(b"--control-port") + 1 if b"--control-port" in words else 0
            job = words[at].decode(errors="replace") if 0 < at < len(words) else f"pid {pid}"
            return LaunchingProgram(path, _fingerprint([job]))
    return None


def _placed(
    launcher: str,
    env: _Environment,
    names: tuple[str, ...] | list[str],
    identity: list[str],
    address: str = "",
) -> Placement | None:
    """The placement that the variables ``names`` tell: rank, size, local rank, local size.

    None where one of the first two is not set.
    """
    rank, size, local, local_size = (env.get(name, "") if name else "" for name in names)
    if not rank or not size:
        return None
    for name, text in zip(names, (rank, size, local, local_size), strict=True):
        if text and not _is_number(text):
            raise UsageError(f"{launcher} set {name}={text[:40]!r}, which is no number")
    process, processes = int(rank), int(size)
    if not process < processes <= _MOST_PROCESSES:
        raise UsageError(
            f"{launcher} set {names[0]}={process} and {names[1]}={processes}: there is no such "
            f"process. Set {LAUNCHER_VARIABLE}=none to measure this host alone"
        )
    return Placement(
        launcher=launcher,
        process=process,
        processes=processes,
        local=int(local) if local else None,
        local_size=int(local_size) if local_size else None,
        address=address,
        identity=_fingerprint([launcher, size, *identity]),
        by_mpi=launcher in _OF_MPI,
    )


def _tasks_on_node(text: str, node: str | None) -> str:
    """How many tasks a node has, of Slurm's ``2(x3),1``; empty where that is not told."""
    counts: list[str] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,7})(?:\(x(\d{1,7})\))?", part.strip())
        if match is None:
            return ""
        counts += [match[1]] * min(int(match[2] or 1), _MOST_PROCESSES)
    index = int(node) if node is not None and _is_number(node) else -1
    return counts[index] if 0 <= index < len(counts) else ""


def _fingerprint(words: list[str]) -> str:
    return hashlib.sha256("\0".join(words).encode(errors="replace")).hexdigest()[:24]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 12
