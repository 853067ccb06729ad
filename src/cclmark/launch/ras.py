"""What NCCL itself knows of a hang: its RAS subsystem (NCCL 2.24 and later) is asked.

Plain text over TCP, answered by any process of the job on this host. A thread of its own answers
there, so also of a process whose main thread hangs. The verbose report is for people; from the JSON
form (2.28.7) comes who is behind. Asked twice, it tells whether the counts still move. RAS counts
five collectives: broadcast, reduce, all-gather, reduce-scatter, all-reduce; no sends and receives.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

_ADDRESS = "localhost:28028"
_GREETING_S = 0.15  # a process that is stopped accepts connections and says nothing: try the next
_PAUSE_S = 0.2
_MOST_BYTES = 32 << 20
_MOST_LINE = 1024
_MOST_NAMED = 8
_COLLECTING_S = 1  # that RAS waits for each process; whole seconds


class _Status(msgspec.Struct):
    unresponsive: bool = False
    considered_dead: bool = False


class _Missing(msgspec.Struct):
    rank: int
    host: str
    pid: int
    status: _Status


class _Counted(msgspec.Struct):
    rank: int
    host: str
    pid: int
    collective_counts: dict[str, int]


class _Communicator(msgspec.Struct):
    hash: str
    secondary_hash: str
    ranks: list[_Counted]
    missing_ranks: list[_Missing] = []

    def holds(self, pids: Collection[int]) -> bool:
        """Whether one of its ranks is one of these processes."""
        known = [rank.pid for rank in self.ranks] + [rank.pid for rank in self.missing_ranks]
        return not set(pids).isdisjoint(known)

    @property
    def key(self) -> tuple[str, str]:
        """What no other communicator has."""
        return self.hash, self.secondary_hash

    def counts(self) -> dict[int, dict[str, int]]:
        """By rank."""
        return {rank.rank: rank.collective_counts for rank in self.ranks}


class _Answer(msgspec.Struct):
    communicators: list[_Communicator]


@dataclass(frozen=True)
class Laggard:
    """A rank of a communicator that launched ``count`` of an operation where others did ``most``.

    ``rank`` is the communicator's number for it, ``host`` an address.
    """

    rank: int
    host: str
    pid: int
    operation: str
    count: int
    most: int

    def text(self) -> str:
        """In words."""
        launched = f"launched {self.count} {self.operation}, others {self.most}"
        return f"rank {self.rank} ({self.host}, pid {self.pid}) {launched}"


@dataclass(frozen=True)
class Missing:
    """A rank of a communicator of which RAS has no data. ``dead``: it gave up on the process."""

    rank: int
    host: str
    pid: int
    dead: bool

    def text(self) -> str:
        """In words."""
        state = "is considered dead" if self.dead else "does not answer"
        return f"rank {self.rank} ({self.host}, pid {self.pid}) {state}"


@dataclass(frozen=True)
class RasReport:
    """What RAS said. ``text``: its verbose report, empty where there is none.

    ``still``: whether no count moved between two queries; None where they could not be compared.
    ``reason``: why something is not known, empty where all is.
    """

    text: str = ""
    laggards: tuple[Laggard, ...] = ()
    missing: tuple[Missing, ...] = ()
    still: bool | None = None
    reason: str = ""

    def sentences(self) -> list[str]:
        """What is worth a line of a report."""
        named = [one.text() for one in self.missing] + [one.text() for one in self.laggards]
        lines = named[:_MOST_NAMED]
        if len(named) > len(lines):
            lines.append(f"{len(named) - len(lines)} more are missing or behind")
        if self.still is not None:
            lines.append("the counts of all ranks " + ("stand still" if self.still else "move"))
        return lines


class _NoAnswerError(Exception):
    """Why RAS did not say what it was asked for."""


def ask_ras(
    pids: Collection[int] = (),
    environment: Mapping[str, str] = os.environ,
    deadline_s: float = 2.0,
) -> RasReport:
    """Asks RAS on this host; returns within ``deadline_s`` or little more, and never raises.

    ``pids``: the ranks on this host. Only communicators with one of them are told of, because
    another job's NCCL may listen at the same address; with none, all are. ``environment``: that of
    the ranks, which says where RAS listens.
    """
    end_s = time.monotonic() + deadline_s
    try:
        address = _address(environment)
    except _NoAnswerError as error:
        return RasReport(reason=str(error))
    text, first = _Question(address, False, end_s), _Question(address, True, end_s)
    reasons = []
    try:
        shown = text.answer()
    except _NoAnswerError as error:
        shown = text.begun()
        reasons.append(str(error))
    before: list[_Communicator] = []
    after: list[_Communicator] = []
    try:
        before = _decode(first.answer())
        if pids:
            before = [one for one in before if one.holds(pids)]
            if not before:
                listener = f"{address[0]}:{address[1]}"
                return RasReport(reason=f"{listener}: another job's, with none of these processes")
        time.sleep(max(0.0, min(_PAUSE_S, end_s - time.monotonic())))
        again = _decode(_Question(address, True, end_s).answer())
        after = [one for one in again if one.key in {known.key for known in before}]
    except _NoAnswerError as error:
        reasons.append(str(error))
    latest = after or before
    return RasReport(
        text=shown,
        laggards=tuple(laggard for one in latest for laggard in _behind(one)),
        missing=tuple(
            Missing(rank.rank, rank.host, rank.pid, rank.status.considered_dead)
            for one in latest
            for rank in one.missing_ranks
        ),
        still=_still(before, after) if after else None,
        reason="; ".join(dict.fromkeys(reasons)),
    )


def _address(environment: Mapping[str, str]) -> tuple[str, int]:
    """Where RAS listens, read as NCCL reads it. Raises _NoAnswerError."""
    if environment.get("NCCL_RAS_ENABLE", "1").strip() != "1":
        raise _NoAnswerError(f"RAS is off: NCCL_RAS_ENABLE={environment['NCCL_RAS_ENABLE']}")
    text = environment.get("NCCL_RAS_ADDR", _ADDRESS)
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})", text.strip())
    if found is None or not 0 < int(found[3]) < 65536:
        raise _NoAnswerError(f"cannot read NCCL_RAS_ADDR={text}: it should be HOST:PORT")
    return found[1] or found[2], int(found[3])


class _Question:
    """One query on its way, in a thread: the resolver of names heeds no deadline."""

    def __init__(self, address: tuple[str, int], json: bool, end_s: float) -> None:
        self._address = address
        self._commands = ["SET FORMAT json"] if json else []
        self._end_s = end_s
        self._read = bytearray()
        self._failure: str | None = "no answer in time"
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def answer(self) -> str:
        """All that was answered. Raises _NoAnswerError."""
        self._over.wait(max(0.0, self._end_s - time.monotonic()) + 0.1)
        if self._failure is not None:
            raise _NoAnswerError(f"{self._address[0]}:{self._address[1]}: {self._failure}")
        return self.begun()

    def begun(self) -> str:
        """What was answered so far."""
        return bytes(self._read).decode(errors="replace")

    def _run(self) -> None:
        try:
            self._converse()
            self._failure = None
        except TimeoutError:
            pass
        except _NoAnswerError as error:
            self._failure = str(error)
        except (OSError, UnicodeError) as error:
            self._failure = getattr(error, "strerror", None) or str(error)
        finally:
            self._over.set()

    def _converse(self) -> None:
        with self._greeted() as connection:
            for command in (f"TIMEOUT {_COLLECTING_S}", *self._commands):
                self._send(connection, command)
                reply = self._line(connection, self._end_s)
                if command in self._commands and reply.startswith("ERROR"):
                    raise _NoAnswerError("to tell who is behind takes NCCL 2.28.7 or later")
                if reply != "OK":
                    raise _NoAnswerError(f"{command}: {reply[:80] or 'no reply'}")
            self._send(connection, "VERBOSE STATUS")
            while chunk := self._receive(connection, 1 << 16, self._end_s):
                self._read += chunk
                if len(self._read) > _MOST_BYTES:
                    raise _NoAnswerError("an answer without end")

    def _greeted(self) -> socket.socket:
        """A connection to a process that answers."""
        while True:
            connection = socket.create_connection(self._address, self._left_s(self._end_s))
            try:
                self._send(connection, "CLIENT PROTOCOL 2")
                end_s = min(self._end_s, time.monotonic() + _GREETING_S)
                if not self._line(connection, end_s).upper().startswith("SERVER PROTOCOL "):
                    raise _NoAnswerError("what listens there is not RAS")
                return connection
            except TimeoutError:
                connection.close()
            except BaseException:
                connection.close()
                raise

    def _send(self, connection: socket.socket, command: str) -> None:
        connection.settimeout(self._left_s(self._end_s))
        connection.sendall(command.encode() + b"\n")

    def _line(self, connection: socket.socket, end_s: float) -> str:
        line = bytearray()
        while not line.endswith(b"\n"):
            byte = self._receive(connection, 1, end_s)
            line += byte
            if not byte or len(line) > _MOST_LINE:
                break
        return line.decode(errors="replace").strip()

    def _receive(self, connection: socket.socket, most: int, end_s: float) -> bytes:
        connection.settimeout(self._left_s(end_s))
        return connection.recv(most)

    @staticmethod
    def _left_s(end_s: float) -> float:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s


def _decode(text: str) -> list[_Communicator]:
    """All communicators of the job. Raises _NoAnswerError."""
    try:
        # NCCL 2.28 leaves out a comma where it lists ranks of which it has no data.
        whole = re.sub(r'("nvml_dev":\s*-?\d+)(\s*"status")', r"\1,\2", text)
        return msgspec.json.decode(whole, type=_Answer).communicators
    except (msgspec.DecodeError, RecursionError):
        raise _NoAnswerError("RAS answered with something that cannot be read") from None


def _behind(communicator: _Communicator) -> list[Laggard]:
    """The ranks that have launched fewer of an operation than others."""
    most: dict[str, int] = {}
    for rank in communicator.ranks:
        for operation, count in rank.collective_counts.items():
            most[operation] = max(count, most.get(operation, 0))
    return [
        Laggard(rank.rank, rank.host, rank.pid, operation, count, most[operation])
        for rank in communicator.ranks
        for operation, count in rank.collective_counts.items()
        if count < most[operation]
    ]


def _still(before: Sequence[_Communicator], after: Sequence[_Communicator]) -> bool:
    """Whether all counts are the same in both answers."""

    return {one.key: one.counts() for one in before} == {one.key: one.counts() for one in after}
