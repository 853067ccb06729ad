"""Transfers: complete descriptions of single measurements between devices."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import msgspec

from cclmark.base.grouping import abridged
from cclmark.work.counts import Count
from cclmark.work.items import P2P
from cclmark.work.sizes import format_size

#: Of a result: empty for the usual stream wait, and for copies that are done in their call. In
#: settings: as requested, empty for the first that works.
if TYPE_CHECKING:
    Gate: TypeAlias = str
else:
    Gate = Literal["", "stream-wait", "host-function", "events"]

ENGINES = ("CE", "SM")
KERNELS = ("cacheCopy", "ncCopy", "bulkCopy")
DEFAULT_KERNEL = "bulkCopy"  # of PCCL's tool, too
DIRECTIONS = ("write", "read")
MEASURES = ("unidirectional", "bidirectional", "latency")
SCOPES = ("pairs", "local", "host", "all-to-one", "one-to-all", "all-pairs")
CCL = "CCL"  # the engine of a message between hosts
BETWEEN_HOSTS = ("auto", "fabric", "messages")
MEASURES_MEMORY = b"memory"  # attached to a job: host devices measure the limit of their copies
MESSAGE_LATENCY = "half-round-trip"
LATENCY_METHODS = ("auto", "copy", "chase", "ping-pong")
#: How streams are held until all copies are enqueued, the best first; without a gate, copies are
#: between events, and launches are part of their time.
STREAM_WAIT, HOST_FUNCTION, EVENTS = "stream-wait", "host-function", "events"
GATES = (STREAM_WAIT, HOST_FUNCTION, EVENTS)
ELEMENT_BYTES = 4
LATENCY_BYTES = 4 * ELEMENT_BYTES  # four integers, as p2pBandwidthLatencyTest copies

_HOST_KINDS = ("pinned", "pageable")
_WITHOUT_OUTPUT = ("chase", "ping-pong")


class Transfer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measurement: all ``flows`` at the same time.

    A flow is (from, to) in device numbers of the run: data leaves the first device and arrives at
    the second. With ``write`` the first device copies, with ``read`` the second. ``blocks`` and
    ``threads`` are 0 for the kernel's defaults. ``host_memory`` (pinned, pageable) is set where one
    end of a flow is the host: both numbers are then the device's, ``to_host`` is the direction (of
    two flows at once, the second goes to the host) and
    ``numa`` is near or far. ``method``: the method of a latency measurement.

    ``engine`` is CE, SM, or CCL for a message of the library ``ccl`` between hosts; in imported
    journals MPI, RDMA, UCX or UCT too, with the verb as ``kernel``. A message has a sender, so its
    direction is write.
    """

    work: ClassVar[str] = "p2p"
    kind: ClassVar[str] = P2P

    measure: str
    scope: str
    engine: str
    direction: str
    flows: tuple[tuple[int, int], ...]
    size_bytes: Count
    kernel: str = ""
    offset_bytes: Count = 0
    blocks: Count = 0
    threads: Count = 0
    peer_access: bool = True
    host_memory: str = ""
    to_host: bool = False
    numa: str = ""
    method: str = ""
    ccl: str = ""

    def runner(self, flow: tuple[int, int]) -> int:
        """The device that performs the copy."""
        return flow[0] if self.direction == "write" else flow[1]

    def row_and_column(self, flow: tuple[int, int]) -> tuple[int, int]:
        """The position of the flow in a matrix: the device that copies, then its peer."""
        return flow if self.direction == "write" else (flow[1], flow[0])

    def goes_to_host(self, number: int) -> bool:
        """Whether the host receives the bytes of this flow. Of both directions the second does."""
        both = self.measure == "bidirectional"
        return bool(self.host_memory) and (number == 1 if both else self.to_host)

    @property
    def way_of_host(self) -> str:
        """An arrow between the device and the host."""
        return "↔" if self.measure == "bidirectional" else "→" if self.to_host else "←"

    @property
    def library(self) -> str:
        """The library, backend or engine that performs it."""
        return self.means

    @property
    def ranks(self) -> int:
        """The number of devices between which data moves."""
        return len({device for flow in self.flows for device in flow})

    @property
    def ends(self) -> tuple[int, int] | None:
        """The devices of the first flow."""
        return self.flows[0] if self.flows else None

    @property
    def has_output(self) -> bool:
        """Whether data arrive that can be checked: latencies of loads and stores have none."""
        return self.method not in _WITHOUT_OUTPUT

    @property
    def is_mutual(self) -> bool:
        """Whether it is a message between hosts that concerns both directions alike."""
        return bool(self.ccl) and self.measure != "unidirectional"

    @property
    def means(self) -> str:
        """The engine and kernel that copy: ``CE``, or ``SM bulkCopy``; or ``nccl send/recv``."""
        if self.ccl:
            return f"{self.ccl} send/recv"
        return f"{self.engine} {self.kernel}".strip()

    def describe(self) -> str:
        """The transfer in words, for messages."""
        words = [self.measure, self.direction, self.means]
        if self.measure != "latency" or self.size_bytes != LATENCY_BYTES:
            words.append(format_size(self.size_bytes))
        if self.host_memory:
            way = {"→": "to", "←": "from", "↔": "and"}[self.way_of_host]
            return " ".join([*words, f"device {self.flows[0][0]} {way} {self.host_memory} host"])
        words.append(abridged([f"device {start} to {end}" for start, end in self.flows], 4))
        return " ".join(words)

    def group_words(self) -> str:
        """The transfer in words, without its size and flows."""
        return f"{self.measure} {self.direction} {self.means}"

    def operation_words(self) -> str:
        """What is measured, and the means, whatever the size and the flows."""
        return self.group_words()

    def size_words(self) -> str:
        """The size for a table."""
        return format_size(self.size_bytes)

    def flow_words(self) -> str:
        """The first flows for a table."""
        return abridged([f"{start} to {end}" for start, end in self.flows], 2)

    def is_between(self, least_bytes: int | None, most_bytes: int | None) -> bool:
        """Whether the size is within the bounds."""
        return (least_bytes is None or self.size_bytes >= least_bytes) and (
            most_bytes is None or self.size_bytes <= most_bytes
        )

    def is_within(self, devices: int) -> bool:
        """Whether there are flows, and none leaves the first ``devices`` devices."""
        places = [place for flow in self.flows for place in flow]
        return bool(places) and all(0 <= place < devices for place in places)

    def across_libraries(self) -> Transfer:
        """The transfer: those of different means are not compared with each other."""
        return self

    def series(self) -> Transfer:
        """The transfer without its flows: the key that the cells of one matrix share."""
        return msgspec.structs.replace(self, flows=())


@dataclass(frozen=True)
class TransferPlan:
    """The plan that the options describe; ``transfers`` expands it, matrix by matrix.

    ``hosts``: a number for the host of each device, empty for one host. ``ccl``: the library whose
    messages are measured between devices on different hosts. ``fabric``: copies between these too.
    """

    devices: int
    sizes: Sequence[int]
    measures: Sequence[str] = ("unidirectional",)
    directions: Sequence[str] = ("write",)
    engines: Sequence[str] = ("CE",)
    kernels: Sequence[str] = (DEFAULT_KERNEL,)
    scopes: Sequence[str] = ("pairs",)
    blocks: Sequence[int] = (0,)
    threads: int = 0
    offset_bytes: int = 0
    peer_access: Sequence[bool] = (True,)
    triangle: bool = False
    local_too: bool = False
    latency_method: str = "auto"
    numa: Sequence[str] = ("near",)
    hosts: Sequence[int] = ()
    ccl: str = ""
    fabric: bool = False

    def transfers(self) -> Iterator[Transfer]:
        """Yields every transfer once, with the cells of one matrix next to each other.

        Messages between hosts follow the copies.
        """
        yield from self.copies()
        yield from self.messages()

    def messages(self) -> Iterator[Transfer]:
        """Yields the messages of ``ccl`` between devices on different hosts.

        Sending is the same for every engine, kernel and direction of the copies within a host. A
        bidirectional message and a round trip concern both devices alike, so there is one for each
        two devices.
        """
        pairs = [
            (first, second)
            for first, second in product(range(self.devices), repeat=2)
            if self.hosts and self.hosts[first] != self.hosts[second]
        ]
        message = Transfer(
            measure="",
            scope="pairs",
            engine=CCL,
            direction="write",
            flows=(),
            size_bytes=0,
            ccl=self.ccl,
        )
        replace = msgspec.structs.replace
        for measure in self.measures if pairs and "pairs" in self.scopes else ():
            one_way = measure == "unidirectional"
            method = MESSAGE_LATENCY if measure == "latency" else ""
            for size_bytes in [LATENCY_BYTES] if measure == "latency" else self.sizes:
                for first, second in pairs:
                    is_first = first < second
                    if not (self._sends(is_first) if one_way else is_first):
                        continue
                    back = ((second, first),) if measure == "bidirectional" else ()
                    yield replace(
                        message,
                        measure=measure,
                        flows=((first, second), *back),
                        size_bytes=size_bytes,
                        method=method,
                    )

    def _sends(self, is_first: bool) -> bool:
        """Whether the device with the smaller number, or that with the larger one, sends.

        In the upper triangle the latter sends where the row's device reads. In a matrix without
        copies, rows send.
        """
        if not self.triangle:
            return True
        has_copies = self.local_too or self.fabric or len(set(self.hosts)) < len(self.hosts)
        directions = self.directions if has_copies else ("write",)
        return ("write" if is_first else "read") in directions

    def copies(self) -> Iterator[Transfer]:
        """Yields the copies within each host, and between hosts those through fabric handles.

        Impossible ones are omitted: without peer access only writes by the copy engine work.
        """
        for scope, measure, access in product(self.scopes, self.measures, self.peer_access):
            for engine, direction in product(self.engines, self.directions):
                if not access and (engine == "SM" or direction == "read" or scope == "host"):
                    continue
                for kernel in self.kernels if engine == "SM" else ("",):
                    for blocks in self.blocks if engine == "SM" else (0,):
                        common = Transfer(
                            measure=measure,
                            scope=scope,
                            engine=engine,
                            direction=direction,
                            flows=(),
                            size_bytes=0,
                            kernel=kernel,
                            offset_bytes=self.offset_bytes,
                            blocks=blocks,
                            threads=self.threads if engine == "SM" else 0,
                            peer_access=access,
                        )
                        yield from self._cells(common)

    def _cells(self, common: Transfer) -> Iterator[Transfer]:
        replace = msgspec.structs.replace
        if common.measure != "latency":
            for size_bytes in self.sizes:
                yield from self._flows(replace(common, size_bytes=size_bytes))
            return
        if common.scope not in ("pairs", "local"):
            return
        for cell in self._flows(replace(common, size_bytes=LATENCY_BYTES)):
            method = self._method(cell)
            if method == "copy":
                yield replace(cell, method=method)
            elif self._fits(method, cell):
                # A single access is the same for all kernels, blocks and threads.
                yield replace(cell, method=method, kernel="", blocks=0, threads=0)

    @staticmethod
    def _fits(method: str, cell: Transfer) -> bool:
        """Whether ``method``, a single access, applies to ``cell``.

        A kernel's load reads the memory of another device, its store writes it.
        """
        start, end = cell.flows[0]
        way = "read" if method == "chase" else "write"
        return cell.engine == "SM" and cell.peer_access and cell.direction == way and start != end

    def _method(self, cell: Transfer) -> str:
        """The method that measures the latency of ``cell``."""
        start, end = cell.flows[0]
        if self.latency_method != "auto":
            return self.latency_method
        if cell.engine == "CE" or start == end:
            return "copy"
        return "ping-pong" if cell.direction == "write" else "chase"

    def _flows(self, common: Transfer) -> Iterator[Transfer]:
        both = common.measure == "bidirectional"
        numbers = range(self.devices)
        replace = msgspec.structs.replace

        def cell(flows: Sequence[tuple[int, int]]) -> Transfer:
            back = [(end, start) for start, end in flows] if both else []
            return replace(common, flows=(*flows, *back))

        if not both and (common.scope == "local" or (common.scope == "pairs" and self.local_too)):
            for device in numbers:
                yield replace(common, flows=((device, device),))
        if common.scope == "pairs":
            for row, column in product(numbers, numbers):
                apart = self.hosts and self.hosts[row] != self.hosts[column]
                elsewhere = apart and not self.fabric
                if row != column and not elsewhere and not (self.triangle and column < row):
                    yield cell([(row, column) if common.direction == "write" else (column, row)])
        elif common.scope in ("all-to-one", "one-to-all"):
            for one in numbers:
                others = [device for device in numbers if device != one]
                into = common.scope == "all-to-one"
                yield cell([(other, one) if into else (one, other) for other in others])
        elif common.scope == "all-pairs":
            # Every second round is the reverse of the round before it.
            for pairs in disjoint_rounds(self.devices)[:: 2 if both else 1]:
                yield cell(pairs)
        elif common.scope == "host" and common.direction == "write":
            yield from self._host_flows(common)

    def _host_flows(self, common: Transfer) -> Iterator[Transfer]:
        # Calls that copy pageable memory return when they are done, and a kernel of one direction
        # has all multiprocessors of its device: neither is in both directions at once.
        both = common.measure == "bidirectional"
        if both and common.engine != "CE":
            return
        kinds = _HOST_KINDS if common.engine == "CE" and not both else ("pinned",)
        ways = (False,) if both else (False, True)
        for kind, numa, to_host in product(kinds, self.numa, ways):
            for device in range(self.devices):
                yield msgspec.structs.replace(
                    common,
                    flows=((device, device),) * (1 + both),
                    host_memory=kind,
                    numa=numa,
                    to_host=to_host,
                )


def disjoint_rounds(devices: int) -> list[list[tuple[int, int]]]:
    """Every ordered pair of devices once, in rounds in which no device appears twice.

    The circle method for round-robin tournaments: one place is fixed, the others rotate. With an
    odd number of devices, one device is idle in each round.
    """
    places: list[int | None] = [*range(devices), *([None] if devices % 2 else [])]
    rounds: list[list[tuple[int, int]]] = []
    half = len(places) // 2
    for _ in range(len(places) - 1):
        pairs = [
            (first, second)
            for first, second in zip(places[:half], reversed(places[half:]), strict=True)
            if first is not None and second is not None
        ]
        rounds.append(pairs)
        rounds.append([(second, first) for first, second in pairs])
        places = [places[0], places[-1], *places[1:-1]]
    return [pairs for pairs in rounds if pairs]


def random_sizes(count: int, least_bytes: int, most_bytes: int, seed: int) -> list[int]:
    """``count`` ascending sizes of whole elements between two bounds, reproducible by ``seed``."""
    chance = random.Random(seed)
    least, most = least_bytes // ELEMENT_BYTES, most_bytes // ELEMENT_BYTES
    return sorted(chance.randint(least, most) * ELEMENT_BYTES for _ in range(count))
