"""Combines what the ranks of a run observed of a case into one explanation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cclmark.explain.operation import MESSAGES, Operation
from cclmark.rendezvous.messages import Explained
from cclmark.results.schema import Explanation

_MOST_SAID = 3


def explanation_of(parts: Sequence[Explained]) -> Explanation:
    """Returns the explanation of a case from the parts of all ranks, in their order.

    Collectives are the same on all ranks; the reason describes where they are not. Messages differ
    between ranks by nature. Only some ranks may know: NCCL logs on rank 0 alone.
    """
    knowing = [part for part in parts if part.operations]
    if not knowing:
        return Explanation(parts[0].index, reason=parts[0].reason)
    first = knowing[0]
    operations = _collectives(first) or first.operations
    return Explanation(
        index=first.index,
        source=first.source,
        kernel=_joined(one.kernel for one in operations),
        algorithm=_joined(one.algorithm for one in operations),
        protocol=_joined(one.protocol for one in operations),
        channels=max(one.channels for one in operations),
        reason="; ".join(_differences(parts, first)[:_MOST_SAID]),
        predicted_s=first.predicted_s,
    )


def _collectives(part: Explained) -> list[Operation]:
    return [one for one in part.operations if one.kernel != MESSAGES]


def _differences(parts: Sequence[Explained], first: Explained) -> list[str]:
    """What other ranks did not observe as ``first`` did."""
    found = []
    for part in parts:
        if not part.operations:
            # NCCL writes its log on one rank only, but every rank has a plug-in.
            if first.source == "plug-in":
                found.append(f"rank {part.rank} reported no operation: {part.reason}")
        elif part.source == first.source and _collectives(part) != _collectives(first):
            found.append(
                f"rank {part.rank} ran {_described(part)}, rank {first.rank} {_described(first)}"
            )
    return found


def _described(part: Explained) -> str:
    operations = _collectives(part)
    if not operations:
        return "no collective"
    return ", ".join(dict.fromkeys(f"{one.function} by {one.choice}" for one in operations))


def _joined(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name))
