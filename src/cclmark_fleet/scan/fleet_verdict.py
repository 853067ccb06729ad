"""What is slow in a fleet, named only with evidence: nodes, links, rails, NICs, switches, or all.

The smallest number of faults that explains the tests is looked for from large to small: a group of
which most members are slow explains them, and its tests acquit their other ends. A fault counts if
its effect exceeds the noise of the tests, and if it was there again in the second pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any

import numpy as np

from cclmark_fleet.scan.fleet_model import (
    Effects,
    PairTests,
    by_pair,
    expectations,
    fit_effects,
    grouped_median,
    levels_of,
    quantiles_of,
    sigma_of,
)
from cclmark_fleet.scan.fleet_rounds import Pair, PairRound, confirming_rounds
from cclmark_fleet.scan.fleet_shape import FleetShape, Grouping

NODE, LINK, NIC, RAIL, SWITCH = "NODE", "LINK", "NIC", "RAIL", "SWITCH"
FABRIC_WIDE, TRANSIENT, NONE = "FABRIC-WIDE", "TRANSIENT", "NONE"
UNKNOWN = "UNKNOWN"  # nothing was found in too few tests
HOST_STATE, THERMAL = "HOST STATE", "THERMAL"
LEAST_EFFECT = 0.06  # of a rate, below which nothing is named
LEAST_OF_ALL = 0.1  # of the rate of all, below the floor
LEAST_CONFIDENCE = 0.9  # below which nothing is named
_SURE = 0.95  # above which a scan may end early; without a second pass there is no more
_SIGMAS = 6.0  # of the median of a device's tests
_LINK_SIGMAS = 6.0  # of a single pair: there are as many as tests
_MARGINAL_Z = 3.5  # modified z, after Iglewicz and Hoaglin, 1993
_MOST_OF_GROUP = 0.6  # the share of slow members from which a group is slow
_LEAST_SPREAD = 0.01  # below which spreads are alike
_UNSTEADY = 1.0  # log of a spread over that of others: e times
_SLOW_SHARE = 0.25  # of the tests of a device that is slow now and then
_LEAST_P = 1e-4
_MOST_FAULTS, _MOST_LINKS = 24, 512
_WITH_STATE = 0.5  # of the limits of nodes that report no cause
_MOST_SAME_STATE = 0.2  # of nodes: a state that more have does not explain why some are slow


@dataclass(frozen=True)
class HostState:
    """What a node said of itself while it was tested. ``is_thermal``: of clocks and heat."""

    node: int
    text: str
    is_thermal: bool = False


@dataclass(frozen=True)
class CollectiveTest:
    """A collective of all devices. ``rates_bps``: its samples; ``halves_bps``: of both halves,
    each alone; ``expected_bps``: the floor of the same collective, 0 if unknown.
    """

    rates_bps: Sequence[float]
    halves_bps: Sequence[float] = ()
    expected_bps: float = 0.0


@dataclass(frozen=True)
class FleetEvidence:
    """What is known besides tests of pairs.

    ``floors_bps``: the least rate of a healthy pair by the name of its level, with their
    ``source``. ``absent``: nodes that stopped answering, with the reason.
    """

    floors_bps: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    states: Sequence[HostState] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    collective: CollectiveTest | None = None


@dataclass(frozen=True)
class Fault:
    """``where``: names; ``effect``: the change of the rate, −0.2 for −20 %, 0 where unknown.

    ``confidence``: 1 less the probability that chance explains the slow tests, with as many
    candidates as there are. ``slow`` of ``tested`` tests were slow.
    """

    kind: str
    where: tuple[str, ...]
    evidence: str
    effect: float = 0.0
    confidence: float = 0.0
    slow: int = 0
    tested: int = 0
    devices: tuple[int, ...] = ()

    @property
    def blames(self) -> bool:
        """Whether it names something that should be left out or repaired."""
        return self.kind not in (NONE, UNKNOWN, TRANSIENT, FABRIC_WIDE)


@dataclass(frozen=True)
class FleetJudgement:
    """``marginal``: nodes a little below the others, with the change of their rate.

    ``rates_bps``: what is normal at each level; ``sigma``: the noise of one test, as a share.
    ``effects``: of each device, as a share; NaN without tests. ``once``: pairs that were slow once.
    ``least_of_device``, ``least_of_link``: the smallest change that noise permits to name, as a
    share; NaN without tests.
    """

    faults: tuple[Fault, ...]
    marginal: Mapping[str, float]
    rates_bps: Mapping[str, float]
    sigma: float
    effects: Any
    once: int = 0
    least_of_device: float = float("nan")
    least_of_link: float = float("nan")


class _Part:
    """The tests within nodes, or those between them, and the faults found in them."""

    def __init__(self, shape: FleetShape, tests: PairTests, level: Any, *, within: bool) -> None:
        rows = np.flatnonzero(
            ((level == 0) == within) & np.isfinite(tests.rate_bps) & (tests.rate_bps > 0)
        )
        self.shape, self.within, self.rows = shape, within, rows
        self.level = level[rows]
        self.first, self.second = tests.first[rows], tests.second[rows]
        self.again = tests.is_confirming[rows]
        values = np.log(tests.rate_bps[rows])
        self.expected = expectations(values, self.level, tests.round_of[rows], quantiles_of(shape))
        self.residual = values - self.expected
        self.fit: Effects = fit_effects(self.first, self.second, self.residual, shape.devices)
        self.active = np.ones(len(rows), bool)
        self.least = -np.log1p(-LEAST_EFFECT)
        self.slow_tests = int((self.fit.left < -self._limit_of_one() / 2).sum())
        self.rate_of_slow = (self.slow_tests + 1) / (len(rows) + 2)

    def _limit_of_one(self) -> float:
        return float(max(self.least, _LINK_SIGMAS * self.fit.sigma))

    def medians(self, mask: Any) -> tuple[Any, Any, Any]:
        """By device: the median over its partners, how many there are, and its limit."""
        size = self.shape.devices
        one, other, middle, _, _ = by_pair(
            self.first[mask], self.second[mask], self.residual[mask], size
        )
        ends = np.concatenate((one, other))
        counts = np.bincount(ends, minlength=size)
        noise = 1.2533 * self.fit.sigma / np.sqrt(np.maximum(counts, 1))
        limits = np.maximum(self.least, _SIGMAS * np.maximum(noise, self.fit.spread))
        return grouped_median(ends, np.concatenate((middle, middle)), size), counts, limits

    def least_named(self) -> tuple[float, float]:
        """The smallest detectable slowdown of a device and of a link, as shares."""
        _, counts, limits = self.medians(self.active)
        usual = float(np.median(limits[counts > 0]))
        return float(-np.expm1(-usual)), float(-np.expm1(-self._limit_of_one()))

    def slow(self, mask: Any, eagerness: float = 1.0, least: int = 2) -> tuple[Any, Any]:
        """Whether each device is slow, and the medians. ``eagerness``: a factor of limits."""
        found, counts, limits = self.medians(mask)
        with np.errstate(invalid="ignore"):
            return (found < -limits * eagerness) & (counts >= least), found

    def explain(self, devices: Any) -> None:
        """Leaves the tests of faulty devices out: they acquit their other ends."""
        bad = np.zeros(self.shape.devices, bool)
        bad[devices] = True
        self.active &= ~(bad[self.first] | bad[self.second])

    def touching(self, devices: Iterable[int]) -> Any:
        """The tests with one of the devices, as a mask."""
        bad = np.zeros(self.shape.devices, bool)
        bad[[*devices]] = True
        return bad[self.first] | bad[self.second]

    def fault(
        self,
        kind: str,
        where: tuple[str, ...],
        devices: Sequence[int],
        mask: Any,
        rate_of_slow: float | None = None,
    ) -> Fault:
        """The fault of devices, from the tests of a mask. TRANSIENT if a second pass acquits it.

        ``rate_of_slow``: of other tests, by default of all.
        """
        rate_of_slow = self.rate_of_slow if rate_of_slow is None else rate_of_slow
        own = np.flatnonzero(mask & self.touching(devices))
        values, again = self.residual[own], self.again[own]
        limit = self.least
        effect = float(np.expm1(np.median(values)))
        slow = int((values < -limit / 2).sum())
        p = _tail(len(own), slow, rate_of_slow) * (self.shape.devices / len(devices))
        level = self.shape.level_names[int(np.bincount(self.level[own]).argmax())]
        expected = float(np.exp(np.median(self.expected[own])))
        text = (
            f"{slow} of {len(own)} tests are slow, in the middle {_gb(expected * (1 + effect))} < "
            f"{_gb(expected)} of others at the level {level}"
        )
        second = values[again]
        if len(second) and np.median(second) > -limit / 2:
            text += f"; {len(second)} tests of the second pass are normal"
            kind = TRANSIENT
        elif len(second):
            text += "; so is the second pass"
        else:
            p = max(p, 0.05)
            text += "; there was no second pass"
        return Fault(
            *(kind, where, text, effect, max(0.0, min(0.999, 1 - p)), slow, len(own)),
            tuple(map(int, devices)),
        )

    # The search, one fault after the other.

    def find(self) -> list[Fault]:
        """The faults of groups, nodes and devices; their tests are explained."""
        faults = []
        for _ in range(_MOST_FAULTS):
            found = self._next()
            if found is None:
                break
            fault, devices = found
            if fault.confidence >= LEAST_CONFIDENCE or fault.kind == TRANSIENT:
                faults.append(fault)
            self.explain(devices)
        return self._needed(faults)

    def _needed(self, faults: list[Fault]) -> list[Fault]:
        """The faults without those whose slow tests all have another faulty end.

        The worst device was taken first: it may be one that met faulty ones alone.
        """
        slow = self.residual < -self.least / 2
        kept = list(faults)
        for one in faults:
            mine = self.touching(one.devices)
            others = [end for other in kept if other is not one for end in other.devices]
            if others and not (slow & mine & ~self.touching(others)).any():
                kept.remove(one)
        return kept

    def find_beside(self, unsteady: Sequence[int]) -> Iterator[Fault]:
        """Devices all of whose partners are of unsteady nodes, and that are slow in every test."""
        mask = self.touching(unsteady)
        left = ~mask
        alone = np.ones(self.shape.devices, bool)
        for ends in (self.first[left], self.second[left]):
            alone[ends] = False
        alone[[*unsteady]] = False
        fast = mask & (self.residual > -self.least / 2)
        alone[self.first[fast]] = alone[self.second[fast]] = False
        slow, _ = self.slow(mask, least=3)
        for node, devices in enumerate(self.shape.members):
            own = [one for one in devices if slow[one] and alone[one]]
            if not own or len(own) >= _MOST_OF_GROUP * len(devices):
                continue
            rest = self.residual[mask & ~self.touching(own)]
            rate = (float((rest < -self.least / 2).sum()) + 1) / (len(rest) + 2)
            where = (self.shape.node_names[node], *(str(self.shape.place_of[one]) for one in own))
            fault = self.fault(NODE if self.within else NIC, where, own, mask, rate)
            if fault.confidence >= LEAST_CONFIDENCE:
                yield fault

    def _next(self) -> tuple[Fault, Any] | None:
        shape = self.shape
        for grouping, mask, kind in self._groupings():
            slow, medians = self.slow(mask)
            if not slow.any():
                continue
            of = np.asarray(grouping.of)
            tested = np.isfinite(medians)
            size = len(grouping.names)
            totals = np.bincount(of[tested], minlength=size)
            shares = np.bincount(of[slow], minlength=size) / np.maximum(totals, 1)
            bad = (shares >= _MOST_OF_GROUP) & (totals > 0)
            if kind != NODE:
                nodes = {(int(of[one]), shape.node_of[one]) for one in np.flatnonzero(slow)}
                several = Counter(group for group, _ in nodes)
                bad &= np.array([several[group] > 1 for group in range(size)])
                if bad.sum() * 2 > size:  # the others are the exception: the level is slow
                    continue
            if bad.any():
                means = np.full(size, np.inf)
                for group in np.flatnonzero(bad):
                    means[group] = np.nanmedian(medians[of == group])
                chosen = int(means.argmin())
                devices = np.flatnonzero((of == chosen) & tested)
                name = grouping.names[chosen]
                return self.fault(kind, (name,), [*map(int, devices)], mask), devices
        every = self.active
        slow, medians = self.slow(every)
        if not slow.any():
            return None
        device = int(np.where(slow, medians, np.inf).argmin())
        node = shape.node_of[device]
        own = [one for one in shape.members[node] if slow[one]]
        where = (shape.node_names[node], *(str(shape.place_of[one]) for one in own))
        kind = NODE if self.within else NIC
        return self.fault(kind, where, own, every), own

    def _groupings(self) -> Iterator[tuple[Grouping, Any, str]]:
        """From large to small, each with the tests that concern it."""
        shape = self.shape
        if not self.within:
            for at, grouping in reversed([*enumerate(shape.groupings, 1)]):
                yield grouping, self.active & (self.level > at), SWITCH
                # A switch of a rail has no tests beyond it, since rails do not meet.
                yield grouping, self.active & (self.level >= at), SWITCH
            widest = max(map(len, shape.members))
            if widest > 1 and len(shape.node_names) > 2:
                names = tuple(f"rail {place}" for place in range(widest))
                yield Grouping("rail", tuple(shape.place_of), names), self.active, RAIL
        nodes = Grouping("node", shape.node_of, shape.node_names)
        yield nodes, self.active, NODE

    def links(self, least: int, eagerness: float = 1.0) -> list[tuple[Pair, float, int]]:
        """Slow pairs whose ends are not, with the median of w and the number of tests, worst first.

        ``least``: the tests that a pair needs.
        """
        rows = np.flatnonzero(self.active)
        one, other, middle, counts, _ = by_pair(
            self.first[rows], self.second[rows], self.fit.left[rows], self.shape.devices
        )
        # A part of the noise is of the path for good: more tests of it do not average that out.
        noise = _LINK_SIGMAS * self.fit.sigma * np.sqrt(0.7 + 0.3 / counts)
        limits = np.maximum(self.least, noise) * eagerness
        low = np.flatnonzero((middle < -limits) & (counts >= least))
        return [
            ((int(one[at]), int(other[at])), float(middle[at]), int(counts[at]))
            for at in low[np.argsort(middle[low])]
        ]


def _tail(number: int, least: int, share: float) -> float:
    """The probability of ``least`` or more of ``number`` events of probability ``share``."""
    if number > 400:  # of a group: the tail is far below any limit, or nearly 1
        return 0.0 if least > 1.5 * share * number + 10 else 1.0
    return sum(
        comb(number, one) * share**one * (1 - share) ** (number - one)
        for one in range(least, number + 1)
    )


def _gb(rate_bps: float) -> str:
    return f"{rate_bps / 1e9:.3g} GB/s"


def _parts(shape: FleetShape, tests: PairTests) -> list[_Part]:
    level = levels_of(shape, tests.first, tests.second)
    parts = [_Part(shape, tests, level, within=within) for within in (False, True)]
    return [part for part in parts if len(part.rows)]


def suspects(shape: FleetShape, tests: PairTests) -> tuple[list[int], list[Pair]]:
    """The devices and the links that a second pass should test again."""
    devices: dict[int, None] = {}
    links: list[tuple[float, Pair]] = []
    for part in _parts(shape, tests):
        slow, _ = part.slow(part.active, 0.7, least=1)
        devices.update(dict.fromkeys(map(int, np.flatnonzero(slow))))
        devices.update(dict.fromkeys(map(int, np.flatnonzero(_now_and_then(part)))))
        links += [(value, pair) for pair, value, _ in part.links(1, 0.7)]
    varied, _ = _Variation(shape, tests).by_device()
    devices.update(dict.fromkeys(map(int, np.flatnonzero(varied))))
    return [*devices], [pair for _, pair in sorted(links)[:_MOST_LINKS]]


def second_pass(
    shape: FleetShape, tests: PairTests, seed: int, before: PairTests | None = None
) -> list[PairRound]:
    """The rounds that test suspects again, none if there are no suspects.

    ``before``: the tests of an earlier first pass, whose suspects have been tested again.
    """
    devices, links = suspects(shape, tests)
    if before is not None:
        known_devices, known_links = suspects(shape, before)
        if {*known_devices}.issuperset(devices) and {*known_links}.issuperset(links):
            return []
    return confirming_rounds(shape, devices, links, seed) if devices or links else []


def is_decided(shape: FleetShape, tests: PairTests, found: FleetJudgement) -> bool:
    """Whether more rounds cannot change the verdict: all that is named was slow in both passes.

    In addition, tests among the other devices name no further device.
    """
    if not found.faults or any(
        not one.blames or one.confidence <= _SURE or not one.devices for one in found.faults
    ):
        return False
    left = np.ones(len(tests.first), bool)
    within = levels_of(shape, tests.first, tests.second) == 0
    named = [device for one in found.faults if one.kind != LINK for device in one.devices]
    for one in found.faults:
        mine = np.isin(tests.first, one.devices), np.isin(tests.second, one.devices)
        left &= ~(mine[0] & mine[1] if one.kind == LINK else mine[0] | mine[1])
    for of in (within, ~within):
        before, after = (
            np.concatenate((tests.first[mask], tests.second[mask])) for mask in (of, of & left)
        )
        if not {*before.tolist()} <= {*after.tolist(), *named}:
            return False
    return suspects(shape, tests.where(left)) == ([], [])


def _now_and_then(part: _Part) -> Any:
    """Devices that are slow in more tests than chance explains."""
    size, active = part.shape.devices, part.active
    ends = np.concatenate((part.first[active], part.second[active]))
    values = np.concatenate((part.residual[active], part.residual[active]))
    counts = np.bincount(ends, minlength=size)
    slow = np.bincount(ends[values < -part._limit_of_one()], minlength=size)
    found = np.zeros(size, bool)
    share = max(part.rate_of_slow, float(slow.sum()) / max(1, len(ends)) / 4)
    for device in np.flatnonzero((slow >= 3) & (slow >= _SLOW_SHARE * counts)):
        p = _tail(int(counts[device]), int(slow[device]), share)
        found[device] = p * size < _LEAST_P
    return found


class _Variation:
    """How much the times of tests vary, beside others of their level.

    Tests within nodes and between them are apart: of two nodes, all tests between them have both.
    """

    def __init__(self, shape: FleetShape, tests: PairTests) -> None:
        level = levels_of(shape, tests.first, tests.second)
        usual = [1 - one for one in quantiles_of(shape)]
        known = np.isfinite(tests.spread) & (tests.spread >= 0)
        self.shape = shape
        self.parts = []
        for within in (True, False):
            rows = np.flatnonzero(((level == 0) == within) & known)
            values = np.log(tests.spread[rows] + _LEAST_SPREAD)
            if len(rows) > 2:
                values -= expectations(values, level[rows], tests.round_of[rows], usual)
                self.parts.append((tests.first[rows], tests.second[rows], values))

    def by_device(self) -> tuple[Any, Any]:
        """Whether each device is unsteady, and how many times more than others it varies."""
        size = self.shape.devices
        bad, times = np.zeros(size, bool), np.ones(size)
        for first, second, values in self.parts:
            one, other, middle, _, _ = by_pair(first, second, values, size)
            ends = np.concatenate((one, other))
            # The lower median, by the sign: for innocence.
            own = -grouped_median(ends, -np.concatenate((middle, middle)), size)
            counts = np.bincount(ends, minlength=size)
            explained = np.fmax(own[one], own[other])
            noise = sigma_of(middle - explained) * 1.2533 / np.sqrt(np.maximum(counts, 1))
            with np.errstate(invalid="ignore"):
                bad |= (own > np.maximum(_UNSTEADY, _SIGMAS * noise)) & (counts >= 3)
            times = np.fmax(times, np.exp(own))
        return bad, times

    def worst(self) -> tuple[int, float, float] | None:
        """The node that varies most, how many times more, and the probability of chance."""
        bad, times = self.by_device()
        shape = self.shape
        found = [
            (float(np.median(times[own])), node)
            for node, devices in enumerate(shape.members)
            if (own := [one for one in devices if bad[one]])
            and len(own) >= _MOST_OF_GROUP * len(devices)
        ]
        if not found:
            return None
        ratio, node = max(found)
        high = total = own_high = own_total = 0
        for first, second, values in self.parts:
            mine = self._touching(node, first, second)
            above = values > _UNSTEADY / 2
            high, total = high + int(above.sum()), total + len(above)
            own_high, own_total = own_high + int(above[mine].sum()), own_total + int(mine.sum())
        share = (high - own_high + 1) / (total - own_total + 2)
        return node, ratio, _tail(own_total, own_high, share) * len(shape.members)

    def leave_out(self, node: int) -> None:
        """Leaves the tests of a node out: they say nothing of its partners."""
        kept = []
        for first, second, values in self.parts:
            mine = ~self._touching(node, first, second)
            if mine.sum() > 2:
                kept.append((first[mine], second[mine], values[mine]))
        self.parts = kept

    def _touching(self, node: int, first: Any, second: Any) -> Any:
        of = np.asarray(self.shape.node_of)
        return (of[first] == node) | (of[second] == node)


def judge(
    shape: FleetShape, tests: PairTests, evidence: FleetEvidence = FleetEvidence()
) -> FleetJudgement:
    """What the tests say. Nothing is named on less than two tests."""
    faults: list[Fault] = [
        Fault(NODE, (name,), f"stopped answering: {reason}", -1.0, 1.0)
        for name, reason in evidence.absent.items()
    ]
    parts = _parts(shape, tests)
    least = [part.least_named() for part in parts]
    if len({*map(int, tests.first), *map(int, tests.second)}) <= 2:
        found: list[Fault] = []  # the tests of two devices are one link
    else:
        # Of a node whose times vary, some tests are slow and others are not: it comes first.
        found = [*_varying(shape, tests, parts)]
        unsteady = [device for fault in found for device in fault.devices]
        found += [fault for part in parts for fault in part.find()]
        if unsteady:
            found += [fault for part in parts for fault in part.find_beside(unsteady)]
        found += _of_states(shape, parts, evidence, {one.where[0] for one in found})
        found += _changing(shape, parts)
        found += _links(shape, parts)
    faults += _states(_merged(found), evidence, shape)
    rates = {
        shape.level_names[level]: float(np.exp(np.median(part.expected[part.level == level])))
        for part in parts
        for level in np.unique(part.level)
    }
    faults += _of_all(parts, rates, evidence, faults)
    effects = np.full(shape.devices, np.nan)
    for part in parts:
        effects = np.fmin(effects, np.expm1(part.fit.own))
    blamed = {name for fault in faults for name in fault.where}
    once = sum(len(part.links(1)) for part in parts)
    return FleetJudgement(
        tuple(sorted(faults, key=lambda one: (not one.blames, one.effect))),
        _marginal(shape, parts, blamed),
        rates,
        max((part.fit.sigma for part in parts), default=0.0),
        effects,
        max(0, once - sum(fault.kind == LINK for fault in faults)),
        *(max(column) for column in zip(*least, strict=True)),
    )


def _links(shape: FleetShape, parts: Sequence[_Part]) -> list[Fault]:
    found: list[Fault] = []
    for part in parts:
        doubted = len(part.links(1))
        for (one, other), value, count in part.links(2)[:_MOST_FAULTS]:
            names = (shape.device_name(one), shape.device_name(other))
            rows = (part.first == one) | (part.second == one)
            rows |= (part.first == other) | (part.second == other)
            others = int(rows.sum()) - count
            expected = float(np.exp(np.median(part.expected[rows])))
            text = (
                f"{count} tests of the pair are at {_gb(expected * np.exp(value))} < "
                f"{_gb(expected)}; {others} tests of its ends with others are normal"
            )
            rate = max(1.0, part.slow_tests - count + 1.0) / (len(part.rows) - count + 2)
            p = min(1.0, rate) ** (count - 1) * doubted
            confidence = max(0.0, min(0.999, 1 - p)) if others else 0.5
            if confidence >= LEAST_CONFIDENCE:
                effect = float(np.expm1(value))
                found.append(
                    Fault(LINK, names, text, effect, confidence, count, count, (one, other))
                )
    return _of_one_switch(shape, found)


def _of_one_switch(shape: FleetShape, found: list[Fault]) -> list[Fault]:
    """Links that all leave one group, and no common device: they share its links upwards."""
    between = [one for one in found if len({shape.node_of[end] for end in one.devices}) > 1]
    if len(between) < 2 or set.intersection(*(set(one.devices) for one in between)):
        return found
    for grouping in reversed(shape.groupings):
        groups = [{grouping.of[end] for end in one.devices} for one in between]
        common = set.intersection(*groups)
        if len(common) == 1 and all(len(own) > 1 for own in groups):
            worst = min(between, key=lambda one: one.confidence)
            text = f"{len(between)} pairs that leave it are slow, such as: {between[0].evidence}"
            name = grouping.names[common.pop()]
            devices = tuple(end for one in between for end in one.devices)
            fault = replace(worst, kind=SWITCH, where=(name,), evidence=text, devices=devices)
            return [fault, *(one for one in found if one not in between)]
    return found


def _varying(shape: FleetShape, tests: PairTests, parts: Sequence[_Part]) -> Iterator[Fault]:
    """Nodes whose tests vary, one after the other."""
    variation = _Variation(shape, tests)
    for _ in range(_MOST_FAULTS):
        worst = variation.worst()
        if worst is None:
            return
        node, ratio, p = worst
        variation.leave_out(node)
        text = f"times vary {ratio:.1f} times as much as those of others; "
        fault = _unsteady(shape, parts, node, p, text)
        if fault.confidence >= LEAST_CONFIDENCE:
            yield fault


def _changing(shape: FleetShape, parts: Sequence[_Part]) -> Iterator[Fault]:
    """Nodes that are slow now and then, by more than chance, which nothing else explains."""
    bad = np.any([_now_and_then(part) for part in parts], axis=0)
    for node, devices in enumerate(shape.members):
        if sum(map(bool, bad[devices])) >= _MOST_OF_GROUP * len(devices):
            yield _unsteady(shape, parts, node, _LEAST_P, "")


def _unsteady(shape: FleetShape, parts: Sequence[_Part], node: int, p: float, text: str) -> Fault:
    """The fault of a node; its tests are explained if it is named."""
    devices = shape.members[node]
    slow, tested, effect = 0, 0, 0.0
    for part in parts:
        values = part.residual[part.touching(devices) & part.active]
        low = values < -part.least
        slow, tested = slow + int(low.sum()), tested + len(values)
        effect = min(effect, float(np.expm1(values[low].mean())) if low.any() else 0.0)
    text += f"{slow} of {tested} tests are slow"
    confidence = max(0.0, min(0.999, 1 - p))
    for part in parts if confidence >= LEAST_CONFIDENCE else ():
        part.explain(devices)
    name = (shape.node_names[node],)
    return Fault(NODE, name, text, effect, confidence, slow, tested, tuple(devices))


def _merged(found: Sequence[Fault]) -> list[Fault]:
    """One fault for each node: within it and beyond; a whole node has its devices."""
    whole = {fault.where[0] for fault in found if fault.kind == NODE}
    merged: dict[tuple[str, tuple[str, ...]], Fault] = {}
    for fault in found:
        if fault.kind == NIC and fault.where[0] in whole:
            continue
        key = (fault.kind, fault.where[:1] if fault.kind == NODE else fault.where)
        known = merged.get(key)
        if known is None:
            merged[key] = fault
        else:
            where = min(known.where, fault.where, key=len)
            text = f"{known.evidence}; {fault.evidence}"
            first = min(known, fault, key=lambda one: one.effect)
            merged[key] = replace(first, where=where, evidence=text)
    return [*merged.values()]


def _rare_states(shape: FleetShape, evidence: FleetEvidence) -> dict[str, list[HostState]]:
    """The states of nodes by name; none if so many have one that it explains nothing."""
    by_node: dict[str, list[HostState]] = {}
    for state in evidence.states:
        by_node.setdefault(shape.node_names[state.node], []).append(state)
    is_rare = len(by_node) <= max(1, _MOST_SAME_STATE * len(shape.node_names))
    return by_node if is_rare else {}


def _of_states(
    shape: FleetShape, parts: Sequence[_Part], evidence: FleetEvidence, named: set[str]
) -> Iterator[Fault]:
    """Nodes that report what slows them down, and are slow: less of it suffices than of others."""
    for name in _rare_states(shape, evidence):
        devices = shape.members[shape.node_names.index(name)]
        for part in parts if name not in named else ():
            medians, _, limits = part.medians(part.active)
            low = [one for one in devices if medians[one] < -limits[one] * _WITH_STATE]
            if len(low) < _MOST_OF_GROUP * len(devices):
                continue
            fault = part.fault(NODE, (name,), devices, part.active)
            if fault.kind == NODE and fault.confidence >= LEAST_CONFIDENCE:
                part.explain(devices)
                yield fault


def _states(found: Sequence[Fault], evidence: FleetEvidence, shape: FleetShape) -> Iterator[Fault]:
    """Faults of nodes with a cause that their hosts reported, and that few others have."""
    by_node = _rare_states(shape, evidence)
    for fault in found:
        own = by_node.get(fault.where[0], []) if fault.kind in (NODE, NIC) else []
        if not own:
            yield fault
            continue
        kind = THERMAL if any(state.is_thermal for state in own) else HOST_STATE
        said = "; ".join(state.text for state in own)
        yield replace(fault, kind=kind, evidence=f"{fault.evidence}; the host: {said}")


def _of_all(
    parts: Sequence[_Part],
    rates: Mapping[str, float],
    evidence: FleetEvidence,
    faults: Sequence[Fault],
) -> Iterator[Fault]:
    """Whether all are slow: pairs below the floors, or a collective that no half explains."""
    for level, rate_bps in rates.items():
        floor_bps = evidence.floors_bps.get(level, 0.0)
        if rate_bps >= floor_bps * (1 - LEAST_OF_ALL):
            continue
        measured = np.concatenate(
            [
                part.expected[mine] + part.residual[mine]
                for part in parts
                if (mine := part.level == part.shape.level_names.index(level)).any()
            ]
        )
        slow = int((np.exp(measured) < floor_bps * (1 - LEAST_OF_ALL / 2)).sum())
        text = (
            f"{slow} of {len(measured)} tests at the level {level} are below the floor: the usual "
            f"pair has {_gb(rate_bps)} < {_gb(floor_bps)} ({evidence.source})"
        )
        effect = rate_bps / floor_bps - 1
        # By chance, half of the tests would be below what is normal.
        sure = 1 - _tail(len(measured), slow, 0.5)
        if sure >= LEAST_CONFIDENCE:
            sure = min(0.999, sure)
            yield Fault(FABRIC_WIDE, (level,), text, effect, sure, slow, len(measured))
    test = evidence.collective
    if test is None or not test.expected_bps or any(fault.blames for fault in faults):
        return
    rates_bps = sorted(test.rates_bps)
    middle = rates_bps[len(rates_bps) // 2]
    if middle >= test.expected_bps * (1 - LEAST_OF_ALL):
        return
    text = (
        f"the collective of all has {_gb(middle)} < {_gb(test.expected_bps)}, from "
        f"{_gb(rates_bps[0])} to {_gb(rates_bps[-1])} in one run"
    )
    if test.halves_bps and min(test.halves_bps) >= test.expected_bps * (1 - LEAST_OF_ALL):
        text += f"; both halves alone have {_gb(min(test.halves_bps))} or more: load or routes"
    slow = sum(rate < test.expected_bps * (1 - LEAST_OF_ALL / 2) for rate in rates_bps)
    sure, effect = 1 - _tail(len(rates_bps), slow, 0.5), middle / test.expected_bps - 1
    if sure >= LEAST_CONFIDENCE:
        yield Fault(FABRIC_WIDE, ("fabric",), text, effect, min(0.999, sure), slow, len(rates_bps))


def _marginal(shape: FleetShape, parts: Sequence[_Part], blamed: set[str]) -> dict[str, float]:
    """Nodes below the others by more than their spread, that are not slow."""
    found: dict[str, float] = {}
    for part in parts:
        own = part.fit.own
        known = own[np.isfinite(own)]
        if len(known) < 8:
            continue
        middle = float(np.median(known))
        scale = max(sigma_of(known), part.fit.sigma / 3, 0.002)
        with np.errstate(invalid="ignore"):
            low = (own - middle) / scale < -_MARGINAL_Z
        low &= own - middle < -LEAST_EFFECT / 3
        for device in np.flatnonzero(low):
            name = shape.node_names[shape.node_of[device]]
            if name not in blamed:
                found[name] = min(found.get(name, 0.0), float(np.expm1(own[device] - middle)))
    return dict(sorted(found.items(), key=lambda one: one[1]))
