"""Pairs of devices."""

from __future__ import annotations

from cclmark.work.transfers import disjoint_rounds

Pair = tuple[int, int]

#: The phases whose failure affects all cases of a pair.
BEGINNING = ("communicator creation", "allocating buffers")


def pair_rounds(devices: int) -> list[list[Pair]]:
    """Every unordered pair of devices once, in rounds in which no device appears twice."""
    # Every second round of ordered pairs is the reverse of the round before it.
    rounds = disjoint_rounds(devices)[::2]
    return [[(min(pair), max(pair)) for pair in pairs] for pairs in rounds]
