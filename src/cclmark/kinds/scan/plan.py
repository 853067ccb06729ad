"""Rounds of a scan: what is measured at once, in the order of measurement."""

from __future__ import annotations

import msgspec

from cclmark.fleet.fleet_rounds import CONFIRM, LEVEL, RANDOM, SHIFTED, PairRound
from cclmark.fleet.fleet_shape import FleetShape
from cclmark.work.counts import AtLeastOne, Count

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
#: Rounds of the second pass, see fleet_rounds.confirming_rounds.
CONFIRMATIONS = 6


class ScanRound(msgspec.Struct, frozen=True, omit_defaults=True):
    """Disjoint groups of devices that work at once. ``number``: among the rounds of its purpose.

    ``sizes``: of messages, ascending; ``dtype``: their elements. ``meeting``: for rounds that are
    known in advance, their place in fleet_rounds.planned_rounds.
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
    """The rounds of a fleet. ``meetings``: of planned_rounds. ``divisions``: of ``--bisect``."""
    base = ScanRound(HOSTS, ccl, sizes, dtype)

    def one(purpose: str, number: int = 0, meeting: int = 0) -> ScanRound:
        return msgspec.structs.replace(base, purpose=purpose, number=number, meeting=meeting)

    rounds = [one(HOSTS)]
    counts: dict[str, int] = {}
    for meeting, pairs in enumerate(meetings):
        number = counts.setdefault(pairs.purpose, 0)
        counts[pairs.purpose] += 1
        rounds.append(one(pairs.purpose, number, meeting))
    if len(shape.node_names) > 3:
        rounds += [one(QUIET), one(LOADED)]
    rounds.append(one(WHOLE))
    rounds += [one(PARTS, number) for number in range(divisions)]
    rounds += [one(CONFIRM, number) for number in range(CONFIRMATIONS)]
    return [*rounds, one(VERDICT)]
