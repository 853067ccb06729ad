"""The results of memory in journals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.journal.item_results import ItemResult
from cclmark.journal.schema import Verification
from cclmark.kinds.memory.plan import RankMemory
from cclmark.work.counts import Count
from cclmark.work.items import Status

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Owner: TypeAlias = str
else:
    Owner = Literal["library", "cclmark"]


class MemoryReading(msgspec.Struct, omit_defaults=True):
    """The memory of a device and of a rank's process at one moment, in bytes.

    ``device_free_bytes``: what the device has left for all processes; on the host, what the system
    and the control group leave. ``rss_bytes``: the resident pages of the process, ``shared_bytes``
    those of them that are shared memory. ``pss_bytes``: the same pages as ``rss_bytes``, each
    divided by the number of processes that map it; None if the kernel does not report it.
    ``stated``: what the library reports, by its own names.
    """

    device_free_bytes: Count
    rss_bytes: Count
    shared_bytes: Count = 0
    pss_bytes: Count | None = None
    stated: dict[str, int] = {}


class MemoryStage(msgspec.Struct, omit_defaults=True):
    """A step of a run with the memory before and after it, when no rank was working.

    ``owner``: library or cclmark, whichever allocates memory in this stage.
    """

    name: str
    owner: Owner
    before: MemoryReading
    after: MemoryReading


class MemoryBuffer(msgspec.Struct, omit_defaults=True):
    """Memory that a rank has allocated, or mapped from another process (``mapped``).

    ``owner``: library or cclmark. ``place``: device, host, shared host or pinned host.
    ``used_bytes``: what one operation reads or writes of it, 0 if unknown. ``first_values``: the
    first elements of an input, or those expected in an output. ``address``: virtual, in the rank's
    process, in hexadecimal digits; empty for memory that exists only during a call.
    """

    owner: Owner
    purpose: str
    place: str
    size_bytes: Count
    used_bytes: Count = 0
    first_values: str = ""
    address: str = ""
    mapped: bool = False


class LibraryChannels(msgspec.Struct):
    """The numbers of channels of a communicator, from the library's log."""

    collective: Count
    p2p: Count
    p2p_per_peer: Count


class MemoryResult(ItemResult[RankMemory], tag="memory", omit_defaults=True):
    """The memory of one rank for a case. ``status``: ok, wrong or skipped, with the reason.

    ``stages``: in the order of time, from the loading of the library; the last case of a run also
    has the stage in which the communicator is destroyed. ``buffers``: after the first operations.
    ``not_stated``: the reason why the library reports nothing about its memory. ``channels``: None
    if the library's log does not contain them.
    """

    index: Count
    memory: RankMemory
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    stages: list[MemoryStage] = []
    buffers: list[MemoryBuffer] = []
    not_stated: str = ""
    channels: LibraryChannels | None = None
    verification: Verification | None = None

    @property
    def is_measured(self) -> bool:
        """Whether the operations ran."""
        return self.status in ("ok", "wrong")

    @property
    def is_consistent(self) -> bool:
        """Whether the rank is one of the case."""
        return self.memory.rank < self.memory.case.ranks
