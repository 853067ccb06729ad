from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.explain import algorithm_steps as algorithms
from cclmark.explain.algorithm_steps import INPUT, OUTPUT
from step_simulation import Memory, by_chunk, execute

orders = st.integers(2, 16).flatmap(lambda ranks: st.permutations(range(ranks)))


@st.composite
def trees(draw):
    """The parents of 2 to 16 ranks, the root being any of them."""
    ranks = draw(st.integers(2, 16))
    names = draw(st.permutations(range(ranks)))
    parents = [-1] * ranks
    for place in range(1, ranks):
        parents[names[place]] = names[draw(st.integers(0, place - 1))]
    return parents


def in_memory(steps, ranks, inputs, *, in_place=False):
    """What the outputs hold: ``inputs`` are the chunks of each rank's input."""

    def alias(cell):
        rank, buffer, part = cell
        return (rank, OUTPUT, part) if in_place and buffer == INPUT else cell

    memory = Memory(alias)
    for rank in range(ranks):
        for chunk in inputs(rank):
            memory[rank, INPUT, (0, chunk)] = Counter({(rank, chunk): 1})
    execute(steps, memory, by_chunk)
    return lambda rank, chunk: memory[rank, OUTPUT, (0, chunk)]


def reduced(ranks, chunk):
    return Counter({(rank, chunk): 1 for rank in range(ranks)})


@given(orders, st.sampled_from([-1, 0]), st.booleans())
def test_a_ring_all_reduces(order, first_chunk, in_place):
    ranks = len(order)
    steps = list(algorithms.ring_all_reduce(order, [1] * ranks, first_chunk=first_chunk))
    output = in_memory(steps, ranks, lambda _: range(ranks), in_place=in_place)
    for rank in range(ranks):
        for chunk in range(ranks):
            assert output(rank, chunk) == reduced(ranks, chunk)
    assert max(step.stage for step in steps) == 2 * (ranks - 1)
    assert all(step.destination == order[(order.index(step.source) + 1) % ranks] for step in steps)


@given(orders, st.booleans())
def test_a_ring_reduce_scatters(order, in_place):
    ranks = len(order)
    steps = list(algorithms.ring_reduce_scatter(order, 1))
    output = in_memory(steps, ranks, lambda _: range(ranks), in_place=in_place)
    for rank in range(ranks):
        assert output(rank, rank) == reduced(ranks, rank)
    assert max(step.stage for step in steps) == ranks - 1


@given(orders, st.booleans())
def test_a_ring_all_gathers(order, in_place):
    ranks = len(order)
    steps = list(algorithms.ring_all_gather(order, 1, in_place=in_place))
    output = in_memory(steps, ranks, lambda rank: [rank], in_place=in_place)
    for rank in range(ranks):
        for chunk in range(ranks):
            assert output(rank, chunk) == Counter({(chunk, chunk): 1})
    assert sum(step.is_local for step in steps) == (0 if in_place else ranks)


@given(orders, st.data(), st.booleans())
def test_a_ring_broadcasts_and_reduces(order, data, in_place):
    ranks = len(order)
    root = data.draw(st.integers(0, ranks - 1))
    steps = list(algorithms.ring_broadcast(order, 1, root, in_place=in_place))
    output = in_memory(steps, ranks, lambda rank: [0] * (rank == root), in_place=in_place)
    assert all(output(rank, 0) == Counter({(root, 0): 1}) for rank in range(ranks))
    output = in_memory(
        algorithms.ring_reduce(order, 1, root), ranks, lambda _: [0], in_place=in_place
    )
    assert output(root, 0) == reduced(ranks, 0)


@given(trees(), st.booleans())
def test_a_tree_all_reduces(parents, in_place):
    ranks = len(parents)
    assert algorithms.is_tree(parents)
    steps = list(algorithms.tree_all_reduce(parents, 1))
    output = in_memory(steps, ranks, lambda _: [0], in_place=in_place)
    for rank in range(ranks):
        assert output(rank, 0) == reduced(ranks, 0)
    assert len(steps) == 2 * (ranks - 1)


@pytest.mark.parametrize("in_place", [False, True])
def test_recursive_doubling_all_reduces(in_place):
    for ranks in range(2, 17):
        output = in_memory(
            algorithms.doubling_all_reduce(ranks, 1), ranks, lambda _: [0], in_place=in_place
        )
        assert all(output(rank, 0) == reduced(ranks, 0) for rank in range(ranks)), ranks


def test_what_is_no_tree():
    """No root, two, a circle beside the root, and ranks that do not exist."""
    for parents in ([1, 0], [-1, -1], [-1, 2, 1], [-1, 5], [-1, -2]):
        assert not algorithms.is_tree(parents)


@given(st.integers(0, 10**6), st.lists(st.integers(1, 9), min_size=1, max_size=16))
def test_shares_are_all_of_it(elements, weights):
    parts = algorithms.shares(elements, weights, 4)
    assert sum(parts) == 4 * elements
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part / 4 - elements * weight / sum(weights)) < 1
