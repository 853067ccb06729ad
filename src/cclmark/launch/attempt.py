"""Runs ranks, one process per device, and supervises them until all have exited."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from textwrap import indent

import msgspec

from cclmark.analysis.hosts import differences_between, unlike_devices
from cclmark.errors import (
    EXIT_DIED,
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    MissingError,
    RankError,
    UnreadError,
)
from cclmark.launch.crew import crew_of_one
from cclmark.launch.diagnosis import RankState, culprit_of, diagnose, exit_kind, hangs
from cclmark.launch.follower import CUT_S, SILENCE_S
from cclmark.launch.member import describe_devices
from cclmark.launch.placement import raise_if_ended
from cclmark.launch.processors import plan_processors
from cclmark.launch.ranks import is_stopped, kill_ranks
from cclmark.launch.ras import RasReport, ask_ras
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.plan.binding import Binding
from cclmark.plan.cases import Case
from cclmark.plan.libraries import added_libraries
from cclmark.plan.ranges import in_ranges
from cclmark.rendezvous.board import Operations, Status
from cclmark.rendezvous.messages import (
    Describe,
    Described,
    Failed,
    Finished,
    FromAny,
    Hello,
    Job,
    Look,
    Measured,
    Notice,
    Observed,
    encoded_plan,
)
from cclmark.results.schema import (
    Condition,
    DeviceDescription,
    LibraryDescription,
    Link,
    Relation,
    Result,
)
from cclmark.results.topology import relations_between
from cclmark.signals import ENDING, noted

_POLL_S = 0.02
_DESCRIPTION_S = 5.0
_GATHER_FAILURES_S = 1.5  # wait for the other ranks to report their state
_SHORT_OF_TIME_S = 0.05  # a launcher that ends a run sends SIGKILL shortly afterwards
# After a launcher's signal: the wait for other interrupted processes to report the signal, and the
# age at which a broken connection counts as a death, which made the launcher end the others.
_DEPARTURES_S = 0.5
_DEAD_S = 0.1
_SAME_SIGNAL_S = 0.3  # between deliveries of one signal to the processes of a group
_STALL_S = 3.0  # the shortest pause of this process that counts as a stall
_STALL_SHARE = 0.5  # of the time that a rank waited: from there the stall explains the wait
_AFTER_STALL_S = 10.0  # the consequences of a stall appear within this time
_LAST_WORDS_S = 1.0
_STOPPED_S = 3.0  # patience with a stopped process once all cases are measured
_RAS_S = 5.0  # RAS waits for unresponsive processes, and is queried three times
_WITH_RAS = ("nccl", "torch:nccl")


class Attempt:
    """One attempt of a run, supervised by the first process."""

    def __init__(self, request: Request, listener: Listener) -> None:
        self._request = request
        self._listener = listener
        self._size = len(request.processes)
        self._looks: dict[int, Look] = {}
        self._hellos: dict[int, Hello] = {}
        self._failures: dict[int, Failed] = {}
        self._finished: dict[int, Finished] = {}
        self._held_back: deque[Result | Condition] = deque()
        self._described: dict[int, Described] = {}
        self._describing_s: float | None = None
        self._started = False
        self._left_s: dict[int, float] = {}
        self._noted = False
        self._asking: threading.Thread | None = None
        self._ras: RasReport | None = None
        self._cut_s = CUT_S
        self._ran_s: float | None = None
        self._stall_s = 0.0
        self._stall_ended_s = float("-inf")

    def run(self) -> Outcome:
        """Starts the ranks and returns when all have exited, for whatever reason."""
        given = self._request.crew
        try:
            with contextlib.ExitStack() as stack:
                if given is None:
                    self._crew = stack.enter_context(crew_of_one(self._request.devices))
                else:
                    self._crew = given
                self._server = self._crew.meeting.server
                self._server.ranks = self._size
                try:
                    return self._supervise()
                except (KeyboardInterrupt, UnreadError) as interruption:
                    try:
                        return self._end_early(interruption)
                    except UnreadError:  # raised only once: nothing is printed from now on
                        return self._end_early(interruption)
                finally:
                    kill_ranks(self._crew.own.ranks)
        except (RankError, MissingError) as error:
            return Outcome(error.exit_code, str(error))

    def _supervise(self) -> Outcome:
        crew = self._crew
        launched = crew.placement is not None
        raise_if_ended(launched=launched)
        crew.begin_attempt(self._request.settings.timeout_s)
        jobs = self._jobs()
        crew.own.start_by(self._request.mpirun)
        of_member: dict[int, list[Job]] = {}
        for job, process in zip(jobs, self._process_of_rank(), strict=True):
            of_member.setdefault(process, []).append(job)
        for process, own in of_member.items():
            crew.members[process].start(own)
        self._started_s = time.monotonic()
        for text in (self._request.devices.notice, *self._request.warnings, *self._differences()):
            if text:
                self._listener.notice(text)
        self._notice_neighbours()
        while len(self._finished) < self._size:
            self._hear(_POLL_S)
            if not self._started and len(self._hellos) == self._size:
                _check_no_device_twice(self._devices())
            self._introduce()
            self._look(closely=False)
            self._ask_ras()
            self._note_segments()
            if 0 in self._looks:
                self._listener.progress(self._looks[0])
            if self._failures or self._dead() or self._overdue() or crew.lost():
                self._await_own_signal()
                raise_if_ended(launched=launched)
                return self._give_up()
            raise_if_ended(launched=launched)
        return self._conclude()

    def _conclude(self) -> Outcome:
        """Ends an attempt in which every rank has finished."""
        crew = self._crew
        self._wait_for_description()
        lost = self._wait_for_others()
        for member in crew.members:
            member.end()
        if crew.own.mpi is not None and crew.own.mpi.said():
            self._listener.notice(f"mpirun printed: {crew.own.mpi.said()}")
        if turned_away := self._server.turned_away():
            self._listener.notice(turned_away)
        phases_s = self._finished[0].phases_s
        if lost:
            return Outcome(EXIT_DIED, f"all cases are measured, but {lost}", phases_s)
        return Outcome(EXIT_OK, phases_s=phases_s)

    def _wait_for_others(self) -> str:
        """Waits for another message from each process after the ranks have finished.

        A launcher would wait for processes that do not exit. Returns the reason why a process is
        lost, empty if none is.
        """
        since_s = time.monotonic()
        silent = self._crew.remote
        while silent and not self._lost(_STOPPED_S):
            silent = [
                member
                for member in silent
                if member.heard_s <= since_s
                and not (member.seen and all(it.exit_status is not None for it in member.seen))
            ]
            if silent:
                self._hear(_POLL_S)
            raise_if_ended()
        return self._lost(_STOPPED_S) if silent else ""

    def _lost(self, patience_s: float = SILENCE_S) -> str:
        """The process that is lost or stopped and the reason, empty if all processes respond.

        ``patience_s``: the allowed silence of a stopped process on this host.
        """
        crew = self._crew
        for member in crew.remote:
            silent = time.monotonic() > member.heard_s + patience_s
            here = crew.host_of[member.process] == crew.host_of[0]
            if silent and here and is_stopped(crew.joins[member.process].pid):
                return f"{member.name} is stopped (SIGSTOP or a debugger)"
        return crew.lost(self._cut_s)

    def _process_of_rank(self) -> list[int]:
        """The process of each rank; one process may hold all devices as one rank."""
        return self._crew.process_of_rank if len(self._crew.joins) > 1 else [0] * self._size

    def _host_of_rank(self) -> list[int]:
        return [self._crew.host_of[process] for process in self._process_of_rank()]

    def _differences(self) -> list[str]:
        placement = self._crew.placement
        notices = list(placement.notices) if placement is not None else []
        return [*notices, *differences_between(self._crew.hosts)]

    def _look(self, *, closely: bool) -> None:
        for member in self._crew.members:
            for look in member.looks(closely=closely):
                self._looks[look.rank] = look

    def _ask_ras(self) -> None:
        """Queries NCCL RAS for lagging ranks, in a thread, while the ranks still run."""
        late = any(look.late for look in self._looks.values())
        if not late or self._asking is not None or not self._uses_nccl():
            return
        own = [rank.pid for rank in self._crew.own.ranks]

        def ask() -> None:
            self._ras = ask_ras(own, os.environ, _RAS_S)

        self._asking = threading.Thread(target=ask, daemon=True)
        self._asking.start()

    def _uses_nccl(self) -> bool:
        names = {library.name for hello in self._hellos.values() for library in hello.libraries}
        return not names.isdisjoint(_WITH_RAS)

    def _said_by_ras(self) -> str:
        """The answer of NCCL RAS as lines of a report."""
        if self._asking is None:
            return ""
        deadline_s = time.monotonic() + _RAS_S
        while self._asking.is_alive() and time.monotonic() < deadline_s:
            self._hear(_POLL_S)
        ras = self._ras
        if ras is None:
            return "\n  NCCL RAS: no answer in time"
        lines = ras.sentences() or [ras.reason or "no rank is behind"]
        return "".join(f"\n  NCCL RAS: {line}" for line in lines)

    def _note_segments(self) -> None:
        """Records the shared-memory segments of MPI ranks when they begin to measure with MPI."""
        look, mpi = self._looks.get(0), self._crew.own.mpi
        if mpi is None or self._noted or look is None or look.phase != "warm-up":
            return
        items = self._request.items
        case = items[look.case_index] if 0 <= look.case_index < len(items) else None
        if isinstance(case, Case) and case.ccl == "mpi":
            mpi.note_segments()
            self._noted = True

    def _notice_neighbours(self) -> None:
        """Prints a notice if another run is active on this host, because runs disturb each other.

        The mark is an abstract socket name, which the kernel releases when this process ends.
        """
        self._mark = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._mark.bind(f"\0cclmark-run-{os.getuid()}")
        except OSError:
            self._listener.notice(
                "another cclmark run is active on this host: the results of both runs are disturbed"
            )

    def _jobs(self) -> list[Job]:
        request, crew, server = self._request, self._crew, self._server
        hosts = self._host_of_rank()
        joins = [crew.joins[process] for process in self._process_of_rank()]
        plan = plan_processors(
            Binding.parse(request.settings.bind, self._size),
            [join.processors for join in joins],
            hosts,
            [join.host.machine.hostname for join in joins],
            request.devices.runtimes[: self._size],
        )
        for text in plan.notices:
            self._listener.notice(text)
        launched = crew.placement is not None and crew.placement.by_mpi
        plan_of_all = encoded_plan(request.planned)
        return [
            Job(
                rank=rank,
                ranks=self._size,
                parent_pid=0,
                runtime=request.devices.runtimes[rank],
                device_indices=indices,
                every_index=list(request.devices.indices),
                processors=plan.bound[rank],
                oversubscribed=hosts[rank] in plan.crowded,
                team_fd=-1,
                board_fd=-1,
                access=server.keys.access(server.endpoint),
                token=server.token,
                kind=request.kind,
                plan=plan_of_all,
                settings=request.settings,
                ccl_path=request.ccl_path,
                ccl_wheels=request.ccl_wheels,
                pending=list(request.pending),
                modules=list(request.modules),
                libraries=added_libraries(),
                hosts=hosts if len(crew.hosts) > 1 else [],
                mpi=launched and request.by_mpi,
                absent=dict(request.absent),
                place_on_host=plan.places[rank],
            )
            for rank, indices in enumerate(request.processes)
        ]

    def _hear(self, timeout_s: float) -> None:
        self._note_stall()
        # Processed in order: the first and the last message of a fast rank may arrive together.
        messages = self._server.receive(timeout_s)
        self._note_stall()
        for message in messages:
            if self._makes_sense(message):
                self._take(message)
            else:
                self._server.refused += 1
        if self._started:
            self._pass_on_results()

    def _note_stall(self) -> None:
        """Records that this process itself was stopped, so that others are not blamed for it."""
        before_s, now_s = self._ran_s, time.monotonic()
        self._ran_s = now_s
        if before_s is None or now_s < before_s + _STALL_S:
            return
        self._stall_s, self._stall_ended_s = now_s - before_s, now_s
        for member in self._crew.remote:
            member.heard_s = now_s

    def _take(self, message: FromAny) -> None:
        if isinstance(message, Hello):
            self._hellos[message.rank] = message
            mpi = self._crew.own.mpi
            if mpi is not None:
                mpi.ranks[message.rank].found(message.devices[0].pid)
                if len(self._hellos) == self._size:
                    mpi.watch()
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
        elif isinstance(message, Described):
            self._described[self._crew.host_of[message.rank]] = message
            self._crew.hear(message)
        else:
            self._crew.hear(message)

    def _makes_sense(self, message: FromAny) -> bool:
        """Whether a message is consistent with the run.

        Its indices, which are used for look-ups, must exist, and a rank must send Hello before
        Finished.
        """
        every = range(len(self._request.devices.indices))
        items = self._request.items
        sense = True
        if isinstance(message, Hello):
            number = len(self._request.processes[message.rank])
            own = [*range(message.rank * number, (message.rank + 1) * number)]
            known = all(one in every and other in every for one, other in message.reach)
            sense = known and [device.rank for device in message.devices] == own
        elif isinstance(message, Measured):
            result = message.result
            sense = result.index in range(len(items)) and result.item == items[result.index]
        elif isinstance(message, Observed):
            sense = message.condition.rank == message.rank
        elif isinstance(message, Described):
            named = [one.rank for one in message.devices] + [one.device for one in message.links]
            sense = all(rank in every for rank in named)
        elif isinstance(message, Failed):
            sense = -1 <= message.case_index < len(items)
        elif isinstance(message, Finished):
            sense = message.rank in self._hellos
        return sense

    def _introduce(self) -> None:
        """Reports the surroundings once all ranks have sent Hello, while they continue to start."""
        if self._started or len(self._hellos) < self._size:
            return
        if self._describing_s is None:
            self._describing_s = time.monotonic()
            self._ask_for_descriptions()
        hosts = len(self._crew.hosts)
        if len(self._described) == hosts or self._waited_for_description():
            self._started = True
            self._listener.started(self._surroundings())
            self._pass_on_results()

    def _waited_for_description(self) -> bool:
        since_s = self._describing_s
        return since_s is not None and time.monotonic() > since_s + _DESCRIPTION_S

    def _pass_on_results(self) -> None:
        """Passes each result on exactly once, even if the listener raises UnreadError."""
        while self._held_back:
            entry = self._held_back.popleft()
            if isinstance(entry, Condition):
                self._listener.condition(entry)
            else:
                self._listener.result(entry)

    def _devices(self) -> list[DeviceDescription]:
        return [device for rank in range(self._size) for device in self._hellos[rank].devices]

    def _ask_for_descriptions(self) -> None:
        """Has one process per host query the vendor's interface, on this host in a thread."""
        hosts = self._host_of_rank()
        of_host: dict[int, list[DeviceDescription]] = {}
        for rank, hello in self._hellos.items():
            of_host.setdefault(hosts[rank], []).extend(hello.devices)
        speakers: dict[int, int] = {}
        for process, host in enumerate(self._crew.host_of):
            speakers.setdefault(host, process)
        for host, process in speakers.items():
            devices = of_host.get(host, [])
            if process > 0:
                self._server.tell(process, Describe(devices))
                continue
            # On copies, so that a partial result of the thread is never used.
            copies = [msgspec.structs.replace(device) for device in devices]
            threading.Thread(target=self._describe_own, args=(copies,), daemon=True).start()

    def _describe_own(self, devices: list[DeviceDescription]) -> None:
        self._described[0] = describe_devices(devices, self._crew.joins[0].host.machine, 0, b"")

    def _surroundings(self) -> Surroundings:
        hellos = [self._hellos[rank] for rank in range(self._size)]
        answers = dict(self._described)
        known = {device.rank: device for one in answers.values() for device in one.devices}
        devices = [known.get(device.rank, device) for device in self._devices()]
        links = [link for host in sorted(answers) for link in answers[host].links]
        notices = [text for host in sorted(answers) for text in answers[host].notices]
        machine = self._crew.joins[0].host.machine
        hosts = self._crew.hosts if len(self._crew.hosts) > 1 else []
        if 0 in answers:
            machine.vendor_driver = answers[0].vendor_driver or machine.vendor_driver
        if len(answers) < len(self._crew.hosts):
            notices.append("links unknown: NVML does not answer")
        return Surroundings(
            machine,
            devices,
            links,
            _libraries(hellos),
            self._relations(devices, links, hellos),
            [
                *dict.fromkeys(notices),
                *_unbound(hellos),
                *unlike_devices(devices),
                *_differences(hellos),
            ],
            self._crew.placement.launcher if self._crew.placement is not None else "",
            hosts,
        )

    def _relations(
        self, devices: list[DeviceDescription], links: list[Link], hellos: list[Hello]
    ) -> list[Relation]:
        if not self._request.traits.between_devices:
            return []
        reach = {pair for hello in hellos for pair in hello.reach}
        return relations_between(devices, links, reach)

    def _wait_for_description(self) -> None:
        self._introduce()  # the last rank may have arrived just now
        while self._describing_s is not None and not self._started:
            self._hear(_POLL_S)
            self._introduce()

    def _dead(self) -> bool:
        """Whether a rank ended without a last message.

        The last message of a rank that exited by itself may still be in transit for a moment.
        """
        return any(
            look.exit_status is not None
            and not self._was_heard(look.rank)
            and not self._may_be_heard(look)
            for look in self._looks.values()
        )

    def _await_own_signal(self) -> None:
        """Waits briefly for the signal that has ended a rank to arrive in this process too.

        A signal to a group of processes is delivered to one process after the other.
        """
        ended_by = {-(look.exit_status or 0) for look in self._looks.values()}
        deadline_s = time.monotonic() + (0.0 if ended_by.isdisjoint(ENDING) else _SAME_SIGNAL_S)
        while not noted() and time.monotonic() < deadline_s:
            self._hear(_POLL_S)

    def _was_heard(self, rank: int) -> bool:
        return rank in self._finished or rank in self._failures

    def _may_be_heard(self, look: Look) -> bool:
        """Whether a last message can still arrive: the rank runs, or has just exited by itself."""
        status = look.exit_status
        if status is None:
            return True
        left_s = self._left_s.setdefault(look.rank, time.monotonic())
        return status >= 0 and time.monotonic() < left_s + _LAST_WORDS_S

    def _overdue(self) -> bool:
        """Whether a rank has exceeded its deadline. After its last message there is none."""
        return any(
            look.overdue and look.rank not in self._finished for look in self._looks.values()
        )

    def _end_early(self, interruption: BaseException) -> Outcome:
        """Ends an interrupted run and keeps the results that have arrived.

        If a launcher ends the run because a process died, the outcome names that process.
        """
        self._hear(0.0)
        if self._crew.placement is not None and self._has_lost_one():
            return self._give_up(_SHORT_OF_TIME_S)
        self._wait_for_description()
        return Outcome(EXIT_INTERRUPTED, str(interruption) or "interrupted")

    def _has_lost_one(self) -> bool:
        """Whether a rank or a process of this run has ended before the signal that ends the others.

        After a signal, waits briefly until each process has reported the interruption or is known
        to have exited.
        """
        self._look(closely=False)
        own = self._crew.own.looks(closely=False)
        deadline_s = time.monotonic() + (_DEPARTURES_S if noted() else 0.0)
        while True:
            looks = [*own, *(look for member in self._crew.remote for look in member.seen)]
            if self._failures or any(look.exit_status not in (None, 0) for look in looks):
                return True
            left = [member for member in self._crew.remote if member.interrupted_by is None]
            if any(member.lost(_DEAD_S) for member in left):
                self._cut_s = _DEAD_S
                return True
            if not left or time.monotonic() > deadline_s:
                return False
            self._hear(_POLL_S)
            self._look(closely=False)

    def _give_up(self, patience_s: float = _GATHER_FAILURES_S) -> Outcome:
        """Collects the states of the surviving ranks, ends all ranks and returns a diagnosis."""
        crew = self._crew
        began_s = time.monotonic()
        self._look(closely=True)
        began_nothing = crew.own.mpi.began_nothing() if crew.own.mpi is not None else ""
        stopped = {look.rank for look in self._looks.values() if look.stopped}
        for member in crew.members:
            member.abort()
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s and self._unheard(stopped):
            self._hear(_POLL_S)
            self._look(closely=False)
        self._wait_for_description()
        # A broken connection may be restored by now. If others failed first, it was the cause.
        lost = self._lost()
        states = self._states(stopped)
        code = EXIT_MISSING if exit_kind(states) == "missing" and not lost else EXIT_DIED
        stalled = self._stalled(states, began_s)
        message = diagnose(states, self._request.items, cause_is_known=bool(stalled))
        message += self._said_by_ras()
        started = any(look.phase != "start-up" for look in self._looks.values())
        if began_nothing and not started and not self._failures:
            message = began_nothing
        for cause in (lost, stalled):
            if cause:
                message = f"{cause}\n{indent(message, '  ')}"
        kill_ranks(crew.own.ranks)
        if turned_away := self._server.turned_away():
            message += f"\n  {turned_away}"
        if crew.own.mpi is not None and crew.own.mpi.said():
            message += f"\n{indent(crew.own.mpi.said(), '  mpirun: ')}"
        failure = None if lost else _failure(culprit_of(states))
        return Outcome(code, message, failure=failure)

    def _stalled(self, states: Sequence[RankState], seen_s: float) -> str:
        """A sentence that this process was stopped or blocked, if that explains the failure.

        ``seen_s``: the time of the failure. A stall explains ranks that waited, and ranks that
        exited at their deadline and could not report it. Empty otherwise.
        """
        culprit = culprit_of(states)
        left = culprit.failure is None and (culprit.exit_status or 0) > 0
        # A rank that waited for this process did so for most of its time in the phase.
        waited = hangs(culprit) and self._stall_s >= _STALL_SHARE * (culprit.in_phase_s or 0.0)
        if seen_s > self._stall_ended_s + _AFTER_STALL_S or not (waited or left):
            return ""
        join = self._crew.joins[0]
        return (
            f"process 0 (pid {join.pid} on {join.host.machine.hostname}), which supervises the "
            f"run, was stopped or blocked for {self._stall_s:.0f} s (SIGSTOP, a debugger, or "
            "output that was not read)"
        )

    def _states(self, stopped: set[int]) -> list[RankState]:
        """The current state of every rank. A rank without a report is still in start-up."""
        now_s = time.monotonic()
        runtimes, processes = self._request.devices.runtimes, self._request.processes
        hosts = self._crew.hosts
        host_of = self._host_of_rank()
        process_of = self._process_of_rank()
        silent_s = {
            one.process: now_s - one.heard_s for one in self._crew.remote if one.lost(self._cut_s)
        }
        heard = {rank: order for order, rank in enumerate(self._failures)}
        unseen = Look(0, 0, "start-up", -1, 0, now_s - self._started_s, False, None, False)
        states = []
        for rank in range(self._size):
            look = self._looks.get(rank, unseen)
            device = f"{runtimes[rank]}:{','.join(map(str, processes[rank]))}"
            if len(hosts) > 1:
                device += f" of {hosts[host_of[rank]].machine.hostname}"
            states.append(
                RankState(
                    rank=rank,
                    device=device,
                    pid=look.pid,
                    status=Status(
                        look.phase,
                        look.case_index,
                        look.batches,
                        now_s - look.in_phase_s,
                        0.0,
                        Operations(*look.operations) if look.operations is not None else None,
                    ),
                    exit_status=look.exit_status if rank not in self._finished else None,
                    stopped=rank in stopped or look.stopped,
                    failure=self._failures.get(rank),
                    heard=heard.get(rank, 0),
                    in_phase_s=look.in_phase_s,
                    stack=look.stack,
                    silent_s=silent_s.get(process_of[rank]),
                )
            )
        return states

    def _unheard(self, stopped: set[int]) -> bool:
        """Whether a rank can still report its state. Ranks of a lost process cannot."""
        lost = {rank for one in self._crew.remote if one.lost(self._cut_s) for rank in one.ranks}
        return any(
            look.rank not in stopped | lost
            and not look.stopped
            and not self._was_heard(look.rank)
            and self._may_be_heard(look)
            for look in self._looks.values()
        )


def _check_no_device_twice(devices: Sequence[DeviceDescription]) -> None:
    """Raises MissingError if two ranks use one accelerator: libraries would hang or fail."""
    drivers: dict[tuple[str, str, str], int] = {}
    for device in devices:
        if not device.pci_bus_id:
            continue
        key = (device.host, device.runtime, device.pci_bus_id)
        other = drivers.setdefault(key, device.rank)
        if other != device.rank:
            raise MissingError(
                f"ranks {other} and {device.rank} on {device.host} have the same device "
                f"({device.runtime} {device.pci_bus_id}): start one process per device, or make a "
                "different device visible to each process"
            )


def _failure(culprit: RankState) -> Failed | None:
    """The failure that the culprit reported, or a timeout for one that hangs without a report."""
    hangs = culprit.exit_status is None and not culprit.stopped
    if culprit.failure is not None or not hangs:
        return culprit.failure
    status = culprit.status
    return Failed(culprit.rank, b"", "timeout", "no answer", status.phase, status.case_index)


def _libraries(hellos: Sequence[Hello]) -> list[LibraryDescription]:
    """The libraries of all ranks, each with the description of the first rank that has it."""
    found: dict[str, LibraryDescription] = {}
    for hello in hellos:
        for library in hello.libraries:
            found.setdefault(library.name, library)
    return list(found.values())


def _unbound(hellos: Sequence[Hello]) -> list[str]:
    """The ranks that ``--bind numa`` could not bind, one sentence per reason."""
    ranks: dict[str, list[int]] = {}
    for hello in hellos:
        if hello.unbound:
            ranks.setdefault(hello.unbound, []).append(hello.rank)
    return [
        f"--bind numa: rank{'s' * (len(unbound) > 1)} {in_ranges(unbound)} not bound: {reason}"
        for reason, unbound in ranks.items()
    ]


def _differences(hellos: Sequence[Hello]) -> list[str]:
    """The ranks that loaded another library file than the first rank, a common cause of hangs."""
    first: dict[str, tuple[int, LibraryDescription]] = {}
    differences = []
    for hello in hellos:
        for library in hello.libraries:
            rank, expected = first.setdefault(library.name, (hello.rank, library))
            if (library.version, library.path) != (expected.version, expected.path):
                differences.append(
                    f"rank {hello.rank} loaded {library.name} {library.version} from "
                    f"{library.path}, but rank {rank} did not: mixed versions can hang or crash"
                )
    return differences
