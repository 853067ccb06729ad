"""The steps of a traced case, from the best source that its ranks have.

Those are, in this order: the plan of cclmark's engine; the operations that the plug-in reports,
with the rings and trees in the library's log; an algorithm that variables select; the one that the
library's documents describe. What follows from the algorithm alone is marked as derived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from cclmark.explain.algorithm_steps import (
    MeshMessage,
    Message,
    Step,
    doubling_all_reduce,
    is_tree,
    mesh_steps,
    messages,
    planned,
    ring_all_gather,
    ring_all_reduce,
    ring_broadcast,
    ring_reduce,
    ring_reduce_scatter,
    shares,
    tree_all_reduce,
    unmatched,
)
from cclmark.explain.calls import kernel_of
from cclmark.explain.operation import dtype_of
from cclmark.explain.paths import rings_by_channel, trees_by_channel
from cclmark.explain.plugin_log import PluginEvent
from cclmark.trace.log_events import Task
from cclmark.trace.rank_trace import RankTrace
from cclmark.work.cases import Case
from cclmark.work.library_settings import number_set
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS
from cclmark.work.sizes import in_ranges

PLANNED = "planned"
OBSERVED = "observed"
DERIVED = "derived"
SELECTED = "selected"
DOCUMENTED = "documented"
UNKNOWN = "unknown"
_HCCL = "hccl"
_MOST_STEPS = 1_000_000  # some 150 bytes each
_IN_PIECES = (
    "bytes are totals over channels, divided evenly: the library passes them on in smaller pieces, "
    "and stages of different pieces overlap"
)


@dataclass(frozen=True)
class Carrier:
    """A ring or a tree that carries a part of the data.

    ``ranks``: of a ring in the order in which data pass; of a tree the parent of every rank, -1 for
    the root. ``channels``: the number of the operation's channels that use it.
    """

    is_ring: bool
    ranks: tuple[int, ...]
    channels: int


@dataclass
class CaseSteps:
    """The steps of one operation of a case, sorted by stage.

    ``origin``: planned, observed, derived, selected, documented or unknown. ``reason``: why they
    are unknown.
    ``algorithm``: in words. ``carriers``: rings or trees, by the numbers that steps have as
    ``path``. ``transports``: how the library connects a rank to another. ``notes``: what a reader
    must know about the steps. ``root``: of the operation. ``slices``: the number of parts into
    which the library's buffer divides the message, if known; each passes all stages.
    """

    origin: str
    reason: str = ""
    algorithm: str = ""
    steps: list[Step] = field(default_factory=list)
    carriers: list[Carrier] = field(default_factory=list)
    transports: dict[tuple[int, int], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    root: int | None = None
    slices: str = ""


def steps_of(
    case: Case,
    traces: Sequence[RankTrace],
    tasks: Mapping[int, Sequence[Task]],
    environment: Mapping[str, str],
) -> CaseSteps:
    """Returns the steps of one operation.

    ``traces``: of all ranks, in their order. ``tasks``: by rank, those of ranks whose log of the
    plug-in was read. ``environment``: that of the ranks, with settings of the library.
    """
    try:
        found = _steps_of(case, traces, tasks)
    except _UnknownError as error:
        return CaseSteps(UNKNOWN, str(error))
    found.steps.sort(key=lambda step: step.stage)
    found.transports = _transports(traces)
    found.root = case.root
    if found.origin == DOCUMENTED:
        size, is_set = number_set(environment, _HCCL, "HCCL_BUFFSIZE")
        found.slices = str(-(-case.size_bytes // (size << 20)))
        invalid = "" if is_set else environment.get("HCCL_BUFFSIZE", "")
        how = (
            "set"
            if is_set
            else f"the default: {invalid!r} is invalid"
            if invalid
            else "the default"
        )
        buffer = f"HCCL_BUFFSIZE, {size} MiB ({how})"
        found.notes.append(f"bytes are of all slices, whose number is derived from {buffer}")
    return found


class _UnknownError(Exception):
    """The steps are not known, for this reason."""


def _steps_of(
    case: Case, traces: Sequence[RankTrace], tasks: Mapping[int, Sequence[Task]]
) -> CaseSteps:
    if case.ranks == 1:
        raise _UnknownError("one rank exchanges no data")
    sources = [trace.step_sources for trace in traces]
    if any(one.planned for one in sources):
        return CaseSteps(
            PLANNED, algorithm=sources[0].algorithm, steps=planned([s.planned for s in sources])
        )
    operations = len(traces[0].call_begin_ns)
    first = {rank: _of_one_operation(own, operations) for rank, own in tasks.items()}
    if any(first.values()):
        found = _reported(case, traces, {rank: own for rank, own in first.items() if own})
        if silent := [trace.rank for trace in traces if not first.get(trace.rank)]:
            found.notes.append(f"{_named('rank', silent)} reported no operation")
        return found
    if number := max(map(len, tasks.values()), default=0):
        raise _UnknownError(
            f"the log contains {number} operations of the library for the {operations} that ran: "
            "they cannot be matched"
        )
    if case.ccl.removeprefix("torch:") == _HCCL:
        return _documented(case, len({trace.host for trace in traces}))
    if sources[0].algorithm:
        return _selected(case, sources[0].algorithm, sources[0].reason)
    reasons = [sources[0].reason, *(trace.log_reason for trace in traces)]
    raise _UnknownError(
        next(filter(None, reasons), "the library reported no event of the operation")
    )


def _of_one_operation(tasks: Sequence[Task], operations: int) -> list[Task]:
    """The tasks of the first operation; empty if they cannot be attributed to operations."""
    if not tasks or len(tasks) % operations:
        return []
    ordered = sorted(tasks, key=lambda task: task.event.number)
    return ordered[: len(tasks) // operations]


def _reported(
    case: Case, traces: Sequence[RankTrace], tasks: Mapping[int, list[Task]]
) -> CaseSteps:
    """Steps from the operations that the plug-in reports."""
    if all(task.peer >= 0 for own in tasks.values() for task in own):
        return _messages(tasks)
    event = _common_event(tasks)
    derive = _derivation(event)
    channels = _channels([task for own in tasks.values() for task in own], event)
    carriers, notes = _carriers(event.algorithm == "RING", traces, channels)
    width_bytes = _width_bytes(event)
    parts_bytes = shares(event.count, [one.channels for one in carriers], width_bytes)
    _require_few(case, carriers)
    steps: list[Step] = []
    for path, (carrier, part) in enumerate(zip(carriers, parts_bytes, strict=True), start=1):
        of_path = derive(_Part(case, event, carrier, part, width_bytes))
        steps += [msgspec.structs.replace(step, path=path) for step in of_path]
    return CaseSteps(
        DERIVED,
        algorithm=f"{kernel_of(event)} {event.protocol}".strip(),
        steps=steps,
        carriers=carriers,
        notes=[*notes, _IN_PIECES],
    )


def _common_event(tasks: Mapping[int, list[Task]]) -> PluginEvent:
    """The one collective that all ranks ran."""
    most = max(map(len, tasks.values()))
    if most > 1:
        raise _UnknownError(
            f"the library split the operation into {most} without reporting the data of each"
        )
    (rank, (first, *_)), *others = tasks.items()
    for other, own in others:
        theirs, ours = _choice(own[0].event), _choice(first.event)
        if theirs != ours:
            raise _UnknownError(f"rank {other} ran {theirs}, rank {rank} {ours}")
    return first.event


def _require_few(case: Case, carriers: Sequence[Carrier]) -> None:
    """A ring has 2 n (n - 1) steps at most, and a tree fewer."""
    most = 2 * case.ranks * (case.ranks - 1) * len(carriers)
    if most > _MOST_STEPS:
        raise _UnknownError(f"{most:,} steps are not listed: more than {_MOST_STEPS:,}")


@dataclass(frozen=True)
class _Part:
    """The part of an operation's data that one carrier has."""

    case: Case
    event: PluginEvent
    carrier: Carrier
    size_bytes: int
    width_bytes: int

    @property
    def chunks_bytes(self) -> list[int]:
        """One chunk for each rank."""
        ones = [1] * len(self.carrier.ranks)
        return shares(self.size_bytes // self.width_bytes, ones, self.width_bytes)


#: By the names of algorithm and function. A ring or a tree carries the data, by the algorithm.
_DERIVATIONS: dict[tuple[str, str], Callable[[_Part], Iterator[Step]]] = {
    ("RING", "AllReduce"): lambda part: ring_all_reduce(part.carrier.ranks, part.chunks_bytes),
    ("RING", "ReduceScatter"): lambda part: ring_reduce_scatter(
        part.carrier.ranks, part.size_bytes
    ),
    ("RING", "AllGather"): lambda part: ring_all_gather(
        part.carrier.ranks, part.size_bytes, in_place=part.case.in_place
    ),
    ("RING", "Broadcast"): lambda part: ring_broadcast(
        part.carrier.ranks, part.size_bytes, part.event.root, in_place=part.case.in_place
    ),
    ("RING", "Reduce"): lambda part: ring_reduce(
        part.carrier.ranks, part.size_bytes, part.event.root
    ),
    ("TREE", "AllReduce"): lambda part: tree_all_reduce(part.carrier.ranks, part.size_bytes),
}
_WITHOUT_STEPS = {
    "NVLS": "the switches reduce and multicast the data, and NCCL reports no steps",
    "NVLS_TREE": "the switches reduce and multicast within a host, and NCCL reports no steps",
    "COLLNET_DIRECT": "the network reduces the data, and NCCL reports no steps",
    "COLLNET_CHAIN": "the network reduces the data, and NCCL reports no steps",
    "PAT": "NCCL reports no tree for PAT",
}


def _derivation(event: PluginEvent) -> Callable[[_Part], Iterator[Step]]:
    """How the steps follow from a ring or tree."""
    if event.kind != "collective":
        raise _UnknownError(
            f"the library ran a {kernel_of(event)} operation, whose steps it does not report"
        )
    if known := _DERIVATIONS.get((event.algorithm, event.function)):
        return known
    why = _WITHOUT_STEPS.get(event.algorithm, "its steps are not supported by cclmark")
    algorithm = event.algorithm or "an unnamed algorithm"
    raise _UnknownError(f"the library ran {event.function} by {algorithm}: {why}")


def _choice(event: PluginEvent) -> str:
    datatype = event.datatype.removeprefix("nccl")
    root = f" root {event.root}" if event.function in ("Broadcast", "Reduce") else ""
    return f"{event.function} of {event.count} {datatype}{root} by {kernel_of(event)}"


def _width_bytes(event: PluginEvent) -> int:
    width = DTYPE_BYTES.get(dtype_of(event.datatype))
    if width is None:
        raise _UnknownError(f"the size of the type {event.datatype!r} is unknown")
    return width


def _channels(tasks: Sequence[Task], event: PluginEvent) -> set[int]:
    """The numbers of the channels that ran; without kernels in the log, the first ones."""
    ran = {one.number for task in tasks for one in task.channels}
    return ran or set(range(event.channels))


def _carriers(
    is_ring: bool, traces: Sequence[RankTrace], channels: set[int]
) -> tuple[list[Carrier], list[str]]:
    """The rings or trees of the channels, in the order of their first channel, and notes."""
    kind = "ring" if is_ring else "tree"
    for trace in traces:
        if reason := trace.step_sources.paths_reason:
            raise _UnknownError(f"no {kind} is known: {reason}")
    every = [trace.step_sources.paths for trace in traces]
    by_channel = rings_by_channel(every) if is_ring else trees_by_channel(every)
    if not is_ring and not all(map(is_tree, by_channel.values())):
        raise _UnknownError("the trees in the library's log do not connect all ranks")
    if not by_channel:
        raise _UnknownError(f"the library's log contains no {kind} of all ranks")
    if not channels:
        raise _UnknownError("the library reported no channel of the operation")
    notes = []
    if missing := sorted(channels - by_channel.keys()):
        if len(set(by_channel.values())) > 1:
            raise _UnknownError(
                f"the library's log contains no {kind} of {_named('channel', missing)}, and the "
                "other channels differ"
            )
        notes.append(
            f"the log contains no {kind} of {_named('channel', missing)}: it is taken to be that "
            "of the others"
        )
    any_shape = next(iter(by_channel.values()))
    used = Counter(by_channel.get(channel, any_shape) for channel in sorted(channels))
    return [Carrier(is_ring, ranks, number) for ranks, number in used.items()], notes


def _named(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun}{'s' * (len(numbers) > 1)} {in_ranges(numbers)}"


def _messages(tasks: Mapping[int, list[Task]]) -> CaseSteps:
    """Steps from the sends and receives that the plug-in reports."""
    by_rank: dict[int, list[Message]] = {}
    for rank, own in tasks.items():
        for task in own:
            sends = task.event.function == "Send"
            message = Message(sends, task.peer, task.event.count * _width_bytes(task.event))
            by_rank.setdefault(rank, []).append(message)
    return CaseSteps(
        OBSERVED,
        algorithm="sends and receives",
        steps=list(messages(by_rank)),
        notes=[
            "the order of the messages is not reported: all are in one stage",
            *unmatched(by_rank),
        ],
    )


def _selected(case: Case, algorithm: str, reason: str) -> CaseSteps:
    """Steps of a textbook algorithm that variables of an MPI select."""
    order = range(case.ranks)
    width = DTYPE_BYTES[case.dtype]
    size_bytes = case.count * width
    chunks = shares(case.count, [1] * case.ranks, width)
    if case.count < case.ranks:
        # Libraries change to another algorithm where chunks would be empty.
        raise _UnknownError(f"{reason}; with fewer elements than ranks, another one may run")
    derivations: dict[tuple[str, str], Callable[[], Iterator[Step]]] = {
        ("all_reduce", "ring"): lambda: ring_all_reduce(order, chunks, first_chunk=0),
        ("all_reduce", "recursive_doubling"): lambda: doubling_all_reduce(case.ranks, size_bytes),
        ("all_gather", "ring"): lambda: ring_all_gather(order, size_bytes, in_place=case.in_place),
    }
    derive = derivations.get((case.operation, algorithm))
    if derive is None:
        raise _UnknownError(
            f"{reason}; the steps of {case.operation} by {algorithm} are not supported by cclmark"
        )
    return CaseSteps(
        SELECTED,
        algorithm=algorithm.replace("_", " "),
        steps=list(derive()),
        notes=[reason, "libraries may number chunks, and divide elements that are left, otherwise"],
    )


def _documented(case: Case, hosts: int) -> CaseSteps:
    """Steps of HCCL's mesh within a host."""
    if hosts > 1:
        raise _UnknownError(
            "HCCL selects an algorithm between hosts by itself and reports none: cclmark trace "
            "msprof shows the tasks that msprof recorded"
        )
    _require_few(case, [Carrier(True, (), 1)])
    width = DTYPE_BYTES[case.dtype]
    ranks = range(case.ranks)
    if OPERATIONS[case.operation].spans_ranks:
        parts = [case.count * width for _ in ranks]
    else:
        parts = shares(case.count, [1 for _ in ranks], width)
    counts = case.matrix or [case.count] * (case.ranks * case.ranks)
    sent = [[counts[a * case.ranks + b] * width for b in ranks] for a in ranks]
    steps = mesh_steps(case.operation, MeshMessage(parts, case.root or 0, sent, case.in_place))
    if steps is None:
        raise _UnknownError(f"HCCL's documents describe no steps of {case.operation}")
    notes = [
        "HCCL reports no algorithm, and within a host it also has rings: cclmark trace msprof "
        "shows the tasks that msprof recorded"
    ]
    if case.matrix:
        notes.append("the first stage of HCCL's alltoallv is not documented and left out")
    return CaseSteps(DOCUMENTED, algorithm="mesh", steps=steps, notes=notes)


def _transports(traces: Sequence[RankTrace]) -> dict[tuple[int, int], str]:
    """The transport of each pair of ranks and direction, with the network devices."""
    found: dict[tuple[int, int], dict[str, set[str]]] = {}
    for trace in traces:
        for route in trace.step_sources.paths.routes:
            devices = found.setdefault((route.first, route.second), {})
            devices.setdefault(route.transport, set()).update(route.devices)
    return {
        pair: ", ".join(
            name + (f" device {'+'.join(sorted(devices))}" if devices else "")
            for name, devices in of_pair.items()
        )
        for pair, of_pair in found.items()
    }
