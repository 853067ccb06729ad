"""The libraries that a run measures, on one rank: opened, described, joined by all ranks."""

from __future__ import annotations

from typing import Protocol

import msgspec

from cclmark import _engine as engine
from cclmark.plan.libraries import BRIDGE, torch_backend_of
from cclmark.rendezvous.messages import Job
from cclmark.results.schema import LibraryDescription
from cclmark.run.rank import Rank


class Library(Protocol):
    """A library that was opened."""

    @property
    def descriptions(self) -> list[LibraryDescription]:
        """What it says of itself, and then what those say that it is made of."""

    def join(self, rank: Rank, device: engine.Device) -> engine.Communicator:
        """Makes the group of all ranks, a collective call. Raises EngineError."""


class NativeLibrary:
    """One that the engine loads."""

    def __init__(self, ccl: engine.Ccl) -> None:
        self.ccl = ccl
        info = ccl.info
        self.descriptions = [
            LibraryDescription(info.name, info.version, info.path, info.capabilities, info.missing)
        ]

    def join(self, rank: Rank, device: engine.Device) -> engine.Communicator:
        """Of all ranks."""
        key = f"communicator id of {self.ccl.info.name}"
        return join_with_id(self.ccl, rank, device, rank.team, key)


class _Offer(msgspec.Struct):
    """What the rank that makes a communicator's id tells those that it is for."""

    rank: int
    version: str
    path: str
    identity: bytes


def join_with_id(
    ccl: engine.Ccl, rank: Rank, device: engine.Device, team: engine.Team, key: str
) -> engine.Communicator:
    """Joins the ranks of ``team``: its first makes an id, and the launcher hands it on.

    Raises MissingError where that rank has another version of the library than this one: to join
    it may hang, and the library would not say why.
    """
    own = ccl.info
    if team.rank == 0:
        offer = _Offer(rank.job.rank, own.version, own.path, ccl.make_id(team.size))
        rank.client.put(key, msgspec.msgpack.encode(offer))
    else:
        sent = rank.client.get(key, rank.job.settings.timeout_s)
        offer = msgspec.msgpack.decode(sent, type=_Offer)
    if offer.version != own.version:
        raise engine.MissingError(
            f"rank {rank.job.rank} loaded {own.name} {own.version} from {own.path}, rank "
            f"{offer.rank} {offer.version} from {offer.path}: mixed versions hang or crash. Give "
            "all ranks the same with --ccl-path"
        )
    return ccl.join(device, offer.identity, team)


def open_library(name: str, job: Job) -> Library:
    """The library of that name: one of the engine's, ``torch:BACKEND``, or the islands' bridge.

    Raises MissingError.
    """
    if name == BRIDGE:
        from cclmark.run.bridge import BridgeLibrary

        islands = job.settings.islands
        own = next(island for island in islands if job.rank in island.ranks)
        return BridgeLibrary(
            islands, own, _open_native(own.ccl, job) if len(own.ranks) > 1 else None
        )
    backend = torch_backend_of(name)
    if backend is None:
        return _open_native(name, job)
    from cclmark.run.torch_ccl import TorchLibrary

    return TorchLibrary(backend, job.modules)


def _open_native(name: str, job: Job) -> NativeLibrary:
    path = "" if name == "shm" else job.ccl_path
    return NativeLibrary(engine.open_ccl(name, path, job.ccl_wheels.get(name, [])))
