"""Collectives of every two devices: each pair a communicator of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import msgspec

from cclmark.plan.cases import Case
from cclmark.plan.transfers import disjoint_rounds

Pair = tuple[int, int]

_FOLLOWING = 16  # times smaller than the probe, and still like it
_LEAST_FOLLOWERS = 2
_BEGINNING = ("communicator creation", "allocating buffers")


def pair_rounds(devices: int) -> list[list[Pair]]:
    """Every two of ``devices`` once, in rounds in which no device appears twice."""
    # Every second round of ordered pairs is the one before it the other way round.
    rounds = disjoint_rounds(devices)[::2]
    return [[(min(pair), max(pair)) for pair in pairs] for pairs in rounds]


def series_of(case: Case) -> Case:
    """What all cases of one sweep over sizes and pairs share."""
    return msgspec.structs.replace(case, size_bytes=0, count=0, pair=None, root=None, matrix=())


def probe_of(sizes: Sequence[int]) -> tuple[int, list[int]] | None:
    """Which of rising ``sizes`` tells whether pairs disturb each other, and those that go by it.

    What pairs share shows with large messages: the probe is the largest size but one, since the
    largest takes longer than all others together. Much smaller ones take the time of their calls,
    of which the probe says nothing. None where too few would go by it to be worth it.
    """
    if len(sizes) < 2:
        return None
    probe = len(sizes) - 2
    least_bytes = sizes[probe] // _FOLLOWING
    followers = [
        number for number, size in enumerate(sizes) if size >= least_bytes and number != probe
    ]
    return (probe, followers) if len(followers) >= _LEAST_FOLLOWERS else None


def falls_with_pair(case: Case, culprit: Case, phase: str) -> bool:
    """Whether ``case`` is given up with the one that failed in ``phase``: the same of another size,
    or all of a pair that cannot even begin.
    """
    if case.pair != culprit.pair:
        return False
    return phase in _BEGINNING or series_of(case) == series_of(culprit)


class PairCases(Sequence[Case]):
    """The same cases for each pair of ``devices``, pair by pair in the order of the rounds.

    With many devices there are many: each is made when it is asked for.
    """

    def __init__(self, of_two: Sequence[Case], devices: int) -> None:
        """``of_two``: cases of two ranks."""
        self.of_two = of_two
        self._pairs = [pair for pairs in pair_rounds(devices) for pair in pairs]
        self._places = {pair: place for place, pair in enumerate(self._pairs)}

    def index_of(self, pair: Pair, place: int) -> int:
        """Where the case at ``place`` of those of two ranks stands for ``pair``."""
        return self._places[pair] * len(self.of_two) + place

    def __len__(self) -> int:
        return len(self._pairs) * len(self.of_two)

    @overload
    def __getitem__(self, index: int) -> Case: ...

    @overload
    def __getitem__(self, index: slice) -> list[Case]: ...

    def __getitem__(self, index: int | slice) -> Case | list[Case]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        pair, place = divmod(number, len(self.of_two))
        return msgspec.structs.replace(self.of_two[place], pair=self._pairs[pair])
