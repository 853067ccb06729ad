"""Finds the library that a case names: one of the engine's, torch's, or the islands' bridge."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark import _engine as engine
from cclmark.plan.libraries import BRIDGE, torch_backend_of
from cclmark.rendezvous.messages import Job
from cclmark.results.schema import LibraryDescription
from cclmark.run.bridge import BridgeLibrary
from cclmark.run.descriptions import open_ccl
from cclmark.run.libraries import Library, NativeLibrary
from cclmark.run.rank import Rank


class AbsentLibrary:
    """In the place of one that this rank cannot open, for ``reason``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.descriptions: list[LibraryDescription] = []

    def join(self, rank: Rank, device: engine.Device) -> engine.Communicator:
        """Raises UnsupportedError."""
        raise engine.UnsupportedError(self.reason)


def require_present(library: Library) -> None:
    """Raises UnsupportedError with the reason for a library that is absent."""
    if isinstance(library, AbsentLibrary):
        raise engine.UnsupportedError(library.reason)


def open_libraries(names: Sequence[str], job: Job) -> dict[str, Library]:
    """The libraries of a run, in the order of ``names``.

    Of several, those that are missing are absent. Raises MissingError where none is left, and where
    pairs are measured, which leave nothing out.
    """
    opened: dict[str, Library] = {}
    for name in names:
        if name in job.absent:
            opened[name] = AbsentLibrary(job.absent[name])
            continue
        try:
            opened[name] = open_library(name, job)
        except engine.MissingError as error:
            if len(names) == 1 or job.in_pairs:
                raise
            opened[name] = AbsentLibrary(str(error))
    absent = [one for one in opened.values() if isinstance(one, AbsentLibrary)]
    if len(absent) == len(opened):
        raise engine.MissingError("\n".join(one.reason for one in absent))
    return opened


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
    return NativeLibrary(open_ccl("mpi", path, job.ccl_wheels.get("mpi", [])))


def _open_native(name: str, job: Job) -> NativeLibrary:
    path = "" if name == "shm" else job.ccl_path
    return NativeLibrary(open_ccl(name, path, job.ccl_wheels.get(name, [])))
