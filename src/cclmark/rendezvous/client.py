"""The client of the control plane, for ranks and for processes other than the first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec
import zmq

from cclmark.base.errors import RankError
from cclmark.rendezvous.keys import Access, Keys
from cclmark.rendezvous.messages import (
    Clocked,
    ClockRequest,
    FromAny,
    FromRank,
    Gather,
    Job,
    Met,
    Put,
    ToProcess,
    ToRank,
    Value,
    Want,
)

_LINGER_MS = 2000
_LOOK_MS = 50
_CLOCK_ROUNDS = 64


class Connection:
    """An encrypted connection to the first process of a run.

    ``context``: a ZeroMQ context shared by several connections, by default a new one.
    """

    def __init__(
        self, access: Access, context: zmq.Context[zmq.Socket[bytes]] | None = None
    ) -> None:
        """Connects in the background: the first message waits for the connection."""
        self._is_own_context = context is None
        self._context = context or zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self.socket.setsockopt(zmq.IPV6, 1)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        # The server recognises a restored connection, and no other one, by this random ID.
        self.socket.setsockopt(zmq.ROUTING_ID, b"c" + os.urandom(16))
        self.socket.curve_serverkey = access.server_key
        self.socket.curve_publickey = access.public_key
        self.socket.curve_secretkey = access.secret_key
        self._encoder = msgspec.msgpack.Encoder()
        self.socket.connect(access.endpoint)

    def send(self, message: FromAny) -> None:
        """Hands a message over to the sender in the background."""
        self.socket.send(self._encoder.encode(message))

    def close(self, linger_ms: int = _LINGER_MS) -> None:
        """Sends pending messages for at most ``linger_ms`` and closes the connection."""
        self.socket.close(linger=linger_ms)
        if self._is_own_context:
            self._context.term()


class Client:
    """A rank's connection."""

    def __init__(self, job: Job) -> None:
        """Connects in the background: the first message waits for the connection."""
        self._job = job
        self._connection = Connection(job.access)
        self._socket = self._connection.socket
        self._decoder = msgspec.msgpack.Decoder(ToRank)

    def send(self, message: FromRank) -> None:
        """Hands a message over to the sender in the background."""
        self._connection.send(message)

    def put(self, key: str, value: bytes) -> None:
        """Provides ``value`` under ``key`` to every rank."""
        self.send(Put(self._job.rank, self._job.token, key, value))

    def get(self, key: str, timeout_s: float) -> bytes:
        """Waits for the value of ``key``. Raises RankError after ``timeout_s``."""
        self.send(Want(self._job.rank, self._job.token, key))
        deadline = time.monotonic() + timeout_s
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._socket.poll(int(remaining * 1000)):
                raise RankError(f"waited {timeout_s:g} s for {key}: rank 0 did not provide it")
            answer = self._decoder.decode(self._socket.recv())
            if isinstance(answer, Value) and answer.key == key:
                return answer.value

    def clock_ahead_ns(self, timeout_s: float) -> tuple[int, int]:
        """How far the clock of the first process's host is ahead of this one's, and the error.

        Both in nanoseconds, of the shortest of several exchanges: half of its time is the error.
        Raises RankError after ``timeout_s``.
        """
        best: tuple[int, int] | None = None
        deadline = time.monotonic() + timeout_s
        for number in range(_CLOCK_ROUNDS):
            before_ns = time.monotonic_ns()
            self.send(ClockRequest(self._job.rank, self._job.token, number))
            while True:
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._socket.poll(int(remaining * 1000)):
                    raise RankError(f"waited {timeout_s:g} s for the clock of the first process")
                answer = self._decoder.decode(self._socket.recv())
                if isinstance(answer, Clocked) and answer.number == number:
                    break
            after_ns = time.monotonic_ns()
            error_ns = (after_ns - before_ns + 1) // 2
            if best is None or error_ns < best[1]:
                best = (answer.monotonic_ns - (before_ns + after_ns) // 2, error_ns)
        assert best is not None
        return best

    def gather(
        self, key: str, part: int, parts: int, values: bytes, go_on: Callable[[], None]
    ) -> dict[int, bytes]:
        """Exchanges values with the other hosts and returns those of all ``parts`` by host number.

        ``go_on`` is called regularly during the wait, and may raise an exception to end it.
        """
        self.send(Gather(self._job.rank, self._job.token, key, part, parts, values))
        while True:
            if not self._socket.poll(_LOOK_MS):
                go_on()
                continue
            answer = self._decoder.decode(self._socket.recv())
            if isinstance(answer, Met) and answer.key == key:
                return answer.values

    def close(self, linger_ms: int = _LINGER_MS) -> None:
        """Sends pending messages for at most ``linger_ms`` and closes the connection."""
        self._connection.close(linger_ms)


class Follower:
    """The connection of a process that executes the orders of the first process."""

    def __init__(
        self,
        endpoint: str,
        keys: Keys,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
    ) -> None:
        """Connects in the background. ``context``: see Connection."""
        self.token = keys.token
        self._connection = Connection(keys.access(endpoint), context)
        self._socket = self._connection.socket
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._decoder: msgspec.msgpack.Decoder[ToProcess] = msgspec.msgpack.Decoder(ToProcess)

    def send(self, message: FromAny) -> None:
        """Hands a message over to the sender in the background."""
        self._connection.send(message)

    def receive(self, timeout_s: float) -> list[ToProcess]:
        """The orders that arrive within ``timeout_s``."""
        orders: list[ToProcess] = []
        timeout_ms = int(timeout_s * 1000)
        while self._socket.poll(timeout_ms):
            orders.append(self._decoder.decode(self._socket.recv()))
            timeout_ms = 0
        return orders

    def was_cut(self) -> bool:
        """Whether the connection was lost since the last call."""
        cut = False
        while self._monitor.poll(0):
            self._monitor.recv_multipart()
            cut = True
        return cut

    def close(self, linger_ms: int = _LINGER_MS) -> None:
        """Sends pending messages for at most ``linger_ms`` and closes the connection."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._connection.close(linger_ms)
