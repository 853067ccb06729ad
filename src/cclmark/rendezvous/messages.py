"""What ranks and launcher say to each other. Decoded strictly: nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cclmark.plan.kinds import KINDS, Item
from cclmark.plan.library_files import Library
from cclmark.rendezvous.keys import Access
from cclmark.results.schema import (
    Condition,
    DeviceDescription,
    HostDescription,
    LibraryDescription,
    Link,
    Result,
    Settings,
)


class Job(msgspec.Struct):
    """Everything a rank needs to know, handed over on its standard input.

    ``parent_pid`` and the descriptors are of the process that supervises it. ``hosts``: a number
    for the host of every rank, none where there is one host only. ``mpi``: the rank has been
    started below an mpirun.

    ``kind``: one of plan.kinds.KINDS; ``plan``: its items, encoded. A rank has one device, or all.
    ``modules``: to import before a backend of torch is looked for. ``pending``: only the items of
    these indices, none for all; each cycle counts on from the one before.
    ``libraries``: those that a user's files describe.
    ``every_index``: of the devices of all ranks, as the runtime numbers them. ``stack_fd``: where
    the rank writes its stack when it is asked for it; -1 where nobody asks.

    ``absent``: libraries of the cases that cannot be measured, with the reason.

    ``processors``: those that the rank is bound to, none where the launcher chooses none.
    ``place_on_host``: its place among the ranks of its runtime and host that inherit the same
    processors, and the number of those.
    """

    rank: int
    ranks: int
    parent_pid: int
    runtime: str
    device_indices: list[int]
    every_index: list[int]
    processors: list[int]
    oversubscribed: bool
    team_fd: int
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

    def planned(self) -> list[Item]:
        """The items of the plan. Raises msgspec.ValidationError for another kind's."""
        item: Any = KINDS[self.kind].item
        found: list[Item] = msgspec.msgpack.decode(self.plan, type=list[item])
        return found


def encoded_plan(planned: Sequence[Item]) -> msgspec.Raw:
    """For Job.plan."""
    return msgspec.Raw(msgspec.msgpack.encode(list(planned)))


class Arrived(msgspec.Struct, tag="arrived"):
    """A rank has a connection. Sent first, so that its connection does not count as a stranger's
    while the rank opens its device and loads its libraries.
    """

    rank: int
    token: bytes


class Hello(msgspec.Struct, tag="hello"):
    """A rank is there, with its devices open and its libraries loaded.

    ``reach``: which of its devices the driver gives access to which of the run's. ``unbound``: why
    the rank is not bound as ``--bind numa`` asks, empty where it is.
    """

    rank: int
    token: bytes
    devices: list[DeviceDescription]
    libraries: list[LibraryDescription]
    reach: list[tuple[int, int]] = []
    unbound: str = ""


class Put(msgspec.Struct, tag="put"):
    """A value for all ranks, such as a communicator's id."""

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
    """A rank has a result: rank 0, or the first one of a pair."""

    rank: int
    token: bytes
    result: Result


class Observed(msgspec.Struct, tag="observed"):
    """A rank has looked at its device."""

    rank: int
    token: bytes
    condition: Condition


class Notice(msgspec.Struct, tag="notice"):
    """Something the user should know that ends nothing."""

    rank: int
    token: bytes
    text: str


class Failed(msgspec.Struct, tag="failed"):
    """A rank gives up. ``kind``: error, missing, usage, timeout or aborted."""

    rank: int
    token: bytes
    kind: str
    message: str
    phase: str
    case_index: int


class Finished(msgspec.Struct, tag="finished"):
    """A rank is done and about to exit."""

    rank: int
    token: bytes
    phases_s: dict[str, float]


class Gather(msgspec.Struct, tag="gather"):
    """One of ``parts`` hosts has come to the meeting ``key``, with ``values`` for all of them."""

    rank: int
    token: bytes
    key: str
    part: int
    parts: int
    values: bytes


class Look(msgspec.Struct):
    """What is seen of a rank from beside it, on its host.

    ``in_phase_s``: for how long it has been in its phase; ``late``: nearly as long as it may,
    ``overdue``: longer. ``exit_status`` is negative for a signal, None while it runs; ``stopped``:
    by a signal. ``operations``: entered, complete, entered before this batch, None where nobody
    counts. ``stack``: where it was when it was late.
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


class Join(msgspec.Struct, tag="join"):
    """A process that a launcher started is there, with what it could use.

    ``failure``: why it cannot take part, with the exit code that it would have ended with.
    ``contradiction``: what launchers say of it that differs, empty where none does.
    ``processors`` are those it may run on, in the order in which ranks take them; the descriptors
    are of files in memory that processes of the same host may open below /proc.
    """

    rank: int
    token: bytes
    cclmark_version: str
    arguments: list[str]
    host: HostDescription
    pid: int
    team_fd: int
    board_fd: int
    processors: list[int]
    runtimes: list[str]
    indices: list[int]
    notices: list[str] = []
    failure: str = ""
    exit_code: int = 0
    contradiction: str = ""


class Ready(msgspec.Struct, tag="ready"):
    """A process has ended its ranks, and has new memory for the next ones, in these files.

    ``clock_s``: its time of day in seconds since 1970. ``left``: processes of ranks that it could
    not end.
    """

    rank: int
    token: bytes
    attempt: int
    clock_s: float
    team_fd: int
    board_fd: int
    left: list[int] = []


class Seen(msgspec.Struct, tag="seen"):
    """What a process sees of its ranks. Comes now and then, and whenever it matters."""

    rank: int
    token: bytes
    looks: list[Look]


class Described(msgspec.Struct, tag="described"):
    """What a host's vendor interface says of its devices: they come back with what was unknown."""

    rank: int
    token: bytes
    devices: list[DeviceDescription]
    links: list[Link]
    vendor_driver: str
    notices: list[str]


FromRank = Arrived | Hello | Put | Want | Gather | Measured | Observed | Notice | Failed | Finished


class Interrupted(msgspec.Struct, tag="interrupted"):
    """A process leaves the run because a signal asked it to, or because its launcher is gone.

    Sent behind a last Seen. ``reason``: empty for Ctrl-C.
    """

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
    """All hosts have come to the meeting ``key``: the values of each, by its number."""

    key: str
    values: dict[int, bytes]


class Clear(msgspec.Struct, tag="clear"):
    """End the ranks that there may be, and make the memory new where it is this process's."""

    attempt: int


class Start(msgspec.Struct, tag="start"):
    """Start these ranks. ``owner``: the process whose files the ranks of this host meet in."""

    jobs: list[Job]
    owner_pid: int
    team_fd: int
    board_fd: int


class Describe(msgspec.Struct, tag="describe"):
    """Ask the vendor's interface of your host about these devices."""

    devices: list[DeviceDescription]


class Abort(msgspec.Struct, tag="abort"):
    """Let the ranks stop waiting, and tell at once how they are."""


class Alive(msgspec.Struct, tag="alive"):
    """The first process is still there."""


class Leave(msgspec.Struct, tag="leave"):
    """The run is over: end what is left and exit with this code."""

    exit_code: int


ToRank = Value | Met
ToProcess = Clear | Start | Describe | Abort | Alive | Leave
