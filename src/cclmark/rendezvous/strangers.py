"""Connections that have said nothing yet: how many there may be, and how many were dropped."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

# Connections without a message at the same time: a share of the descriptors that this process may
# have, so that strangers leave enough for ranks and files.
_SHARE = 4
_MOST = 4096


def most_strangers() -> int:
    """How many connections may stay without a message, by RLIMIT_NOFILE."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return _MOST
    return min(max(1, limit // _SHARE), _MOST)


@dataclass
class Strangers:
    """The connections to ``port`` without a message, by their descriptors, the oldest first.

    ``dropped`` counts those that ended without having authenticated. ZeroMQ's events of success do
    not name their connection: of those that end without a message as many count as friends as have
    authenticated and not spoken.
    """

    port: int
    most: int = field(default_factory=most_strangers)
    dropped: int = 0
    silent: int = 0  # have authenticated and not spoken
    _waiting: dict[int, None] = field(default_factory=dict)
    _ended: Counter[int] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._waiting)

    def accepted(self, descriptor: int) -> None:
        """Notes a new connection."""
        self._waiting[descriptor] = None

    def authenticated(self) -> None:
        """Notes that one of them has authenticated."""
        self.silent += 1

    def ended(self, descriptor: int) -> None:
        """Notes that a connection ended, whether it has spoken or not."""
        if descriptor in self._waiting:
            del self._waiting[descriptor]
            self._ended[descriptor] += 1

    def settle(self, spoke: Collection[int], expected: int) -> None:
        """Counts what ended, and shuts down the oldest connections beyond ``most``.

        ``spoke``: the descriptors of all messages since the last call. Several connections may have
        had the same descriptor: one of them spoke. ``expected``: the ranks and processes of the
        run, whose connections may be silent besides.
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
        """Has ZeroMQ close a connection, which arrives as an event.

        ZeroMQ may have closed it since its last event, and the descriptor may be another file by
        now: only connections to this port are touched. A rank or process among them connects again.
        """
        with contextlib.suppress(OSError):
            connection = socket.socket(fileno=descriptor)
            try:
                internet = connection.family in (socket.AF_INET, socket.AF_INET6)
                if internet and connection.getsockname()[1] == self.port:
                    connection.shutdown(socket.SHUT_RDWR)
            finally:
                connection.detach()
