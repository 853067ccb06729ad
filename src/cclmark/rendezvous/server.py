"""The launcher's end of the control plane."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import struct
from dataclasses import dataclass, field

import msgspec
import zmq

from cclmark.rendezvous.messages import Failed, Finished, FromRank, Put, Value, Want

_MOST_MESSAGE_BYTES = 64 << 20
_CONNECTION_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED


@dataclass
class Server:
    """Listens on loopback, on a port that the system picks.

    Connections are encrypted with CURVE under keys made for this run, and every message carries the
    run's one-time token; a peer without either is dropped and counted in ``refused``.
    """

    token: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    refused: int = 0

    def __post_init__(self) -> None:
        """Binds. Raises zmq.ZMQError when loopback is not usable."""
        self.public_key, secret_key = zmq.curve_keypair()
        self.client_public_key, self.client_secret_key = zmq.curve_keypair()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, _MOST_MESSAGE_BYTES)
        self._socket.curve_server = True
        self._socket.curve_secretkey = secret_key
        self._socket.curve_publickey = self.public_key
        self._monitor = self._socket.get_monitor_socket(_CONNECTION_EVENTS)
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{port}"
        self._decoder = msgspec.msgpack.Decoder(FromRank)
        self._encoder = msgspec.msgpack.Encoder()
        self._strangers = 0
        self._leavers = 0
        self._values: dict[str, bytes] = {}
        self._waiting: dict[str, list[bytes]] = {}

    def receive(self, timeout_s: float) -> list[FromRank]:
        """Messages that came within ``timeout_s``; puts and wants are dealt with on the way."""
        messages: list[FromRank] = []
        if self._socket.poll(int(timeout_s * 1000)):
            with contextlib.suppress(zmq.Again):
                while True:
                    frames = self._socket.recv_multipart(zmq.NOBLOCK)
                    message = self._accept(frames)
                    if message is not None and not self._serve(frames[0], message):
                        messages.append(message)
        self._leavers += sum(isinstance(message, Finished | Failed) for message in messages)
        self._count_refusals()
        return messages

    def _count_refusals(self) -> None:
        """Counts the connections that were dropped before they could say anything.

        Events of success do not name their connection, so one that closes is taken for a stranger
        as long as there are any, unless a rank has said its last word.
        """
        while self._monitor.poll(0):
            # The first frame begins with the event's number; pyzmq's own reader imports asyncio,
            # a fifth of the time that this program takes to start.
            (event,) = struct.unpack_from("=H", self._monitor.recv_multipart()[0])
            if event == zmq.EVENT_ACCEPTED:
                self._strangers += 1
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._strangers -= 1
            elif self._leavers > 0:
                self._leavers -= 1
            elif self._strangers > 0:
                self._strangers -= 1
                self.refused += 1

    def _accept(self, frames: list[bytes]) -> FromRank | None:
        try:
            message: FromRank = self._decoder.decode(frames[-1])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.refused += 1
            return None
        if not hmac.compare_digest(message.token, self.token):
            self.refused += 1
            return None
        return message

    def _serve(self, sender: bytes, message: FromRank) -> bool:
        if isinstance(message, Put):
            self._values[message.key] = message.value
            for waiting in self._waiting.pop(message.key, []):
                self._answer(waiting, message.key)
        elif isinstance(message, Want):
            if message.key in self._values:
                self._answer(sender, message.key)
            else:
                self._waiting.setdefault(message.key, []).append(sender)
        else:
            return False
        return True

    def _answer(self, to: bytes, key: str) -> None:
        value = Value(key, self._values[key])
        self._socket.send_multipart([to, self._encoder.encode(value)])

    def close(self) -> None:
        """Frees the port."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()
        self._context.term()
