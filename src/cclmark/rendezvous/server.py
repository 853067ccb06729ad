"""The server of the control plane, in the first process."""

from __future__ import annotations

import contextlib
import hmac
import os
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import msgspec
import zmq

from cclmark.rendezvous.keys import Keys
from cclmark.rendezvous.messages import (
    OF_PROCESSES,
    Arrived,
    Clocked,
    ClockRequest,
    FromAny,
    Gather,
    Heartbeat,
    Join,
    Met,
    Put,
    Seen,
    ToProcess,
    ToRank,
    Value,
    Want,
)

# Simultaneous connections without a message may use one in _SHARE of the descriptors of this
# process, so that enough remain for ranks and files.
_SHARE = 4
_MOST = 4096


def most_strangers() -> int:
    """The allowed number of connections without a message, from RLIMIT_NOFILE."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return _MOST
    return min(max(1, limit // _SHARE), _MOST)


@dataclass
class Strangers:
    """The connections to ``port`` without a message, by descriptor, the oldest first.

    ``dropped`` counts connections that ended without authentication. ZeroMQ's handshake events do
    not identify the connection. Of the connections that end without a message, as many are assumed
    to have authenticated as have authenticated without sending a message.
    """

    port: int
    most: int = field(default_factory=most_strangers)
    dropped: int = 0
    silent: int = 0  # authenticated without a message so far
    _waiting: dict[int, None] = field(default_factory=dict)
    _ended: Counter[int] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._waiting)

    def accepted(self, descriptor: int) -> None:
        """Records a new connection."""
        self._waiting[descriptor] = None

    def authenticated(self) -> None:
        """Records that one of the connections has authenticated."""
        self.silent += 1

    def ended(self, descriptor: int) -> None:
        """Records the end of a connection, with or without a message."""
        if descriptor in self._waiting:
            del self._waiting[descriptor]
            self._ended[descriptor] += 1

    def settle(self, spoke: Collection[int], expected: int) -> None:
        """Counts ended connections and shuts down the oldest ones beyond ``most``.

        ``spoke``: the descriptors of all messages since the last call. If several connections had
        the same descriptor, one of them sent a message. ``expected``: the number of ranks and
        processes of the run, whose connections are allowed in addition.
        """
        for descriptor in spoke:
            if descriptor in self._waiting:
                del self._waiting[descriptor]
                self.silent -= 1
            elif self._ended[descriptor]:
                self._ended[descriptor] -= 1
                self.silent -= 1
        friends = min(self.silent, self._ended.total())
        self.silent -= friends
        self.dropped += self._ended.total() - friends
        self._ended.clear()
        for descriptor in [*self._waiting][: -(self.most + expected)]:
            self._shut_down(descriptor)

    def _shut_down(self, descriptor: int) -> None:
        """Makes ZeroMQ close a connection, which it reports as an event.

        ZeroMQ may have closed it since its last event, and the descriptor may now refer to another
        file, so only connections to this port are shut down. A rank or process among them
        reconnects.
        """
        with contextlib.suppress(OSError):
            connection = socket.socket(fileno=descriptor)
            try:
                internet = connection.family in (socket.AF_INET, socket.AF_INET6)
                if internet and connection.getsockname()[1] == self.port:
                    connection.shutdown(socket.SHUT_RDWR)
            finally:
                connection.detach()


_MOST_MESSAGE_BYTES = 64 << 20
_MOST_KEYS = 1 << 16  # of values and exchanges; a run has few
_MOST_AT_ONCE = 1 << 12  # messages per call, so that the caller regains control
_LAST_WORDS_MS = 500
_HANDSHAKE_MS = 5000
_CONNECTION_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
_MONITOR = "inproc://connections"


@dataclass
class Server:
    """Listens on one interface, by default loopback, and by default on a port the system picks.

    Connections are encrypted with CURVE under the keys of the run. A connection that does not
    authenticate within 5 s is dropped and counted in ``dropped``; if there are too many, the oldest
    ones are dropped earlier. Every message carries the run's one-time token. Messages without it
    are refused and counted in ``refused``. So are messages for a rank or process that another
    connection already represents (see ``doubles``), and for unknown ones: ranks are numbered from 0
    to ``ranks`` - 1, other processes from 1 to ``processes`` - 1.
    """

    keys: Keys = field(default_factory=Keys.new)
    address: str = "127.0.0.1"
    port: int = 0
    refused: int = 0
    ranks: int = 0
    processes: int = 1

    def __post_init__(self) -> None:
        """Binds the socket. Raises zmq.ZMQError if the address and port are not usable."""
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.IPV6, 1)
        self._socket.setsockopt(zmq.MAXMSGSIZE, _MOST_MESSAGE_BYTES)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.setsockopt(zmq.BACKLOG, 4096)
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        self._socket.curve_server = True
        self._socket.curve_secretkey = self.keys.server_secret
        self._socket.curve_publickey = self.keys.server_public
        # Unbounded: with a full queue ZeroMQ's thread blocks until the queue is read, and close
        # waits for that thread. A flood of foreign connections could fill a bounded queue.
        self._monitor = self._context.socket(zmq.PAIR)
        self._monitor.setsockopt(zmq.RCVHWM, 0)
        self._socket.monitor(_MONITOR, _CONNECTION_EVENTS)
        self._monitor.connect(_MONITOR)
        host = f"[{self.address}]" if ":" in self.address else self.address
        try:
            self._socket.bind(f"tcp://{host}:{self.port or '*'}")
        except zmq.ZMQError:
            self.close()
            raise
        bound = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.port = int(bound.rpartition(":")[2])
        self.endpoint = f"tcp://{host}:{self.port}"
        self.token = self.keys.token
        self.doubles: list[Join] = []
        self._earlier_tokens: set[bytes] = set()
        self._decoder = msgspec.msgpack.Decoder(FromAny)
        self._encoder = msgspec.msgpack.Encoder()
        self._strangers = Strangers(self.port)
        self._values: dict[str, bytes] = {}
        self._waiting: dict[str, list[bytes]] = {}
        self._meetings: dict[str, dict[int, tuple[bytes, bytes]]] = {}
        self._rank_speakers: dict[int, bytes] = {}
        self._process_speakers: dict[int, bytes] = {}
        self._connections: dict[int, int] = {}
        self._cut_s: dict[int, float] = {}

    def receive(self, timeout_s: float) -> list[FromAny]:
        """The messages that arrive within ``timeout_s``, but for those that it answers itself."""
        messages: list[FromAny] = []
        spoke: set[int] = set()
        if self._socket.poll(int(timeout_s * 1000)):
            with contextlib.suppress(zmq.Again):
                for _ in range(_MOST_AT_ONCE):
                    frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
                    spoke.add(frames[-1].get(zmq.SRCFD))
                    message = self._accept(frames)
                    if message is not None and not self._serve(frames[0].bytes, message):
                        messages.append(message)
        self._watch_connections(spoke)
        return messages

    @property
    def dropped(self) -> int:
        """The number of connections that ended without authentication."""
        return self._strangers.dropped

    @property
    def unheard(self) -> int:
        """The number of ranks that have sent no message so far."""
        return self.ranks - len(self._rank_speakers)

    def turned_away(self, own: int = 0) -> str:
        """The dropped connections and refused messages so far, in words; empty for none.

        ``own``: the number of dropped connections that may be those of ranks, which end before
        they authenticate if they are killed then.
        """
        found = []
        if (dropped := self.dropped) > own:
            connections = "connection" if dropped == 1 else "connections"
            were = "was" if dropped == 1 else "were"
            found.append(f"{dropped} {connections} that did not authenticate {were} dropped")
        if self.refused:
            messages = "message" if self.refused == 1 else "messages"
            were = "was" if self.refused == 1 else "were"
            found.append(f"{self.refused} foreign {messages} {were} refused")
        return ", ".join(found)

    def tell(self, process: int, message: ToProcess) -> None:
        """Sends an order to a process that has joined; ignores a process that has exited."""
        self._send(self._process_speakers[process], message)

    def cut_off_s(self, process: int) -> float:
        """The time since the connection of a process broke, 0 while it is intact."""
        since_s = self._cut_s.get(process)
        return 0.0 if since_s is None else time.monotonic() - since_s

    def cut_off(self, longer_than_s: float) -> list[int]:
        """The processes whose connections have been broken for longer than ``longer_than_s``."""
        return [process for process in self._cut_s if self.cut_off_s(process) > longer_than_s]

    def forget_ranks(self) -> None:
        """Accepts new connections for the ranks and ignores their former ones.

        Messages of former ranks still in transit are ignored too, since new ranks have a new token.
        Processes remain connected.
        """
        self._earlier_tokens.add(self.token)
        self.token = os.urandom(len(self.keys.token))
        self._rank_speakers.clear()
        self._values.clear()
        self._waiting.clear()
        self._meetings.clear()

    def _watch_connections(self, spoke: Collection[int]) -> None:
        """Records connections that were accepted, authenticated, broke or never sent a message.

        ``spoke``: the descriptors of all messages received since the last call. Their connections
        were accepted earlier, so their events are read by this call or an earlier one.
        """
        for event, descriptor in self._connection_events():
            if event == zmq.EVENT_ACCEPTED:
                self._strangers.accepted(descriptor)
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._strangers.authenticated()
            elif descriptor in self._connections:
                self._cut_s[self._connections.pop(descriptor)] = time.monotonic()
            else:
                self._strangers.ended(descriptor)
        self._strangers.settle(spoke, self.ranks + self.processes)

    def _connection_events(self) -> Iterator[tuple[int, int]]:
        """Number and value of each pending event.

        The reader in pyzmq imports asyncio, which takes a fifth of this program's start-up time.
        """
        with contextlib.suppress(zmq.Again):
            while True:
                yield struct.unpack_from("=Hi", self._monitor.recv_multipart(zmq.NOBLOCK)[0])

    def _accept(self, frames: list[zmq.Frame]) -> FromAny | None:
        try:
            message: FromAny = self._decoder.decode(frames[-1].buffer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.refused += 1
            return None
        of_process = isinstance(message, OF_PROCESSES)
        token = self.keys.token if of_process else self.token
        if not hmac.compare_digest(message.token, token):
            # Late messages of an earlier attempt do not count as foreign.
            self.refused += message.token not in self._earlier_tokens
            return None
        known = range(1, self.processes) if of_process else range(self.ranks)
        if message.rank not in known:
            self.refused += 1
            return None
        speakers = self._process_speakers if of_process else self._rank_speakers
        sender = frames[0].bytes
        if speakers.setdefault(message.rank, sender) != sender:
            self.refused += 1
            if isinstance(message, Join):
                self.doubles.append(message)
            return None
        if of_process:
            self._cut_s.pop(message.rank, None)
            self._connections[frames[-1].get(zmq.SRCFD)] = message.rank
        return message

    def _serve(self, sender: bytes, message: FromAny) -> bool:
        if isinstance(message, Put):
            if len(self._values) < _MOST_KEYS:
                self._values[message.key] = message.value
            for waiting in self._waiting.pop(message.key, []):
                self._send(waiting, Value(message.key, message.value))
        elif isinstance(message, Want):
            if message.key in self._values:
                self._send(sender, Value(message.key, self._values[message.key]))
            elif len(self._waiting) < _MOST_KEYS:
                self._waiting.setdefault(message.key, []).append(sender)
        elif isinstance(message, Gather):
            self._meet(sender, message)
        elif isinstance(message, ClockRequest):
            self._send(sender, Clocked(message.number, time.monotonic_ns()))
        elif isinstance(message, Arrived):
            pass
        else:
            if isinstance(message, Seen):
                self._send(sender, Heartbeat())
            return False
        return True

    def _meet(self, sender: bytes, message: Gather) -> None:
        if len(self._meetings) >= _MOST_KEYS:
            return
        come = self._meetings.setdefault(message.key, {})
        come[message.part] = (sender, message.values)
        if len(come) < message.parts:
            return
        del self._meetings[message.key]
        met = Met(message.key, {part: values for part, (_, values) in come.items()})
        # One copy for all, so that queued data does not grow with the square of the hosts.
        content = zmq.Frame(self._encoder.encode(met), copy=True)
        for who, _ in come.values():
            self._send_encoded(who, content)

    def _send(self, to: bytes, message: ToRank | ToProcess) -> None:
        self._send_encoded(to, self._encoder.encode(message))

    def _send_encoded(self, to: bytes, content: bytes | zmq.Frame) -> None:
        # A lost recipient is detected by supervision, so the error is ignored here.
        with contextlib.suppress(zmq.ZMQError):
            self._socket.send_multipart([to, content], zmq.NOBLOCK)

    def close(self) -> None:
        """Closes the port. The last messages get a short time to be sent."""
        self._socket.monitor(None, 0)
        self._monitor.close(linger=0)
        self._socket.close(linger=_LAST_WORDS_MS)
        self._context.term()
