"""What is asked of a run, who listens to it, and how it ended: values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cclmark.launch.crew import Crew
from cclmark.launch.devices import DeviceChoice
from cclmark.plan.cases import Case
from cclmark.plan.kinds import COLLECTIVE, KINDS, Item, Kind
from cclmark.plan.libraries import BRIDGE
from cclmark.rendezvous.messages import Failed, Look
from cclmark.results.schema import (
    Condition,
    DeviceDescription,
    HostDescription,
    LibraryDescription,
    Link,
    Machine,
    Relation,
    Result,
    Settings,
)


@dataclass(frozen=True)
class Request:
    """What to run, on what.

    ``kind``: one of plan.kinds.KINDS; ``planned``: its items. ``together``: one process holds all
    devices. ``pending`` are the indices of those ``items`` still to be measured, none for all; each
    cycle counts on from the one before. ``modules``: to import before a backend of
    torch is looked for. ``mpirun``: the program that starts the ranks, where they are MPI's; none
    where this process starts them itself. ``warnings``: what the user should know of what was asked
    for. ``absent``: libraries that cannot be measured, with the reason. ``crew``: the processes
    that take part, none for this one alone.
    """

    devices: DeviceChoice
    settings: Settings
    ccl_wheels: dict[str, list[str]]
    kind: str = COLLECTIVE
    planned: Sequence[Item] = ()
    ccl_path: str = ""
    together: bool = False
    pending: Sequence[int] = ()
    modules: Sequence[str] = ()
    mpirun: str = ""
    warnings: Sequence[str] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    crew: Crew | None = None

    @property
    def traits(self) -> Kind:
        """The row of the table of kinds."""
        return KINDS[self.kind]

    @property
    def items(self) -> Sequence[Item]:
        """What is measured, in the order of the results' indices."""
        return self.traits.items(self.planned, len(self.processes))

    @property
    def by_mpi(self) -> bool:
        """Whether ranks speak MPI with each other: to be measured, or between hosts."""
        ccls = {one.ccl for one in self.planned if isinstance(one, Case)}
        several = self.crew is not None and len(self.crew.hosts) > 1
        return not ccls.isdisjoint(("mpi", "torch:mpi")) or (several and BRIDGE in ccls)

    @property
    def processes(self) -> list[list[int]]:
        """The devices of each process."""
        indices = list(self.devices.indices)
        return [indices] if self.together else [[index] for index in indices]


@dataclass
class Surroundings:
    """What the ranks run on: known once every rank has opened its device."""

    machine: Machine
    devices: list[DeviceDescription]
    links: list[Link]
    libraries: list[LibraryDescription]
    relations: list[Relation] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    launcher: str = ""
    hosts: list[HostDescription] = field(default_factory=list)


class Listener(Protocol):
    """Whoever wants to hear how the run goes on. Called from one thread, in order."""

    def started(self, surroundings: Surroundings) -> None:
        """Every rank is up. Comes before any result."""

    def result(self, result: Result) -> None:
        """A case or a transfer was measured or skipped."""

    def condition(self, condition: Condition) -> None:
        """A rank looked at its device."""

    def notice(self, text: str) -> None:
        """Something to know that ends nothing."""

    def progress(self, look: Look) -> None:
        """Where rank 0 is now."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended. ``message`` explains any exit code but 0. Times of rank 0 by phase.

    ``failure`` is that of the rank to blame, None where it died or was stopped.
    """

    exit_code: int
    message: str = ""
    phases_s: dict[str, float] = field(default_factory=dict)
    failure: Failed | None = None
