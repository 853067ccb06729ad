"""The libraries that a run measures, on one rank: opened, described, joined by all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

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
        key = f"communicator id of {self.description.name}"
        identity = agree_on_identity(
            rank, key, self.description, 0, lambda: self.ccl.make_id(rank.job.ranks)
        )
        return self.ccl.join(device, identity, rank.team)


class _Offer(msgspec.Struct):
    """What the rank that makes a communicator's id tells those that it is for."""

    version: str
    path: str
    identity: bytes


def agree_on_identity(
    rank: Rank, key: str, own: LibraryDescription, leader: int, make: Callable[[], bytes]
) -> bytes:
    """The communicator's id that rank ``leader`` makes, by way of the launcher.

    Raises MissingError where that rank has another version of the library than this one: to join
    it may hang, and the library would not say why.
    """
    job = rank.job
    if job.rank == leader:
        offer = _Offer(own.version, own.path, make())
        rank.client.put(key, msgspec.msgpack.encode(offer))
        return offer.identity
    sent = rank.client.get(key, job.settings.timeout_s)
    offer = msgspec.msgpack.decode(sent, type=_Offer)
    if offer.version != own.version:
        raise engine.MissingError(
            f"rank {job.rank} loaded {own.name} {own.version} from {own.path}, rank {leader} "
            f"{offer.version} from {offer.path}: mixed versions hang or crash. Give all ranks the "
            "same with --ccl-path"
        )
    return offer.identity


def open_library(name: str, job: Job) -> Library:
    """The library of that name: one of the engine's, or ``torch:BACKEND``. Raises MissingError."""
    backend = torch_backend_of(name)
    if backend is None:
        path = "" if name == "shm" else job.ccl_path
        return NativeLibrary(engine.open_ccl(name, path, job.ccl_wheels.get(name, [])))
    from cclmark.run.torch_ccl import TorchLibrary

    return TorchLibrary(backend, job.modules)
