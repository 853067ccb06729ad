"""The libraries that a run measures, on one rank: opened, described, joined by all ranks."""

from __future__ import annotations

from typing import Protocol

from cclmark import _engine as engine
from cclmark.plan.libraries import torch_backend_of
from cclmark.rendezvous.messages import Job
from cclmark.results.schema import LibraryDescription
from cclmark.run.rank import Rank


class Library(Protocol):
    """A library that was opened."""

    @property
    def description(self) -> LibraryDescription:
        """What it says of itself."""

    def join(self, rank: Rank, device: engine.Device) -> engine.Communicator:
        """Makes the group of all ranks, a collective call. Raises EngineError."""


class NativeLibrary:
    """One that the engine loads."""

    def __init__(self, ccl: engine.Ccl) -> None:
        self.ccl = ccl
        info = ccl.info
        self.description = LibraryDescription(
            info.name, info.version, info.path, info.capabilities, info.missing
        )

    def join(self, rank: Rank, device: engine.Device) -> engine.Communicator:
        """Rank 0 makes an id, and the launcher hands it on."""
        job = rank.job
        key = f"communicator id of {self.description.name}"
        if job.rank == 0:
            identity = self.ccl.make_id(job.ranks)
            rank.client.put(key, identity)
        else:
            identity = rank.client.get(key, job.settings.timeout_s)
        return self.ccl.join(device, identity, rank.team)


def open_library(name: str, job: Job) -> Library:
    """The library of that name: one of the engine's, or ``torch:BACKEND``. Raises MissingError."""
    backend = torch_backend_of(name)
    if backend is None:
        path = "" if name == "shm" else job.ccl_path
        return NativeLibrary(engine.open_ccl(name, path, job.ccl_wheels.get(name, [])))
    from cclmark.run.torch_ccl import TorchLibrary

    return TorchLibrary(backend, job.modules)
