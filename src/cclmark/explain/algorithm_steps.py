"""The steps of an operation's algorithm: what each rank passes on to which, stage by stage.

Steps of textbook algorithms are derived from the order of the ranks; other ones are the sends that
a library reports, or the plan of cclmark's engine. ``cclmark.trace.case_steps`` chooses.

Source of the steps of HCCL's mesh within a host, in which every rank exchanges with all others at
once: HCCL's description of its mesh algorithm, in its repository: all_reduce is a reduce_scatter
and an all_gather, broadcast a scatter and an all_gather, reduce a reduce_scatter and a gather. The
copies to and from the library's buffer are those that a published analysis of its traces lists
(hccl_test on eight NPUs, CANN 7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import msgspec

from cclmark.base.grouping import by_key

# The buffers of a rank that a step reads or writes.
INPUT = "input"
OUTPUT = "output"
STAGING = "staging"  # the library's own memory


class Place(msgspec.Struct, frozen=True):
    """A place in a rank's memory. ``offset_bytes``: None where only the library knows it."""

    buffer: str
    offset_bytes: int | None = None


_INPUT, _OUTPUT, _STAGING = Place(INPUT), Place(OUTPUT), Place(STAGING)


class Step(msgspec.Struct, frozen=True):
    """A move of data from a rank to another one, or within a rank.

    A step requires steps of earlier stages only, and those before it at the same destination.
    ``source``: None for an operation of another library of which no steps are known.
    ``reads``: at the source. ``writes``: at the destination. ``combines``: at the destination, the
    data with which those that arrive are reduced; None for a copy. ``chunk``: the number of the
    part of the data, None if the offsets say which it is; ``path``: the number of the ring or
    tree that carries it, from 1, 0 if there is none. ``medium``: the way of the data if the
    library reports it for each step.
    """

    stage: int
    phase: str
    source: int | None
    destination: int
    size_bytes: int
    reads: Place
    writes: Place
    combines: Place | None = None
    chunk: int | None = None
    path: int = 0
    medium: str = ""

    @property
    def is_local(self) -> bool:
        """Whether no data leave the rank."""
        return self.source == self.destination

    @property
    def action(self) -> str:
        """``reduce`` or ``copy``; empty if the steps are not known."""
        if self.source is None:
            return ""
        return "copy" if self.combines is None else "reduce"


def shares(elements: int, weights: Sequence[int], width_bytes: int) -> list[int]:
    """Divides ``elements`` by weight, as evenly as whole elements permit. Returns bytes."""
    total = sum(weights)
    ends = [0]
    before = 0
    for weight in weights:
        before += weight
        ends.append(elements * before // total)
    return [(end - begin) * width_bytes for begin, end in pairwise(ends)]


# Rings: every rank sends to the next one. ``order`` is the ranks in the order in which data pass;
# positions are places in it. NCCL's kernels (src/device/*.h) have this order of chunks.


def ring_all_reduce(
    order: Sequence[int], sizes_bytes: Sequence[int], *, first_chunk: int = -1
) -> Iterator[Step]:
    """A reduce-scatter and an all-gather of one chunk for each position, of ``sizes_bytes``.

    ``first_chunk``: which chunk a rank sends first, relative to its position: the one before in
    NCCL, its own (0) in MPI libraries.
    """
    ranks = len(order)
    chunks = range(ranks)
    yield from _reduced_around(order, sizes_bytes, chunks, first_chunk)
    for stage in range(1, ranks):
        yield from _around(
            *(order, ranks - 1 + stage, "all-gather", sizes_bytes, chunks),
            first_chunk + 2 - stage,
            reads=_OUTPUT,
            writes=_OUTPUT,
        )


def ring_reduce_scatter(order: Sequence[int], size_bytes: int) -> Iterator[Step]:
    """The chunk of each rank goes round and ends there. Chunks have the numbers of the ranks."""
    return _reduced_around(order, [size_bytes] * len(order), order, -1)


def ring_all_gather(order: Sequence[int], size_bytes: int, *, in_place: bool) -> Iterator[Step]:
    """The input of each rank goes round. Chunks have the numbers of the ranks."""
    ranks = len(order)
    if not in_place:
        for rank in order:
            yield _to_own_output(rank, "all-gather", size_bytes, rank)
    for stage in range(1, ranks):
        yield from _around(
            *(order, stage, "all-gather", [size_bytes] * ranks, order, 1 - stage),
            reads=_INPUT if stage == 1 else _OUTPUT,
            writes=_OUTPUT,
        )


def ring_broadcast(
    order: Sequence[int], size_bytes: int, root: int, *, in_place: bool
) -> Iterator[Step]:
    """The root's data pass along the ring, from the root to the rank before it."""
    if not in_place:
        yield _to_own_output(root, "broadcast", size_bytes, 0)
    for stage, (source, to) in enumerate(pairwise(_from(order, root)), start=1):
        reads = _INPUT if stage == 1 else _OUTPUT
        yield Step(stage, "broadcast", source, to, size_bytes, reads=reads, writes=_OUTPUT, chunk=0)


def ring_reduce(order: Sequence[int], size_bytes: int, root: int) -> Iterator[Step]:
    """The sum grows along the ring, from the rank behind the root to the root."""
    chain = [*_from(order, root)[1:], root]
    for stage, (source, to) in enumerate(pairwise(chain), start=1):
        yield Step(
            *(stage, "reduce", source, to, size_bytes),
            reads=_INPUT if stage == 1 else _STAGING,
            writes=_OUTPUT if to == root else _STAGING,
            combines=_INPUT,
            chunk=0,
        )


def _reduced_around(
    order: Sequence[int], sizes_bytes: Sequence[int], chunks: Sequence[int], first_chunk: int
) -> Iterator[Step]:
    """Each chunk goes round and is reduced on its way."""
    last = len(order) - 1
    for stage in range(1, len(order)):
        yield from _around(
            *(order, stage, "reduce-scatter", sizes_bytes, chunks, first_chunk + 1 - stage),
            reads=_INPUT if stage == 1 else _STAGING,
            writes=_OUTPUT if stage == last else _STAGING,
            combines=_INPUT,
        )


def _around(
    order: Sequence[int],
    stage: int,
    phase: str,
    sizes_bytes: Sequence[int],
    chunks: Sequence[int],
    shift: int,
    *,
    reads: Place,
    writes: Place,
    combines: Place | None = None,
) -> Iterator[Step]:
    """One stage in which every rank sends a chunk to the next one.

    ``sizes_bytes`` and ``chunks``: the sizes and numbers of the chunks by position. ``shift``: the
    position of a rank's chunk, relative to that of the rank.
    """
    for at, source in enumerate(order):
        place = (at + shift) % len(order)
        yield Step(
            *(stage, phase, source, order[(at + 1) % len(order)], sizes_bytes[place]),
            *(reads, writes, combines, chunks[place]),
        )


def _from(order: Sequence[int], root: int) -> list[int]:
    at = order.index(root)
    return [*order[at:], *order[:at]]


def _to_own_output(rank: int, phase: str, size_bytes: int, chunk: int) -> Step:
    return Step(1, phase, rank, rank, size_bytes, reads=_INPUT, writes=_OUTPUT, chunk=chunk)


_NO_PARENT = -1


def is_tree(parents: Sequence[int]) -> bool:
    """Whether the parents of the ranks (-1 for the root) connect all of them to one root."""
    if list(parents).count(_NO_PARENT) != 1:
        return False
    if not all(_NO_PARENT <= parent < len(parents) for parent in parents):
        return False
    return len(_downwards(parents)) == len(parents)


def tree_all_reduce(parents: Sequence[int], size_bytes: int) -> Iterator[Step]:
    """The sum rises to the root and comes down again. ``parents``: of a tree, see is_tree.

    Each rank sends when all below it have sent.
    """
    order = _downwards(parents)
    root = order[0]
    heights = [0] * len(parents)
    for rank in reversed(order[1:]):
        heights[parents[rank]] = max(heights[parents[rank]], heights[rank] + 1)
    rising = sorted(order[1:], key=lambda rank: heights[rank])
    last = {parents[rank]: rank for rank in rising}
    heard: set[int] = set()
    for rank in rising:
        parent = parents[rank]
        yield Step(
            heights[rank] + 1,
            "reduce",
            rank,
            parent,
            size_bytes,
            reads=_STAGING if heights[rank] else _INPUT,
            writes=_OUTPUT if parent == root and last[root] == rank else _STAGING,
            combines=_STAGING if parent in heard else _INPUT,
            chunk=0,
        )
        heard.add(parent)
    depths = {root: 0}
    for rank in order[1:]:
        depths[rank] = depths[parents[rank]] + 1
        yield Step(
            heights[root] + depths[rank],
            "broadcast",
            parents[rank],
            rank,
            size_bytes,
            reads=_OUTPUT,
            writes=_OUTPUT,
            chunk=0,
        )


def _downwards(parents: Sequence[int]) -> list[int]:
    """The ranks that the root reaches, level by level."""
    children = by_key((parent, rank) for rank, parent in enumerate(parents))
    order = list(children.get(_NO_PARENT, []))
    for rank in order:
        order += children.get(rank, [])
    return order


def doubling_all_reduce(ranks: int, size_bytes: int) -> Iterator[Step]:
    """Recursive doubling, as MPI libraries have it: pairs at distances of 1, 2, 4 … exchange all.

    If the number of ranks is not a power of 2, some ranks give their data to a neighbour first, and
    receive the result from it at the end.
    """
    most = 1 << (ranks.bit_length() - 1)
    extra = ranks - most  # of the first 2 * extra ranks, the even ones only give their data
    doubling = [*range(1, 2 * extra, 2), *range(2 * extra, ranks)]
    reads = dict.fromkeys(range(ranks), _INPUT)
    stage = 1
    for rank in range(0, 2 * extra, 2):
        yield _reduced(stage, "reduce to a neighbour", rank, rank + 1, size_bytes, reads)
    for rank in range(1, 2 * extra, 2):
        reads[rank] = _OUTPUT
    stage += extra > 0
    distance = 1
    while distance < most:
        for at, rank in enumerate(doubling):
            peer = doubling[at ^ distance]
            yield _reduced(stage, "recursive doubling", peer, rank, size_bytes, reads)
        reads.update(dict.fromkeys(doubling, _OUTPUT))
        stage += 1
        distance *= 2
    for rank in range(0, 2 * extra, 2):
        yield Step(
            *(stage, "result to a neighbour", rank + 1, rank, size_bytes),
            reads=_OUTPUT,
            writes=_OUTPUT,
            chunk=0,
        )


def _reduced(
    stage: int, phase: str, source: int, destination: int, size_bytes: int, reads: dict[int, Place]
) -> Step:
    return Step(
        *(stage, phase, source, destination, size_bytes),
        reads=reads[source],
        writes=_OUTPUT,
        combines=reads[destination],
        chunk=0,
    )


@dataclass(frozen=True)
class Message:
    """One end of a message: ``sends``: true at the sender. ``peer``: the other end."""

    sends: bool
    peer: int
    size_bytes: int


def messages(by_rank: Mapping[int, Sequence[Message]]) -> Iterator[Step]:
    """One step for each message of the ranks, all in one stage: their order is not reported.

    Sends of ranks that are missing in ``by_rank`` are known from the receives of the others.
    """
    for rank, own in sorted(by_rank.items()):
        for one in own:
            if one.sends:
                yield _message(rank, one.peer, one.size_bytes)
            elif one.peer not in by_rank:
                yield _message(one.peer, rank, one.size_bytes)


def unmatched(by_rank: Mapping[int, Sequence[Message]]) -> list[str]:
    """Pairs of ranks whose sends and receives differ, in words; empty if all agree."""
    sent: Counter[tuple[int, int, int]] = Counter()
    received: Counter[tuple[int, int, int]] = Counter()
    for rank, own in by_rank.items():
        for one in own:
            if one.peer not in by_rank:
                continue
            if one.sends:
                sent[rank, one.peer, one.size_bytes] += 1
            else:
                received[one.peer, rank, one.size_bytes] += 1
    pairs = dict.fromkeys((source, to) for source, to, _ in (sent - received) + (received - sent))
    return [
        f"the sends of rank {source} to rank {to} differ from its receives" for source, to in pairs
    ]


def _message(source: int, destination: int, size_bytes: int) -> Step:
    return Step(1, "message", source, destination, size_bytes, reads=_INPUT, writes=_OUTPUT)


class PlannedStep(msgspec.Struct, frozen=True):
    """A step without its stage: the stages of all ranks are sorted by ``order``."""

    order: list[int]
    step: Step


def planned(by_rank: Sequence[Sequence[PlannedStep]]) -> list[Step]:
    """The steps of all ranks by stage, the stages numbered from 1."""
    every = [one for own in by_rank for one in own]
    stages = {
        order: stage
        for stage, order in enumerate(sorted({tuple(one.order) for one in every}), start=1)
    }
    steps = [msgspec.structs.replace(one.step, stage=stages[tuple(one.order)]) for one in every]
    return sorted(steps, key=lambda step: step.stage)


# The mesh within a host. Offsets in the library's memory are those of the data in the message.


@dataclass(frozen=True)
class MeshMessage:
    """What a mesh operation moves.

    ``parts_bytes``: those of the message, by rank. ``sent_bytes``: of alltoall and alltoallv, what
    a rank sends to each. ``in_place``: whether the input is a part of the output.
    """

    parts_bytes: Sequence[int]
    root: int = 0
    sent_bytes: Sequence[Sequence[int]] = ()
    in_place: bool = False

    @property
    def ranks(self) -> range:
        """All ranks."""
        return range(len(self.parts_bytes))

    @property
    def begins_bytes(self) -> list[int]:
        """Where each part begins in the message, and the end."""
        return [0, *accumulate(self.parts_bytes)]


def mesh_steps(operation: str, message: MeshMessage) -> list[Step] | None:
    """The steps of an operation without those of empty parts; None if none are documented."""
    derive = _OPERATIONS.get(operation)
    if derive is None:
        return None
    return [step for step in derive(message) if step.size_bytes]


def _all_gather(message: MeshMessage) -> Iterator[Step]:
    for rank in message.ranks:
        yield _part(1, "copy in", message, rank, rank, rank, (INPUT, STAGING), reads_bytes=0)
    yield from _gathered(2, message, message.ranks)


def _all_reduce(message: MeshMessage) -> Iterator[Step]:
    yield from _reduced_at_once(1, message, INPUT)
    yield from _own(3, "copy out", message, (STAGING, OUTPUT))
    yield from _exchanged(4, "all-gather", message, (STAGING, OUTPUT), message.ranks)


def _reduce_scatter(message: MeshMessage) -> Iterator[Step]:
    yield from _reduced_at_once(1, message, INPUT)
    for rank in message.ranks:
        yield _part(3, "copy out", message, rank, rank, rank, (STAGING, OUTPUT), writes_bytes=0)


def _alltoall(message: MeshMessage) -> Iterator[Step]:
    sent = message.sent_bytes
    for rank in message.ranks:
        yield _whole(1, "copy in", rank, sum(sent[rank]), (INPUT, STAGING))
    for stage in (2, 3):
        for source in message.ranks:
            for to in message.ranks:
                if (source == to) != (stage == 2):
                    continue
                reads = sum(sent[source][:to])
                writes = sum(row[to] for row in sent[:source])
                yield Step(
                    *(stage, "exchange", source, to, sent[source][to]),
                    reads=Place(STAGING, reads),
                    writes=Place(OUTPUT, writes),
                )


def _broadcast(message: MeshMessage) -> Iterator[Step]:
    root, size_bytes = message.root, sum(message.parts_bytes)
    yield _whole(1, "copy in", root, size_bytes, (INPUT, STAGING))
    for rank in message.ranks:
        if rank != root:
            yield _part(2, "scatter", message, root, rank, rank, (STAGING, STAGING))
    yield from _exchanged(3, "all-gather", message, (STAGING, STAGING), message.ranks)
    for rank in message.ranks:
        if rank != root or not message.in_place:
            yield _whole(4, "copy out", rank, size_bytes, (STAGING, OUTPUT))


def _reduce(message: MeshMessage) -> Iterator[Step]:
    size_bytes = sum(message.parts_bytes)
    for rank in message.ranks:
        yield _whole(1, "copy in", rank, size_bytes, (INPUT, STAGING))
    yield from _exchanged(
        *(2, "reduce-scatter", message, (STAGING, STAGING), message.ranks), combines=True
    )
    yield from _own(3, "copy", message, (STAGING, STAGING))
    yield from _exchanged(4, "gather", message, (STAGING, STAGING), [message.root])
    yield _whole(5, "copy out", message.root, size_bytes, (STAGING, OUTPUT))


_OPERATIONS: dict[str, Callable[[MeshMessage], Iterator[Step]]] = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "alltoall": _alltoall,
    "alltoallv": _alltoall,
    "broadcast": _broadcast,
    "reduce": _reduce,
}
_Buffers = tuple[str, str]


def _reduced_at_once(stage: int, message: MeshMessage, reads: str) -> Iterator[Step]:
    """Each rank's own part, to which those of the others are added."""
    yield from _own(stage, "copy in", message, (reads, STAGING))
    yield from _exchanged(
        *(stage + 1, "reduce-scatter", message, (reads, STAGING), message.ranks), combines=True
    )


def _gathered(stage: int, message: MeshMessage, to: Sequence[int]) -> Iterator[Step]:
    yield from _own(stage, "all-gather", message, (STAGING, OUTPUT))
    yield from _exchanged(stage, "all-gather", message, (STAGING, OUTPUT), to)


def _own(stage: int, phase: str, message: MeshMessage, buffers: _Buffers) -> Iterator[Step]:
    for rank in message.ranks:
        yield _part(stage, phase, message, rank, rank, rank, buffers)


def _exchanged(
    stage: int,
    phase: str,
    message: MeshMessage,
    buffers: _Buffers,
    to: Sequence[int],
    *,
    combines: bool = False,
) -> Iterator[Step]:
    """Every rank of ``to`` gets a part of each other one: its own part if ``combines``."""
    for rank in to:
        for source in message.ranks:
            if source != rank:
                part = rank if combines else source
                yield _part(stage, phase, message, source, rank, part, buffers, combines=combines)


def _part(
    stage: int,
    phase: str,
    message: MeshMessage,
    source: int,
    to: int,
    part: int,
    buffers: _Buffers,
    *,
    combines: bool = False,
    reads_bytes: int | None = None,
    writes_bytes: int | None = None,
) -> Step:
    """One part. ``reads_bytes``, ``writes_bytes``: offsets other than that of the part."""
    begin_bytes = message.begins_bytes[part]
    writes = Place(buffers[1], begin_bytes if writes_bytes is None else writes_bytes)
    return Step(
        *(stage, phase, source, to, message.parts_bytes[part]),
        reads=Place(buffers[0], begin_bytes if reads_bytes is None else reads_bytes),
        writes=writes,
        combines=writes if combines else None,
        chunk=part,
    )


def _whole(stage: int, phase: str, rank: int, size_bytes: int, buffers: _Buffers) -> Step:
    reads, writes = (Place(buffer, 0) for buffer in buffers)
    return Step(stage, phase, rank, rank, size_bytes, reads=reads, writes=writes)
