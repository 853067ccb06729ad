"""The libraries that a run measures, on one rank, and the creation of their communicators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from cclmark import _engine as engine
from cclmark.results.schema import LibraryDescription
from cclmark.run.rank import Rank


class OpenLibrary(Protocol):
    """An open library."""

    @property
    def descriptions(self) -> list[LibraryDescription]:
        """The description of the library, followed by those of the libraries it consists of."""

    def join(
        self, rank: Rank, device: engine.Device, options: Mapping[str, str] | None = None
    ) -> engine.Communicator:
        """Creates the communicator of all ranks, a collective call. Raises EngineError.

        ``options``: of this communicator, beside those of the job, by the library's names. Only
        libraries with options of a communicator receive any (see plan.library_settings.options_of).
        """


class NativeLibrary:
    """A library that the engine loads."""

    def __init__(self, ccl: engine.Ccl) -> None:
        self.ccl = ccl
        self._joined = 0
        info = ccl.info
        self.descriptions = [
            LibraryDescription(info.name, info.version, info.path, info.capabilities, info.missing)
        ]

    def join(
        self, rank: Rank, device: engine.Device, options: Mapping[str, str] | None = None
    ) -> engine.Communicator:
        """Creates the communicator of all ranks. See OpenLibrary."""
        self._joined += 1
        key = f"communicator id {self._joined} of {self.ccl.info.name}"
        return join_with_id(self.ccl, rank, device, rank.rank_group, key, options)


class _Offer(msgspec.Struct):
    """The message with a communicator's ID from the rank that creates it."""

    rank: int
    version: str
    path: str
    identity: bytes


def join_with_id(
    ccl: engine.Ccl,
    rank: Rank,
    device: engine.Device,
    rank_group: engine.RankGroup,
    key: str,
    options: Mapping[str, str] | None = None,
) -> engine.Communicator:
    """Joins the ranks of ``rank_group`` with an ID of its first rank, which the launcher forwards.

    ``options``: of this communicator, beside those of the job.

    Raises MissingError if that rank has another version of the library, because the call may then
    hang without any error from the library.
    """
    own = ccl.info
    if rank_group.rank == 0:
        offer = _Offer(rank.job.rank, own.version, own.path, ccl.make_id(rank_group.size))
        rank.client.put(key, msgspec.msgpack.encode(offer))
    else:
        sent = rank.client.get(key, rank.job.settings.timeout_s)
        offer = msgspec.msgpack.decode(sent, type=_Offer)
    if offer.version != own.version:
        raise engine.MissingError(
            f"rank {rank.job.rank} loaded {own.name} {own.version} from {own.path}, rank "
            f"{offer.rank} {offer.version} from {offer.path}: mixed versions can hang or crash. "
            "Use one file for all ranks with --ccl-path"
        )
    given = {**rank.job.settings.config, **(options or {})}
    return ccl.join(device, offer.identity, rank_group, list(given.items()))
