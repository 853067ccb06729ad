"""Observations of a program's processes, from any source: the input of assembly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from cclmark.work.operations import OPERATIONS
from cclmark.work.profiled import MOST_RANKS

#: The operations in which every rank needs data of all others, because all do the same work: their
#: kernels end together, so that the rank that arrives last has the shortest kernel.
SYNCHRONIZING = frozenset(name for name, row in OPERATIONS.items() if row.symmetric)
#: The operations of which a library may execute many in one kernel.
SEND, RECV = "send", "recv"
MESSAGES = frozenset({SEND, RECV})
#: Numbers of bytes and nanoseconds of a process are below, and their sums.
NUMBER_LIMIT = 1 << 63
#: The calls of a process are below: those of as many processes as possible have a sum of 64 bits.
#: A process with a call in each microsecond has as many after 100 days.
CALL_LIMIT = NUMBER_LIMIT // MOST_RANKS


def nccl_version(code: int) -> str:
    """2.28.9 of 22809, and 2.8.4 of 2804, as nccl.h writes them; empty if unknown."""
    if code <= 0:
        return ""
    base = 10000 if code >= 10000 else 1000
    return f"{code // base}.{code % base // 100}.{code % 100}"


class ObservedCall(NamedTuple):
    """A call in the order of its process.

    ``operation``: the place of its operation in the process. ``sequence``: the number of the call
    among those of the same operation in its group, by which ranks match. Times are nanoseconds:
    ``at_ns`` of the host, ``begin_ns`` and ``end_ns`` of its kernel by the device, 0 if unknown.
    """

    operation: int
    sequence: int
    at_ns: int
    begin_ns: int
    end_ns: int
    stream: int = -1
    peer: int = -1

    @property
    def is_timed(self) -> bool:
        """Whether the times of its kernel are known."""
        return self.end_ns > 0


@dataclass
class ObservedOperation:
    """Calls of a process that are alike, with what the library chose for them.

    Numbers are of all calls, also of those that are not listed. ``unreported``: called, but not
    reported as executed. ``kernel``: empty if unknown.
    """

    group: str
    operation: str
    ccl: str
    dtype: str
    count: int
    size_bytes: int
    is_range: bool = False
    kernel: str = ""
    protocol: str = ""
    channels: int = 0
    calls: int = 0
    bytes: int = 0
    unreported: int = 0
    timed: int = 0
    total_ns: int = 0
    least_ns: int = 0
    most_ns: int = 0


@dataclass
class ObservedGroup:
    """A group as one of its ranks describes it.

    ``ranks``: its size, 0 if unknown; ``own_rank``: of this process in it, -1 if unknown.
    ``members``: the ranks of the program by rank of the group, empty if unknown.
    """

    identity: str
    name: str = ""
    ranks: int = 0
    own_rank: int = -1
    members: list[int] = field(default_factory=list)


@dataclass
class ObservedProcess:
    """One process of a program. ``rank``: -1 if its launcher did not give it one.

    ``kernels``: the intervals of all other kernels of its device in nanoseconds, None if they are
    not part of the source. ``transfers``: of communication that belongs to no listed call, such as
    copies between devices. ``steps``: the intervals of its steps, if they are marked. ``interval``:
    the first and the last nanosecond that the source covers, if it reports them.
    """

    rank: int
    host: str
    pid: int
    library: str = ""
    groups: dict[str, ObservedGroup] = field(default_factory=dict)
    operations: list[ObservedOperation] = field(default_factory=list)
    calls: list[ObservedCall] = field(default_factory=list)
    kernels: list[tuple[int, int]] | None = None
    transfers: list[tuple[int, int]] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    note: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether no number and no sum is larger than of any program, as in a damaged file."""
        numbers = [
            number
            for one in self.operations
            for number in (
                *(one.count, one.size_bytes, one.calls, one.bytes, one.unreported, one.timed),
                *(one.total_ns, one.least_ns, one.most_ns),
            )
        ]
        numbers += [max(one.at_ns, one.end_ns, one.sequence) for one in self.calls]
        numbers += [end for _, end in (*(self.kernels or ()), *self.transfers, *self.steps)]
        numbers += [sum(one.bytes for one in self.operations)]
        numbers += [sum(one.total_ns for one in self.operations)]
        calls = sum(one.calls + one.unreported + one.timed for one in self.operations)
        return (
            calls < CALL_LIMIT
            and max(numbers) < NUMBER_LIMIT
            and all(
                max(one.ranks, len(one.members)) <= MOST_RANKS and one.own_rank < MOST_RANKS
                for one in self.groups.values()
            )
        )
