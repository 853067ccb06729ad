"""Rounds of a scan: what is measured at once, in the order of measurement."""

from __future__ import annotations

import msgspec

from cclmark.work.counts import AtLeastOne, Count
from cclmark_fleet.scan.fleet_rounds import CONFIRM, LEVEL, RANDOM, SHIFTED, PairRound
from cclmark_fleet.scan.fleet_shape import FleetShape

SCAN = "scan"
HOSTS, QUIET, LOADED, WHOLE, PARTS, VERDICT = (
    "hosts",
    "quiet",
    "loaded",
    "whole",
    "parts",
    "verdict",
)
_WORDS = {
    HOSTS: "all_reduce of each host alone",
    LEVEL: "pairs, level round",
    RANDOM: "pairs, random round",
    SHIFTED: "pairs, shifted round",
    QUIET: "all_reduce of every other host, the others rest",
    LOADED: "all_reduce of every other host beside pairs of the others",
    WHOLE: "all_reduce of all",
    PARTS: "all_reduce of parts of the fleet, division",
    CONFIRM: "pairs, second pass, round",
    VERDICT: "verdict",
}
#: Rounds of a second pass, see fleet_rounds.confirming_rounds. There are two: after the rounds of
#: levels, and after all.
CONFIRMATIONS = 6
#: Begins the reason of rounds that are left out.
CERTAIN = "the verdict is certain before:"


class ScanRound(msgspec.Struct, frozen=True, omit_defaults=True):
    """Disjoint groups of devices that work at once. ``number``: among the rounds of its purpose.

    ``sizes``: of messages, ascending; ``dtype``: their elements. Rounds of pairs with one size
    measure neither latency nor single directions. ``meeting``: for rounds that are known in
    advance, their place in fleet_rounds.planned_rounds.
    """

    purpose: str
    ccl: str
    sizes: tuple[AtLeastOne, ...]
    dtype: str
    number: Count = 0
    meeting: Count = 0

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return SCAN

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""
        return SCAN

    @property
    def library(self) -> str:
        """The library that transfers the data."""
        return self.ccl

    @property
    def size_bytes(self) -> int:
        """The largest size."""
        return self.sizes[-1]

    @property
    def ranks(self) -> int:
        """0: every rank of the run takes part."""
        return 0

    @property
    def is_of_pairs(self) -> bool:
        """Whether it tests pairs."""
        return self.purpose in (LEVEL, RANDOM, SHIFTED, CONFIRM)

    def describe(self) -> str:
        """The item in words, for messages."""
        words = _WORDS.get(self.purpose, self.purpose)
        return f"{words} {self.number + 1}" if self.is_of_pairs or self.purpose == PARTS else words

    def is_within(self, devices: int) -> bool:
        """True: an item contains no device."""
        return True

    def series(self) -> ScanRound:
        """The key that the rounds of one purpose share."""
        return msgspec.structs.replace(self, number=0, meeting=0)


def rounds_of_scan(
    shape: FleetShape,
    meetings: list[PairRound],
    ccl: str,
    sizes: tuple[int, ...],
    dtype: str,
    divisions: int,
) -> list[ScanRound]:
    """The rounds of a fleet. ``meetings``: of planned_rounds. ``divisions``: of ``--bisect``.

    What names a slow part comes first, with the largest size alone: the rounds of levels, and a
    second pass. All sizes, single directions and latency are measured in random and shifted
    rounds, and within nodes in their last round.
    """
    base = ScanRound(HOSTS, ccl, sizes[-1:], dtype)

    def one(purpose: str, number: int = 0, meeting: int = 0, *, wide: bool = False) -> ScanRound:
        own = sizes if wide else sizes[-1:]
        return msgspec.structs.replace(
            base, purpose=purpose, number=number, meeting=meeting, sizes=own
        )

    node_of = shape.node_of
    within = sum(
        pairs.purpose == LEVEL and all(node_of[i] == node_of[j] for i, j in pairs.pairs)
        for pairs in meetings
    )
    counts: dict[str, int] = {}
    of_levels, others = [one(HOSTS)], []
    for meeting, pairs in enumerate(meetings):
        number = counts.setdefault(pairs.purpose, 0)
        counts[pairs.purpose] += 1
        if pairs.purpose == LEVEL:
            of_levels.append(one(LEVEL, number, meeting, wide=number == within - 1))
        else:
            others.append(one(pairs.purpose, number, meeting, wide=True))
    if len(shape.node_names) > 3:
        others += [one(QUIET), one(LOADED)]
    others.append(one(WHOLE))
    others += [one(PARTS, number) for number in range(divisions)]
    again = [one(CONFIRM, number) for number in range(2 * CONFIRMATIONS)]
    early, late = again[:CONFIRMATIONS], again[CONFIRMATIONS:]
    return [*of_levels, *early, *others, *late, one(VERDICT)]
