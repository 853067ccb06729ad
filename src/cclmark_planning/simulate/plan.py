"""Items of ``cclmark simulate``: a collective of a job on a network."""

from __future__ import annotations

import msgspec

from cclmark.work.counts import AtLeastOne, Positive
from cclmark.work.items import OfFormulas
from cclmark.work.sizes import format_size

SIMULATE = "simulate"


class Simulation(msgspec.Struct, OfFormulas, frozen=True, omit_defaults=True):
    """A collective, and all that shares the network with it, in the words of the options.

    ``topology``: as written, with ``devices`` devices, of which ``rank_count`` take part at
    ``placement``. ``efficiency`` and ``node_efficiency``: what transfers achieve of line rates
    between nodes and within them. ``pattern``: of an alltoallv. ``neighbours``: other jobs;
    ``background``: shares of levels; ``slow``, ``broken``: links. ``variant``: what is left out of
    what was asked for, empty for that.
    """

    topology: str
    devices: AtLeastOne
    operation: str
    algorithm: str
    size_bytes: AtLeastOne
    rank_count: AtLeastOne
    placement: str = "packed"
    routing: str = "even"
    efficiency: Positive = 1.0
    node_efficiency: Positive = 1.0
    pattern: str = "uniform"
    neighbours: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    variant: str = ""

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return SIMULATE

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""
        return self.operation

    @property
    def library(self) -> str:
        """The algorithm that is simulated."""
        return self.algorithm

    def describe(self) -> str:
        """The item in words, for messages."""
        variant = f", {self.variant}" if self.variant else ""
        return f"{self.operation} {format_size(self.size_bytes)} by {self.algorithm}{variant}"

    def series(self) -> Simulation:
        """The key that the sizes of one algorithm share."""
        return msgspec.structs.replace(self, size_bytes=1)
