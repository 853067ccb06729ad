"""A step of an algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

# The buffers of a rank that a step reads or writes.
INPUT = "input"
OUTPUT = "output"
STAGING = "staging"  # the library's own memory


class Place(msgspec.Struct, frozen=True):
    """A place in a rank's memory. ``offset_bytes``: None where only the library knows it."""

    buffer: str
    offset_bytes: int | None = None


class Step(msgspec.Struct, frozen=True):
    """A move of data from a rank to another one, or within a rank.

    A step requires steps of earlier stages only, and those before it at the same destination.
    ``source``: None for an operation of another library of which no steps are known.
    ``reads``: at the source. ``writes``: at the destination. ``combines``: at the destination, the
    data with which those that arrive are reduced; None for a copy. ``chunk``: the number of the
    part of the data, None if the offsets say which it is; ``path``: the number of the ring or
    tree that carries it, from 1, 0 if there is none. ``medium``: the way of the data if the
    library reports it for each step.
    """

    stage: int
    phase: str
    source: int | None
    destination: int
    size_bytes: int
    reads: Place
    writes: Place
    combines: Place | None = None
    chunk: int | None = None
    path: int = 0
    medium: str = ""

    @property
    def is_local(self) -> bool:
        """Whether no data leave the rank."""
        return self.source == self.destination

    @property
    def action(self) -> str:
        """``reduce`` or ``copy``; empty if the steps are not known."""
        if self.source is None:
            return ""
        return "copy" if self.combines is None else "reduce"


def shares(elements: int, weights: Sequence[int], width_bytes: int) -> list[int]:
    """Divides ``elements`` by weight, as evenly as whole elements permit. Returns bytes."""
    total = sum(weights)
    ends = [0]
    before = 0
    for weight in weights:
        before += weight
        ends.append(elements * before // total)
    return [(end - begin) * width_bytes for begin, end in pairwise(ends)]
