"""The operations that logs contain, and what differs between the ranks of a communicator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from cclmark.explain.operation import COPY_ENGINE, MESSAGES, Operation
from cclmark.explain.plugin_log import PluginEvent

#: The kinds of events that report an operation.
OPERATION_KINDS = (
    "collective",
    "symmetric collective",
    "point-to-point",
    "copy-engine collective",
)


def kernel_of(event: PluginEvent) -> str:
    """The kind of kernel: the algorithm's name, symmetric, copy engine or send/recv."""
    if event.kind == "point-to-point":
        return MESSAGES
    if event.kind == "copy-engine collective":
        return COPY_ENGINE
    if event.kind == "symmetric collective":
        return "symmetric"
    return event.algorithm.lower().replace("_", " ")


def operation_of(event: PluginEvent) -> Operation | None:
    """The operation that an event reports, None for other events."""
    if event.kind not in OPERATION_KINDS:
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


def operations_of(events: Iterable[PluginEvent]) -> list[Operation]:
    """The operations of events, in their order."""
    return [one for one in map(operation_of, events) if one is not None]


@dataclass(frozen=True, order=True)
class RuleUse:
    """A rule of a tuner table, by its line, and whether it was applied."""

    line: int
    is_applied: bool
    function: str
    algorithm: str
    protocol: str
    channels: int


@dataclass
class RuleCalls:
    """The calls that a rule matched, and their sizes."""

    calls: int = 0
    least_bytes: int = 0
    most_bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """Adds one call."""
        self.merge(RuleCalls(1, size_bytes, size_bytes))

    def merge(self, other: RuleCalls) -> None:
        """Adds the calls of another log."""
        if not self.calls:
            self.least_bytes = other.least_bytes
        self.calls += other.calls
        self.least_bytes = min(self.least_bytes, other.least_bytes)
        self.most_bytes = max(self.most_bytes, other.most_bytes)


@dataclass
class CommunicatorCalls:
    """The operations of one communicator in the logs of its ranks.

    ``ranks``: their number as the library introduced it, 0 if it did not. ``by_rank``: the
    operations of each rank that has a log. ``before_loss``: of ranks whose log lacks events, the
    number of operations before the first one that is missing.
    """

    communicator: int
    ranks: int
    by_rank: dict[int, list[Operation]]
    before_loss: dict[int, int] = field(default_factory=dict)

    def limit(self, rank: int, known: int) -> None:
        """Compares a rank with others by at most its first ``known`` operations."""
        self.before_loss[rank] = min(known, self.before_loss.get(rank, known))

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
        """Differences between the ranks, in words: empty if their logs agree.

        Messages are not compared: ranks send to and receive from different peers. Of a log that
        lacks events, the beginning is compared.
        """
        collectives = {
            rank: [one for one in operations[: self.before_loss.get(rank)] if one.peer < 0]
            for rank, operations in sorted(self.by_rank.items())
        }
        if not collectives:
            return []
        first = min(collectives, key=lambda rank: (rank in self.before_loss, rank))
        expected = collectives[first]
        found = []
        for rank, operations in collectives.items():
            place = _first_difference(operations, expected)
            if self._is_shorter(first, expected, operations) or self._is_shorter(
                rank, operations, expected
            ):
                found.append(
                    f"rank {rank} recorded {len(operations)} collectives, rank {first} "
                    f"{len(expected)}"
                )
            elif place is not None:
                found.append(
                    f"collective {place + 1}: rank {rank} ran {_described(operations[place])}, "
                    f"rank {first} {_described(expected[place])}"
                )
        return found

    def _is_shorter(self, rank: int, own: list[Operation], others: list[Operation]) -> bool:
        """Whether ``own``, which must be all of the rank's collectives, is less than others."""
        return rank not in self.before_loss and len(own) < len(others)


def _first_difference(first: list[Operation], second: list[Operation]) -> int | None:
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and one != other:
            return place
    return None


def _described(one: Operation) -> str:
    return f"{one.function} of {one.count} {one.datatype} by {one.choice}"
