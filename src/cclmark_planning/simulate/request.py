"""Runs ``cclmark simulate``: options to simulations, their results to journal and screen."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.base.files import read_regular
from cclmark.base.printable import plain
from cclmark.document.insight_words import amount
from cclmark.document.text import three_digits, time_words
from cclmark.recording.caller import notice
from cclmark.recording.recorder import Recorded
from cclmark.recording.whole_run import record_whole
from cclmark.work.cases import UnevenPattern
from cclmark.work.fabric_topology import Topology, parse_topology
from cclmark.work.operations import OPERATIONS as INFOS
from cclmark.work.sizes import sweep
from cclmark.work.thresholds import meant
from cclmark_planning.simulate.command import (
    OPERATIONS,
    PACKED,
    SCATTERED,
    SPREAD,
    NeighbourJob,
    SimulateFlags,
)
from cclmark_planning.simulate.figures import bus_bytes
from cclmark_planning.simulate.graph import HASH, Efficiency, Fabric, Impairments, fabric_of
from cclmark_planning.simulate.kind import KIND
from cclmark_planning.simulate.plan import Simulation
from cclmark_planning.simulate.result import HotLink, LinkLevel, SimulatedPhase, SimulationResult
from cclmark_planning.simulate.schedules import (
    ALLTOALL,
    DIRECT,
    RING,
    steps_of,
    usual_algorithms,
)
from cclmark_planning.simulate.simulation import FabricJob, SimulatedTime, simulate

_MOST_SIMULATIONS = 1000
_MOST_UNEVEN = 1024  # ranks of an alltoallv, whose flows are followed one by one
_MOST_HOT, _BINS = 10, 64
_SEED = 1  # of scattered placements, which are the same in each run
_MOST_BYTES = 8 << 20
# For the estimate, as seen on a Xeon: seconds of a simulation and of each flow, and how often rates
# change where flows are different, and where they are alike.
_EACH_S, _FLOW_S, _ENDS, _FEW_ENDS = 0.05, 1e-6, 120, 6


def simulate_collectives(flags: SimulateFlags) -> Recorded:
    """Simulates the collectives of ``flags``."""
    began_s = time.monotonic()
    plan = _SimulationPlan(flags)
    results = []
    speaks = not flags.quiet
    if speaks:
        count = len(plan.simulations)
        notice(
            f"{amount(count, 'simulation')} on {plan.topology.devices:,} devices: about "
            f"{time_words(max(1.0, plan.estimate_s()))}"
        )
    for index, simulation in enumerate(plan.simulations):
        result = plan.simulated(index, simulation)
        results.append(result)
        if speaks:
            rate = bus_bytes(simulation) / result.time_s / 1e9
            notice(
                f"{simulation.describe()}: {time_words(result.time_s)}, bus bandwidth "
                f"{three_digits(rate)} GB/s"
            )
    return record_whole(KIND, results, flags, "simulate", began_s)


class _SimulationPlan:
    """The simulations of a command, and what they share. Raises UsageError."""

    def __init__(self, flags: SimulateFlags) -> None:
        self.flags = flags
        self.operation = flags.operation or OPERATIONS[0]
        if self.operation not in OPERATIONS:
            raise UsageError(
                f"{plain(self.operation)} is not simulated{meant(self.operation, OPERATIONS)} "
                f"Choose from {', '.join(OPERATIONS)}"
            )
        if not flags.topology:
            raise UsageError(
                f"--topology is missing: cclmark simulate {self.operation} --topology "
                "fat-tree:64x8,oversub=2"
            )
        if flags.pattern != "uniform" and not INFOS[self.operation].uneven:
            raise UsageError("--pattern is the distribution of an alltoallv")
        self.topology = parse_topology(flags.topology)
        self._fabrics: dict[object, Fabric] = {}
        self._members: dict[object, list[Any]] = {}
        self.pattern = UnevenPattern.parse(flags.pattern)
        end = flags.begin if flags.end is None else flags.end
        self.sizes = sweep(flags.begin, end, flags.step, flags.factor or 2)
        self.simulations = [*self._planned()]
        if len(self.simulations) > _MOST_SIMULATIONS:
            raise UsageError(
                f"{len(self.simulations)} simulations are more than {_MOST_SIMULATIONS}: choose "
                "fewer sizes or algorithms"
            )

    def _planned(self) -> Iterator[Simulation]:
        flags = self.flags
        base = Simulation(
            *(self.topology.text, self.topology.devices, self.operation, "", 1),
            self._count(),
            *(flags.placement, flags.routing),
            *(flags.efficiency_percent / 100, flags.node_efficiency_percent / 100),
            flags.pattern,
            tuple(one.text for one in flags.jobs),
            tuple(f"{level}={share:g}" for level, share in flags.background),
            tuple(f"{name}={factor:g}" for name, factor in flags.slow),
            tuple(flags.broken),
        )
        members = self._placed(base)[0]
        if INFOS[self.operation].uneven:
            if len(members) > _MOST_UNEVEN:
                raise UsageError(
                    f"an alltoallv of {len(members):,} ranks has too many flows: choose --ranks "
                    f"{_MOST_UNEVEN} or fewer, or alltoall"
                )
            self.pattern.check(len(members))
        fabric = self._fabric(base)
        algorithms = flags.algorithm or usual_algorithms(self.operation, fabric, members)
        if not algorithms:
            steps_of(RING, self.operation, fabric, members, 1.0)  # raises the reason
        for algorithm in algorithms:
            steps_of(algorithm, self.operation, fabric, members, 1.0)
        variants = [base, *_without(base)]
        for size in self.sizes:
            for algorithm in algorithms:
                for one in variants:
                    yield replace(one, size_bytes=size, algorithm=algorithm)

    def _count(self) -> int:
        """The ranks of the job. Raises UsageError if devices are too few."""
        devices, others = self.topology.devices, sum(one.ranks for one in self.flags.jobs)
        if _is_list(self.flags.placement):
            chosen = len(_listed(self.flags.placement, self.topology))
            if self.flags.ranks not in (None, chosen):
                raise UsageError(
                    f"--placement has {chosen:,} devices, and --ranks is {self.flags.ranks:,}: "
                    "leave --ranks out"
                )
            return chosen
        count = self.flags.ranks or max(0, devices - others)
        if count < 2 or count + others > devices:
            raise UsageError(
                f"{self.topology.text} has {devices:,} devices, too few for {count:,} ranks and "
                f"{others:,} of other jobs: choose a larger topology, or fewer ranks"
            )
        return count

    def _placed(self, simulation: Simulation) -> list[Any]:
        """The devices of the job, then those of its neighbours."""
        key = simulation.placement, simulation.neighbours
        if key not in self._members:
            taken: set[int] = set()
            found = []
            jobs = [(simulation.rank_count, simulation.placement)]
            jobs += [(one.ranks, one.placement) for one in self._jobs(simulation)]
            for count, placement in jobs:
                devices = _devices(self.topology, count, placement, taken)
                taken |= {*devices}
                found.append(np.array(devices))
            self._members[key] = found
        return self._members[key]

    def _jobs(self, simulation: Simulation) -> Sequence[NeighbourJob]:
        return self.flags.jobs if simulation.neighbours else ()

    def _fabric(self, simulation: Simulation) -> Fabric:
        flags = self.flags
        impairments = Impairments(
            dict(flags.slow) if simulation.slow else {},
            flags.broken if simulation.broken else (),
            dict(flags.background) if simulation.background else {},
        )
        key = simulation.slow, simulation.broken, simulation.background
        if key not in self._fabrics:
            efficiency = Efficiency(simulation.node_efficiency, simulation.efficiency)
            self._fabrics[key] = fabric_of(self.topology, flags.routing, efficiency, impairments)
        return self._fabrics[key]

    def estimate_s(self) -> float:
        """About how long all simulations take."""
        total_s = 0.0
        switches = self.topology.devices // self.topology.levels[:2][-1].devices
        for one in self.simulations:
            flows, count = 6.0 * one.rank_count, one.rank_count
            if INFOS[one.operation].uneven:
                flows = _ENDS * count**2
            elif one.operation == ALLTOALL:
                flows = float(count**2) if one.routing == HASH else 60.0 * count + switches**2
            if one.neighbours:
                events = _ENDS if one.routing == HASH else _FEW_ENDS
                flows = events * (flows + sum(job.ranks * 6 for job in self.flags.jobs))
            total_s += _EACH_S + _FLOW_S * flows
        return total_s

    def simulated(self, index: int, simulation: Simulation) -> SimulationResult:
        """The result of an item."""
        began_s, started_at_s = time.monotonic(), time.time()
        fabric = self._fabric(simulation)
        members, *others = self._placed(simulation)
        rows = None
        if INFOS[simulation.operation].uneven:
            matrix = self.pattern.matrix(simulation.size_bytes, len(members), 1)
            rows = np.array(matrix, float).reshape(len(members), -1)
        job = FabricJob(
            *(simulation.operation, simulation.algorithm, simulation.size_bytes, members, rows)
        )
        neighbours = [
            FabricJob(
                *(one.operation, one.algorithm or _usual(one.operation), one.size_bytes, devices)
            )
            for one, devices in zip(self._jobs(simulation), others, strict=True)
        ]
        done = simulate(fabric, job, neighbours)
        busy_s = np.divide(
            done.loads_bytes,
            fabric.capacity_bps,
            out=np.zeros(len(fabric.capacity_bps)),
            where=fabric.capacity_bps > 0,
        )
        hottest = np.argsort(-busy_s, kind="stable")[:_MOST_HOT]
        return SimulationResult(
            *(index, simulation, "ok", "", started_at_s, time.monotonic() - began_s),
            *(done.time_s, done.bound_s),
            [SimulatedPhase(*one) for one in done.phases],
            [*_levels(fabric, done, busy_s)],
            [_hot(fabric, done, busy_s, int(link)) for link in hottest if busy_s[link] > 0],
        )


def _usual(operation: str) -> str:
    return DIRECT if operation == ALLTOALL else RING


def _hot(fabric: Fabric, done: SimulatedTime, busy_s: Any, link: int) -> HotLink:
    name = fabric.link_name(link)
    return HotLink(name, float(done.loads_bytes[link]), float(busy_s[link]))


def _levels(fabric: Fabric, done: SimulatedTime, busy_s: Any) -> Iterator[LinkLevel]:
    """The links of each kind, those that the job uses."""
    for section in fabric.sections:
        planes = 1 if section.is_merged else section.bps.shape[1]
        count = len(section.bps) * planes
        own = busy_s[section.first : section.first + count]
        longest_s = float(own.max())
        if not longest_s:
            continue
        busiest = section.first + int(own.argmax())
        # A device has the same place in both directions.
        half = count // 2 if section.has_halves else count
        bins = min(_BINS, half)
        places = np.arange(count) % half * bins // half
        by_bin = np.zeros(bins)
        np.maximum.at(by_bin, places, own)
        yield LinkLevel(
            *(section.label, count, _hot(fabric, done, busy_s, busiest)),
            int((own >= longest_s * 0.99).sum()),
            float(own.mean()),
            [float(f"{one:.4g}") for one in (by_bin if np.ptp(by_bin) else by_bin[:1])],
        )


def _without(base: Simulation) -> Iterator[Simulation]:
    """The same without each kind of what costs time, and without all of them."""
    kept = []
    for variant, changes in (
        ("links whole", {"slow": (), "broken": ()}),
        ("no background", {"background": ()}),
        ("no other job", {"neighbours": ()}),
        ("packed", {"placement": PACKED}),
    ):
        if variant == "packed" and _is_list(base.placement):
            continue
        if any(getattr(base, name) != value for name, value in changes.items()):
            kept.append(changes)
            yield replace(base, **changes, variant=variant)
    if len(kept) > 1:
        every = {name: value for changes in kept for name, value in changes.items()}
        yield replace(base, **every, variant="none of these")


def _is_list(placement: str) -> bool:
    return placement not in (PACKED, SPREAD, SCATTERED)


def _devices(topology: Topology, count: int, placement: str, taken: set[int]) -> list[int]:
    """The devices of a job, in the order of its ranks. Raises UsageError if there are too few."""
    if _is_list(placement):
        chosen = _listed(placement, topology)
        if twice := taken & {*chosen}:
            raise UsageError(f"device {min(twice)} belongs to two jobs")
        if len(chosen) != count:
            raise UsageError(
                f"the placement {plain(placement)} has {len(chosen):,} devices for {count:,} ranks"
            )
        return chosen
    size = topology.per_node
    nodes = [
        node
        for node in range(0, topology.devices, size)
        if not any(device in taken for device in range(node, node + size))
    ]
    if placement == SPREAD:
        wanted = -(-count // size)
        step = max(1, len(nodes) // wanted)
        nodes = [*nodes[::step], *(one for at, one in enumerate(nodes) if at % step)]
    elif placement == SCATTERED:
        random.Random(_SEED).shuffle(nodes)
    devices = [device for node in nodes for device in range(node, node + size)][:count]
    if len(devices) < count:
        raise UsageError(
            f"{count:,} ranks do not fit on the {len(devices):,} devices of free nodes: choose "
            "fewer"
        )
    return devices


def _listed(text: str, topology: Topology) -> list[int]:
    """Reads ``0-7,16``, or a file with such lines. Raises UsageError."""
    words = text
    if not text[:1].isdigit():
        try:
            words = read_regular(Path(text), _MOST_BYTES).decode()
        except OSError as error:
            raise UsageError(
                f"--placement {plain(text)}: write packed, spread, scattered, devices (0-7,16-23), "
                f"or the path of a file with them ({error.strerror})"
            ) from None
        except ValueError:
            raise UsageError(f"--placement {plain(text)}: the file is no text") from None
    found: dict[int, None] = {}
    for word in words.replace(",", " ").split():
        first, _, last = word.partition("-")
        ends = [
            int(one) if one.isascii() and one.isdecimal() else -1 for one in (first, last or first)
        ]
        if not 0 <= ends[0] <= ends[1] < topology.devices:
            raise UsageError(
                f"--placement: {plain(word[:40])!r}: write devices from 0 to "
                f"{topology.devices - 1:,}, for example 0-7,16-23"
            )
        span = range(ends[0], ends[1] + 1)
        if any(device in found for device in span):
            raise UsageError(f"--placement has a device of {word} twice")
        found.update(dict.fromkeys(span))
    if len(found) < 2:
        raise UsageError("--placement: a collective has at least 2 devices")
    return [*found]
