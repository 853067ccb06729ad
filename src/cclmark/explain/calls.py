"""The operations that logs contain, and what differs between the ranks of a communicator.

Logs have a million events: ``CallCollector`` counts operations without an object for each.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cclmark.explain.operation import COPY_ENGINE, MESSAGES, Operation
from cclmark.explain.plugin_log import (
    KINDS,
    OF_PROFILES,
    RECORD_BYTES,
    PluginEvent,
    PluginLog,
    decode_record,
    open_plugin_log,
)

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


# Of a record: kind, rank, communicator; count; root, channels; all texts.
_COUNTED = struct.Struct("=IiQ24xQ8xiH2x64s")
_NUMBERS = {name: number for number, name in KINDS.items()}
_COMMUNICATOR, _RULE = _NUMBERS["communicator"], _NUMBERS["tuner rule"]
_COST_TABLE = 13
_OPERATIONS = frozenset(_NUMBERS[name] for name in OPERATION_KINDS)
_COMPLETE = frozenset((*KINDS, _COST_TABLE))


@dataclass
class LogCalls:
    """What one log contributed. ``log``: without its events; ``operations``: their number.

    ``is_profile``: it counts calls instead of listing events.
    """

    path: Path
    log: PluginLog
    communicators: int = 0
    operations: int = 0
    rules: dict[RuleUse, RuleCalls] = field(default_factory=dict)
    is_profile: bool = False


class CallCollector:
    """The operations of all communicators in logs that are read one after another."""

    def __init__(self) -> None:
        self._communicators: dict[int, CommunicatorCalls] = {}
        self._operations: dict[tuple[int, int, int, int, bytes], Operation] = {}

    @property
    def communicators(self) -> list[CommunicatorCalls]:
        """In the order in which they appear."""
        return list(self._communicators.values())

    def add(self, path: Path) -> LogCalls:
        """Adds the operations of a log. Raises UsageError if it cannot be read or is not one."""
        with open_plugin_log(path) as opened:
            found = LogCalls(path, opened.log)
            of_log = _OfLog(self._communicators, found)
            for piece in opened.pieces():
                self._add_piece(piece, of_log)
        of_log.end()
        return found

    def _add_piece(self, piece: bytes, of_log: _OfLog) -> None:
        number = of_log.records
        operations = self._operations
        for kind, rank, communicator, count, root, channels, texts in _COUNTED.iter_unpack(piece):
            number += 1
            if kind in _OPERATIONS:
                key = (kind, count, root, channels, texts)
                operation = operations.get(key)
                if operation is None:
                    operation = operations[key] = _operation(piece, number - of_log.records)
                of_log.operations_of(communicator, rank).append(operation)
            elif kind == _COMMUNICATOR:
                of_log.introduce(communicator, rank, count)
            elif kind == _RULE:
                of_log.count_rule(_event(piece, number - of_log.records))
            elif kind in OF_PROFILES:
                of_log.count_profiled()
            elif kind not in _COMPLETE:
                of_log.miss()
        of_log.records = number


def _event(piece: bytes, number: int) -> PluginEvent:
    begin = (number - 1) * RECORD_BYTES
    event = decode_record(number, piece[begin : begin + RECORD_BYTES])
    assert isinstance(event, PluginEvent)  # its kind is one of KINDS
    return event


def _operation(piece: bytes, number: int) -> Operation:
    operation = operation_of(_event(piece, number))
    assert operation is not None  # its kind is one of operations
    return operation


class _OfLog:
    """The part of one log in the operations of communicators, while it is read."""

    def __init__(self, communicators: dict[int, CommunicatorCalls], found: LogCalls) -> None:
        self.records = 0
        self._communicators = communicators
        self._found = found
        self._lists: dict[tuple[int, int], list[Operation]] = {}
        self._introduced: set[int] = set()
        self._before_loss: dict[tuple[int, int], int] | None = None

    def operations_of(self, communicator: int, rank: int) -> list[Operation]:
        """The list of operations of a rank."""
        found = self._lists.get((communicator, rank))
        if found is None:
            self._introduced.add(communicator)
            calls = self._communicators.setdefault(
                communicator, CommunicatorCalls(communicator, 0, {})
            )
            found = calls.by_rank.setdefault(rank, [])
            self._lists[communicator, rank] = found
        return found

    def introduce(self, communicator: int, rank: int, ranks: int) -> None:
        """Adds a communicator of ``ranks`` ranks, also without operations."""
        self.operations_of(communicator, rank)
        self._communicators[communicator].ranks = ranks

    def count_rule(self, event: PluginEvent) -> None:
        """Counts a match of a rule of the tuner table."""
        use = RuleUse(
            event.sequence,
            event.root == 1,
            event.function,
            event.algorithm,
            event.protocol,
            event.channels,
        )
        self._found.rules.setdefault(use, RuleCalls()).add(event.count)

    def count_profiled(self) -> None:
        """A record of a log that counts calls."""
        self._found.is_profile = True

    def miss(self) -> None:
        """A record is not complete: what follows cannot be compared with other ranks."""
        self._found.log.incomplete += 1
        if self._before_loss is None:
            self._before_loss = {key: len(one) for key, one in self._lists.items()}

    def end(self) -> None:
        """All records are read."""
        log = self._found.log
        log.count_missing(log.places - self.records)
        self._found.communicators = len(self._introduced)
        for (communicator, rank), operations in self._lists.items():
            self._found.operations += len(operations)
            if not log.is_whole:
                before = self._before_loss
                known = len(operations) if before is None else before.get((communicator, rank), 0)
                self._communicators[communicator].limit(rank, known)
