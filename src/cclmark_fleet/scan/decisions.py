"""What rank 0 decides in a scan: who meets whom, when the budget is used up, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

from cclmark.base.printable import plain
from cclmark_fleet.scan.figures import ScanFigures, tests_of
from cclmark_fleet.scan.fleet_rounds import CONFIRM, LEVEL, PairRound, planned_rounds
from cclmark_fleet.scan.fleet_verdict import NIC, NODE, is_decided, second_pass
from cclmark_fleet.scan.floors import with_published
from cclmark_fleet.scan.host_state import THERMAL_CHECKS
from cclmark_fleet.scan.plan import (
    CERTAIN,
    CONFIRMATIONS,
    HOSTS,
    LOADED,
    PARTS,
    VERDICT,
    WHOLE,
    ScanRound,
)
from cclmark_fleet.scan.result import DeviceState, GroupTest, KnownFleet, ScanResult

_MOST_EXAMINED, _GOOD_EXAMINED = 8, 3  # hosts
NOTHING_TO_CONFIRM = "nothing is suspected"


class Decisions:
    """Of rank 0 of an attempt."""

    def __init__(self, known: KnownFleet, seed: int, device: str, size_bytes: int) -> None:
        """``device``: the name of those of the fleet."""
        self.known, self._seed = known, seed
        known.fleet = with_published(known.fleet, device, known.network_gbit, size_bytes)
        self._present = set(known.devices)
        self._meetings = planned_rounds(known.fleet.shape, seed)
        self._results = [*known.earlier]
        used_s = sum(one.duration_s for one in known.earlier)
        self._end_s = time.monotonic() - used_s + known.budget_s if known.budget_s else None
        self._again: dict[bool, list[PairRound]] = {}
        self._certain: str | None = None
        self._states: list[DeviceState] = []
        self._good: set[int] = set()

    def groups(self, item: ScanRound) -> tuple[list[list[int]], str]:
        """The devices that work together in a round, or why there are none."""
        if self._end_s is not None and time.monotonic() > self._end_s:
            return [], f"the budget of {self.known.budget_s:g} s (--budget) is used up"
        if self._may_leave_out(item) and (certain := self._sentence_if_certain()):
            return [], f"{CERTAIN} {certain}"
        found = [
            own
            for group in self._wanted(item)
            if len(own := [one for one in group if one in self._present]) > 1
        ]
        if item.is_of_pairs:
            found = [own for own in found if len(own) == 2]
        if found:
            return found, ""
        reasons = {
            HOSTS: "every host has one device",
            CONFIRM: NOTHING_TO_CONFIRM,
            PARTS: "a part has one device",
        }
        return [], reasons.get(item.purpose, "its devices are left out")

    def _wanted(self, item: ScanRound) -> Sequence[Sequence[int]]:
        members = self.known.fleet.shape.members
        if item.purpose == CONFIRM:
            late, place = divmod(item.number, CONFIRMATIONS)
            rounds = self._confirmations(late=late > 0)
            return rounds[place].pairs if place < len(rounds) else ()
        if item.is_of_pairs:
            return self._meetings[item.meeting].pairs
        if item.purpose in (WHOLE, HOSTS, PARTS):
            count = {WHOLE: 1, HOSTS: len(members)}.get(item.purpose, 2 << item.number)
            return parts(members, count)
        every_other = [device for own in members[::2] for device in own]
        others = members[1::2]
        half = len(others) // 2
        beside = [
            pair
            for one, other in zip(others[:half], others[half:], strict=False)
            for pair in zip(one, other, strict=False)
        ]
        return [every_other, *(beside if item.purpose == LOADED else ())]

    def _confirmations(self, *, late: bool) -> list[PairRound]:
        """The rounds of a second pass: after those of levels, or after all."""
        if late not in self._again:
            shape = self.known.fleet.shape
            levels = tests_of([one for one in self._results if one.scanned.purpose == LEVEL])
            if late:
                first = [one for one in self._results if one.scanned.purpose != CONFIRM]
                self._again[late] = second_pass(shape, tests_of(first), self._seed + 1, levels)
            else:
                self._again[late] = second_pass(shape, levels, self._seed)
        return self._again[late]

    def to_examine(self) -> list[int]:
        """A device of each host that is slow, and of a few good ones: their hosts are checked."""
        figures = ScanFigures(self.known.fleet, self._results, self.known.failed)
        shape = self.known.fleet.shape
        slow = {
            shape.node_of[device]
            for one in figures.judgement.faults
            if one.kind in (NODE, NIC)
            for device in one.devices
        }
        good = [node for node in range(len(shape.members)) if node not in slow]
        if not slow or not good:
            return []
        chosen = [*sorted(slow)[:_MOST_EXAMINED], *good[:_GOOD_EXAMINED]]
        found = []
        for node in chosen:
            present = [one for one in shape.members[node] if one in self._present]
            found += present[:1]
        self._good = {shape.node_of[one] for one in found} - slow
        return found

    def examined(self, failed: Mapping[int, Mapping[str, str]]) -> None:
        """Takes the failed checks of hosts, by device: those that no good host has are states."""
        node_of = self.known.fleet.shape.node_of
        usual = {name for one, own in failed.items() if node_of[one] in self._good for name in own}
        for device, own in failed.items():
            if node_of[device] in self._good:
                continue
            for name, seen in own.items():
                if name not in usual:
                    text = f"cclmark doctor: {name}: {seen}; hosts that are not slow pass"
                    self._states.append(
                        DeviceState(device, plain(text), is_thermal=name in THERMAL_CHECKS)
                    )

    def _may_leave_out(self, item: ScanRound) -> bool:
        """Whether a round is left out once the verdict is certain."""
        is_early = item.purpose in (HOSTS, LEVEL, VERDICT) or (
            item.purpose == CONFIRM and item.number < CONFIRMATIONS
        )
        return not (is_early or self.known.is_complete)

    def _sentence_if_certain(self) -> str:
        """The verdict after the rounds of levels and their second pass; empty if not certain."""
        if self._certain is None:
            found = ScanFigures(self.known.fleet, self._results, self.known.failed)
            certain = is_decided(found.shape, tests_of(self._results), found.judgement)
            self._certain = found.sentence if certain else ""
        return self._certain

    def result(
        self,
        index: int,
        item: ScanRound,
        reason: str,
        tests: list[GroupTest],
        states: Sequence[DeviceState],
    ) -> ScanResult:
        """The result of a round."""
        known = self.known
        status = "skipped" if reason else "ok"
        if item.purpose == VERDICT:
            states = self._states
            figures = ScanFigures(known.fleet, self._results, known.failed, self._states)
            status, reason = ("failed" if figures.blames else "ok"), figures.sentence
        elif any(one.is_wrong for one in tests):
            status, reason = "wrong", "data of a test were wrong"
        result = ScanResult(
            index, item, status, reason, tests=tests, states=[*states], failed=known.failed
        )
        if item.purpose == HOSTS:
            result.fleet = known.fleet
        self._results.append(result)
        return result


def parts(members: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """The devices of all nodes in ``count`` equal parts of neighbours."""
    count = min(len(members), count)
    ends = [len(members) * number // count for number in range(count + 1)]
    return [
        [device for own in members[begin:end] for device in own] for begin, end in pairwise(ends)
    ]
