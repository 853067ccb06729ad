"""How much memory traffic beside each call makes it take as long as in the program."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

#: A call is slowed down in the program if it takes longer there by more than this share.
_CLEAR = 0.03
#: Shares of the most blocks, which are measured before any is chosen.
_LEVELS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
_REFINEMENTS = 4
#: So many rounds are needed at most.
ROUNDS = 1 + len(_LEVELS) + _REFINEMENTS


class TrafficFit:
    """Chooses the blocks of the traffic beside each call from measurements, round after round.

    A call that takes as long without traffic as in the program has none. For the others a few
    amounts are measured, and then those between that the times suggest.
    """

    def __init__(self, wanted_s: Sequence[float], most: int) -> None:
        """``wanted_s``: the time of each call in the program; 0 for one that has no traffic."""
        self._wanted_s = wanted_s
        self._levels = sorted({max(1, round(most * share)) for share in _LEVELS})
        self._measured: list[dict[int, list[float]]] = [{} for _ in wanted_s]
        self._rounds = 0

    def next(self) -> list[int] | None:
        """The blocks by call that should be measured next; None when there is enough."""
        if self._rounds == 0:
            return [0] * len(self._wanted_s)
        if self._rounds <= len(self._levels):
            level = self._levels[self._rounds - 1]
            tried = [level if self._is_slowed(one) else 0 for one in range(len(self._wanted_s))]
            return tried if any(tried) else None
        if self._rounds > len(self._levels) + _REFINEMENTS:
            return None
        return [self._guess(one) for one in range(len(self._wanted_s))]

    def add(self, blocks: Sequence[int], times_s: Sequence[float]) -> None:
        """Adds the times by call that were measured beside so many blocks."""
        for known, number, time_s in zip(self._measured, blocks, times_s, strict=True):
            known.setdefault(number, []).append(time_s)
        self._rounds += 1

    def chosen(self) -> list[int]:
        """The blocks by call whose time is nearest to that in the program, the fewest of equal."""
        return [
            min(
                sorted(self._times_s(one).items()),
                key=lambda entry, wanted_s=wanted_s: abs(entry[1] - wanted_s),  # type: ignore[misc]
            )[0]
            if self._is_slowed(one)
            else 0
            for one, wanted_s in enumerate(self._wanted_s)
        ]

    def _times_s(self, call: int) -> dict[int, float]:
        return {
            number: sum(values) / len(values) for number, values in self._measured[call].items()
        }

    def _is_slowed(self, call: int) -> bool:
        alone_s = self._times_s(call).get(0, 0.0)
        return alone_s > 0 and self._wanted_s[call] > (1 + _CLEAR) * alone_s

    def _guess(self, call: int) -> int:
        """Between the two amounts with which the call is shorter and longer than in the program."""
        if not self._is_slowed(call):
            return 0
        wanted_s = self._wanted_s[call]
        points = sorted(self._times_s(call).items())
        for (less, shorter_s), (more, longer_s) in pairwise(points):
            if shorter_s <= wanted_s <= longer_s and longer_s > shorter_s:
                share = (wanted_s - shorter_s) / (longer_s - shorter_s)
                return round(less + share * (more - less))
        return max(points, key=lambda entry: entry[1])[0]
