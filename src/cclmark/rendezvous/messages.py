"""The messages between ranks and launcher. They are decoded strictly and never unpickled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cclmark.explain.operation import Operation
from cclmark.explain.paths import RankPaths
from cclmark.journal.schema import (
    Condition,
    DeviceDescription,
    HostDescription,
    LibraryDescription,
    Link,
    Relation,
    Settings,
)
from cclmark.rendezvous.keys import Access
from cclmark.work.items import Item
from cclmark.work.library_files import Library


class Job(msgspec.Struct):
    """The complete description of a rank's work, passed on its standard input.

    ``parent_pid`` and the descriptors refer to the supervising process. ``hosts``: a number for the
    host of every rank, empty for a single host. ``mpi``: the rank was started below an mpirun.

    ``kind``: its name, see journal.kind.Kind. ``plan``: its items, encoded. A rank has one device,
    or all.
    ``modules``: modules to import before a backend of torch is looked up. ``pending``: the indices
    of the items to measure, empty for all; each cycle continues the numbering of the one before.
    ``libraries``: libraries described by a user's files. ``every_index``: the indices of the
    devices of all ranks, in the runtime's numbering. ``stack_fd``: the file to which the rank
    writes its stack on request, -1 for none.

    ``absent``: libraries of the cases that cannot be measured, with the reason.

    ``processors``: the processors to which the rank is bound, empty if the launcher selects none.
    ``explain``: the rank does not measure the items, but observes what the library does.
    ``explains_at_end``: it measures, and then reports what is known of the library without that.
    ``traced_operations``: it does not measure the item, but traces so many operations of it, 0 for
    none.
    ``environment``: variables that the rank sets before it opens anything. ``attachment``: what the
    kind of work needs besides the items, in its own encoding.
    ``place_on_host``: the index of the rank among the ranks of its runtime and host that inherit
    the same processors, and the number of these ranks.
    ``debugger``: the command before that of the rank, empty for none, with the terminal or without.
    """

    rank: int
    ranks: int
    parent_pid: int
    runtime: str
    device_indices: list[int]
    every_index: list[int]
    processors: list[int]
    oversubscribed: bool
    rank_group_fd: int
    board_fd: int
    access: Access
    token: bytes
    kind: str
    plan: msgspec.Raw
    settings: Settings
    ccl_path: str
    ccl_wheels: dict[str, list[str]]
    pending: list[int] = []
    modules: list[str] = []
    libraries: list[Library] = []
    hosts: list[int] = []
    mpi: bool = False
    stack_fd: int = -1
    absent: dict[str, str] = {}
    place_on_host: tuple[int, int] = (0, 1)
    explain: bool = False
    explains_at_end: bool = False
    traced_operations: int = 0
    environment: dict[str, str] = {}
    attachment: bytes = b""
    debugger: list[str] = []
    debugs_on_terminal: bool = False

    @property
    def ranks_here(self) -> list[int]:
        """The ranks on the host of this one."""
        return [rank for rank in range(self.ranks) if not self.hosts or self._is_here(rank)]

    @property
    def host_name(self) -> str:
        """The host as tables name it, ``HOST1``; empty for a single host."""
        if not self.hosts:
            return ""
        return f"HOST{list(dict.fromkeys(self.hosts)).index(self.hosts[self.rank])}"

    def _is_here(self, rank: int) -> bool:
        return self.hosts[rank] == self.hosts[self.rank]

    def planned(self, item: Any) -> list[Item]:
        """The items of the plan, all of type ``item``. Raises msgspec.ValidationError."""
        found: list[Item] = msgspec.msgpack.decode(self.plan, type=list[item])
        return found


def encoded_plan(planned: Sequence[Item]) -> msgspec.Raw:
    """Encodes a plan for Job.plan."""
    return msgspec.Raw(msgspec.msgpack.encode(list(planned)))


class Arrived(msgspec.Struct, tag="arrived"):
    """A rank has connected.

    Sent first, so that the connection does not count as a stranger's while the rank opens its
    device and loads its libraries.
    """

    rank: int
    token: bytes


class Hello(msgspec.Struct, tag="hello"):
    """A rank has opened its devices and loaded its libraries.

    ``reach``: pairs of one of its devices and a device of the run to which the driver gives it
    access. ``unbound``: the reason why ``--bind numa`` did not bind the rank, empty if it did.
    ``memory_bytes_per_s``: the bandwidth of copies in the memory of its host, 0 if not measured.
    """

    rank: int
    token: bytes
    devices: list[DeviceDescription]
    libraries: list[LibraryDescription]
    reach: list[tuple[int, int]] = []
    unbound: str = ""
    memory_bytes_per_s: float = 0.0


class Put(msgspec.Struct, tag="put"):
    """A value for all ranks, for example the ID of a communicator."""

    rank: int
    token: bytes
    key: str
    value: bytes


class Want(msgspec.Struct, tag="want"):
    """A rank waits for a value."""

    rank: int
    token: bytes
    key: str


class Measured(msgspec.Struct, tag="measured"):
    """A result, encoded, sent by rank 0 or by the first rank of a pair."""

    rank: int
    token: bytes
    result: msgspec.Raw


class Observed(msgspec.Struct, tag="observed"):
    """A rank has sampled the condition of its device."""

    rank: int
    token: bytes
    condition: Condition


class Observation(msgspec.Struct):
    """What one rank observed of a case, after the library has run it.

    ``operations``: those of one run of the case. ``source``, ``reason``, ``rule``, ``ignored`` and
    ``registered``: see schema.Explanation. ``predicted_s``: the library's predictions by
    ``ALGORITHM PROTOCOL``. ``is_silent``: the library's plug-in interface reported nothing,
    although it reports operations.
    """

    source: str
    reason: str
    operations: list[Operation]
    predicted_s: dict[str, float]
    rule: str = ""
    is_silent: bool = False
    ignored: dict[str, str] = {}
    registered: str = ""


class Explained(Observation, tag="explained", kw_only=True):
    """An observation of the case with this index."""

    rank: int
    token: bytes
    index: int


class Connected(msgspec.Struct, tag="connected"):
    """How one rank is connected in a library's communicator. See schema.Paths."""

    rank: int
    token: bytes
    ccl: str
    source: str
    reason: str
    paths: RankPaths
    network_devices: list[str]


class Traced(msgspec.Struct, tag="traced"):
    """A piece of a rank's compressed trace. See trace.rank_trace."""

    rank: int
    token: bytes
    piece: int
    pieces: int
    content: bytes


class ClockRequest(msgspec.Struct, tag="clock"):
    """A rank requests a reading of the first process's clock."""

    rank: int
    token: bytes
    number: int


class Notice(msgspec.Struct, tag="notice"):
    """A notice for the user that does not end the run."""

    rank: int
    token: bytes
    text: str


class Failed(msgspec.Struct, tag="failed"):
    """A rank has failed. ``kind``: error, missing, refused, usage, timeout or aborted.

    ``refused``: all ranks have decided alike that their work is not possible.

    ``at_s``: the time of the failure in seconds on the monotonic clock of the rank's host; 0 if it
    is unknown.
    """

    rank: int
    token: bytes
    kind: str
    message: str
    phase: str
    case_index: int
    at_s: float = 0.0


class Finished(msgspec.Struct, tag="finished"):
    """A rank has finished and is about to exit."""

    rank: int
    token: bytes
    phases_s: dict[str, float]


class Gather(msgspec.Struct, tag="gather"):
    """One of ``parts`` hosts joins the exchange ``key`` with ``values`` for all of them."""

    rank: int
    token: bytes
    key: str
    part: int
    parts: int
    values: bytes


class RankStatus(msgspec.Struct):
    """The state of a rank as observed by its supervisor on the same host.

    ``in_phase_s``: the time since the rank entered its phase. ``late``: the deadline of the phase
    is near; ``overdue``: the deadline has passed. ``exit_status``: negative for a signal, None
    while the rank runs. ``stopped``: halted by a signal. ``operations``: entered, complete, entered
    before this batch; None if not counted. ``stack``: the stack of the rank when it was late.
    """

    rank: int
    pid: int
    phase: str
    case_index: int
    batches: int
    in_phase_s: float
    overdue: bool
    exit_status: int | None
    stopped: bool
    late: bool = False
    operations: tuple[int, int, int] | None = None
    stack: list[str] = []


class JobsFile(msgspec.Struct):
    """What ranks below an mpirun read: their jobs, and variables that they do not inherit."""

    jobs: list[Job]
    environment: dict[str, str] = {}


class Memory(msgspec.Struct, frozen=True):
    """Descriptors of the memory files of a process, which others of its host open below /proc.

    ``jobs_fd``: a JobsFile for ranks that an mpirun starts, empty until they may start.
    """

    rank_group_fd: int
    board_fd: int
    jobs_fd: int


class Join(msgspec.Struct, tag="join"):
    """A process that a launcher started has connected, with its host and devices.

    ``failure`` and ``exit_code``: the error that prevents it from taking part, and its exit code.
    ``contradiction``: a notice on launchers that disagree on the process, empty if none do.
    ``processors``: the processors it may use, in the order in which ranks get them.
    ``imex_channel``: whether it has one, which NVIDIA's fabric handles require. ``report``: what
    the process reports of its host besides, in the encoding of the command.
    """

    rank: int
    token: bytes
    cclmark_version: str
    arguments: list[str]
    host: HostDescription
    pid: int
    memory: Memory
    processors: list[int]
    runtimes: list[str]
    indices: list[int]
    notices: list[str] = []
    failure: str = ""
    exit_code: int = 0
    contradiction: str = ""
    imex_channel: bool = False
    report: bytes = b""


class Ready(msgspec.Struct, tag="ready"):
    """A process has ended its ranks and created new memory for the next ones.

    ``clock_s``: its time of day in seconds since 1970. ``left``: the pids of ranks that it could
    not end.
    """

    rank: int
    token: bytes
    attempt: int
    clock_s: float
    memory: Memory
    left: list[int] = []


class Seen(msgspec.Struct, tag="seen"):
    """The states of a process's ranks, sent regularly and after every significant change."""

    rank: int
    token: bytes
    rank_statuses: list[RankStatus]


class Described(msgspec.Struct, tag="described"):
    """The devices of a host, completed with information from the vendor's interface.

    ``relations``: between these devices, if the order contains the pairs with peer access.
    """

    rank: int
    token: bytes
    devices: list[DeviceDescription]
    links: list[Link]
    vendor_driver: str
    notices: list[str]
    relations: list[Relation] = []


FromRank = (
    Arrived
    | Hello
    | Put
    | Want
    | Gather
    | Measured
    | Observed
    | Explained
    | Connected
    | Traced
    | ClockRequest
    | Notice
    | Failed
    | Finished
)


class Interrupted(msgspec.Struct, tag="interrupted"):
    """A process leaves after its last Seen, by a signal (no ``reason``) or its launcher's exit."""

    rank: int
    token: bytes
    reason: str


FromProcess = Join | Ready | Seen | Described | Interrupted
OF_PROCESSES = (Join, Ready, Seen, Described, Interrupted)
FromAny = FromRank | FromProcess


class Value(msgspec.Struct, tag="value"):
    """The launcher's answer to Want."""

    key: str
    value: bytes


class Met(msgspec.Struct, tag="met"):
    """All hosts have joined the exchange ``key``: the values of each host by its number."""

    key: str
    values: dict[int, bytes]


class Clocked(msgspec.Struct, tag="clocked"):
    """The answer to ClockRequest: nanoseconds of CLOCK_MONOTONIC of the first process's host."""

    number: int
    monotonic_ns: int


class Clear(msgspec.Struct, tag="clear"):
    """Orders a process to end its ranks, if any, and to create new shared memory.

    ``host``: the name of the host of the first process.
    """

    attempt: int
    host: str = ""


class Start(msgspec.Struct, tag="start"):
    """Orders ranks to start. ``owner_pid``: of the ``memory`` that this host's ranks share.

    ``by_mpirun``: that of the first process starts them.
    """

    jobs: list[Job]
    owner_pid: int
    memory: Memory
    by_mpirun: bool = False


class Identified(msgspec.Struct, tag="identified"):
    """The pid of a rank of the process, which an mpirun started on its host."""

    rank: int
    host: str
    pid: int


class Describe(msgspec.Struct, tag="describe"):
    """Orders a process to query the vendor's interface of its host about these devices.

    ``reach``: the pairs of them with peer access; None if their relations are not of interest.
    """

    devices: list[DeviceDescription]
    reach: list[tuple[int, int]] | None = None


class Abort(msgspec.Struct, tag="abort"):
    """Orders a process to end the waits of its ranks and to report their states immediately."""


class Heartbeat(msgspec.Struct, tag="alive"):
    """The first process still runs."""


class Leave(msgspec.Struct, tag="leave"):
    """Orders a process to end its remaining ranks and to exit with this code."""

    exit_code: int


ToRank = Value | Met | Clocked
ToProcess = Clear | Start | Identified | Describe | Abort | Heartbeat | Leave
