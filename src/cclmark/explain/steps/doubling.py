"""Steps of an all_reduce by recursive doubling, as MPI libraries have it."""

from __future__ import annotations

from collections.abc import Iterator

from cclmark.explain.steps.step import INPUT, OUTPUT, Place, Step

_INPUT, _OUTPUT = Place(INPUT), Place(OUTPUT)


def all_reduce(ranks: int, size_bytes: int) -> Iterator[Step]:
    """Pairs at distances of 1, 2, 4 … exchange all they have.

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
