"""The operations that logs contain, and what differs between the ranks of a communicator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cclmark.explain.operation import MESSAGES, Operation
from cclmark.explain.plugin_log import Event, PluginLog

_OPERATIONS = (
    "collective",
    "symmetric collective",
    "point-to-point",
    "copy-engine collective",
)


def kernel_of(event: Event) -> str:
    """The kind of kernel: the algorithm's name, symmetric, copy engine or send/recv."""
    if event.kind == "point-to-point":
        return MESSAGES
    if event.kind == "copy-engine collective":
        return "copy engine"
    if event.kind == "symmetric collective":
        return "symmetric"
    return event.algorithm.lower().replace("_", " ")


def operation_of(event: Event) -> Operation | None:
    """The operation that an event reports, None for other events."""
    if event.kind not in _OPERATIONS:
        return None
    is_message = event.kind == "point-to-point"
    is_copied = event.kind == "copy-engine collective"
    return Operation(
        function=event.function,
        datatype=event.datatype.removeprefix("nccl"),
        count=event.count,
        peer=event.root if is_message else -1,
        kernel=kernel_of(event),
        algorithm="" if is_copied else event.algorithm,
        protocol=event.protocol,
        channels=event.channels,
    )


def operations_of(events: Iterable[Event]) -> list[Operation]:
    """The operations of events, in their order."""
    return [one for one in map(operation_of, events) if one is not None]


@dataclass
class CommunicatorCalls:
    """The operations of one communicator in the logs of its ranks.

    ``ranks``: their number as the library introduced it, 0 if it did not. ``by_rank``: the
    operations of each rank that has a log.
    """

    communicator: int
    ranks: int
    by_rank: dict[int, list[Operation]]

    def counts(self) -> list[tuple[Operation, int]]:
        """Each operation of the first rank and how often it ran, in the order of its first run."""
        if not self.by_rank:
            return []
        return list(Counter(self.by_rank[min(self.by_rank)]).items())

    @property
    def absent_ranks(self) -> int:
        """How many ranks of the communicator have no log."""
        return max(0, self.ranks - len(self.by_rank))

    def differences(self) -> list[str]:
        """What the ranks did not do alike, in words: empty if their logs agree.

        Messages are not compared: ranks send to and receive from different peers.
        """
        collectives = {
            rank: [one for one in operations if one.peer < 0]
            for rank, operations in sorted(self.by_rank.items())
        }
        if not collectives:
            return []
        first, expected = next(iter(collectives.items()))
        found = []
        for rank, operations in collectives.items():
            if len(operations) != len(expected):
                found.append(
                    f"rank {rank} recorded {len(operations)} collectives, rank {first} "
                    f"{len(expected)}"
                )
                continue
            pairs = enumerate(zip(operations, expected, strict=True), start=1)
            for place, (own, other) in pairs:
                if own != other:
                    found.append(
                        f"collective {place}: rank {rank} ran {_described(own)}, rank {first} "
                        f"{_described(other)}"
                    )
                    break
        return found


def _described(one: Operation) -> str:
    return f"{one.function} of {one.count} {one.datatype} by {one.choice}"


def calls_by_communicator(logs: Sequence[PluginLog]) -> list[CommunicatorCalls]:
    """The operations of all communicators in ``logs``, in the order in which they appear."""
    found: dict[int, CommunicatorCalls] = {}
    for log in logs:
        for event in log.events:
            operation = operation_of(event)
            if operation is None and event.kind != "communicator":
                continue
            calls = found.setdefault(
                event.communicator, CommunicatorCalls(event.communicator, 0, {})
            )
            if operation is None:
                calls.ranks = event.count
                calls.by_rank.setdefault(event.rank, [])
            else:
                calls.by_rank.setdefault(event.rank, []).append(operation)
    return list(found.values())
