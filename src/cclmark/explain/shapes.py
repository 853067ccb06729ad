"""Rings and trees of each channel, from what the logs of all ranks contain about single ranks."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.explain.paths import RankPaths


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
