"""Limits and counts of the connections that have not sent a message."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

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
