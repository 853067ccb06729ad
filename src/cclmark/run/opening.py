"""Finds the library that a case names: one of the engine's, torch's, or the islands' bridge."""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.plan.libraries import BRIDGE, torch_backend_of
from cclmark.rendezvous.messages import Job
from cclmark.run.bridge import BridgeLibrary
from cclmark.run.libraries import Library, NativeLibrary


def open_library(name: str, job: Job) -> Library:
    """The library of that name: one of the engine's, ``torch:BACKEND``, or the islands' bridge.

    Raises MissingError.
    """
    if name == BRIDGE:
        islands = job.settings.islands
        own = next(island for island in islands if job.rank in island.ranks)
        inner = _open_native(own.ccl, job) if len(own.ranks) > 1 else None
        return BridgeLibrary(islands, own, inner, _open_mpi(job) if job.hosts else None)
    backend = torch_backend_of(name)
    if backend is None:
        return _open_native(name, job)
    from cclmark.run.torch_ccl import TorchLibrary

    return TorchLibrary(backend, job.modules)


def _open_mpi(job: Job) -> NativeLibrary:
    """What mpirun's ranks speak; ``--ccl-path`` is of the islands' library, unless MPI is measured
    too.
    """
    path = job.ccl_path if any(case.ccl == "mpi" for case in job.cases) else ""
    return NativeLibrary(engine.open_ccl("mpi", path, job.ccl_wheels.get("mpi", [])))


def _open_native(name: str, job: Job) -> NativeLibrary:
    path = "" if name == "shm" else job.ccl_path
    return NativeLibrary(engine.open_ccl(name, path, job.ccl_wheels.get(name, [])))
