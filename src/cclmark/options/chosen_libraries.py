"""The libraries that the options of a command choose, and what is said about them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from cclmark.base.errors import MissingError, UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import SRUN, launching_program
from cclmark.launch.request import Request
from cclmark.options.groups import CaseOptions
from cclmark.rank import locate
from cclmark.work.libraries import (
    BRIDGE,
    added_libraries,
    all_libraries,
    assumption_of,
    engine_libraries,
    meant_by,
    names_for,
    native_library,
    owners_of,
    require_torch_devices,
    runtimes_of,
    torch_backend_of,
    usual_runtime,
)

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


def libraries_of(flags: CaseOptions, coordinator: Coordinator) -> list[str]:
    """Returns the libraries of ``--ccl``, else the default. Raises UsageError, MissingError."""
    names = _named_ccls(flags, coordinator)
    if "shm" in names and len(coordinator.hosts) > 1:
        raise UsageError(
            f"shm works within one host, but these ranks are on {len(coordinator.hosts)} hosts: "
            "use --ccl mpi or bridge (under an mpirun or srun), or torch:gloo"
        )
    return names


def _named_ccls(flags: CaseOptions, coordinator: Coordinator) -> list[str]:
    runtime = coordinator.devices.runtime
    if not flags.ccl and runtime == "host" and len(coordinator.hosts) > 1:
        return [_ccl_between_hosts(coordinator)]
    if not flags.ccl:
        if flags.ccl_path and runtime == "host":
            raise UsageError("--ccl-path is not supported: the library of the host is built in")
        return [_native_ccl(flags, runtime)]
    from cclmark.rank.probe import count_devices

    names = list(dict.fromkeys(meant_by(name, runtime) for name in flags.ccl))
    for name in names:
        if name == BRIDGE:
            continue
        backend = torch_backend_of(name)
        needed = runtimes_of(name) if backend is None else [usual_runtime(backend) or runtime]
        if not needed or backend == "":
            raise unknown_library(name, runtime)
        if backend is not None:
            require_torch_devices(runtime)
        if runtime not in needed and (backend, runtime) != ("gloo", "cuda"):
            if not flags.devices:
                count_devices(needed[0])  # with the default, the missing device is the reason
            raise UsageError(
                f"{name} supports {' and '.join(needed)} devices, not {runtime} devices: see "
                "--devices"
            )
        require_allowed(name, flags)
    _check_files(flags, names)
    if all(torch_backend_of(name) is not None for name in names):
        locate.require_torch()
    return names


def _check_files(flags: CaseOptions, names: Sequence[str]) -> None:
    """Raises UsageError for files and modules that none of these libraries loads."""
    built_in = ("shm", BRIDGE)
    loaded = [name for name in names if name not in built_in and torch_backend_of(name) is None]
    if flags.ccl_path and not loaded and BRIDGE not in names:
        raise UsageError(
            "--ccl-path is not supported: shm is built in, and torch has its own libraries"
        )
    require_one_file(flags, loaded)
    if flags.modules and not any(torch_backend_of(name) is not None for name in names):
        raise UsageError("--import requires a backend of torch: use --ccl torch:BACKEND")


def require_one_file(flags: CaseOptions, ccls: Sequence[str]) -> None:
    """Raises UsageError if ``--ccl-path`` would apply to several libraries."""
    if flags.ccl_path and len(ccls) > 1:
        variables = [all_libraries()[ccl].variable for ccl in ccls]
        raise UsageError(
            f"--ccl-path sets one file, but {' and '.join(ccls)} are different libraries: set "
            f"their files with {' and '.join(variables)}"
        )


def unknown_library(name: str, runtime: str) -> UsageError:
    """Returns the error for a name that is not a library of such devices."""
    if owners := owners_of(name):
        meant = " and ".join(f"{one} on {kind}" for kind, one in owners.items())
        return UsageError(f"{name} is {meant} devices, not on {runtime}: see --devices")
    known = ", ".join(
        [
            *(one.name for one in engine_libraries()),
            BRIDGE,
            "torch:BACKEND (torch:gloo, torch:nccl, ...)",
        ]
    )
    return UsageError(f"unknown library {name!r}: choose from {known}")


def _ccl_between_hosts(coordinator: Coordinator) -> str:
    """Returns the library for host devices of several hosts. Raises MissingError."""
    placement = coordinator.placement
    assert placement is not None
    if placement.by_mpi and is_one_device_each(coordinator):
        return "mpi"
    if not locate.has_torch():
        hint = f"; {PLAIN_SRUN}" if placement.launcher == SRUN and not placement.by_mpi else ""
        raise MissingError(
            "several hosts require --ccl torch:gloo, but torch is not installed (pip install "
            "torch), or --ccl mpi, which requires one process for each device, started by an "
            f"mpirun or srun{hint}"
        )
    return "torch:gloo"


def _native_ccl(flags: CaseOptions, runtime: str) -> str:
    """Returns the default library of the devices. Raises UsageError, MissingError."""
    native = native_library(runtime)
    if native is None:
        fitting = names_for(runtime)
        vendors = {name: all_libraries()[name].vendor for name in fitting}
        names = ", ".join(
            f"{name} ({vendor})" if vendor else name for name, vendor in vendors.items()
        )
        reason = (
            f"{runtime} devices have no default library: use --ccl with one of "
            f"{names or 'none known'}"
        )
        if flags.devices:
            raise UsageError(reason)
        raise MissingError(f"{reason}. To measure the host instead, use --devices host")
    require_allowed(native, flags)
    return native


def require_allowed(name: str, flags: CaseOptions) -> None:
    """Raises MissingError for a library that requires a flag which is not set.

    Prints the assumptions about it at once: the header contains them too, but not every format
    shows it.
    """
    assumed = assumption_of(name)
    if assumed and not flags.allow_unverified:
        raise MissingError(
            f"{name}: its public interface is incomplete, and cclmark would assume {assumed}. "
            "--allow-unverified measures it nevertheless; it may crash or return wrong data"
        )
    for text in warnings_of([name]):
        print(f"cclmark: {text}", file=sys.stderr)


def warnings_of(ccls: Sequence[str]) -> list[str]:
    """Returns the warnings about these libraries."""
    added = {library.name for library in added_libraries()}
    said = [
        f"{name} is unverified: cclmark assumes {assumption_of(name)}"
        for name in ccls
        if assumption_of(name)
    ]
    return said + [f"{name} is known from a --ccl-file only" for name in ccls if name in added]


def require_added_to_be_used(ccls: Sequence[str]) -> None:
    """Raises UsageError for a library of ``--ccl-file`` that is not measured."""
    for library in added_libraries():
        if library.name not in ccls:
            raise UsageError(
                f"--ccl-file describes {library.name}, which is not measured: add --ccl "
                f"{library.name}"
            )
