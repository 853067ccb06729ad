"""The results of ``cclmark simulate`` in journals."""

from __future__ import annotations

import msgspec

from cclmark.journal.item_results import UncheckedResult
from cclmark.work.counts import AtLeastOne, Count, Elapsed, NotNegative
from cclmark.work.items import Status
from cclmark.work.operations import OPERATIONS
from cclmark_planning.simulate.plan import Simulation


class SimulatedPhase(msgspec.Struct, frozen=True):
    """Steps that run together, ``repeat`` times: the time of all repetitions."""

    name: str
    repeat: AtLeastOne
    transfer_s: Elapsed
    latency_s: Elapsed


class HotLink(msgspec.Struct, frozen=True):
    """A link, what it carries for the job, and how long that takes it."""

    name: str
    size_bytes: NotNegative
    busy_s: Elapsed


class LinkLevel(msgspec.Struct, frozen=True):
    """The links of one kind. ``equal``: how many are as busy as the ``busiest``, within 1 %.

    ``bins``: the longest busy time in each part of the links, in the order of their devices; one if
    all are equal.
    """

    name: str
    links: AtLeastOne
    busiest: HotLink
    equal: AtLeastOne
    mean_busy_s: Elapsed
    bins: list[Elapsed]


class SimulationResult(UncheckedResult[Simulation], tag="simulation", omit_defaults=True):
    """The time of a collective. ``status``: ok, or skipped with a reason.

    ``bound_s``: what it cannot be below, by the rates of the links that leave devices and groups.
    ``hottest``: the links that are busy longest. ``duration_s``: of the simulation itself.
    """

    index: Count
    simulation: Simulation
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    time_s: Elapsed = 0.0
    bound_s: Elapsed = 0.0
    phases: list[SimulatedPhase] = []
    levels: list[LinkLevel] = []
    hottest: list[HotLink] = []

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return self.time_s > 0

    @property
    def is_consistent(self) -> bool:
        """Whether the time is that of its steps and not below the bound, and its parts fit."""
        total_s = sum(one.transfer_s + one.latency_s for one in self.phases)
        return (
            abs(total_s - self.time_s) <= 1e-6 * self.time_s
            and self.time_s >= self.bound_s * (1 - 1e-6)
            and self.simulation.operation in OPERATIONS
            and 2 <= self.simulation.rank_count <= self.simulation.devices
            and all(one.bins for one in self.levels)
        )
