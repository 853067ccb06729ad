"""The operations in logs, counted without an object for each event: logs have a million of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from cclmark.explain.calls import (
    OPERATION_KINDS,
    CommunicatorCalls,
    RuleCalls,
    RuleUse,
    operation_of,
)
from cclmark.explain.operation import Operation
from cclmark.explain.plugin_log import (
    KINDS,
    OF_PROFILES,
    RECORD_BYTES,
    PluginEvent,
    PluginLog,
    decode_record,
    open_plugin_log,
)

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
