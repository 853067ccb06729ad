"""The mpirun or srun that starts ranks which measure MPI."""

from __future__ import annotations

import os
from dataclasses import replace

from cclmark.errors import UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import SRUN, launching_program
from cclmark.launch.request import Request
from cclmark.run import locate

PLAIN_SRUN = (
    "this srun started its tasks without an MPI plug-in: use srun --mpi=pmix for Open MPI or "
    "--mpi=pmi2 for MPICH"
)
_OTHER_LIBRARY = "use --ccl torch:gloo, or the library of the devices"


def with_mpirun(
    request: Request, coordinator: Coordinator, user: str, instead: str = _OTHER_LIBRARY
) -> Request:
    """The request, whose ranks that measure MPI are started by an mpirun.

    ``user``: the option that requires it; ``instead``: what else the user can do. Raises
    MissingError, UsageError.
    """
    found = mpirun_of(coordinator, user, instead)
    return replace(
        request,
        mpirun=found.path if coordinator.placement is None else "",
        ccl_wheels={**request.ccl_wheels, "mpi": found.libraries},
    )


def mpirun_of(coordinator: Coordinator, user: str, instead: str = _OTHER_LIBRARY) -> locate.Mpirun:
    """Returns the mpirun that starts the ranks, or that has started this process.

    Raises MissingError, UsageError.
    """
    placement = coordinator.placement
    if placement is None:
        return locate.find_mpirun()
    if placement.launcher == SRUN and not placement.by_mpi:
        raise UsageError(f"{user} requires MPI ranks, but {PLAIN_SRUN}, or {instead}")
    if not placement.by_mpi:
        raise UsageError(
            f"{user} requires ranks that an mpirun or srun started, but {placement.launcher} "
            f"started these: {instead}"
        )
    if not is_one_device_each(coordinator):
        raise UsageError(
            f"{user} requires one process for each device: start as many, or use -g 1 for one "
            "device of each process"
        )
    program = launching_program(os.getpid())
    return locate.mpirun_at(program.path) if program is not None else locate.mpi_of_srun()


def is_one_device_each(coordinator: Coordinator) -> bool:
    """Whether every process of the run has one device."""
    return all(len(join.indices) == 1 for join in coordinator.joins)
