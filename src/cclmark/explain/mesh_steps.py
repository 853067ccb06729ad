"""The steps of HCCL's mesh within a host, in which every rank exchanges with all others at once.

Source: HCCL's description of its mesh algorithm, in its repository: all_reduce is a
reduce_scatter and an all_gather, broadcast a scatter and an all_gather, reduce a reduce_scatter and
a gather. The copies to and from the library's buffer are those that a published analysis of its
traces lists (hccl_test on eight NPUs, CANN 7).

Offsets in the library's memory are those of the data in the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from cclmark.explain.algorithm_steps import INPUT, OUTPUT, STAGING, Place, Step


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
    yield from _reduced(1, message, INPUT)
    yield from _own(3, "copy out", message, (STAGING, OUTPUT))
    yield from _exchanged(4, "all-gather", message, (STAGING, OUTPUT), message.ranks)


def _reduce_scatter(message: MeshMessage) -> Iterator[Step]:
    yield from _reduced(1, message, INPUT)
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


def _reduced(stage: int, message: MeshMessage, reads: str) -> Iterator[Step]:
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
