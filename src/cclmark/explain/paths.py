"""How a library connects ranks: the connections that it reports, and rings and trees of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.work.counts import Count

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


def rings_by_channel(every: Sequence[RankPaths]) -> dict[int, tuple[int, ...]]:
    """The ring of each channel: the ranks in the order in which data pass, from rank 0.

    ``every``: of all ranks. Channels with ranks whose log lacks them are left out.
    """
    following: dict[int, dict[int, int]] = {}
    for paths in every:
        for channel, (rank, after) in paths.ring_next.items():
            following.setdefault(channel, {})[rank] = after
    found = {}
    for channel in sorted(following):
        if len(following[channel]) < len(every):
            continue
        ranks = [0]
        while (after := following[channel].get(ranks[-1], 0)) not in ranks:
            ranks.append(after)
        if len(ranks) == len(every):
            found[channel] = tuple(ranks)
    return found


def trees_by_channel(every: Sequence[RankPaths]) -> dict[int, tuple[int, ...]]:
    """The tree of each channel: the parent of every rank, -1 for the root.

    ``every``: of all ranks. Channels with ranks whose log lacks them are left out.
    """
    parents: dict[int, dict[int, int]] = {}
    for paths in every:
        for channel, (rank, parent) in paths.tree_parent.items():
            parents.setdefault(channel, {})[rank] = parent
    numbers = range(len(every))
    return {
        channel: tuple(parents[channel][rank] for rank in numbers)
        for channel in sorted(parents)
        if all(rank in parents[channel] for rank in numbers)
    }
