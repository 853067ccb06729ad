"""The libraries that a run measures, on one rank: opened, described, joined by all ranks."""

from __future__ import annotations

from typing import Protocol

import msgspec

from cclmark import _engine as engine
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
