"""Queries NCCL's RAS subsystem (NCCL 2.24 and later) about a hang.

The protocol is plain text over TCP, and any process of the job on this host answers. A separate
thread answers, so a process whose main thread hangs answers too. The verbose report is for users,
the JSON format (2.28.7) contains the counts that show lagging ranks. Two queries show whether the
counts still increase. RAS counts five collectives (broadcast, reduce, all-gather, reduce-scatter,
all-reduce) but no sends and receives.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

_ADDRESS = "localhost:28028"
_GREETING_S = 0.15  # a stopped process accepts connections but does not answer: try the next one
_PAUSE_S = 0.2
_MOST_BYTES = 32 << 20
_MOST_LINE = 1024
_MOST_NAMED = 8
_COLLECTING_S = 1  # the time that RAS waits for each process, in whole seconds


class _Status(msgspec.Struct):
    unresponsive: bool = False
    considered_dead: bool = False


class _Rank(msgspec.Struct):
    rank: int
    host: str
    pid: int

    @property
    def name(self) -> str:
        """The rank in words, by its number in the communicator and its address."""
        return f"rank {self.rank} ({self.host}, pid {self.pid})"


class _Missing(_Rank):
    status: _Status


class _Counted(_Rank):
    collective_counts: dict[str, int]


class _Communicator(msgspec.Struct):
    hash: str
    secondary_hash: str
    ranks: list[_Counted]
    missing_ranks: list[_Missing] = []

    def holds(self, pids: Collection[int]) -> bool:
        """Whether one of these processes is a rank of the communicator."""
        known = [rank.pid for rank in self.ranks] + [rank.pid for rank in self.missing_ranks]
        return not set(pids).isdisjoint(known)

    @property
    def key(self) -> tuple[str, str]:
        """The unique key of the communicator."""
        return self.hash, self.secondary_hash

    def counts(self) -> dict[int, dict[str, int]]:
        """The counts of operations by rank."""
        return {rank.rank: rank.collective_counts for rank in self.ranks}


class _Answer(msgspec.Struct):
    communicators: list[_Communicator]


@dataclass(frozen=True)
class RasReport:
    """The answer of RAS. ``text``: its verbose report, empty if there is none.

    ``laggards``: ranks that launched an operation less often than others, in words. ``missing``:
    ranks of a communicator without data in RAS. ``still``: whether no count changed between two
    queries, None if they could not be compared. ``reason``: the reason for missing information,
    empty if the report is complete.
    """

    text: str = ""
    laggards: Sequence[str] = ()
    missing: Sequence[str] = ()
    still: bool | None = None
    reason: str = ""

    def sentences(self) -> list[str]:
        """The findings, one line each."""
        named = [*self.missing, *self.laggards]
        lines = named[:_MOST_NAMED]
        if len(named) > len(lines):
            lines.append(f"{len(named) - len(lines)} more are missing or behind")
        if self.still is not None:
            lines.append("the counts of all ranks " + ("do not change" if self.still else "change"))
        return lines


class _NoAnswerError(Exception):
    """The reason why RAS did not answer a query."""


def ask_ras(
    pids: Collection[int] = (),
    environment: Mapping[str, str] = os.environ,
    deadline_s: float = 2.0,
) -> RasReport:
    """Queries RAS on this host; returns within about ``deadline_s`` and never raises.

    ``pids``: the ranks on this host. Only communicators with one of them are reported, because the
    NCCL of another job may listen at the same address; if empty, all are. ``environment``: the
    environment of the ranks, which sets the address of RAS.
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
                return RasReport(
                    reason=f"{listener} belongs to another job without these processes"
                )
        time.sleep(max(0.0, min(_PAUSE_S, end_s - time.monotonic())))
        again = _decode(_Question(address, True, end_s).answer())
        after = [one for one in again if one.key in {known.key for known in before}]
    except _NoAnswerError as error:
        reasons.append(str(error))
    latest = after or before
    return RasReport(
        text=shown,
        laggards=[laggard for one in latest for laggard in _behind(one)],
        missing=[
            f"{rank.name} "
            + ("is considered dead" if rank.status.considered_dead else "does not answer")
            for one in latest
            for rank in one.missing_ranks
        ],
        still=_still(before, after) if after else None,
        reason="; ".join(dict.fromkeys(reasons)),
    )


def _address(environment: Mapping[str, str]) -> tuple[str, int]:
    """The address of RAS, parsed as in NCCL. Raises _NoAnswerError."""
    if environment.get("NCCL_RAS_ENABLE", "1").strip() != "1":
        raise _NoAnswerError(f"RAS is off: NCCL_RAS_ENABLE={environment['NCCL_RAS_ENABLE']}")
    text = environment.get("NCCL_RAS_ADDR", _ADDRESS)
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})", text.strip())
    if found is None or not 0 < int(found[3]) < 65536:
        raise _NoAnswerError(f"cannot read NCCL_RAS_ADDR={text}: expected HOST:PORT")
    return found[1] or found[2], int(found[3])


class _Question:
    """One query in progress, in a thread because name resolution has no deadline."""

    def __init__(self, address: tuple[str, int], json: bool, end_s: float) -> None:
        self._address = address
        self._commands = ["SET FORMAT json"] if json else []
        self._end_s = end_s
        self._read = bytearray()
        self._failure: str | None = "no answer in time"
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def answer(self) -> str:
        """The complete answer. Raises _NoAnswerError."""
        self._over.wait(max(0.0, self._end_s - time.monotonic()) + 0.1)
        if self._failure is not None:
            raise _NoAnswerError(f"{self._address[0]}:{self._address[1]}: {self._failure}")
        return self.begun()

    def begun(self) -> str:
        """The part of the answer received so far."""
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
                    raise _NoAnswerError(
                        "the report of lagging ranks requires NCCL 2.28.7 or later"
                    )
                if reply != "OK":
                    raise _NoAnswerError(f"{command}: {reply[:80] or 'no reply'}")
            self._send(connection, "VERBOSE STATUS")
            while chunk := self._receive(connection, 1 << 16, self._end_s):
                self._read += chunk
                if len(self._read) > _MOST_BYTES:
                    raise _NoAnswerError("the answer is too long")

    def _greeted(self) -> socket.socket:
        """A connection to a process that answers the greeting."""
        while True:
            connection = socket.create_connection(self._address, self._left_s(self._end_s))
            try:
                self._send(connection, "CLIENT PROTOCOL 2")
                end_s = min(self._end_s, time.monotonic() + _GREETING_S)
                if not self._line(connection, end_s).upper().startswith("SERVER PROTOCOL "):
                    raise _NoAnswerError("the process at this address is not NCCL RAS")
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
    """Decodes all communicators of the job. Raises _NoAnswerError."""
    try:
        # NCCL 2.28 omits a comma in its list of ranks without data.
        whole = re.sub(r'("nvml_dev":\s*-?\d+)(\s*"status")', r"\1,\2", text)
        return msgspec.json.decode(whole, type=_Answer).communicators
    except (msgspec.DecodeError, RecursionError):
        raise _NoAnswerError("the answer of RAS is not valid") from None


def _behind(communicator: _Communicator) -> list[str]:
    """The ranks that have launched an operation less often than others, in words."""
    most: dict[str, int] = {}
    for rank in communicator.ranks:
        for operation, count in rank.collective_counts.items():
            most[operation] = max(count, most.get(operation, 0))
    return [
        f"{rank.name} launched {count} {operation}, others {most[operation]}"
        for rank in communicator.ranks
        for operation, count in rank.collective_counts.items()
        if count < most[operation]
    ]


def _still(before: Sequence[_Communicator], after: Sequence[_Communicator]) -> bool:
    """Whether all counts are the same in both answers."""
    return {one.key: one.counts() for one in before} == {one.key: one.counts() for one in after}


_POLL_S = 0.02
_RAS_S = 5.0  # RAS waits for unresponsive processes, and is queried three times
_WITH_RAS = frozenset(("nccl", "torch:nccl"))


class RasQuery:
    """One query of RAS, and its answer."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._report: RasReport | None = None

    def begin(self, libraries: Collection[str], pids: Sequence[int]) -> None:
        """Queries RAS in a thread, once, if a library has it. ``pids``: the ranks on this host."""
        if self._thread is not None or _WITH_RAS.isdisjoint(libraries):
            return

        def ask() -> None:
            self._report = ask_ras(pids, os.environ, _RAS_S)

        self._thread = threading.Thread(target=ask, daemon=True)
        self._thread.start()

    def answer(self, wait: Callable[[float], None]) -> str:
        """The answer as lines of a report, empty without a query.

        ``wait``: waits for at most the given seconds; called until the answer has arrived.
        """
        if self._thread is None:
            return ""
        deadline_s = time.monotonic() + _RAS_S
        while self._thread.is_alive() and time.monotonic() < deadline_s:
            wait(_POLL_S)
        report = self._report
        if report is None:
            return "\n  NCCL RAS: no answer in time"
        lines = report.sentences() or [report.reason or "no rank is behind"]
        return "".join(f"\n  NCCL RAS: {line}" for line in lines)
