"""HTTP connections with a deadline for the arrival of each request."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0


class DeadlineProtocol(H11Protocol):
    """Closes a connection whose request is not complete ``REQUEST_S`` seconds after it began.

    Uvicorn limits only the idle time between two requests: a client that sends a byte now and then
    would keep its connection for ever.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the timer of the first request, which also limits a silent client."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Receives a part of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timer."""
        self._end_watch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._end_watch()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_S, self._close)

    def _end_watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        self.transport.close()
