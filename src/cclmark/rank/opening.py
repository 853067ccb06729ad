"""The libraries that a run measures, on one rank: how they are opened and joined.

A library is one of the engine, a backend of torch, or the bridge of islands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

import cclmark._engine as engine
from cclmark.base.version import VERSION
from cclmark.journal.schema import LibraryDescription, Settings
from cclmark.rank.all_or_none import in_step
from cclmark.rank.engine_values import open_ccl
from cclmark.rank.rank import Rank
from cclmark.rendezvous.messages import Job
from cclmark.work.islands import Island
from cclmark.work.libraries import BRIDGE, memory_of, torch_backend_of


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
        libraries with options of a communicator receive any (see work.library_settings.options_of).
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

    def start(self, rank: Rank, device: engine.Device) -> None:
        """Prepares all ranks to join groups of some of them, a collective call."""
        self.ccl.start(rank.rank_group, device)

    def join_some(
        self, rank: Rank, device: engine.Device, members: Sequence[int], name: str
    ) -> engine.Communicator:
        """Creates the communicator of ``members``, which have formed a subgroup, after ``start``.

        ``name``: a new one for each group.
        """
        assert rank.subgroup is not None
        return join_with_id(self.ccl, rank, device, rank.subgroup, name)


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


class BridgeLibrary:
    """The engine's bridge between islands, on top of the library of this rank's island.

    ``mpi``: the library that transfers data between hosts, None for a single host.
    """

    def __init__(
        self,
        islands: list[Island],
        own: Island,
        library: NativeLibrary | None,
        mpi: NativeLibrary | None,
    ) -> None:
        self._islands = islands
        self._own = own
        self._library = library
        self._mpi = mpi
        self._joined = 0
        between = " + ".join(island.describe() for island in islands)
        self.descriptions = [LibraryDescription("bridge", VERSION, f"built in, islands {between}")]
        for used in (library, mpi):
            self.descriptions += used.descriptions if used is not None else []

    def join(
        self, rank: Rank, device: engine.Device, options: Mapping[str, str] | None = None
    ) -> engine.Communicator:
        """Joins the ranks of each island, then all ranks; ranks on several hosts use MPI."""
        job = rank.job
        self._joined += 1
        if self._library is not None and rank.subgroup is None:
            rank.form_subgroup(self._own.ranks, self._own.first)
            rank.enter("communicator creation")
        inner = in_step(rank.agreement, partial(self._join_island, rank, device))
        islands = engine.Islands(
            firsts=[island.first for island in self._islands],
            through_host=job.settings.through_host,
        )
        host_exchange = (
            self._mpi.ccl.open_host_exchange(rank.rank_group) if self._mpi is not None else None
        )
        return engine.join_islands(
            device, rank.rank_group, islands, own=inner, host_exchange=host_exchange
        )

    def _join_island(self, rank: Rank, device: engine.Device) -> engine.Communicator | None:
        if self._library is None or rank.subgroup is None:
            return None
        key = f"communicator id {self._joined} of the island {self._own.describe()}"
        return join_with_id(self._library.ccl, rank, device, rank.subgroup, key)


class AbsentLibrary:
    """A placeholder for a library that this rank cannot open for ``reason``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.descriptions: list[LibraryDescription] = []

    def join(
        self, rank: Rank, device: engine.Device, options: Mapping[str, str] | None = None
    ) -> engine.Communicator:
        """Raises UnsupportedError."""
        raise engine.UnsupportedError(self.reason)


def require_present(library: OpenLibrary) -> None:
    """Raises UnsupportedError with the reason for a library that is absent."""
    if isinstance(library, AbsentLibrary):
        raise engine.UnsupportedError(library.reason)


def open_libraries(
    names: Sequence[str], job: Job, *, all_needed: bool = False
) -> dict[str, OpenLibrary]:
    """Opens the libraries of a run, in the order of ``names``.

    Of several libraries, missing ones become AbsentLibrary, unless ``all_needed``. Raises
    MissingError if none is left.
    """
    opened: dict[str, OpenLibrary] = {}
    for name in names:
        if name in job.absent:
            opened[name] = AbsentLibrary(job.absent[name])
            continue
        try:
            opened[name] = _described(open_library(name, job, names), name, job.settings)
        except engine.MissingError as error:
            if len(names) == 1 or all_needed:
                raise
            opened[name] = AbsentLibrary(str(error))
    absent = [one for one in opened.values() if isinstance(one, AbsentLibrary)]
    if len(absent) == len(opened):
        raise engine.MissingError("\n".join(one.reason for one in absent))
    return opened


def _described(library: OpenLibrary, name: str, settings: Settings) -> OpenLibrary:
    """The library, with the kind of memory of its buffers in its description.

    Not a part of open_libraries, whose variables outlive it: see item_loop.measure_each.
    """
    own = library.descriptions[0]
    if settings.memory:
        own.memory = memory_of(
            settings.memory, settings.timing, settings.registration, name, own.capabilities
        )
    return library


def open_library(name: str, job: Job, measured: Sequence[str]) -> OpenLibrary:
    """Opens a library of the engine, ``torch:BACKEND``, or the bridge. Raises MissingError."""
    if name == BRIDGE:
        islands = job.settings.islands
        own = next(island for island in islands if job.rank in island.ranks)
        inner = _open_native(own.ccl, job) if len(own.ranks) > 1 else None
        return BridgeLibrary(islands, own, inner, _open_mpi(job, measured) if job.hosts else None)
    backend = torch_backend_of(name)
    if backend is None:
        return _open_native(name, job)
    from cclmark.rank.torch_ccl import TorchLibrary

    return TorchLibrary(backend, job.modules, job.runtime)


def _open_mpi(job: Job, measured: Sequence[str]) -> NativeLibrary:
    """Opens the MPI between hosts, without ``--ccl-path`` unless MPI is measured too."""
    path = job.ccl_path if "mpi" in measured else ""
    return NativeLibrary(open_ccl("mpi", path, job.ccl_wheels.get("mpi", [])))


def _open_native(name: str, job: Job) -> NativeLibrary:
    path = "" if name == "shm" else job.ccl_path
    return NativeLibrary(open_ccl(name, path, job.ccl_wheels.get(name, [])))
