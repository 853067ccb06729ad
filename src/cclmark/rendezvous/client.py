"""A rank's end of the control plane."""

from __future__ import annotations

import time

import msgspec
import zmq

from cclmark.errors import RankError
from cclmark.rendezvous.messages import FromRank, Job, Put, Value, Want

_LINGER_MS = 2000


class Client:
    """A rank's connection to the launcher."""

    def __init__(self, job: Job) -> None:
        """Connects in the background: the first message waits for the connection."""
        self._job = job
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self._socket.curve_serverkey = job.server_key
        self._socket.curve_publickey = job.client_public_key
        self._socket.curve_secretkey = job.client_secret_key
        self._socket.connect(job.endpoint)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Value)

    def send(self, message: FromRank) -> None:
        """Hands a message over to the sender in the background."""
        self._socket.send(self._encoder.encode(message))

    def put(self, key: str, value: bytes) -> None:
        """Gives every rank ``value`` under ``key``."""
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
            if answer.key == key:
                return answer.value

    def close(self) -> None:
        """Sends what is still waiting, for two seconds at most."""
        self._socket.close()
        self._context.term()
