"""Steps along a ring: every rank sends to the next one.

``order`` is the ranks in the order in which data pass, and ``sizes_bytes`` the size of each chunk.
Positions are places in ``order``. NCCL's kernels (src/device/*.h) have this order of chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.explain.steps.step import INPUT, OUTPUT, STAGING, Place, Step

_INPUT, _OUTPUT, _STAGING = Place(INPUT), Place(OUTPUT), Place(STAGING)


def all_reduce(
    order: Sequence[int], sizes_bytes: Sequence[int], *, first_chunk: int = -1
) -> Iterator[Step]:
    """A reduce-scatter and an all-gather of one chunk for each position.

    ``first_chunk``: which chunk a rank sends first, relative to its position: the one before in
    NCCL, its own (0) in MPI libraries.
    """
    ranks = len(order)
    for stage in range(1, ranks):
        for at, source in enumerate(order):
            chunk = (at - stage + 1 + first_chunk) % ranks
            yield Step(
                stage,
                "reduce-scatter",
                source,
                order[(at + 1) % ranks],
                sizes_bytes[chunk],
                reads=_INPUT if stage == 1 else _STAGING,
                writes=_OUTPUT if stage == ranks - 1 else _STAGING,
                combines=_INPUT,
                chunk=chunk,
            )
    for stage in range(1, ranks):
        for at, source in enumerate(order):
            chunk = (at - stage + 2 + first_chunk) % ranks
            yield Step(
                ranks - 1 + stage,
                "all-gather",
                source,
                order[(at + 1) % ranks],
                sizes_bytes[chunk],
                reads=_OUTPUT,
                writes=_OUTPUT,
                chunk=chunk,
            )


def reduce_scatter(order: Sequence[int], size_bytes: int) -> Iterator[Step]:
    """The chunk of each rank goes round and ends there. Chunks have the numbers of the ranks."""
    ranks = len(order)
    for stage in range(1, ranks):
        for at, source in enumerate(order):
            yield Step(
                stage,
                "reduce-scatter",
                source,
                order[(at + 1) % ranks],
                size_bytes,
                reads=_INPUT if stage == 1 else _STAGING,
                writes=_OUTPUT if stage == ranks - 1 else _STAGING,
                combines=_INPUT,
                chunk=order[(at - stage) % ranks],
            )


def all_gather(order: Sequence[int], size_bytes: int, *, in_place: bool) -> Iterator[Step]:
    """The input of each rank goes round. Chunks have the numbers of the ranks."""
    ranks = len(order)
    if not in_place:
        for rank in order:
            yield _to_own_output(rank, "all-gather", size_bytes, rank)
    for stage in range(1, ranks):
        for at, source in enumerate(order):
            yield Step(
                stage,
                "all-gather",
                source,
                order[(at + 1) % ranks],
                size_bytes,
                reads=_INPUT if stage == 1 else _OUTPUT,
                writes=_OUTPUT,
                chunk=order[(at - stage + 1) % ranks],
            )


def broadcast(
    order: Sequence[int], size_bytes: int, root: int, *, in_place: bool
) -> Iterator[Step]:
    """The root's data pass along the ring, from the root to the rank before it."""
    chain = _from(order, root)
    if not in_place:
        yield _to_own_output(root, "broadcast", size_bytes, 0)
    for stage in range(1, len(chain)):
        yield Step(
            stage,
            "broadcast",
            chain[stage - 1],
            chain[stage],
            size_bytes,
            reads=_INPUT if stage == 1 else _OUTPUT,
            writes=_OUTPUT,
            chunk=0,
        )


def reduce(order: Sequence[int], size_bytes: int, root: int) -> Iterator[Step]:
    """The sum grows along the ring, from the rank behind the root to the root."""
    chain = _from(order, root)
    chain = [*chain[1:], root]
    for stage in range(1, len(chain)):
        yield Step(
            stage,
            "reduce",
            chain[stage - 1],
            chain[stage],
            size_bytes,
            reads=_INPUT if stage == 1 else _STAGING,
            writes=_OUTPUT if chain[stage] == root else _STAGING,
            combines=_INPUT,
            chunk=0,
        )


def _from(order: Sequence[int], root: int) -> list[int]:
    at = order.index(root)
    return [*order[at:], *order[:at]]


def _to_own_output(rank: int, phase: str, size_bytes: int, chunk: int) -> Step:
    return Step(1, phase, rank, rank, size_bytes, reads=_INPUT, writes=_OUTPUT, chunk=chunk)
