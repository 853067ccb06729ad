"""The time of collectives on a fabric: their steps, one after the other, as flows that share links.

Flows of one size that begin together are as slow as the most loaded link: with max-min fairness,
rates are equal until that link fills, and its flows keep that rate until they end, while no other
flow is slower. So the time of such a step is the largest load over capacity of a link, without the
rates of all flows, and so is that of a pipeline, whose flows advance in proportion. Flows of
different sizes, and those of several jobs, are followed from one end of a flow to the next
(``fair_rates``). Identical steps of a job beside others are one long one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cclmark.base.errors import CclmarkError, UsageError
from cclmark_planning.simulate.fair_rates import MERGED, end_times, fair_rates
from cclmark_planning.simulate.graph import MOST_ROUTED, Fabric, Routes, all_pairs
from cclmark_planning.simulate.schedules import (
    ALL_REDUCE,
    ALLTOALL,
    ALLTOALLV,
    IN_NETWORK,
    NVLS,
    FlowStep,
    matrix_step,
    steps_of,
)

# A neighbour that ends and begins again more often while a job runs has so many times larger sizes.
_MOST_REPEATS = 8
_MOST_EVENTS = 100_000


@dataclass(frozen=True)
class FabricJob:
    """A collective. ``members``: devices in the order of ranks; ``rows_bytes``: of an alltoallv,
    [senders, receivers]."""

    operation: str
    algorithm: str
    size_bytes: float
    members: Any
    rows_bytes: Any = None


class PhaseTime(NamedTuple):
    """A step of an algorithm: the time of its ``repeat`` repetitions."""

    name: str
    repeat: int
    transfer_s: float
    latency_s: float


@dataclass(frozen=True)
class SimulatedTime:
    """``bound_s``: what no algorithm can be below, by the links that leave devices and groups.

    ``loads_bytes``: what each link carries for the job, by its number.
    """

    time_s: float
    bound_s: float
    phases: Sequence[PhaseTime]
    loads_bytes: Any


class SimulationError(CclmarkError):
    """The simulation contradicts itself."""


@dataclass
class _Flows:
    """Flows with their routes; ``sizes_bytes`` and ``latency_s``: of all repetitions."""

    name: str
    repeat: int
    links: Any
    weights: Any
    counts: Any
    sizes_bytes: Any
    latency_s: float


def simulate(fabric: Fabric, job: FabricJob, neighbours: Sequence[FabricJob] = ()) -> SimulatedTime:
    """The time of a job, whose neighbours repeat their collectives while it runs.

    Raises UsageError for what the model does not cover, SimulationError if the time is below the
    bound of the links.
    """
    steps = _steps(fabric, job)
    phases: list[PhaseTime] = []
    loads = np.zeros(len(fabric.capacity_bps))
    if neighbours:
        phases, loads = _together(fabric, job, neighbours)
    else:
        for group in _groups(steps):
            of_steps, latencies_s, ends_s = zip(
                *(_step_load(fabric, step) for step in group), strict=True
            )
            own = sum(of_steps)
            transfer_s, latency_s = max(*ends_s, _busiest_s(fabric, own)), sum(latencies_s)
            loads += own
            name = " + ".join(step.name for step in group)
            phases.append(PhaseTime(name, group[0].repeat, transfer_s, latency_s))
    time_s = sum(one.transfer_s + one.latency_s for one in phases)
    bound_s = least_time(fabric, job)
    if time_s < bound_s * (1 - 1e-9):
        raise SimulationError(
            f"{job.algorithm} {job.operation} takes {time_s:.6g} s, and by the rates of the links "
            f"it cannot take less than {bound_s:.6g} s: please report this"
        )
    return SimulatedTime(time_s, bound_s, phases, loads)


def _steps(fabric: Fabric, job: FabricJob) -> list[FlowStep]:
    if job.operation == ALLTOALLV and job.rows_bytes is not None:
        return [matrix_step(job.members, job.rows_bytes)]
    return steps_of(job.algorithm, job.operation, fabric, job.members, job.size_bytes)


def _groups(steps: Sequence[FlowStep]) -> list[list[FlowStep]]:
    """The steps that run together."""
    found: list[list[FlowStep]] = []
    for step in steps:
        if step.is_beside:
            found[-1].append(step)
        else:
            found.append([step])
    return found


def _busiest_s(fabric: Fabric, loads: Any) -> float:
    used = loads > 0
    return float((loads[used] / fabric.capacity_bps[used]).max(initial=0.0))


def _step_load(fabric: Fabric, step: FlowStep) -> tuple[Any, float, float]:
    """The bytes of all links in all repetitions, the latency, and how long flows of different sizes
    take."""
    if step.exchange is not None:
        loads, latency_s = fabric.exchange_loads(step.exchange)
        return loads * step.size_bytes * step.repeat, latency_s * step.repeat, 0.0
    flows = _routed(fabric, step)
    alone_s = 0.0
    if not step.is_pipelined and np.ndim(step.size_bytes):
        columns = (flows.links, flows.weights, flows.counts, flows.sizes_bytes)
        alone_s = float(end_times(*columns, fabric.capacity_bps).max(initial=0.0))
    return _load(fabric, flows), flows.latency_s, alone_s


def _routed(fabric: Fabric, step: FlowStep) -> _Flows:
    """The flows of a step, those of an exchange one by one. Raises UsageError for too many."""
    sources, targets, counts = step.sources, step.targets, step.counts
    if step.exchange is not None:
        if step.exchange.shape[0] > MOST_ROUTED:
            raise UsageError(
                f"an alltoall of {step.exchange.shape[0]:,} ranks beside another job has too many "
                f"flows: choose at most {MOST_ROUTED:,} ranks"
            )
        pairs = [pair for members in step.exchange.T for pair in all_pairs(members)]
        sources = np.concatenate([one for one, _ in pairs])
        targets = np.concatenate([other for _, other in pairs])
        counts = np.ones(len(sources))
    if step.links is None:
        links, weights, latencies_s = fabric.routes(sources, targets)
    else:
        fabric.check(step.links)
        links, weights = step.links[:, None], None
        latencies_s = fabric.latency_s[step.links]
    if step.passes is None:
        latency_s = float(latencies_s.max(initial=0.0)) * step.repeat
    else:
        latency_s = float((step.passes * latencies_s).sum())
    sizes = np.broadcast_to(np.asarray(step.size_bytes, float) * step.repeat, counts.shape)
    return _Flows(step.name, step.repeat, links, weights, counts, sizes, latency_s)


def _joined(flows: Sequence[_Flows]) -> _Flows:
    """Flows of several steps or jobs as one list."""
    width = max(one.links.shape[1] for one in flows)

    def padded(columns: Any, value: float) -> Any:
        missing = ((0, 0), (0, width - columns.shape[1]))
        return np.pad(columns, missing, constant_values=value)

    weights = None
    if any(one.weights is not None for one in flows):
        weights = np.concatenate(
            [
                padded(np.ones(one.links.shape) if one.weights is None else one.weights, 0)
                for one in flows
            ]
        )
    return _Flows(
        " + ".join(one.name for one in flows),
        flows[0].repeat,
        np.concatenate([padded(one.links, -1) for one in flows]),
        weights,
        np.concatenate([one.counts for one in flows]),
        np.concatenate([one.sizes_bytes for one in flows]),
        sum(one.latency_s for one in flows),
    )


class _Running:
    """A job whose phases are followed: flows, then their latency, then the next phase."""

    def __init__(self, fabric: Fabric, job: FabricJob, factor: float = 1.0) -> None:
        groups = _groups(_steps(fabric, job))
        self.phases = [_joined([_routed(fabric, step) for step in group]) for group in groups]
        self.factor = factor
        self.times: list[PhaseTime] = []
        self.begin(0, 0.0)

    def begin(self, place: int, now_s: float) -> None:
        """Begins a phase."""
        self.place, self.began_s = place, now_s
        self.flows = self.phases[place]
        self.priorities = _priorities(self.flows)
        self.left = self.flows.sizes_bytes * self.factor
        self.wakes_s = np.inf

    def rest(self, now_s: float) -> None:
        """Its flows have ended: the latency of the phase passes."""
        latency_s = self.flows.latency_s * self.factor
        self.wakes_s = now_s + latency_s
        phase = PhaseTime(self.flows.name, self.flows.repeat, now_s - self.began_s, latency_s)
        self.times.append(phase)


def _priorities(flows: _Flows) -> Any:
    """Flows of a job on one first link have together the priority of one.

    Interfaces send in turn, not flows: otherwise an alltoall, with flows to all others, would leave
    hardly anything of a link to a ring.
    """
    first = flows.links[np.arange(len(flows.links)), (flows.links >= 0).argmax(axis=1)]
    return 1 / np.bincount(first, flows.counts)[first]


def _together(
    fabric: Fabric, job: FabricJob, neighbours: Sequence[FabricJob]
) -> tuple[list[PhaseTime], Any]:
    """The phases of a job beside others, and the bytes of links. Raises SimulationError."""
    alone_s = simulate(fabric, job).time_s
    factors = [
        max(1.0, round(alone_s / simulate(fabric, one).time_s / _MOST_REPEATS))
        for one in neighbours
    ]
    jobs = [_Running(fabric, job)]
    jobs += [_Running(fabric, *pair) for pair in zip(neighbours, factors, strict=True)]
    main, now_s = jobs[0], 0.0
    for _ in range(_MOST_EVENTS):
        sending = [one for one in jobs if one.left.any()]
        durations: list[Any] = [np.empty(0)]
        rates: list[Any] = []
        if sending:
            kept = [np.flatnonzero(one.left > 0) for one in sending]
            alive = [
                _Flows(
                    *(one.flows.name, one.flows.repeat, one.flows.links[rows]),
                    None if one.flows.weights is None else one.flows.weights[rows],
                    *(one.flows.counts[rows], one.left[rows], 0.0),
                )
                for one, rows in zip(sending, kept, strict=True)
            ]
            flows = _joined(alive)
            every = fair_rates(
                *(flows.links, flows.weights, flows.counts, fabric.capacity_bps),
                np.concatenate(
                    [one.priorities[rows] for one, rows in zip(sending, kept, strict=True)]
                ),
            )
            rates = np.split(every, np.cumsum([len(rows) for rows in kept])[:-1])
            durations = [one.sizes_bytes / rate for one, rate in zip(alive, rates, strict=True)]
        times_s = np.concatenate(durations)
        step_s = float(times_s.min(initial=np.inf))
        step_s = max(step_s, min(float(times_s.max(initial=0.0)), MERGED * now_s))
        wakes_s = min(one.wakes_s for one in jobs)
        step_s = min(step_s, max(0.0, wakes_s - now_s))
        now_s += step_s
        for one, rows, rate in zip(sending, kept if sending else (), rates, strict=True):
            left = one.left[rows] - rate * step_s
            one.left[rows] = np.where(left <= 1e-9 * one.flows.sizes_bytes[rows], 0.0, left)
            if not one.left.any():
                one.rest(now_s)
        for one in jobs:
            if one.wakes_s <= now_s:
                if one is main and one.place + 1 == len(one.phases):
                    return main.times, sum(_load(fabric, flows) for flows in main.phases)
                one.begin((one.place + 1) % len(one.phases), now_s)
    raise SimulationError(
        f"the jobs have more than {_MOST_EVENTS:,} steps: choose sizes that are less different"
    )


def _load(fabric: Fabric, flows: _Flows) -> Any:
    """The bytes of flows on each link."""
    routes = Routes(flows.links, flows.weights, None)
    return fabric.loads(routes, flows.counts * flows.sizes_bytes)


def least_time(fabric: Fabric, job: FabricJob) -> float:
    """The time that no algorithm can be below: what has to leave devices and groups of them over
    the rates of the links by which it leaves. For the bus bandwidth it is the law of the link.

    Without reduction in switches, r ranks or groups of ranks send 2 (r − 1) times the size in an
    all_reduce and half of it in an all_gather or reduce_scatter, all together
    (Patarasuk and Yuan, JPDC 2009).
    """
    members, size = job.members, job.size_bytes
    ranks, longest_s = len(members), 0.0
    for _, group_of, capacity_bps in fabric.leaving_bps():
        groups = group_of[members]
        numbers, counts = np.unique(groups, return_counts=True)
        if len(numbers) == 1:
            continue
        bps = capacity_bps[numbers]
        if (bps <= 0).all():
            continue
        if job.rows_bytes is not None:
            places = np.searchsorted(numbers, groups)
            apart = places[:, None] != places[None, :]
            least_s = _longest(np.bincount(places, (job.rows_bytes * apart).sum(axis=1)), bps)
        elif job.operation in (ALLTOALL, ALLTOALLV):
            least_s = _longest(counts * (ranks - counts) * size / ranks, bps)
        elif job.operation == ALL_REDUCE and job.algorithm in (NVLS, IN_NETWORK):
            least_s = len(numbers) * size / bps.sum()
        else:
            halves = 2 if job.operation == ALL_REDUCE else 1
            least_s = halves * (len(numbers) - 1) * size / bps.sum()
        longest_s = max(longest_s, float(least_s))
    return longest_s


def _longest(sent_bytes: Any, bps: Any) -> float:
    return float((sent_bytes[bps > 0] / bps[bps > 0]).max())
