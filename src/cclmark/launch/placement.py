"""Detection of the launcher of this process and of the rank of the process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cclmark.base.errors import UsageError
from cclmark.base.files import process_stat

LAUNCHER_VARIABLE = "CCLMARK_LAUNCHER"
STEP_VARIABLE = "CCLMARK_STEP"
_SPECIAL_STEPS = 0xFFFFFFF0  # Slurm uses step numbers from here on for shells, not for tasks
_MOST_PROCESSES = 1 << 20
_OF_PODS = "PyTorchJob or the like"
_OPEN_MPI = "Open MPI's mpirun"
_MVAPICH = "MVAPICH2's mpirun"
HYDRA = "Hydra's mpirun"
SRUN = "srun"
_PALS, _FLUX = "PALS", "Flux"
_TORCHRUN = "torchrun"
_OF_MPI = (_OPEN_MPI, _MVAPICH, HYDRA, _PALS, _FLUX)
# Variables of an srun task if a PMI or PMIx plug-in of Slurm connects the ranks of an MPI.
_PROCESS_MANAGERS = (
    *("PMI_FD", "PMI_RANK", "PMI_PORT", "PMI_CONTROL_PORT", "PMIX_RANK", "PALS_RANKID"),
    "I_MPI_PMI_LIBRARY",
)


@dataclass(frozen=True)
class Placement:
    """The place of this process among the processes that a launcher started.

    ``process`` of ``processes``; ``local`` of ``local_size`` on this host, None if unknown.
    ``address``: the host of process 0, empty if unknown. ``identity``: a string shared by all
    processes of one start and no others. ``by_mpi``: the processes can be ranks of MPI.
    ``variables``: the source of the numbers. ``others``: other launchers whose variables are set
    but ignored, with their names for CCLMARK_LAUNCHER. ``notices``: inconsistencies found.
    """

    launcher: str
    process: int
    processes: int
    local: int | None
    local_size: int | None
    address: str = ""
    identity: str = ""
    by_mpi: bool = False
    variables: str = ""
    others: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def on_one_host(self) -> bool:
        """Whether all processes are known to be on this host."""
        return self.local_size == self.processes

    @property
    def doubts(self) -> str:
        """Advice for the case that the processes of the launcher do not appear."""
        told = f"{self.variables} define these processes ({self.launcher})"
        instead = ""
        if self.others:
            told += f" and take precedence over the variables of {' and '.join(self.others)}"
            instead = f"{LAUNCHER_VARIABLE}={' or '.join(self.others)} uses the latter, "
        return f"{told}: {instead}{LAUNCHER_VARIABLE}=none measures this host alone"


_Environment = Mapping[str, str]


def _torchrun(env: _Environment) -> Placement | None:
    """torchrun, Ray Train and launchers with the same variables."""
    if "LOCAL_RANK" not in env:
        return None
    words = [env.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")]
    words.append(env.get("TORCHELASTIC_RESTART_COUNT", "0"))
    return _placed(
        _TORCHRUN if words[0] else "a launcher like torchrun",
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
    """A task of srun. The shell of sbatch or salloc has a rank too, but is no task."""
    step = env.get("SLURM_STEP_ID", env.get("SLURM_STEPID", ""))
    if not _is_number(step) or int(step) >= _SPECIAL_STEPS:
        return None
    size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in env else "SLURM_NTASKS"
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    local_size = _tasks_on_node(env.get("SLURM_STEP_TASKS_PER_NODE", ""), env.get("SLURM_NODEID"))
    placement = _placed(
        SRUN,
        {**env, "_LOCAL_SIZE": local_size},
        ("SLURM_PROCID", size, "SLURM_LOCALID", "_LOCAL_SIZE"),
        [env.get("SLURM_JOB_ID", ""), step, env.get("SLURM_RESTART_COUNT", "0")],
        address=first_host(nodes),
    )
    managed = any(env.get(name) for name in _PROCESS_MANAGERS)
    return replace(placement, by_mpi=managed) if placement is not None else None


def _pods(env: _Environment) -> Placement | None:
    """One process in each pod, as started by PyTorchJob. The hosts of the pods are unknown."""
    words = [env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", "")]
    return _placed(
        _OF_PODS,
        env,
        ("RANK", "WORLD_SIZE", "", ""),
        words,
        address=env.get("MASTER_ADDR", ""),
    )


# In order of precedence, inner launchers first: a torchrun under srun has the variables of both.
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


def find_placement(env: _Environment, *, alone: bool = False) -> Placement | None:
    """The placement by the launcher of this process, None without one or with a single process.

    ``alone``: whether that of a single process is returned. If variables of several launchers are
    set, the innermost one counts, unless CCLMARK_LAUNCHER names one, or ``none``; see _counted.
    Raises UsageError for invalid numbers.
    """
    found = _found(env)
    if not found:
        return None
    name = _counted(found)
    counted = found[name]
    if counted.processes == 1 and not alone:
        return None
    return replace(
        counted,
        identity=_fingerprint([counted.identity, env.get(STEP_VARIABLE, "")]),
        others=tuple(
            other for other, placement in found.items() if other != name and placement.processes > 1
        ),
        notices=_contradictions(found),
    )


def notices_alone(env: _Environment) -> tuple[str, ...]:
    """What launchers' variables contradict, if one process was started. Raises UsageError."""
    return _contradictions(_found(env))


def _found(env: _Environment) -> dict[str, Placement]:
    """The placements by all launchers whose variables are set, innermost first."""
    chosen = env.get(LAUNCHER_VARIABLE, "").strip().lower()
    if chosen == "none":
        return {}
    if chosen and chosen not in _LAUNCHERS:
        raise UsageError(f"{LAUNCHER_VARIABLE}={chosen}: choose from none, {', '.join(_LAUNCHERS)}")
    wanted = {chosen: _LAUNCHERS[chosen]} if chosen else _LAUNCHERS
    found = {
        name: placement for name, look in wanted.items() if (placement := look(env)) is not None
    }
    if chosen and not found:
        raise UsageError(f"{LAUNCHER_VARIABLE}={chosen}: its variables are not set")
    if "torchrun" in found:
        found.pop("pods", None)  # it uses the same variables
    return found


def _counted(found: dict[str, Placement]) -> str:
    """The launcher whose variables count: the innermost one that started more than one process.

    Variables of a single process may be left over in a shell. A torchrun with a run ID always
    counts. Below an mpirun, the tasks of srun may be the daemons of the mpirun, so srun does not
    count.
    """
    innermost, inner = next(iter(found.items()))
    if inner.launcher == _TORCHRUN:
        return innermost
    below_mpirun = any(one.launcher in _OF_MPI for one in found.values())
    for name, placement in found.items():
        if placement.processes > 1 and not (placement.launcher == SRUN and below_mpirun):
            return name
    return innermost


def _contradictions(found: dict[str, Placement]) -> tuple[str, ...]:
    """One notice if launchers disagree on the place of this process.

    A launcher with a single process may have started the one that counts, which is consistent.
    """
    if not found:
        return ()
    name = _counted(found)
    counted = found[name]
    names = list(found)
    different = [
        f"{other.launcher} {other.process} of {other.processes}"
        for key, other in found.items()
        if (other.process, other.processes) != (counted.process, counted.processes)
        and (other.processes > 1 or names.index(key) < names.index(name))
    ]
    if not different:
        return ()
    alone = ", and this process measures alone" if counted.processes == 1 else ""
    return (
        f"{counted.launcher} reports process {counted.process} of {counted.processes}, "
        f"{', '.join(different)}: the first is used{alone} ({LAUNCHER_VARIABLE} selects another)",
    )


def is_primary(env: _Environment) -> bool:
    """Whether this process is the first one, the only one that prints messages for the user."""
    try:
        placement = find_placement(env)
    except UsageError:
        return True
    return placement is None or placement.process == 0


def first_host(nodes: str) -> str:
    """The first host of a list in Slurm's notation: ``node08`` for ``node[08-11,20],login``."""
    end = 0
    depth = 0
    for end, sign in enumerate(nodes + ","):  # noqa: B007 - the end is the result
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            break
    return re.sub(r"\[([^-,\]]*)[^\]]*\]", r"\1", nodes[:end])


@dataclass(frozen=True)
class LaunchingProgram:
    """The MPI program that started a process. ``job``: an identifier of this start."""

    path: Path
    job: str


def launching_program(pid: int) -> LaunchingProgram | None:
    """The MPI launcher among the ancestors of process ``pid``, None if none is found."""
    names = ("mpirun", "mpiexec", "orterun", "prterun", "prte", "orted", "hydra")
    while pid > 1:
        try:
            pid = int(process_stat(pid)[1])
            path = Path(f"/proc/{pid}/exe").readlink()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            return None
        if path.name.startswith(names):
            # Hydra's proxies receive the port of their mpiexec as an argument.
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
    """The placement from the variables ``names``: rank, size, local rank, local size.

    None if one of the first two is not set. Raises UsageError for invalid numbers.
    """
    rank, size, local, local_size = (env.get(name, "") if name else "" for name in names)
    if not rank or not size:
        return None
    for name, text in zip(names, (rank, size, local, local_size), strict=True):
        if text and not _is_number(text):
            raise UsageError(f"{launcher} set {name}={text[:40]!r}, which is not a number")
    process, processes = int(rank), int(size)
    if not process < processes <= _MOST_PROCESSES:
        raise UsageError(
            f"{launcher} set {names[0]}={process} and {names[1]}={processes}, which contradict "
            f"each other. Set {LAUNCHER_VARIABLE}=none to measure this host alone"
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
        variables=f"{names[0]} and {names[1]}",
    )


def _tasks_on_node(text: str, node: str | None) -> str:
    """The number of tasks of a node from Slurm's ``2(x3),1``, empty if unknown."""
    counts: list[str] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,7})(?:\(x(\d{1,7})\))?", part.strip())
        if match is None:
            return ""
        counts += [match[1]] * min(int(match[2] or 1), _MOST_PROCESSES)
    index = int(node) if node is not None and _is_number(node) else -1
    return counts[index] if 0 <= index < len(counts) else ""


def _fingerprint(words: list[str]) -> str:
    import hashlib  # which loads OpenSSL: only a process that a launcher started requires it

    return hashlib.sha256("\0".join(words).encode(errors="replace")).hexdigest()[:24]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 12
