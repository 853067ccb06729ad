"""The cases between every two devices, with one communicator per pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import msgspec

from cclmark.work.cases import Case
from cclmark.work.items import Item
from cclmark.work.pair_cases import BEGINNING, Pair, pair_rounds

_FOLLOWING = 16  # sizes at most this many times smaller than the probe behave like it
_LEAST_AT_ONCE = 2


def probe_of(sizes: Sequence[int]) -> tuple[int, list[int]] | None:
    """The index of the size that probes interference between pairs, and the indices that follow it.

    ``sizes`` ascend. Contention between pairs shows with large messages. The probe is the
    second-largest size, since the largest takes longer than all others together. Much smaller sizes
    are dominated by call overhead, which the probe does not cover. Returns None where too few sizes
    would follow the probe.
    """
    if len(sizes) < 2:
        return None
    probe = len(sizes) - 2
    least_bytes = sizes[probe] // _FOLLOWING
    sizes_at_once = [
        number for number, size in enumerate(sizes) if size >= least_bytes and number != probe
    ]
    return (probe, sizes_at_once) if len(sizes_at_once) >= _LEAST_AT_ONCE else None


def falls_with_pair(case: Item, culprit: Item, phase: str) -> bool:
    """Whether ``case`` is skipped because ``culprit`` failed in ``phase``.

    Skipped are the other sizes of the same series and pair, and all cases of a pair whose
    communicator or buffers could not be created.
    """
    assert isinstance(case, Case)
    assert isinstance(culprit, Case)
    if case.pair != culprit.pair:
        return False
    return phase in BEGINNING or case.series() == culprit.series()


class PairCases(Sequence[Case]):
    """The same cases for each pair of devices, pair by pair in the order of the rounds.

    Cases are created on access, because many devices have very many pairs.
    """

    def __init__(self, of_two: Sequence[Case], devices: int) -> None:
        """``of_two``: the cases of each pair, for two ranks."""
        self.of_two = self.distinct = of_two
        self._pairs = [pair for pairs in pair_rounds(devices) for pair in pairs]
        self._places = {pair: place for place, pair in enumerate(self._pairs)}

    def index_of(self, pair: Pair, place: int) -> int:
        """The index of case ``place`` in ``of_two`` for ``pair``."""
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


def cases_of_pairs(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    """The planned cases between every two processes."""
    return PairCases([one for one in planned if isinstance(one, Case)], processes)
