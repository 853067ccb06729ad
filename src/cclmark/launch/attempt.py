"""Starts ranks, one process per device, and supervises them until all have exited.

``RankWatch`` observes their states, deadlines and unexpected ends, ``ProcessWatch`` the other
processes of the run: lost, stopped, interrupted or silent ones.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import indent

import msgspec

from cclmark.analysis.hosts import differences_between
from cclmark.analysis.outliers import TIMES_MEAN_LITTLE
from cclmark.base.errors import (
    EXIT_DIED,
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    EXIT_USAGE,
    MissingError,
    RankError,
    UnreadError,
    UsageError,
)
from cclmark.base.files import missing_mounts
from cclmark.base.grouping import by_key
from cclmark.base.signals import ENDING, noted, raise_if_ended
from cclmark.launch.coordinator import (
    Coordinator,
    RankLayout,
    RemoteAgent,
    coordinator_of_one,
    lay_out,
)
from cclmark.launch.debugging import NO_DEADLINE_S, debugged
from cclmark.launch.diagnosis import RankState, StallWatch, culprit_of, diagnose, exit_kind, hangs
from cclmark.launch.follower import CUT_S, SILENCE_S
from cclmark.launch.rank_messages import Introduction, RankMessages
from cclmark.launch.ranks import is_stopped, kill_ranks
from cclmark.launch.ras import RasQuery
from cclmark.launch.request import Listener, Outcome, Request, ResultDelivery
from cclmark.rendezvous.board import Operations, Status
from cclmark.rendezvous.messages import Failed, Job, RankStatus, encoded_plan
from cclmark.work.binding import Binding, format_processors
from cclmark.work.libraries import added_libraries
from cclmark.work.sizes import in_ranges


@dataclass(frozen=True)
class ProcessorPlan:
    """The processors of every rank.

    ``bound``: the processors to which each rank binds itself, empty for a rank that is not bound or
    that selects its processors after it has opened its device. ``crowded``: hosts with more ranks
    than usable processors. ``places``: see Job.place_on_host. ``notices``: notices for the user.
    """

    bound: list[list[int]]
    crowded: set[int]
    places: list[tuple[int, int]]
    notices: list[str]


def plan_processors(
    binding: Binding,
    inherited: Sequence[Sequence[int]],
    hosts: Sequence[int],
    hostnames: Sequence[str],
    runtimes: Sequence[str],
) -> ProcessorPlan:
    """Plans the binding of a run. All sequences are indexed by rank.

    ``inherited``: the processors that the rank's process may use, in order of preference.
    ``hosts``: a number for its host. Raises MissingError for a rank that may use none of the
    processors listed for it.
    """
    on_host = set(runtimes) == {"host"}
    listed = binding.of_rank
    usable = [list(own) for own in inherited]
    notices = []
    if listed:
        usable = [
            [one for one in own if one in wanted]
            for own, wanted in zip(inherited, listed, strict=True)
        ]
        _require_some(usable, listed, inherited, hostnames)
        reduced = [rank for rank, own in enumerate(usable) if len(own) < len(listed[rank])]
        if reduced:
            notices.append(
                f"--bind: rank{'s' * (len(reduced) > 1)} {in_ranges(reduced)} cannot use all "
                "listed processors, only the inherited ones"
            )
    chosen, crowded = one_of_each(usable, hosts)
    if on_host and crowded:
        number = len({(host, one) for host, own in zip(hosts, usable, strict=True) for one in own})
        notices.append(
            f"{len(hosts)} ranks share {number} processor{'s' * (number > 1)}: {TIMES_MEAN_LITTLE}"
        )
    alike = list(zip(hosts, runtimes, map(tuple, inherited), strict=True))
    alone = chosen if on_host and not binding.mode else [[] for _ in hosts]
    bound = usable if listed else alone
    return ProcessorPlan(bound, crowded, places_among_alike(alike), notices)


def one_of_each(
    usable: Sequence[Sequence[int]], hosts: Sequence[int]
) -> tuple[list[list[int]], set[int]]:
    """A distinct processor for each rank of a host, and the hosts without enough processors.

    Ranks on hosts without enough processors get none. Computes a maximum matching of ranks and
    processors with augmenting paths (Kuhn's algorithm).
    """
    taken_by: dict[tuple[int, int], int] = {}  # rank by host and processor
    crowded: set[int] = set()
    for rank, host in enumerate(hosts):
        if host not in crowded and not _give_one(rank, usable, host, taken_by):
            crowded.add(host)
    chosen: list[list[int]] = [[] for _ in hosts]
    for (host, processor), rank in taken_by.items():
        if host not in crowded:
            chosen[rank] = [processor]
    return chosen, crowded


def _give_one(
    rank: int,
    usable: Sequence[Sequence[int]],
    host: int,
    taken_by: dict[tuple[int, int], int],
) -> bool:
    """Finds a processor for ``rank``, and reassigns other ranks of its host if necessary.

    The search is breadth-first, so that a host with hundreds of ranks needs no deep recursion.
    """
    came_from: dict[int, tuple[int, int]] = {}  # by processor: its next rank, that rank's old one
    queue = [(rank, -1)]
    for asking, own in queue:
        for processor in usable[asking]:
            if processor in came_from:
                continue
            came_from[processor] = (asking, own)
            holder = taken_by.get((host, processor))
            if holder is not None:
                queue.append((holder, processor))
                continue
            free = processor
            while free >= 0:
                taker, previous = came_from[free]
                taken_by[host, free] = taker
                free = previous
            return True
    return False


def places_among_alike(keys: Sequence[Hashable]) -> list[tuple[int, int]]:
    """For every key its index, from 0, among the keys equal to it, and the number of these keys."""
    numbers = Counter(keys)
    seen: Counter[Hashable] = Counter()
    places = []
    for key in keys:
        places.append((seen[key], numbers[key]))
        seen[key] += 1
    return places


def _require_some(
    usable: Sequence[Sequence[int]],
    listed: Sequence[frozenset[int]],
    inherited: Sequence[Sequence[int]],
    hostnames: Sequence[str],
) -> None:
    excluded = [rank for rank, own in enumerate(usable) if not own]
    if not excluded:
        return
    rank = excluded[0]
    more = f" (and {len(excluded) - 1} more ranks)" if len(excluded) > 1 else ""
    raise MissingError(
        f"--bind: rank {rank} cannot be bound to processors {format_processors(listed[rank])}: its "
        f"process on {hostnames[rank]} may use only {format_processors(inherited[rank])}{more}. "
        "Change the list, or the affinity of the process (taskset, the launcher's binding, the "
        "cpuset of the container)"
    )


def processors_of_ranks(
    request: Request, coordinator: Coordinator, layout: RankLayout
) -> ProcessorPlan:
    """The processors of every rank. Raises MissingError if a rank may use none of those listed."""
    ranks = len(request.processes)
    joins = [coordinator.joins[process] for process in layout.process_of]
    return plan_processors(
        Binding.parse(request.settings.bind, ranks),
        [join.processors for join in joins],
        layout.host_of,
        [join.host.machine.hostname for join in joins],
        request.devices.runtimes[:ranks],
    )


def start_ranks(
    request: Request, coordinator: Coordinator, layout: RankLayout, processors: ProcessorPlan
) -> None:
    """Starts the ranks, each by the process to which it belongs."""
    debugged().require(len(request.processes))
    if debugged().ranks and request.mpirun:
        raise UsageError(
            "--debug-rank does not apply: mpirun starts these ranks. Use its option for debuggers"
        )
    jobs = _jobs(request, coordinator, layout, processors)
    coordinator.start_by(request.mpirun)
    of_member = by_key((process, job) for job, process in zip(jobs, layout.process_of, strict=True))
    for process, own in of_member.items():
        coordinator.agents[process].start(own)


def _jobs(
    request: Request, coordinator: Coordinator, layout: RankLayout, processors: ProcessorPlan
) -> list[Job]:
    """The job of every rank. The process that starts a rank adds its pid and descriptors."""
    server = coordinator.meeting.server
    launched = coordinator.placement is not None and coordinator.placement.by_mpi
    plan_of_all = encoded_plan(request.planned)
    settings = request.settings
    if debugged().ranks:  # a rank at a breakpoint is not late
        settings = msgspec.structs.replace(settings, timeout_s=NO_DEADLINE_S)
    return [
        Job(
            rank=rank,
            ranks=len(request.processes),
            parent_pid=0,
            runtime=request.devices.runtimes[rank],
            device_indices=indices,
            every_index=list(request.devices.indices),
            processors=processors.bound[rank],
            oversubscribed=layout.host_of[rank] in processors.crowded,
            rank_group_fd=-1,
            board_fd=-1,
            access=server.keys.access(server.endpoint),
            token=server.token,
            kind=request.kind.name,
            plan=plan_of_all,
            settings=settings,
            ccl_path=request.ccl_path,
            ccl_wheels=request.ccl_wheels,
            pending=list(request.pending),
            modules=list(request.modules),
            libraries=added_libraries(),
            hosts=layout.host_of if len(coordinator.hosts) > 1 else [],
            mpi=launched and request.by_mpi and not request.mpirun,
            absent=dict(request.absent),
            place_on_host=processors.places[rank],
            explain=request.explain,
            explains_at_end=request.explains_at_end,
            traced_operations=request.traced_operations,
            environment=dict(request.environment),
            attachment=request.attachment_of(rank),
            debugger=debugged().command_of(rank),
            debugs_on_terminal=bool(debugged().name),
        )
        for rank, indices in enumerate(request.processes)
    ]


_POLL_S = 0.02
_GATHER_FAILURES_S = 1.5  # wait for the other ranks to report their state
# By the kind of a failure.
_EXIT_CODES = {"usage": EXIT_USAGE, "missing": EXIT_MISSING, "refused": EXIT_MISSING}
_SAME_SIGNAL_S = 0.3  # between deliveries of one signal to the processes of a group
_LAST_MESSAGE_S = 1.0  # the longest transit of the last message of a rank that has exited
# After a launcher's signal: the wait for other interrupted processes to report the signal, and the
# age at which a broken connection counts as a death, which made the launcher end the others.
_DEPARTURES_S = 0.5
_DEAD_S = 0.1
_STOPPED_S = 3.0  # patience with a stopped process once all cases are measured


@dataclass(eq=False)
class RankWatch:
    """Observes all ranks through the processes to which they belong.

    ``rank_statuses``: the last known state of each rank, by rank; ranks that have not been observed
    yet are missing.
    """

    _request: Request
    _coordinator: Coordinator
    _layout: RankLayout
    _messages: RankMessages
    _started_s: float = field(default_factory=time.monotonic)
    _exited_s: dict[int, float] = field(default_factory=dict)
    rank_statuses: dict[int, RankStatus] = field(default_factory=dict)

    def begin(self) -> None:
        """Begins to count the time in which ranks start."""
        self._started_s = time.monotonic()

    def look(self, *, closely: bool) -> None:
        """Observes all ranks. ``closely``: also finds out whether they are stopped."""
        for agent in self._coordinator.agents:
            for rank_status in agent.rank_statuses(closely=closely):
                self.rank_statuses[rank_status.rank] = rank_status
        if (mpi := self._coordinator.own.mpi) is not None:
            failed, status = mpi.failed()  # possibly of another host, which knows no status
            if failed in self.rank_statuses:
                self.rank_statuses[failed].exit_status = status

    def any_late(self) -> bool:
        """Whether a rank is close to its deadline."""
        return any(rank_status.late for rank_status in self.rank_statuses.values())

    def any_overdue(self) -> bool:
        """Whether a rank has exceeded its deadline. After its last message there is none."""
        return any(
            rank_status.overdue and rank_status.rank not in self._messages.finished
            for rank_status in self.rank_statuses.values()
        )

    def any_dead(self) -> bool:
        """Whether a rank ended without a last message.

        The last message of a rank that exited by itself may still be in transit for a moment.
        """
        return any(
            rank_status.exit_status is not None
            and not self._messages.has_reported_end(rank_status.rank)
            and not self._may_report(rank_status)
            for rank_status in self.rank_statuses.values()
        )

    def any_started(self) -> bool:
        """Whether a rank has completed its start-up."""
        return any(rank_status.phase != "start-up" for rank_status in self.rank_statuses.values())

    def any_can_report(self, excluded: Collection[int]) -> bool:
        """Whether a rank can still report its state, apart from the ``excluded`` ranks."""
        return any(
            rank_status.rank not in excluded
            and not rank_status.stopped
            and not self._messages.has_reported_end(rank_status.rank)
            and self._may_report(rank_status)
            for rank_status in self.rank_statuses.values()
        )

    def await_own_signal(self) -> None:
        """Waits briefly for the signal that has ended a rank to arrive in this process too.

        A signal to a group of processes is delivered to one process after the other.
        """
        ended_by = {-(rank_status.exit_status or 0) for rank_status in self.rank_statuses.values()}
        deadline_s = time.monotonic() + (0.0 if ended_by.isdisjoint(ENDING) else _SAME_SIGNAL_S)
        while not noted() and time.monotonic() < deadline_s:
            self._messages.receive(_POLL_S)

    def states(self, stopped: Collection[int], silence_s: Mapping[int, float]) -> list[RankState]:
        """The current state of every rank. A rank that was not observed is still in start-up.

        ``stopped``: ranks that were stopped earlier. ``silence_s``: the time since the last message
        of each lost process.
        """
        now_s = time.monotonic()
        runtimes, processes = self._request.devices.runtimes, self._request.processes
        hosts = self._coordinator.hosts
        has_one_clock = len(set(self._layout.host_of)) == 1
        order_of_failure = {rank: order for order, rank in enumerate(self._messages.failures)}
        unseen = RankStatus(0, 0, "start-up", -1, 0, now_s - self._started_s, False, None, False)
        states = []
        for rank, indices in enumerate(processes):
            rank_status = self.rank_statuses.get(rank, unseen)
            device = f"{runtimes[rank]}:{','.join(map(str, indices))}"
            if len(hosts) > 1:
                device += f" of {hosts[self._layout.host_of[rank]].machine.hostname}"
            finished = rank in self._messages.finished
            failure = self._messages.failures.get(rank)
            failed_at_s = failure.at_s if failure is not None and has_one_clock else 0.0
            states.append(
                RankState(
                    rank=rank,
                    device=device,
                    pid=rank_status.pid,
                    status=Status(
                        rank_status.phase,
                        rank_status.case_index,
                        rank_status.batches,
                        now_s - rank_status.in_phase_s,
                        0.0,
                        Operations(*rank_status.operations)
                        if rank_status.operations is not None
                        else None,
                    ),
                    exit_status=None if finished else rank_status.exit_status,
                    stopped=rank in stopped or rank_status.stopped,
                    failure=failure,
                    failed_at_s=failed_at_s or None,
                    heard=order_of_failure.get(rank, 0),
                    in_phase_s=rank_status.in_phase_s,
                    stack=rank_status.stack,
                    silent_s=silence_s.get(self._layout.process_of[rank]),
                )
            )
        return states

    def _may_report(self, rank_status: RankStatus) -> bool:
        """Whether a last message can still arrive: the rank runs, or has just exited by itself."""
        status = rank_status.exit_status
        if status is None:
            return True
        exited_s = self._exited_s.setdefault(rank_status.rank, time.monotonic())
        return status >= 0 and time.monotonic() < exited_s + _LAST_MESSAGE_S


@dataclass(eq=False)
class ProcessWatch:
    """Observes the processes other than the first one."""

    _coordinator: Coordinator
    _messages: RankMessages
    _ranks: RankWatch
    _cut_s: float = CUT_S

    def lost(self, patience_s: float = SILENCE_S) -> str:
        """The process that is lost or stopped and the reason, empty if all processes respond.

        ``patience_s``: the allowed silence of a stopped process on this host.
        """
        coordinator = self._coordinator
        for agent in coordinator.present:
            silent = time.monotonic() > agent.heard_s + patience_s
            here = coordinator.host_of[agent.process] == coordinator.host_of[0]
            if silent and here and is_stopped(coordinator.joins[agent.process].pid):
                return f"{agent.name} is stopped (SIGSTOP or a debugger)"
        return coordinator.lost(self._cut_s)

    def lost_ranks(self) -> set[int]:
        """The ranks of lost processes."""
        return {rank for agent in self._lost_members() for rank in agent.ranks}

    def silence_s(self) -> dict[int, float]:
        """The time since the last message of each lost process, by process."""
        now_s = time.monotonic()
        return {agent.process: now_s - agent.heard_s for agent in self._lost_members()}

    def wait_for_others(self) -> str:
        """Waits for another message from each process after the ranks have finished.

        A launcher would wait for processes that do not exit. Returns the reason why a process is
        lost, empty if none is.
        """
        since_s = time.monotonic()
        silent = self._coordinator.present
        while silent and not self.lost(_STOPPED_S):
            silent = [
                agent
                for agent in silent
                if agent.heard_s <= since_s
                and not (agent.seen and all(it.exit_status is not None for it in agent.seen))
            ]
            if silent:
                self._messages.receive(_POLL_S)
            raise_if_ended()
        return self.lost(_STOPPED_S) if silent else ""

    def has_lost_one(self) -> bool:
        """Whether a rank or a process of this run has ended before the signal that ends the others.

        After a signal, waits briefly until each process has reported the interruption or is known
        to have exited.
        """
        self._ranks.look(closely=False)
        own = self._coordinator.own.rank_statuses(closely=False)
        deadline_s = time.monotonic() + (_DEPARTURES_S if noted() else 0.0)
        while True:
            rank_statuses = [
                *own,
                *(rank_status for agent in self._coordinator.present for rank_status in agent.seen),
            ]
            if self._messages.failures or any(
                it.exit_status not in (None, 0) for it in rank_statuses
            ):
                return True
            left = [agent for agent in self._coordinator.present if agent.interrupted_by is None]
            if any(agent.lost(_DEAD_S) for agent in left):
                self._cut_s = _DEAD_S
                return True
            if not left or time.monotonic() > deadline_s:
                return False
            self._messages.receive(_POLL_S)
            self._ranks.look(closely=False)

    def _lost_members(self) -> list[RemoteAgent]:
        return [agent for agent in self._coordinator.present if agent.lost(self._cut_s)]


class HostMark:
    """An abstract socket name, which the kernel releases when this process ends."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def place(self) -> bool:
        """Places the mark. Returns False if another run has placed it."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0cclmark-run-{os.getuid()}")
        except OSError:
            return False
        return True


class Attempt:
    """One attempt of a run, supervised by the first process."""

    def __init__(self, request: Request, listener: Listener, coordinator: Coordinator) -> None:
        self._request, self._listener, self._coordinator = request, listener, coordinator
        self._layout = lay_out(coordinator, len(request.processes))
        self._stalls, self._ras = StallWatch(coordinator), RasQuery()
        delivery = ResultDelivery(listener)
        self._messages = RankMessages(request, listener, coordinator, delivery, self._stalls)
        self._introduction = Introduction(
            request, coordinator, self._layout, self._messages, delivery
        )
        self._ranks = RankWatch(request, coordinator, self._layout, self._messages)
        self._processes = ProcessWatch(coordinator, self._messages, self._ranks)
        self._mark = HostMark()
        self._launched = coordinator.placement is not None

    def run(self) -> bool:
        """Starts the ranks and returns True once all have finished, False if the attempt failed.

        Raises KeyboardInterrupt after a signal, and the errors of RankMessages.receive.
        """
        raise_if_ended(launched=self._launched)
        self._start()
        while not self._messages.all_finished:
            self._messages.receive(_POLL_S)
            self._introduction.check_devices()
            self._introduction.advance()
            self._ranks.look(closely=False)
            if self._ranks.any_late():
                own = [rank.pid for rank in self._coordinator.own.ranks]
                self._ras.begin(self._messages.libraries(), own)
            if (first := self._ranks.rank_statuses.get(0)) is not None:
                self._listener.progress(first)
            if self._has_failed():
                self._ranks.await_own_signal()
                raise_if_ended(launched=self._launched)
                return False
            raise_if_ended(launched=self._launched)
        return True

    def _start(self) -> None:
        """Starts the ranks and reports the notices that are known by then."""
        request, coordinator = self._request, self._coordinator
        coordinator.begin_attempt(request.settings.timeout_s)
        processors = processors_of_ranks(request, coordinator, self._layout)
        for text in processors.notices:
            self._listener.notice(text)
        start_ranks(request, coordinator, self._layout, processors)
        self._ranks.begin()
        self._listener.launched()
        placement = coordinator.placement
        for text in (
            request.devices.notice,
            *request.warnings,
            debugged().notice if debugged().ranks else "",
            *(placement.notices if placement is not None else ()),
            *differences_between(coordinator.hosts),
        ):
            if text:
                self._listener.notice(text)
        if not self._mark.place():  # runs on one host disturb each other
            self._listener.notice(
                "another cclmark run is active on this host: the results of both runs are disturbed"
            )

    def _has_failed(self) -> bool:
        return bool(
            self._messages.failures
            or self._ranks.any_dead()
            or self._ranks.any_overdue()
            or self._coordinator.lost()
        )

    def complete(self) -> Outcome:
        """Ends an attempt in which every rank has finished."""
        self._introduction.wait()
        lost = self._processes.wait_for_others()
        for agent in self._coordinator.agents:
            agent.end()
        if said := self._said_by_mpirun():
            self._listener.notice(f"mpirun printed: {said}")
        if turned_away := self._coordinator.meeting.server.turned_away():
            self._listener.notice(turned_away)
        phases_s = self._messages.finished[0].phases_s
        if lost:
            return Outcome(EXIT_DIED, f"all cases are measured, but {lost}", phases_s)
        return Outcome(EXIT_OK, phases_s=phases_s)

    def interrupt(self, interruption: BaseException) -> Outcome:
        """Ends an interrupted attempt and keeps the results that have arrived.

        If a launcher ends the run because a process died, the outcome names that process.
        """
        self._messages.receive(0.0)
        if self._launched and self._processes.has_lost_one():
            # Within 50 ms an mpirun may send SIGKILL: no time to wait for what the others report.
            return self.fail(patience_s=0.0)
        self._introduction.wait()
        return Outcome(EXIT_INTERRUPTED, str(interruption) or "interrupted")

    def fail(self, patience_s: float = _GATHER_FAILURES_S) -> Outcome:
        """Collects the states of the surviving ranks, ends all ranks and returns a diagnosis."""
        failed_s = time.monotonic()
        self._ranks.look(closely=True)
        mpi = self._coordinator.own.mpi
        began_nothing = mpi.began_nothing() if mpi is not None else ""
        stopped = {rank for rank, one in self._ranks.rank_statuses.items() if one.stopped}
        self._abort_and_gather(stopped, patience_s)
        self._introduction.wait()
        # A broken connection may be restored by now. If others failed first, it was the cause.
        lost = self._processes.lost()
        states = self._ranks.states(stopped, self._processes.silence_s())
        culprit = culprit_of(states)
        code = EXIT_DIED if lost else _EXIT_CODES.get(exit_kind(states), EXIT_DIED)
        stalled = self._stalls.explanation(culprit, failed_s)
        message = diagnose(states, self._request.items, cause_is_known=bool(stalled))
        if hangs(culprit) and not stalled and not lost:
            timeout_s = self._request.settings.timeout_s
            message += (
                f"\n  a phase may take {timeout_s:g} s (-T, --timeout): raise it if this work "
                "takes longer"
            )
        message += self._ras.answer(self._messages.receive)
        if began_nothing and not self._ranks.any_started() and not self._messages.failures:
            message = began_nothing
        if exit_kind(states) in ("error", "timeout", "died"):
            message += "".join(f"\n  {text}" for text in missing_mounts())
        for cause in (lost, stalled):
            if cause:
                message = f"{cause}\n{indent(message, '  ')}"
        kill_ranks(self._coordinator.own.ranks)
        server = self._coordinator.meeting.server
        if turned_away := server.turned_away(own=server.unheard):
            message += f"\n  {turned_away}"
        if said := self._said_by_mpirun():
            message += f"\n{indent(said, '  mpirun: ')}"
        if lost:
            return Outcome(code, message)
        failure, status = _failure(culprit), culprit.status
        index = status.case_index if culprit.failure is None else culprit.failure.case_index
        return Outcome(code, message, failure=failure, case_index=index, rank=culprit.rank)

    def _abort_and_gather(self, stopped: set[int], patience_s: float) -> None:
        """Ends the waits of all ranks and waits for the reports of those that can respond.

        No longer than until a signal arrives: an mpirun that ends a job sends SIGKILL 0.25 s later.
        """
        for agent in self._coordinator.agents:
            agent.abort()
        deadline_s = time.monotonic() + patience_s
        while (
            time.monotonic() < deadline_s
            and not noted()
            and self._ranks.any_can_report(stopped | self._processes.lost_ranks())
        ):
            self._messages.receive(_POLL_S)
            self._ranks.look(closely=False)

    def _said_by_mpirun(self) -> str:
        mpi = self._coordinator.own.mpi
        return mpi.said() if mpi is not None else ""


def _failure(culprit: RankState) -> Failed | None:
    """The failure that the culprit reported, or a timeout for one that hangs without a report."""
    hangs = culprit.exit_status is None and not culprit.stopped
    if culprit.failure is not None or not hangs:
        return culprit.failure
    status = culprit.status
    return Failed(culprit.rank, b"", "timeout", "no answer", status.phase, status.case_index)


def run_attempt(request: Request, listener: Listener) -> Outcome:
    """Starts the ranks of one attempt and returns when all have exited, for whatever reason."""
    coordinator = request.coordinator
    try:
        with contextlib.ExitStack() as stack:
            if coordinator is None:
                coordinator = stack.enter_context(coordinator_of_one(request.devices))
            coordinator.meeting.server.ranks = len(request.processes)
            attempt = Attempt(request, listener, coordinator)
            try:
                return attempt.complete() if attempt.run() else attempt.fail()
            except (KeyboardInterrupt, UnreadError) as interruption:
                try:
                    return attempt.interrupt(interruption)
                except UnreadError:  # raised only once: nothing is printed from now on
                    return attempt.interrupt(interruption)
            finally:
                kill_ranks(coordinator.own.ranks)
    except (RankError, MissingError) as error:
        return Outcome(error.exit_code, str(error))
