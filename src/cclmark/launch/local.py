"""Runs ranks on this host, one process per device, and stands by until all of them are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import indent
from typing import Protocol

from cclmark.errors import EXIT_DIED, EXIT_INTERRUPTED, EXIT_MISSING, EXIT_OK
from cclmark.launch.devices import DeviceChoice
from cclmark.launch.diagnosis import RankState, culprit_of, diagnose, exit_kind
from cclmark.launch.mpi import MpiRanks
from cclmark.launch.ranks import RankProcess, end_ranks, kill_ranks, start_rank
from cclmark.plan.cases import Case
from cclmark.plan.checks import Check
from cclmark.plan.pairs import PairCases
from cclmark.plan.transfers import Transfer
from cclmark.rendezvous.board import Board, Status
from cclmark.rendezvous.messages import (
    Failed,
    Finished,
    Hello,
    Job,
    Measured,
    Notice,
    Observed,
    Thing,
)
from cclmark.rendezvous.server import Server
from cclmark.results.machine import complete_from_nvml, describe_machine, spread_over_cores
from cclmark.results.schema import (
    Condition,
    DeviceDescription,
    LibraryDescription,
    Link,
    Machine,
    Relation,
    Result,
    Settings,
)
from cclmark.results.topology import relations_between
from cclmark.signals import on_ending_signals

_POLL_S = 0.02
_DESCRIPTION_S = 5.0
_GATHER_FAILURES_S = 1.5  # for the other ranks to say what they were doing
_LAST_WORDS_S = 1.0
_OVERTIME_S = 3.0  # a rank reports its own time-outs; after that the launcher does


@dataclass(frozen=True)
class Request:
    """What to run, on what: cases, transfers or checks.

    ``together``: one process holds all devices. ``in_pairs``: the cases are of two ranks, and each
    is measured between every two; ``pending`` are the indices of those still to be measured, none
    for all; each cycle counts on from the one before. ``modules``: to import before a backend of
    torch is looked for. ``mpirun``: the program that starts the ranks, where they are MPI's; none
    where this process starts them itself. ``warnings``: what the user should know of what was asked
    for.
    """

    devices: DeviceChoice
    settings: Settings
    ccl_wheels: dict[str, list[str]]
    cases: Sequence[Case] = ()
    transfers: Sequence[Transfer] = ()
    ccl_path: str = ""
    together: bool = False
    in_pairs: bool = False
    pending: Sequence[int] = ()
    checks: Sequence[Check] = ()
    modules: Sequence[str] = ()
    mpirun: str = ""
    warnings: Sequence[str] = ()

    @property
    def things(self) -> Sequence[Thing]:
        """What is measured, in the order of the results' indices."""
        if self.transfers or self.checks:
            return self.transfers or self.checks
        return PairCases(self.cases, len(self.processes)) if self.in_pairs else self.cases

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

    def progress(self, status: Status) -> None:
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


class LocalLaunch:
    """One run on this host."""

    def __init__(self, request: Request, listener: Listener) -> None:
        self._request = request
        self._listener = listener
        self._size = len(request.processes)
        self._ranks: list[RankProcess] = []
        self._hellos: dict[int, Hello] = {}
        self._failures: dict[int, Failed] = {}
        self._finished: dict[int, Finished] = {}
        self._held_back: list[Result | Condition] = []
        self._surroundings: Surroundings | None = None
        self._plain_surroundings: Surroundings | None = None
        self._describing: threading.Thread | None = None
        self._started = False
        self._left_s: dict[int, float] = {}
        self._mpi: MpiRanks | None = None
        self._noted = False

    def run(self) -> Outcome:
        """Starts the ranks and returns when all are gone, however that came about."""
        self._team_fd = os.memfd_create("cclmark-team")
        self._board_fd = os.memfd_create("cclmark-board")
        try:
            self._board = Board(self._board_fd, self._size)
            with contextlib.closing(Server()) as server:
                return self._supervise(server)
        except KeyboardInterrupt as interruption:
            # Once a run is being ended, impatience must not keep it from ending well.
            on_ending_signals(signal.SIG_IGN)
            self._wait_for_description()
            return Outcome(EXIT_INTERRUPTED, str(interruption) or "interrupted")
        finally:
            kill_ranks(self._ranks)
            if self._mpi is not None:
                self._mpi.close()
            os.close(self._team_fd)
            os.close(self._board_fd)

    def _supervise(self, server: Server) -> Outcome:
        jobs = self._jobs(server)
        for job in jobs:
            self._board.enter(job.rank, "start-up", -1, 0, self._request.settings.timeout_s)
        if self._request.mpirun:
            self._mpi = MpiRanks(jobs, self._request.mpirun)
            self._ranks += self._mpi.ranks
        else:
            for job in jobs:
                start_rank(job, self._ranks)
        self._machine = describe_machine()
        for text in (self._request.devices.notice, *self._request.warnings):
            if text:
                self._listener.notice(text)
        self._notice_neighbours()
        while len(self._finished) < self._size:
            self._hear(server, _POLL_S)
            self._introduce()
            status = self._board.read(0)
            self._note_segments(status)
            self._listener.progress(status)
            if self._failures or self._dead() or self._overdue():
                return self._give_up(server)
        self._wait_for_description()
        end_ranks(self._ranks)
        if self._mpi is not None and self._mpi.said():
            self._listener.notice(f"mpirun said: {self._mpi.said()}")
        if server.refused:
            self._listener.notice(f"{server.refused} foreign messages were refused")
        return Outcome(EXIT_OK, phases_s=self._finished[0].phases_s)

    def _note_segments(self, status: Status) -> None:
        """Looks at the memory of MPI's ranks when they begin to measure with it."""
        if self._mpi is None or self._noted or status.phase != "warm-up":
            return
        cases = self._request.cases
        if 0 <= status.case_index < len(cases) and cases[status.case_index].ccl == "mpi":
            self._mpi.note_segments()
            self._noted = True

    def _notice_neighbours(self) -> None:
        """Says so when another run is under way on this host: they disturb each other.

        The mark is a name of the kernel's that goes with this process, however it ends.
        """
        self._mark = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._mark.bind(f"\0cclmark-run-{os.getuid()}")
        except OSError:
            self._listener.notice(
                "another cclmark is measuring on this host: the figures of both are disturbed"
            )

    def _jobs(self, server: Server) -> list[Job]:
        request = self._request
        processors = spread_over_cores(os.sched_getaffinity(0))
        on_host = set(request.devices.runtimes) == {"host"}
        oversubscribed = self._size > len(processors)
        if on_host and oversubscribed:
            self._listener.notice(
                f"{self._size} ranks share {len(processors)} processors: they take "
                "turns, and their times say little"
            )
        return [
            Job(
                rank=rank,
                ranks=self._size,
                parent_pid=os.getpid(),
                runtime=request.devices.runtimes[rank],
                device_indices=indices,
                every_index=list(request.devices.indices),
                processors=[processors[rank]] if on_host and not oversubscribed else [],
                oversubscribed=oversubscribed,
                team_fd=self._team_fd,
                board_fd=self._board_fd,
                endpoint=server.endpoint,
                server_key=server.public_key,
                client_public_key=server.client_public_key,
                client_secret_key=server.client_secret_key,
                token=server.token,
                cases=list(request.cases),
                transfers=list(request.transfers),
                settings=request.settings,
                ccl_path=request.ccl_path,
                ccl_wheels=request.ccl_wheels,
                in_pairs=request.in_pairs,
                pending=list(request.pending),
                checks=list(request.checks),
                modules=list(request.modules),
            )
            for rank, indices in enumerate(request.processes)
        ]

    def _hear(self, server: Server, timeout_s: float) -> None:
        for message in server.receive(timeout_s):
            if isinstance(message, Hello):
                self._hellos[message.rank] = message
                if self._mpi is not None:
                    self._mpi.ranks[message.rank].number = message.devices[0].pid
                    if len(self._hellos) == self._size:
                        self._mpi.watch()
            elif isinstance(message, Measured):
                self._held_back.append(message.result)
            elif isinstance(message, Observed):
                self._held_back.append(message.condition)
            elif isinstance(message, Notice):
                self._listener.notice(message.text)
            elif isinstance(message, Failed):
                self._failures[message.rank] = message
            elif isinstance(message, Finished):
                self._finished[message.rank] = message
        if self._started:
            self._pass_on_results()

    def _introduce(self) -> None:
        """Describes the surroundings once all ranks are up, beside the ranks' own start-up."""
        if self._started or len(self._hellos) < self._size:
            return
        if self._describing is None:
            self._describing = threading.Thread(target=self._describe, daemon=True)
            self._describing.start()
        if self._surroundings is not None:
            self._started = True
            self._listener.started(self._surroundings)
            self._pass_on_results()

    def _pass_on_results(self) -> None:
        for entry in self._held_back:
            if isinstance(entry, Condition):
                self._listener.condition(entry)
            else:
                self._listener.result(entry)
        self._held_back.clear()

    def _describe(self) -> None:
        hellos = [self._hellos[rank] for rank in range(self._size)]
        devices = [device for hello in hellos for device in hello.devices]
        libraries, differences = _libraries(hellos), _differences(hellos)
        self._plain_surroundings = Surroundings(
            self._machine,
            devices,
            [],
            libraries,
            [],
            ["links unknown: NVML does not answer", *differences],
        )
        try:
            links, notices = complete_from_nvml(devices, self._machine)
        except Exception as error:  # whatever is wrong with NVML, the run itself can go on
            links, notices = [], [f"links unknown: {type(error).__name__}: {error}"]
        self._surroundings = Surroundings(
            self._machine,
            devices,
            links,
            libraries,
            self._relations(devices, links, hellos),
            notices + differences,
        )

    def _relations(
        self, devices: list[DeviceDescription], links: list[Link], hellos: list[Hello]
    ) -> list[Relation]:
        if not self._request.transfers and not self._request.in_pairs:
            return []
        reach = {pair for hello in hellos for pair in hello.reach}
        return relations_between(devices, links, reach)

    def _wait_for_description(self) -> None:
        if self._describing is not None:
            self._describing.join(_DESCRIPTION_S)
            self._surroundings = self._surroundings or self._plain_surroundings
        self._introduce()

    def _dead(self) -> bool:
        """Whether a rank ended without a word. One that left by itself has sent its last message,
        which gets a moment to arrive.
        """
        return any(
            rank.exit_status() is not None
            and not self._was_heard(rank)
            and not self._may_be_heard(rank)
            for rank in self._ranks
        )

    def _was_heard(self, rank: RankProcess) -> bool:
        return rank.rank in self._finished or rank.rank in self._failures

    def _may_be_heard(self, rank: RankProcess) -> bool:
        """Whether a last message can still come: from a rank that runs, or has just left."""
        status = rank.exit_status()
        if status is None:
            return True
        left_s = self._left_s.setdefault(rank.rank, time.monotonic())
        return status >= 0 and time.monotonic() < left_s + _LAST_WORDS_S

    def _overdue(self) -> bool:
        now_s = time.monotonic()
        return any(
            status.deadline_s and now_s > status.deadline_s + _OVERTIME_S
            for status in (self._board.read(rank.rank) for rank in self._ranks)
            if status.phase != "finished"
        )

    def _give_up(self, server: Server) -> Outcome:
        """Lets the surviving ranks say where they were, then ends them all."""
        stopped = {rank.rank for rank in self._ranks if rank.is_stopped()}
        os.pwrite(self._team_fd, b"\1", 0)
        deadline_s = time.monotonic() + _GATHER_FAILURES_S
        while time.monotonic() < deadline_s and self._unheard(stopped):
            self._hear(server, _POLL_S)
        self._wait_for_description()
        runtimes, processes = self._request.devices.runtimes, self._request.processes
        heard = list(self._failures)
        states = [
            RankState(
                rank=rank.rank,
                device=f"{runtimes[rank.rank]}:{','.join(map(str, processes[rank.rank]))}",
                pid=rank.pid,
                status=self._board.read(rank.rank),
                exit_status=rank.exit_status() if rank.rank not in self._finished else None,
                stopped=rank.rank in stopped,
                failure=self._failures.get(rank.rank),
                heard=heard.index(rank.rank) if rank.rank in heard else 0,
            )
            for rank in self._ranks
        ]
        kill_ranks(self._ranks)
        code = EXIT_MISSING if exit_kind(states) == "missing" else EXIT_DIED
        message = diagnose(states, self._request.things)
        if self._mpi is not None and self._mpi.said():
            message += f"\n{indent(self._mpi.said(), '  mpirun: ')}"
        return Outcome(code, message, failure=_failure(culprit_of(states)))

    def _unheard(self, stopped: set[int]) -> bool:
        return any(
            rank.rank not in stopped and not self._was_heard(rank) and self._may_be_heard(rank)
            for rank in self._ranks
        )


def _failure(culprit: RankState) -> Failed | None:
    """What the rank to blame said, or would have to say: one that hangs in a call says nothing."""
    hangs = culprit.exit_status is None and not culprit.stopped
    if culprit.failure is not None or not hangs:
        return culprit.failure
    status = culprit.status
    return Failed(culprit.rank, b"", "timeout", "no answer", status.phase, status.case_index)


def _libraries(hellos: Sequence[Hello]) -> list[LibraryDescription]:
    """Those of all ranks, as the first that has one describes it."""
    found: dict[str, LibraryDescription] = {}
    for hello in hellos:
        for library in hello.libraries:
            found.setdefault(library.name, library)
    return list(found.values())


def _differences(hellos: Sequence[Hello]) -> list[str]:
    """Ranks that loaded another file than the first one: a classic cause of hangs."""
    first: dict[str, tuple[int, LibraryDescription]] = {}
    differences = []
    for hello in hellos:
        for library in hello.libraries:
            rank, expected = first.setdefault(library.name, (hello.rank, library))
            if (library.version, library.path) != (expected.version, expected.path):
                differences.append(
                    f"rank {hello.rank} loaded {library.name} {library.version} from "
                    f"{library.path}, rank {rank} did not: mixed versions hang or crash"
                )
    return differences
