"""Steps that a library reports: the sends and receives of one operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cclmark.explain.steps.step import INPUT, OUTPUT, Place, Step


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
    return Step(
        1, "message", source, destination, size_bytes, reads=Place(INPUT), writes=Place(OUTPUT)
    )
