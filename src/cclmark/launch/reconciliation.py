"""Combines what the ranks of a run observed into one explanation of a case, and one of paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cclmark.explain.operation import MESSAGES, Operation
from cclmark.explain.paths import Route
from cclmark.explain.shapes import rings_by_channel, trees_by_channel
from cclmark.rendezvous.messages import Connected, Explained
from cclmark.results.schema import Explanation, Paths, Ring, Tree

_PLUG_IN = "plug-in"
_MOST_SAID = 3
_MOST_MESSAGES = 50


def explanation_of(parts: Sequence[Explained]) -> Explanation:
    """Returns the explanation of a case from the parts of its ranks, in their order.

    Collectives are the same on all ranks; the reason describes where they are not. Messages differ
    between ranks by nature. Only some ranks may know: NCCL logs on rank 0 alone. Where the plug-in
    of any rank reports, those of the others should too.
    """
    knowing = [part for part in parts if part.operations]
    if not knowing:
        silent = [part for part in parts if part.is_silent]
        first = silent[0] if silent else parts[0]
        return Explanation(
            first.index, reason=first.reason, is_doubtful=bool(silent), ignored=_ignored(parts)
        )
    first = next((part for part in knowing if part.source == _PLUG_IN), knowing[0])
    operations = _collectives(first) or first.operations
    reasons = dict.fromkeys(part.reason for part in knowing if part.reason)
    differences = _differences(parts, first)
    return Explanation(
        index=first.index,
        source=first.source,
        kernel=_joined(one.kernel for one in operations),
        algorithm=_joined(one.algorithm for one in operations),
        protocol=_joined(one.protocol for one in operations),
        channels=max(one.channels for one in operations),
        reason="; ".join([*differences, *reasons][:_MOST_SAID]),
        predicted_s=first.predicted_s,
        rule=first.rule,
        is_doubtful=bool(differences),
        ignored=_ignored(parts),
        registered=_registered(parts),
    )


def _registered(parts: Sequence[Explained]) -> str:
    """Whether buffers were registered: the answer of the ranks that know, if it is one."""
    found = {part.registered for part in parts} - {""}
    return found.pop() if len(found) == 1 else ""


def _ignored(parts: Sequence[Explained]) -> dict[str, str]:
    """The settings that have no effect on any rank."""
    return {
        name: reason
        for name, reason in parts[0].ignored.items()
        if all(name in part.ignored for part in parts)
    }


def _collectives(part: Explained) -> list[Operation]:
    return [one for one in part.operations if one.kernel != MESSAGES]


def _differences(parts: Sequence[Explained], first: Explained) -> list[str]:
    """What other ranks did not observe as ``first`` did."""
    found = []
    # NCCL writes its log on one rank only. Every rank has a plug-in, and other libraries' logs.
    every_rank = first.source == _PLUG_IN or sum(bool(part.operations) for part in parts) > 1
    for part in parts:
        if not part.operations:
            if every_rank:
                found.append(f"rank {part.rank} reported no operation: {part.reason}")
        elif part.source != first.source:
            found.append(
                f"rank {part.rank} reported no operation to its plug-in; its {part.source} has "
                f"{_described(part)}"
            )
        elif _collectives(part) != _collectives(first):
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


def paths_of(parts: Sequence[Connected]) -> Paths:
    """Returns how a library connects its ranks, from the parts of all ranks, in their order."""
    first = next((part for part in parts if not part.paths.is_empty), parts[0])
    routes: dict[tuple[int, int, str], Route] = {}
    for part in parts:
        for route in part.paths.routes:
            # Both ends of a network connection log it.
            key = (route.first, route.second, route.transport)
            known = routes.get(key)
            devices = {*route.devices, *(known.devices if known is not None else [])}
            channels = max(route.channels, known.channels if known is not None else 0)
            routes[key] = Route(*key, channels, sorted(devices))
    parameters: dict[str, str] = {}
    others: dict[str, str] = {}
    for part in reversed(parts):  # those of rank 0 apply where ranks differ
        parameters.update(part.paths.parameters)
        others.update(part.paths.others)
    messages = dict.fromkeys(
        f"rank {part.rank}: {text}" for part in parts for text in part.paths.messages
    )
    devices = {name for part in parts for name in part.network_devices}
    return Paths(
        ccl=first.ccl,
        source=first.source,
        reason=first.reason,
        routes=[routes[key] for key in sorted(routes)],
        rings=_rings(parts),
        trees=_trees(parts),
        parameters=parameters,
        others=others,
        messages=list(messages)[:_MOST_MESSAGES],
        network_devices=sorted(devices),
    )


def _rings(parts: Sequence[Connected]) -> list[Ring]:
    """The rings of all channels, each once."""
    rings = Counter(rings_by_channel([part.paths for part in parts]).values())
    return [Ring(list(ranks), channels) for ranks, channels in rings.items()]


def _trees(parts: Sequence[Connected]) -> list[Tree]:
    """The trees of all channels, each once."""
    trees = Counter(trees_by_channel([part.paths for part in parts]).values())
    return [Tree(list(parents), channels) for parents, channels in trees.items()]
