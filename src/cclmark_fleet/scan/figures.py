"""Results of a scan as tests of a fleet, and what they say: pure functions of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from statistics import median

from cclmark.journal.schema import Header
from cclmark_fleet.scan.fleet_model import PairTests
from cclmark_fleet.scan.fleet_rounds import CONFIRM
from cclmark_fleet.scan.fleet_shape import FleetShape, shape_of_hosts
from cclmark_fleet.scan.fleet_verdict import (
    LEAST_OF_ALL,
    NONE,
    UNKNOWN,
    CollectiveTest,
    Fault,
    FleetEvidence,
    FleetJudgement,
    HostState,
    judge,
)
from cclmark_fleet.scan.plan import LOADED, PARTS, QUIET, VERDICT, WHOLE
from cclmark_fleet.scan.result import DeviceState, FailedDevice, GroupTest, ScannedFleet, ScanResult

CHANGED = 0.06  # of a rate since it was accepted
DIP = 0.2  # a rate below that of the next smaller size by more than this share


def fleet_of(header: Header, results: Sequence[ScanResult]) -> ScannedFleet:
    """The fleet of a run, which the first round has, else the hosts of the header."""
    names = list(dict.fromkeys(one.host for one in header.devices))
    host_of = [names.index(one.host) for one in header.devices]
    found = next((one.fleet for one in results if one.fleet is not None), None)
    if found is not None and found.shape.devices >= len(host_of):
        return found
    return ScannedFleet(shape_of_hosts(host_of, names))


def tests_of(results: Sequence[ScanResult]) -> PairTests:
    """The tests of pairs of all rounds."""
    return PairTests.of(
        [
            (
                *(test.devices[0], test.devices[1], result.index),
                test.rate_bps or float("nan"),
                float("nan") if test.spread is None else test.spread,
                result.scanned.purpose == CONFIRM,
            )
            for result in results
            if result.scanned.is_of_pairs
            for test in result.tests
        ]
    )


@dataclass(frozen=True)
class ScanFigures:
    """What a scan says. ``failed``: devices that were left out at its end.

    ``examined``: what checks of hosts found after the rounds.
    """

    fleet: ScannedFleet
    results: Sequence[ScanResult]
    failed: Sequence[FailedDevice] = ()
    examined: Sequence[DeviceState] = ()

    @property
    def shape(self) -> FleetShape:
        """Of the fleet."""
        return self.fleet.shape

    @cached_property
    def judgement(self) -> FleetJudgement:
        """The verdict."""
        return judge(self.shape, tests_of(self.results), self._evidence())

    @property
    def of_any(self) -> bool:
        """Whether anything was measured, or a device failed."""
        return any(one.tests for one in self.results) or bool(self.failed)

    @property
    def faults(self) -> Sequence[Fault]:
        """What was found, or that nothing was."""
        return self.judgement.faults or (self._nothing,)

    @property
    def _nothing(self) -> Fault:
        """What a scan without faults says: what would have been found."""
        least = self.judgement.least_of_device, self.judgement.least_of_link
        if self.shape.devices <= 2:
            if self.fleet.floors_bps:
                return Fault(NONE, (), "the link between the two devices is not below its floor")
            text = "two devices have one link, and no floor is known that it could be compared with"
            return Fault(UNKNOWN, (), text)
        tests = Counter(one for test in self.pairs if test.rate_bps for one in test.devices)
        left = self.shape.devices - len(self.failed)
        judged = sum(count > 1 for count in tests.values())
        if judged < left or not all(map(isfinite, least)):
            text = (
                f"too few tests for a verdict: {judged} of {left} devices have two or more; "
                "measure the missing rounds with --resume"
            )
            return Fault(UNKNOWN, (), text)
        text = (
            "no slow host, link or switch found; noise hides a host that is less than "
            f"{least[0]:.0%} slower, and a single link below {least[1]:.0%}"
        )
        return Fault(NONE, (), text)

    @property
    def blames(self) -> bool:
        """Whether something is named that should be left out or repaired, or all is slow."""
        return any(one.kind not in ("NONE", "TRANSIENT") for one in self.judgement.faults)

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        return "; ".join(fault_words(one) for one in self.faults)

    def of_purpose(self, purpose: str) -> list[ScanResult]:
        """The measured rounds of a purpose."""
        return [one for one in self.results if one.scanned.purpose == purpose and one.tests]

    @property
    def pairs(self) -> Iterator[GroupTest]:
        """The tests of pairs."""
        return (test for one in self.results if one.scanned.is_of_pairs for test in one.tests)

    @cached_property
    def nodes_left_out(self) -> dict[str, str]:
        """Nodes without a device that answers, or single devices of others, and why."""
        found: dict[str, str] = {}
        reasons = {one.device: one.reason for one in self.failed}
        for name, devices in zip(self.shape.node_names, self.shape.members, strict=True):
            gone = [one for one in devices if one in reasons]
            if len(gone) == len(devices):
                found[name] = reasons[gone[0]]
            else:
                found |= {self.shape.device_name(one): reasons[one] for one in gone}
        return found

    def _evidence(self) -> FleetEvidence:
        states: dict[HostState, None] = {}
        of_rounds = [one for result in self.results for one in result.states]
        for place, one in enumerate([*of_rounds, *self.examined]):
            node = self.shape.node_of[one.device] if one.device < self.shape.devices else -1
            is_new = place >= len(of_rounds) or not any(  # a later round says no more
                known.node == node and known.is_thermal == one.is_thermal for known in states
            )
            if node >= 0 and is_new:
                states[HostState(node, one.text, one.is_thermal)] = None
        whole = [test for one in self.of_purpose(WHOLE) for test in one.tests if test.rate_bps]
        halves = [
            test.rate_bps
            for one in self.of_purpose(PARTS)
            if one.scanned.number == 0
            for test in one.tests
        ]
        floors = self.fleet.floors_bps
        collective = None
        if whole:
            test = whole[0]
            late = [test.rate_bps / (1 + by) for by in (test.tail, test.spread) if by is not None]
            samples = [test.low_bps, *late, test.rate_bps, test.high_bps]
            expected = floors.get("all_reduce", 0.0)
            collective = CollectiveTest([rate for rate in samples if rate], halves, expected)
        return FleetEvidence(
            floors, self.fleet.floor_source, [*states], self.nodes_left_out, collective
        )

    @cached_property
    def load(self) -> tuple[float, float] | None:
        """The collective of every other host while others rest, and beside their pairs."""
        quiet = [test for one in self.of_purpose(QUIET) for test in one.tests]
        loaded = [test for one in self.of_purpose(LOADED) for test in one.tests[:1]]
        if not quiet or not loaded or not quiet[0].rate_bps or not loaded[0].rate_bps:
            return None
        return quiet[0].rate_bps, loaded[0].rate_bps

    @cached_property
    def node_rates_bps(self) -> dict[str, float]:
        """The median rate of the pairs of each node beyond it, or within it if it is alone."""
        own: dict[str, list[float]] = {}
        for test in self.pairs:
            nodes = {self.shape.node_of[one] for one in test.devices}
            if test.rate_bps and (len(nodes) > 1 or len(self.shape.node_names) == 1):
                for node in nodes:
                    own.setdefault(self.shape.node_names[node], []).append(test.rate_bps)
        return {name: median(rates) for name, rates in own.items()}

    @cached_property
    def changed(self) -> list[tuple[str, float, float]]:
        """Levels and nodes whose rates differ from the accepted ones: name, then, now."""
        if not self.fleet.accepted_at:
            return []
        now = {**self.judgement.rates_bps, **self.node_rates_bps}
        then = {**self.fleet.floors_bps, **self.fleet.rates_bps}
        return [
            (name, then[name], now[name])
            for name in then
            if name in now and then[name] and abs(now[name] / then[name] - 1) > CHANGED
        ]

    @cached_property
    def slowest_parts(self) -> list[tuple[int, GroupTest, float]]:
        """Of each division the slowest part and its rate over the median of the others."""
        found = []
        for result in self.of_purpose(PARTS):
            rated = [one for one in result.tests if one.rate_bps]
            if len(rated) > 1:
                worst = min(rated, key=lambda one: one.rate_bps)
                others = median(one.rate_bps for one in rated if one is not worst)
                found.append((len(result.tests), worst, worst.rate_bps / others))
        return found

    @property
    def narrowed(self) -> tuple[GroupTest, float] | None:
        """The smallest part that is slower than the others, within all larger ones that are.

        With its rate over the median of the others; None if the halves do not differ.
        """
        found: tuple[GroupTest, float] | None = None
        for _, test, ratio in sorted(self.slowest_parts, key=lambda one: one[0]):
            if ratio > 1 - LEAST_OF_ALL:
                break
            if found is not None and not set(test.devices) <= set(found[0].devices):
                break
            found = test, ratio
        return found

    @cached_property
    def dips(self) -> list[tuple[int, int, int]]:
        """Sizes at which most pairs are slower than at the next smaller one, with how many."""
        counts: dict[int, list[int]] = {}
        for result in self.results:
            for test in result.tests if result.scanned.is_of_pairs else ():
                rates = test.rates_bps
                for place in range(1, len(rates)):
                    if rates[place - 1] and rates[place]:
                        own = counts.setdefault(result.scanned.sizes[place], [0, 0])
                        own[0] += rates[place] < rates[place - 1] * (1 - DIP)
                        own[1] += 1
        return [(size, low, of) for size, (low, of) in counts.items() if low * 2 > of]


def figures_of(header: Header, results: Sequence[ScanResult]) -> ScanFigures:
    """The figures of a run."""
    ordered = sorted(results, key=lambda one: one.index)
    failed = ordered[-1].failed if ordered else []
    rounds = [one for one in ordered if one.scanned.purpose != VERDICT]
    examined = [state for one in ordered if one.scanned.purpose == VERDICT for state in one.states]
    return ScanFigures(fleet_of(header, ordered), rounds, failed, examined)


def fault_words(fault: Fault) -> str:
    """``NODE node7 (-18 %, confidence 99.9 %): 9 of 9 tests are slow …``"""
    where = " – ".join(fault.where) if fault.kind == "LINK" else _place(fault)
    sure = f", confidence {fault.confidence:.1%}" if fault.confidence else ""
    amount = f" ({fault.effect:+.0%}{sure})" if fault.effect > -1 and fault.effect else ""
    return f"{fault.kind}{' ' * bool(where)}{where}{amount}: {fault.evidence}"


def plain_words(fault: Fault) -> str:
    """The verdict as a sentence: the word NONE is replaced."""
    return fault.evidence if fault.kind in (NONE, UNKNOWN) else fault_words(fault)


def _place(fault: Fault) -> str:
    """``2, 3 of node7`` for NICs, else the name."""
    if len(fault.where) < 2:
        return "".join(fault.where)
    places = ", ".join(fault.where[1:])
    return (
        f"{places} of {fault.where[0]}"
        if fault.kind == "NIC"
        else f"{fault.where[0]}, device {places}"
    )
