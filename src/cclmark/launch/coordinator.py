"""The processes of a run: one, or all that a launcher started, connected before planning."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from cclmark.base.errors import (
    EXIT_DIED,
    EXIT_MISSING,
    EXIT_USAGE,
    CclmarkError,
    MissingError,
    RankError,
    UsageError,
)
from cclmark.base.signals import deferred, raise_if_ended
from cclmark.base.standard_error import tell
from cclmark.base.version import VERSION
from cclmark.journal.host_processors import spread_over_cores
from cclmark.journal.machine import describe_host
from cclmark.journal.schema import HostDescription
from cclmark.launch.agent import LocalAgent
from cclmark.launch.devices import DeviceChoice
from cclmark.launch.follower import CUT_S, SILENCE_S, follow
from cclmark.launch.meeting import SECRET_VARIABLE, Meeting, open_meeting
from cclmark.launch.mpi_ranks import MpiStart
from cclmark.launch.placement import Placement
from cclmark.rendezvous.messages import (
    OF_PROCESSES,
    Abort,
    Clear,
    FromAny,
    Identified,
    Interrupted,
    Job,
    Join,
    Leave,
    RankStatus,
    Ready,
    Seen,
    Start,
)
from cclmark.rendezvous.server import Server
from cclmark.work.sizes import in_ranges

#: Of the driver, one file for each channel that the process may use.
IMEX_CHANNELS = Path("/dev/nvidia-caps-imex-channels")
_POLL_S = 0.02
_PLACES = ("--journal", "--output", "-O")
_LOST_S = 0.1  # between two scans of all processes, of which there may be thousands
_OTHER_FILES = 256  # open files besides a connection to each process and rank
_PATIENCE_S = 3.0  # before the first report of missing processes
_REMINDER_S = 15.0


class RemoteAgent:
    """Another process, from the view of the first process."""

    def __init__(self, server: Server, join: Join, owner: Join) -> None:
        self._server = server
        self._owner = owner
        self.process = join.rank
        self.name = f"process {join.rank} (pid {join.pid} on {join.host.machine.hostname})"
        self.seen: list[RankStatus] = []
        self.ranks: set[int] = set()
        self.by_mpirun = False
        self.interrupted_by: str | None = None
        self.ready_for = 0
        self.heard_s = time.monotonic()

    def start(self, jobs: Sequence[Job]) -> None:
        """Orders the process to start the ranks of these jobs."""
        owner = self._owner
        self.ranks = {job.rank for job in jobs}
        order = Start(list(jobs), owner.pid, owner.memory, self.by_mpirun)
        self._server.tell(self.process, order)

    def found(self, rank: int, host: str, pid: int) -> None:
        """Passes the pid of a rank on if it is one of the process."""
        if rank in self.ranks:
            self._server.tell(self.process, Identified(rank, host, pid))

    def rank_statuses(self, *, closely: bool) -> list[RankStatus]:
        """The last report of the process, which looks closely after an abort."""
        return self.seen

    def abort(self) -> None:
        """Orders the process to end the waits of its ranks."""
        self._server.tell(self.process, Abort())

    def end(self) -> None:
        """Does nothing: the process ends its ranks itself when the run is over."""

    def hear(self, message: FromAny) -> None:
        """Records a message of the process."""
        self.heard_s = time.monotonic()
        if isinstance(message, Seen):
            self.seen = [
                rank_status
                for rank_status in message.rank_statuses
                if rank_status.rank in self.ranks
            ]
        elif isinstance(message, Ready):
            self.ready_for = message.attempt
            self.seen = []
        elif isinstance(message, Interrupted):
            self.interrupted_by = message.reason

    def lost(self, cut_s: float = CUT_S) -> str:
        """The reason why the process counts as lost, empty while it does not.

        ``cut_s``: the time for which its connection must have been broken.
        """
        silent_s = time.monotonic() - self.heard_s
        if self._server.cut_off_s(self.process) > cut_s and silent_s > cut_s:
            if self.interrupted_by is not None:
                return f"{self.name} has exited: {self.interrupted_by or 'interrupted'}"
            return f"{self.name} is lost{_with_ranks(self.ranks)}: its connection broke"
        if silent_s > SILENCE_S:
            return (
                f"{self.name} has not reported for {SILENCE_S:g} s: the process, its host or the "
                "network hangs"
            )
        return ""


@dataclass
class Coordinator:
    """All processes of a run, from the view of the first process.

    ``joins``: the Join messages of the processes, by process number. ``devices``: the devices of
    all processes in the order of the ranks. ``host_of``: a number for the host of each process.
    ``began_s``: when the run began, by this process's monotonic clock.
    """

    placement: Placement | None
    meeting: Meeting
    joins: list[Join]
    own: LocalAgent
    devices: DeviceChoice
    host_of: list[int]
    exit_code: int = EXIT_DIED
    attempts: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._lost = ""
        self._lost_looked_s = 0.0
        self._left_out: set[int] = set()
        owners: dict[int, Join] = {}
        for join, host in zip(self.joins, self.host_of, strict=True):
            owners.setdefault(host, join)
        self.remote = [
            RemoteAgent(self.meeting.server, join, owners[self.host_of[join.rank]])
            for join in self.joins[1:]
        ]

    @property
    def agents(self) -> list[LocalAgent | RemoteAgent]:
        """The local and the remote agents by process number."""
        return [self.own, *self.remote]

    @property
    def present(self) -> list[RemoteAgent]:
        """The remote agents without those that were left out."""
        return [agent for agent in self.remote if agent.process not in self._left_out]

    def leave_out(self, rank: int) -> list[int]:
        """Leaves devices out of later attempts, and returns the numbers of their ranks.

        If processes are lost, these are the devices of their hosts, of the first host only those of
        lost processes; otherwise the device of ``rank``, none for -1.
        """
        process_of = self.process_of_rank
        gone = {agent.process for agent in self.present if agent.lost()}
        hosts = {self.host_of[process] for process in gone} - {self.host_of[0]}
        gone |= {process for process, host in enumerate(self.host_of) if host in hosts}
        ranks = [one for one, process in enumerate(process_of) if process in gone]
        if not gone and 0 <= rank < len(process_of):
            ranks = [rank]
        for one in sorted(ranks, reverse=True):
            join, place = self.joins[process_of[one]], one - process_of.index(process_of[one])
            join.indices = [*join.indices[:place], *join.indices[place + 1 :]]
            join.runtimes = [*join.runtimes[:place], *join.runtimes[place + 1 :]]
        self._left_out |= gone
        self._lost = ""
        self._lost_looked_s = 0.0
        for agent in self.remote:
            if agent.process in gone:
                agent.ranks, agent.seen = set(), []
        self.devices = _all_devices(self.joins)
        return ranks

    @property
    def process_of_rank(self) -> list[int]:
        """The process of each rank."""
        return [join.rank for join in self.joins for _ in join.indices]

    @property
    def host_of_rank(self) -> list[int]:
        """A number for the host of each rank."""
        return [self.host_of[process] for process in self.process_of_rank]

    @property
    def have_imex_channels(self) -> bool:
        """Whether all processes have one, as memory requires that other hosts open."""
        return all(join.imex_channel for join in self.joins)

    @property
    def hosts(self) -> list[HostDescription]:
        """Each host once, in the order of its first process."""
        found: dict[int, HostDescription] = {}
        for join, host in zip(self.joins, self.host_of, strict=True):
            found.setdefault(host, join.host)
        return list(found.values())

    def hear(self, message: FromAny) -> None:
        """Records a message of another process. Raises RankError for ranks that cannot be ended."""
        if isinstance(message, Ready):
            join = self.joins[message.rank]
            join.memory = message.memory
            if message.left:
                raise RankError(_left_behind(message.left, join.host.machine.hostname))
        self.remote[message.rank - 1].hear(message)

    def lost(self, cut_s: float = CUT_S) -> str:
        """The process, or mpirun, that is lost and the reason; empty while none is. Cached briefly.

        A process that died takes precedence over processes that a signal ended. ``cut_s``: the time
        for which its connection must have been broken.
        """
        now_s = time.monotonic()
        if now_s > self._lost_looked_s + _LOST_S or cut_s != CUT_S:
            self._lost_looked_s = now_s
            by_cause = sorted(self.present, key=lambda agent: agent.interrupted_by is not None)
            self._lost = next(filter(None, (agent.lost(cut_s) for agent in by_cause)), "")
            if not self._lost and self.own.mpi is not None:
                self._lost = self.own.mpi.lost()
        return self._lost

    def start_by(self, mpirun: str) -> None:
        """Uses the program ``mpirun`` to start ranks from now on; empty starts them directly."""
        start = MpiStart(mpirun) if mpirun else None
        if mpirun and self.remote:
            joins = [self.joins[process] for process in self.process_of_rank]
            files = {
                join.rank: f"{rank}=/proc/{join.pid}/fd/{join.memory.jobs_fd}"
                for rank, join in reversed([*enumerate(joins)])
            }
            hosts = Counter(join.host.machine.hostname for join in joins)
            start = MpiStart(mpirun, len(joins), [*files.values()], hosts)
        self.own.start_by(start)
        for agent in self.remote:
            agent.by_mpirun = bool(mpirun)

    def found(self, rank: int, pid: int, *, all_up: bool) -> None:
        """Passes on the pid of a rank, which an mpirun does not report, if one started it."""
        if self.own.mpi is not None:
            host = self.joins[self.process_of_rank[rank]].host.machine.hostname
            for agent in self.agents:
                agent.found(rank, host, pid)
            if all_up:
                self.own.mpi.watch()

    def begin_attempt(self, timeout_s: float) -> None:
        """Ends the ranks of an earlier attempt and has new memory created on all hosts.

        Raises RankError for ranks that cannot be ended, for a lost process and after ``timeout_s``.
        """
        server, attempt = self.meeting.server, self.attempts
        self.attempts += 1
        if attempt == 0:
            return
        left = self.own.clear()
        if left:
            raise RankError(_left_behind(left, self.joins[0].host.machine.hostname))
        self.joins[0].memory = self.own.memory
        server.forget_ranks()
        for agent in self.present:
            server.tell(agent.process, Clear(attempt, self.joins[0].host.machine.hostname))
        deadline_s = time.monotonic() + timeout_s
        while any(agent.ready_for < attempt for agent in self.present):
            for message in server.receive(_POLL_S):
                if isinstance(message, OF_PROCESSES):
                    self.hear(message)
            raise_if_ended(launched=self.placement is not None)
            if self.lost() or time.monotonic() > deadline_s:
                raise RankError(self.lost() or "not all processes have ended their ranks in time")

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the other processes with the exit code of this process, then closes the meeting."""
        code = error.exit_code if isinstance(error, CclmarkError) else self.exit_code
        with deferred():
            for agent in self.remote:
                self.meeting.server.tell(agent.process, Leave(code))
            self.own.close()
            self.meeting.close()


def coordinator_of_one(devices: DeviceChoice) -> Coordinator:
    """A coordinator of this process alone, with all devices."""
    own = LocalAgent()
    try:
        meeting = open_meeting(None, os.environ)
    except BaseException:
        own.close()
        raise
    join = _own_join(0, own, devices, ())
    return Coordinator(None, meeting, [join], own, devices, [0])


@dataclass(frozen=True)
class LaunchedProcess:
    """What a process that a launcher started brings to a run.

    ``devices``: the devices of this process, or the error that prevents their use, which the first
    process reports. ``timeout_s``: how long processes wait for each other. ``arguments``: must be
    the same in all processes. ``report``: see Join.
    """

    placement: Placement
    devices: DeviceChoice | CclmarkError
    timeout_s: float
    arguments: Sequence[str]
    report: bytes = b""

    def join(self, agent: LocalAgent) -> Join:
        """The message by which this process joins the run."""
        place = self.placement
        join = _own_join(place.process, agent, self.devices, self.arguments, place.notices)
        join.report = self.report
        return join


def follow_first(process: LaunchedProcess) -> int:
    """Runs a process other than the first one and returns its exit code."""
    agent = LocalAgent()
    join = process.join(agent)
    try:
        return follow(process.placement, os.environ, join, agent, process.timeout_s)
    except CclmarkError as error:
        # The first process cannot report this error, so it is printed here.
        host = join.host.machine.hostname
        tell(f"process {join.rank} on {host}: {error}")
        return error.exit_code
    finally:
        agent.close()


def gather_processes(process: LaunchedProcess) -> Coordinator:
    """Waits for all processes to connect to the first one and returns their coordinator.

    Raises the error of any process that cannot take part, and RankError for processes that do not
    connect in time.
    """
    placement = process.placement
    _allow_connections(placement.processes)
    own = LocalAgent()
    try:
        meeting = open_meeting(placement, os.environ, process.timeout_s)
    except BaseException:
        own.close()
        raise
    joins = {0: process.join(own)}
    try:
        with deferred():
            _wait_for_all(placement, meeting, joins, process.timeout_s)
        found = [joins[process] for process in range(placement.processes)]
        _check_alike(found)
        devices = _all_devices(found)
        _allow_connections(placement.processes + len(devices.indices))
    except BaseException as error:
        code = error.exit_code if isinstance(error, CclmarkError) else EXIT_DIED
        for number in list(joins)[1:]:
            meeting.server.tell(number, Leave(code))
        own.close()
        meeting.close()
        raise
    meeting.close_door()
    hosts = {
        name: host for host, name in enumerate(dict.fromkeys(join.host.identity for join in found))
    }
    notices = [join.contradiction for join in found if join.contradiction][:1]
    notices += name_apart(found)
    return Coordinator(
        placement=replace(placement, notices=tuple(notices)),
        meeting=meeting,
        joins=found,
        own=own,
        devices=devices,
        host_of=[hosts[join.host.identity] for join in found],
    )


def name_apart(joins: Sequence[Join]) -> list[str]:
    """Numbers the names of different hosts with the same name: ``node#1``, ``node#2``.

    Later code identifies hosts by name. Returns a notice for each name.
    """
    hosts: dict[str, dict[str, list[Join]]] = {}
    for join in joins:
        same = hosts.setdefault(join.host.machine.hostname, {})
        same.setdefault(join.host.identity, []).append(join)
    notices = []
    for name, alike in hosts.items():
        if len(alike) < 2:
            continue
        for number, own in enumerate(alike.values(), 1):
            for join in own:
                join.host.machine.hostname = f"{name}#{number}"
        notices.append(
            f"{len(alike)} hosts have the name {name}: they are named {name}#1 to "
            f"{name}#{len(alike)} here, in the order of their ranks"
        )
    return notices


def _allow_connections(number: int) -> None:
    """Allows ``number`` connections. Raises MissingError if the hard limit of files is too low."""
    needed = number + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise MissingError(
            f"the run requires {needed} open files for {number} connections, but the limit of this "
            f"process is {hard}: raise the limit on the host of the first process (ulimit -Hn)"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _own_join(
    process: int,
    agent: LocalAgent,
    devices: DeviceChoice | CclmarkError,
    arguments: Sequence[str],
    contradictions: Sequence[str] = (),
) -> Join:
    chosen = devices if isinstance(devices, DeviceChoice) else DeviceChoice("host", ())
    failed = isinstance(devices, CclmarkError)
    return Join(
        rank=process,
        token=b"",
        cclmark_version=VERSION,
        arguments=_without_places(arguments),
        host=describe_host(os.environ),
        pid=os.getpid(),
        memory=agent.memory,
        processors=spread_over_cores(os.sched_getaffinity(0)),
        runtimes=list(chosen.runtimes),
        indices=list(chosen.indices),
        notices=[chosen.notice] if chosen.notice else [],
        failure=str(devices) if failed else "",
        exit_code=devices.exit_code if isinstance(devices, CclmarkError) else 0,
        contradiction="; ".join(contradictions),
        imex_channel=any(IMEX_CHANNELS.glob("channel*")),
    )


def _with_ranks(ranks: set[int]) -> str:
    """A clause that lists the ranks lost with a process."""
    if not ranks:
        return ""
    return f" with rank{'s' * (len(ranks) > 1)} {in_ranges(sorted(ranks))}"


def _left_behind(pids: Sequence[int], host: str) -> str:
    return (
        f"pid {', '.join(map(str, pids))} on {host} cannot be ended: it hangs in the kernel, for "
        "example in a driver. No more cases can be measured until it exits"
    )


def _without_places(arguments: Sequence[str]) -> list[str]:
    """The arguments that must be equal in all processes: all but the paths of output files."""
    kept: list[str] = []
    skips = False
    for word in arguments:
        name = word.partition("=")[0]
        if not skips and name not in _PLACES:
            kept.append(word)
        skips = not skips and word in _PLACES
    return kept


def _wait_for_all(
    placement: Placement, meeting: Meeting, joins: dict[int, Join], timeout_s: float
) -> None:
    server, number = meeting.server, placement.processes
    server.processes = number
    began_s = time.monotonic()
    deadline_s = began_s + timeout_s
    reminder_s = began_s + _PATIENCE_S
    ready = {0}
    while len(ready) < number:
        for message in server.receive(_POLL_S):
            if isinstance(message, Ready) and message.rank in joins:
                join = joins[message.rank]
                join.host.clock_ahead_s = message.clock_s - time.time()
                join.memory = message.memory
                ready.add(message.rank)
            if not isinstance(message, Join):
                continue
            joins[message.rank] = message
            server.tell(message.rank, Clear(0, joins[0].host.machine.hostname))
        if server.doubles:
            double = server.doubles[0]
            first = joins.get(double.rank, joins[0])
            raise RankError(
                f"two processes have the number {double.rank}: pid {first.pid} on "
                f"{first.host.machine.hostname} and pid {double.pid} on "
                f"{double.host.machine.hostname}. Check the variables that the launcher sets"
            )
        gone = [process for process in server.cut_off(CUT_S) if process in joins]
        if gone:
            join = joins[gone[0]]
            raise RankError(
                f"process {gone[0]} (pid {join.pid} on {join.host.machine.hostname}) exited before "
                "all processes were connected"
            )
        raise_if_ended()
        now_s = time.monotonic()
        if now_s > reminder_s and len(ready) < number:
            reminder_s = now_s + _REMINDER_S
            tell(
                f"{len(ready)} of {number} processes have connected to {server.endpoint} after "
                f"{now_s - began_s:.0f} s of {timeout_s:g} s (-T); missing: "
                f"{_missing(number, ready)}{_turned_away(server, reminder=True)}"
            )
        if now_s > deadline_s:
            raise RankError(
                f"{len(ready)} of {number} processes connected within {timeout_s:g} s; missing: "
                f"{_missing(number, ready)}{_turned_away(server)}. See the output of the launcher, "
                f"or wait longer with -T. {placement.doubts}"
            )


def _missing(number: int, ready: set[int]) -> str:
    return in_ranges(sorted(set(range(number)) - ready))


def _turned_away(server: Server, *, reminder: bool = False) -> str:
    """A clause on rejected connections: from strangers, or from processes without the secret."""
    found = server.turned_away()
    if SECRET_VARIABLE not in os.environ or (reminder and not found):
        return f"; {found}" if found else ""
    return f" (is {SECRET_VARIABLE} the same for all processes?{found and f' {found}'})"


def _check_alike(joins: Sequence[Join]) -> None:
    """Raises an error for differences between processes that would make a run fail or mislead."""
    errors = {EXIT_USAGE: UsageError, EXIT_MISSING: MissingError}
    for join in joins:
        where = f"process {join.rank} on {join.host.machine.hostname}"
        if join.failure:
            raise errors.get(join.exit_code, RankError)(f"{where}: {join.failure}")
        if join.cclmark_version != joins[0].cclmark_version:
            raise MissingError(
                f"{where} has cclmark {join.cclmark_version}, but the first process has "
                f"{joins[0].cclmark_version}: install the same version on all hosts"
            )
        if join.arguments != joins[0].arguments:
            raise UsageError(
                f"{where} has other arguments than the first process: start all processes with the "
                "same command"
            )


def _all_devices(joins: Sequence[Join]) -> DeviceChoice:
    runtimes = tuple(runtime for join in joins for runtime in join.runtimes)
    notices = dict.fromkeys(text for join in joins for text in join.notices)
    return DeviceChoice(
        runtime=next((name for name in runtimes if name != "host"), "host"),
        indices=tuple(index for join in joins for index in join.indices),
        notice="; ".join(notices),
        mixed=runtimes if len(set(runtimes)) > 1 else (),
    )


@dataclass(frozen=True)
class RankLayout:
    """The process of each rank and a number for its host, by rank."""

    process_of: list[int]
    host_of: list[int]


def lay_out(coordinator: Coordinator, ranks: int) -> RankLayout:
    """The layout of the ranks. A single process may hold all devices as one rank."""
    process_of = coordinator.process_of_rank if len(coordinator.joins) > 1 else [0] * ranks
    return RankLayout(process_of, [coordinator.host_of[process] for process in process_of])
