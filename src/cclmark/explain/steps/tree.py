"""Steps of an all_reduce along a tree: the sum rises to the root and comes down again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.explain.steps.step import INPUT, OUTPUT, STAGING, Place, Step

_NO_PARENT = -1
_INPUT, _OUTPUT, _STAGING = Place(INPUT), Place(OUTPUT), Place(STAGING)


def is_tree(parents: Sequence[int]) -> bool:
    """Whether the parents of the ranks (-1 for the root) connect all of them to one root."""
    if list(parents).count(_NO_PARENT) != 1:
        return False
    if not all(_NO_PARENT <= parent < len(parents) for parent in parents):
        return False
    return len(_downwards(parents)) == len(parents)


def all_reduce(parents: Sequence[int], size_bytes: int) -> Iterator[Step]:
    """``parents``: of a tree, see is_tree. Each rank sends when all below it have sent."""
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
    children: dict[int, list[int]] = {}
    for rank, parent in enumerate(parents):
        children.setdefault(parent, []).append(rank)
    order = list(children.get(_NO_PARENT, []))
    for rank in order:
        order += children.get(rank, [])
    return order
