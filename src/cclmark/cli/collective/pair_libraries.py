"""The libraries of work between two ranks: mpi, and the libraries of the devices."""

from __future__ import annotations

from dataclasses import replace

from cclmark.cli.chosen_libraries import libraries_of
from cclmark.cli.options import Flags
from cclmark.errors import UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.plan.libraries import (
    BRIDGE,
    MPI,
    engine_libraries,
    meant_by,
    names_for,
    native_library,
    owners_of,
    torch_backend_of,
)

_SHM = "shm"  # of the ranks of one host
_UNDER_MPI = (
    "start the ranks by an mpirun, or by srun with --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"
)


def libraries_of_pairs(flags: Flags, coordinator: Coordinator, user: str) -> list[str]:
    """Returns the libraries of ``--ccl``, else the default, for work between two ranks.

    ``user``: words before the supported libraries. Raises UsageError, MissingError; what a message
    advises is supported with the launcher and the devices of this run.
    """
    runtime = coordinator.devices.runtime
    hosts = len(coordinator.hosts)
    known = {one.name for one in engine_libraries()}
    for typed in filter(None, (name.strip() for name in flags.ccl.split(","))):
        name = meant_by(typed, runtime)
        if name == BRIDGE or torch_backend_of(name) is not None:
            raise UsageError(
                f"{user} mpi or the libraries of the devices, not with {name}: "
                f"{_ways(flags.ccl, coordinator)}"
            )
        if name == _SHM and hosts > 1:
            raise UsageError(
                f"shm works within one host, but these ranks are on {hosts} hosts: "
                f"{_ways(flags.ccl, coordinator)}"
            )
        if name not in known and not owners_of(name):
            raise UsageError(f"unknown library {name!r}: {_ways(flags.ccl, coordinator)}")
    if not flags.ccl and runtime == "host" and hosts > 1:
        flags = replace(flags, ccl=MPI)
    return libraries_of(flags, coordinator)


def on_each_host(ccl: str) -> str:
    """Returns the advice to measure hosts one by one, where ``--ccl`` may not be supported."""
    return "run the command on each host" + (" without --ccl" if ccl else "")


def instead_of_mpi(ccl: str, coordinator: Coordinator) -> str:
    """Returns what else measures between two ranks, as advice. ``ccl``: ``--ccl``."""
    return _other_library(coordinator) or on_each_host(ccl)


def _other_library(coordinator: Coordinator) -> str:
    """Advice to use the library of the devices, empty if there is none between these hosts."""
    runtime = coordinator.devices.runtime
    names = [native_library(runtime) or "", *(names_for(runtime) if runtime != "host" else [])]
    absent = ["", MPI] if len(coordinator.hosts) == 1 else ["", MPI, _SHM]
    return next((f"use --ccl {name}" for name in names if name not in absent), "")


def _ways(ccl: str, coordinator: Coordinator) -> str:
    if other := _other_library(coordinator):
        return other
    placement = coordinator.placement
    by_mpi = placement is not None and placement.by_mpi
    return (f"use --ccl {MPI}" if by_mpi else _UNDER_MPI) + f", or {on_each_host(ccl)}"
