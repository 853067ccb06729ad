"""The request for a run, the listener to its events with the delivery to it, and its outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cclmark.journal.item_results import Result
from cclmark.journal.kind import Kind
from cclmark.journal.resume import outline_of
from cclmark.journal.schema import (
    Condition,
    DeviceDescription,
    Explanation,
    HostDescription,
    LibraryDescription,
    Link,
    Machine,
    Outline,
    Paths,
    Relation,
    Settings,
)
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.devices import DeviceChoice
from cclmark.rendezvous.messages import Failed, RankStatus
from cclmark.trace.rank_trace import RankTrace
from cclmark.work.items import Item
from cclmark.work.libraries import BRIDGE


@dataclass(frozen=True)
class Request:
    """The items to measure and the devices and processes that measure them.

    ``kind``: of all items. ``planned``: its items. ``together``: one process holds
    all devices. ``pending``: the indices of the ``items`` still to be measured, empty for all; each
    cycle continues the numbering of the one before. ``modules``: modules to import before a backend
    of torch is looked up. ``mpirun``: the program that starts MPI ranks, empty if this process
    starts the ranks itself. ``warnings``: notices for the user about the request. ``absent``:
    libraries that cannot be measured, with the reason. ``environment``: variables that ranks are
    started with, besides those of this process. ``explain``: observe what the libraries do instead
    of measuring. ``explained``: such a pass follows this one, or the ranks that measure explain at
    their end, see ``explains_at_end``. ``traced_operations``: trace
    so many operations of the item instead of measuring, 0 for none; ``traces`` receives the trace
    of every rank. ``attachment``: what ranks need besides the items, encoded for the kind: the
    same for all, or one for each rank. ``carried``: results of the run that this one resumes.
    ``coordinator``: the participating processes, None for this process alone.
    """

    devices: DeviceChoice
    settings: Settings
    ccl_wheels: dict[str, list[str]]
    kind: Kind
    planned: Sequence[Item] = ()
    ccl_path: str = ""
    together: bool = False
    pending: Sequence[int] = ()
    modules: Sequence[str] = ()
    mpirun: str = ""
    warnings: Sequence[str] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    explained: bool = False
    traced_operations: int = 0
    traces: Callable[[RankTrace], None] | None = None
    attachment: bytes | Sequence[bytes] = b""
    carried: Sequence[Result] = ()
    coordinator: Coordinator | None = None

    @cached_property
    def items(self) -> Sequence[Item]:
        """The items to measure, in the order of the results' indices."""
        return self.kind.items(self.planned, len(self.processes))

    @property
    def outline(self) -> Outline:
        """The outline of the items, for the header and for a run that resumes this one."""
        return outline_of(self.items, len(self.devices.indices), len(self.processes))

    def attachment_of(self, rank: int) -> bytes:
        """Data that a rank requires besides the items."""
        own = self.attachment
        return own if isinstance(own, bytes) else own[rank]

    @property
    def by_mpi(self) -> bool:
        """Whether ranks communicate by MPI, to measure it or for ``bridge`` between hosts."""
        ccls = {one.ccl for one in self.planned}
        several = self.coordinator is not None and len(self.coordinator.hosts) > 1
        return not ccls.isdisjoint(("mpi", "torch:mpi")) or (several and BRIDGE in ccls)

    @property
    def starts_ranks_once(self) -> bool:
        """Whether ranks start once: a launcher's MPI supports no second process for a rank."""
        launched = self.coordinator is not None and self.coordinator.placement is not None
        return launched and self.by_mpi and not self.mpirun

    @property
    def explains_at_end(self) -> bool:
        """Whether the ranks that measure report at their end what they know of the libraries."""
        return self.explained and self.starts_ranks_once

    @property
    def processes(self) -> list[list[int]]:
        """The devices of each process."""
        indices = list(self.devices.indices)
        return [indices] if self.together else [[index] for index in indices]


@dataclass
class Surroundings:
    """The machine, devices and libraries of a run, known once every rank has opened its device."""

    machine: Machine
    devices: list[DeviceDescription]
    links: list[Link]
    libraries: list[LibraryDescription]
    relations: list[Relation] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    launcher: str = ""
    hosts: list[HostDescription] = field(default_factory=list)


class Listener:
    """Receives the events of a run, in order, from one thread.

    Events that a subclass does not override are passed on to another listener, if it has one.
    """

    def __init__(self, listener: Listener | None = None) -> None:
        self._next = listener

    def launched(self) -> None:
        """The processes of the ranks were created; they load their libraries now."""
        if self._next is not None:
            self._next.launched()

    def started(self, surroundings: Surroundings) -> None:
        """Every rank has started. Called before any result."""
        if self._next is not None:
            self._next.started(surroundings)

    def result(self, result: Result) -> None:
        """A case or a transfer was measured or skipped."""
        if self._next is not None:
            self._next.result(result)

    def condition(self, condition: Condition) -> None:
        """A rank has sampled the condition of its device."""
        if self._next is not None:
            self._next.condition(condition)

    def explanation(self, explanation: Explanation) -> None:
        """The library's operation in a case is known."""
        if self._next is not None:
            self._next.explanation(explanation)

    def paths(self, paths: Paths) -> None:
        """How a library connects its ranks is known."""
        if self._next is not None:
            self._next.paths(paths)

    def notice(self, text: str) -> None:
        """A notice for the user that does not end the run."""
        if self._next is not None:
            self._next.notice(text)

    def progress(self, rank_status: RankStatus) -> None:
        """The current state of rank 0."""
        if self._next is not None:
            self._next.progress(rank_status)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. ``message`` explains any exit code other than 0.

    ``phases_s``: the times of rank 0 by phase. ``failure``: the failure of the culprit, None if it
    died or was stopped. ``case_index``: the item that the culprit was working on, -1 if unknown.
    ``rank``: of the culprit, -1 if a process is lost, or none is to blame.
    ``problems``: what a trace lacks. ``found``: see schema.Footer.
    """

    exit_code: int
    message: str = ""
    phases_s: dict[str, float] = field(default_factory=dict)
    failure: Failed | None = None
    case_index: int = -1
    rank: int = -1
    problems: Sequence[str] = ()
    found: Mapping[str, Any] = field(default_factory=dict)


class ResultDelivery:
    """Delivers each result and condition to a listener exactly once, none before the start.

    ``has_begun``: whether the listener has received the surroundings.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._held_back: deque[Result | Condition | Explanation | Paths] = deque()
        self.has_begun = False

    def add(self, entry: Result | Condition | Explanation | Paths) -> None:
        """Holds an entry until the next call of ``pass_on``."""
        self._held_back.append(entry)

    def begin(self, surroundings: Surroundings) -> None:
        """Passes the surroundings on, then the entries held so far."""
        self.has_begun = True
        self._listener.started(surroundings)
        self.pass_on()

    def pass_on(self) -> None:
        """Passes each entry on once, also if the listener raises; nothing before ``begin``."""
        while self.has_begun and self._held_back:
            entry = self._held_back.popleft()
            if isinstance(entry, Condition):
                self._listener.condition(entry)
            elif isinstance(entry, Explanation):
                self._listener.explanation(entry)
            elif isinstance(entry, Paths):
                self._listener.paths(entry)
            else:
                self._listener.result(entry)
