"""How a library connects ranks: the connections that it reports."""

from __future__ import annotations

import msgspec

from cclmark.plan.counts import Count

# Names of parameters that come from the log.
COLLECTIVE_CHANNELS = "channels of collectives"
MESSAGE_CHANNELS = "channels of messages"
MESSAGE_CHANNELS_PER_PEER = "channels of messages per peer"
CHUNK_BYTES = "chunk of messages in bytes"
PEER_ACCESS = "peer access"
INFINIBAND = "devices of IB"
FLAGCX_CLUSTERS = "clusters of FlagCX"
FLAGCX_SINGLE = "a cluster of FlagCX with one rank"


class Route(msgspec.Struct, frozen=True):
    """A connection in one direction: data of rank ``first`` to rank ``second``.

    ``transport`` as the library names it, without numbers of network devices, which are in
    ``devices``. ``channels``: the number of channels that use it.
    """

    first: Count
    second: Count
    transport: str
    channels: Count = 0
    devices: list[str] = []


class RankPaths(msgspec.Struct):
    """Contents of one rank's log.

    ``ring_next``: by channel, a rank and the next one in the ring. ``tree_parent``: by channel, a
    rank and its parent, -1 for the root. ``parameters``: variables that are set, and facts, by
    name; ``others``: the effective values of all other variables, as far as the library lists them.
    ``messages``: warnings of the library. ``communicators``: the numbers of ranks of those that it
    created.
    """

    routes: list[Route] = []
    ring_next: dict[int, tuple[int, int]] = {}
    tree_parent: dict[int, tuple[int, int]] = {}
    parameters: dict[str, str] = {}
    others: dict[str, str] = {}
    messages: list[str] = []
    communicators: list[int] = []

    @property
    def is_empty(self) -> bool:
        """Whether the log contains no connection."""
        return not (self.routes or self.ring_next or self.tree_parent)
