"""Rounds of disjoint pairs, in which every device has at most one partner.

XOR: in round r, node i meets node i xor 2^r, and devices meet those in the same place (the same
rail). Each round then belongs to one level of the address structure; there are ceil(log2 nodes).
Nodes whose partner does not exist meet each other, and the one that remains rotates.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from cclmark_fleet.scan.fleet_shape import FleetShape

LEVEL, RANDOM, SHIFTED, CONFIRM = "level", "random", "shifted", "confirm"
RANDOM_ROUNDS = 3
_ALL_WITHIN = 16  # devices of a node up to which all its pairs meet
_FEW_NODES = 4
_ALL_NODES = 8  # nodes up to which all pairs of nodes meet: no more rounds than XOR and random ones
Pair = tuple[int, int]


@dataclass(frozen=True)
class PairRound:
    """Disjoint pairs that are tested at once. ``purpose``: LEVEL, RANDOM, SHIFTED or CONFIRM."""

    purpose: str
    pairs: tuple[Pair, ...]


def matching(count: int, mask: int, turn: int = 0) -> list[Pair]:
    """Disjoint pairs of ``count`` numbers, i and i xor ``mask``; those without partner meet.

    At most one number remains; ``turn`` decides which.
    """
    pairs = [(one, one ^ mask) for one in range(count) if one < one ^ mask < count]
    left = [one for one in range(count) if one ^ mask >= count]
    if len(left) % 2:
        left.pop(turn % len(left))
    half = len(left) // 2
    return [*pairs, *zip(left[:half], left[half:], strict=True)]


def _all_meetings(count: int) -> list[list[Pair]]:
    """Every pair of ``count`` numbers once, in rounds (circle method)."""
    even = count + count % 2
    rounds = []
    for turn in range(even - 1):
        order = [0, *(1 + (turn + place) % (even - 1) for place in range(even - 1))]
        pairs = [(order[at], order[-1 - at]) for at in range(even // 2)]
        rounds.append([(min(one), max(one)) for one in pairs if max(one) < count])
    return rounds


def _meetings(count: int, most_all: int) -> list[list[Pair]]:
    if count <= most_all:
        return [one for one in _all_meetings(count) if one]
    return [matching(count, 1 << bit, bit) for bit in range((count - 1).bit_length())]


def _of_nodes(shape: FleetShape, nodes: Sequence[Pair], turn: int = 0) -> tuple[Pair, ...]:
    """The pairs of devices of nodes that meet: those in the same places, which share a rail.

    Few nodes offer few partners, so there devices meet others ``turn`` places on.
    """
    members = shape.members
    turn = turn if len(members) <= _FEW_NODES else 0
    found: list[Pair] = []
    for one, other in nodes:
        places = turn % len(members[other])
        turned = members[other][places:] + members[other][:places]
        found += zip(members[one], turned, strict=False)
    return tuple(found)


def planned_rounds(shape: FleetShape, seed: int) -> list[PairRound]:
    """The rounds that are known in advance: of levels, random ones, and shifted ones.

    Shifted: node i meets i + s for s = nodes/2 and nodes/4, all at once, which loads the highest
    level.
    """
    members = shape.members
    rounds = []
    widest = max(map(len, members))
    for pairs in _meetings(widest, _ALL_WITHIN) if widest > 1 else ():
        own = tuple(
            (devices[one], devices[other])
            for devices in members
            for one, other in pairs
            if other < len(devices)
        )
        rounds.append(PairRound(LEVEL, own))
    count = len(members)
    if count < 2:
        return rounds
    rounds += [PairRound(LEVEL, _of_nodes(shape, one)) for one in _meetings(count, _ALL_NODES)]
    # Where all nodes have met, devices of few nodes still meet others, and single ones once more.
    is_complete = count <= _ALL_NODES and (widest == 1 or count > _FEW_NODES)
    rounds += random_rounds(shape, seed, 1 if is_complete else RANDOM_ROUNDS)
    for shift in (count // 2, 0 if is_complete else count // 4):
        if shift:
            meeting = [(one, one + shift) for one in range(count - shift) if one // shift % 2 == 0]
            rounds.append(PairRound(SHIFTED, _of_nodes(shape, meeting)))
    return rounds


def random_rounds(shape: FleetShape, seed: int, count: int) -> Iterator[PairRound]:
    """Rounds in which nodes meet others by chance, which break coincidences."""
    draw = random.Random(seed)
    nodes = list(range(len(shape.members)))
    for turn in range(1, count + 1):
        draw.shuffle(nodes)
        pairs = list(zip(nodes[::2], nodes[1::2], strict=False))
        yield PairRound(RANDOM, _of_nodes(shape, pairs, turn))


def confirming_rounds(
    shape: FleetShape, suspects: Collection[int], links: Sequence[Pair], seed: int
) -> list[PairRound]:
    """Rounds that tell suspects from their partners, six at most.

    ``suspects``: devices. Each node with one meets a known-good node, first the nearest, then
    another one. ``links``: pairs, each of which is tested twice again. All other nodes meet by
    chance, so that the load remains, and the level of each pair is part of its expectation.
    Suspects and links within nodes are tested twice more with others of their node.
    """
    node_of, count = shape.node_of, len(shape.members)
    between = [link for link in links if node_of[link[0]] != node_of[link[1]]]
    inside = [link for link in links if node_of[link[0]] == node_of[link[1]]]
    doubted = sorted(
        {node_of[device] for device in (*suspects, *(end for link in links for end in link))}
    )
    rounds = []
    for turn in range(2):
        if count > 1:
            partners = _with_good(shape, doubted, seed, turn)
            rounds.append(_round(shape, partners, seed + turn, RANDOM_ROUNDS + 1 + turn))
        if between:
            again = _disjoint([(node_of[one], node_of[other]) for one, other in between])
            rounds.append(_round(shape, again, seed + 2 + turn))
        pairs = _disjoint([*inside, *_within(shape, doubted, turn)])
        if pairs:
            rounds.append(PairRound(CONFIRM, pairs))
    return rounds


def _round(shape: FleetShape, pairs: Sequence[Pair], seed: int, places: int = 0) -> PairRound:
    """The pairs of nodes, and all other nodes by chance."""
    taken = {node for pair in pairs for node in pair}
    rest = [node for node in range(len(shape.members)) if node not in taken]
    random.Random(seed).shuffle(rest)
    pairs = [*pairs, *zip(rest[::2], rest[1::2], strict=False)]
    return PairRound(CONFIRM, _of_nodes(shape, pairs, places))


def _with_good(shape: FleetShape, doubted: Sequence[int], seed: int, turn: int) -> list[Pair]:
    """Each doubted node with another good one, while there are some."""
    bad = set(doubted)
    left = dict.fromkeys(node for node in range(len(shape.members)) if node not in bad)
    pairs = []
    for node in doubted:
        if not left:
            break
        device = shape.members[node][0]
        if turn:
            partner = [*left][(seed + 7 * node) % len(left)]
        else:
            partner = min(
                left,
                key=lambda other: (shape.level(device, shape.members[other][0]), abs(other - node)),
            )
        del left[partner]
        pairs.append((node, partner))
    return pairs


def _within(shape: FleetShape, nodes: Sequence[int], turn: int) -> Iterator[Pair]:
    """Pairs within nodes: neighbours, then those at the distance of half a node."""
    for node in nodes:
        own = shape.members[node]
        step = max(1, len(own) // 2) if turn else 1
        yield from ((own[at], own[at + step]) for at in range(len(own) - step))


def _disjoint(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs without those that have a member of an earlier one."""
    taken: set[int] = set()
    chosen = []
    for pair in pairs:
        if taken.isdisjoint(pair):
            chosen.append(pair)
            taken.update(pair)
    return tuple(chosen)
