"""The checks of every request, and the headers of every response."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cclmark_serve.pages import message_response, policy

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


_METHODS = ("GET", "HEAD")
_OPEN = ("/healthz",)  # reveals nothing: monitoring of the server requires no token
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class AccessRules:
    """The conditions of access.

    ``token``: the required token, empty for none. ``hosts``: the names by which the server may be
    called, empty for any; this rejects a foreign page whose name was pointed here (DNS rebinding).
    ``port`` separates the cookies of servers on one host.
    """

    token: str = ""
    hosts: frozenset[str] = frozenset()
    port: int = 0

    @staticmethod
    def on_loopback(host: str, port: int, token: str = "") -> AccessRules:
        """Returns the access conditions of a server for this machine alone."""
        return AccessRules(token, frozenset({*_LOOPBACK, host.lower()}), port)


class Guard:
    """Passes admitted requests to ``app``, and adds the same headers to every response."""

    def __init__(
        self,
        app: ASGIApp,
        access: AccessRules,
        say: Callable[[str], None],
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self._say = say
        self._log = log
        self._cookie = f"cclmark-{access.port}"
        # Not the token itself, which may contain characters that a cookie cannot.
        self._pass = hmac.new(access.token.encode(), b"cookie", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            return
        began_s = time.monotonic()
        status = 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _dress(MutableHeaders(scope=message))
            await send(message)

        refused = self._refusal(scope)
        try:
            await (refused or self._app)(scope, receive, sent)
        except Exception as error:  # was answered with 500
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self._say(
                f"{scope['path']} failed: {type(error).__name__}: {error} "
                f"({frame.filename}:{frame.lineno}); please report it"
            )
        finally:
            if self._log is not None:
                # Without the query, which may contain the token.
                took_ms = (time.monotonic() - began_s) * 1e3
                self._log(f"{scope['method']} {scope['path']} {status} in {took_ms:.0f} ms")

    def _refusal(self, scope: Scope) -> Response | None:
        """Returns the response to a rejected request, None if it passes."""
        headers = Headers(scope=scope)
        if self._access.hosts and _host_of(headers.get("host", "")) not in self._access.hosts:
            return PlainTextResponse(
                "This server answers requests to localhost only. Use cclmark serve --host for "
                "other names.\n",
                403,
            )
        if scope["method"] not in _METHODS:
            answer = PlainTextResponse("Everything here is read-only: GET and HEAD.\n", 405)
            answer.headers["Allow"] = ", ".join(_METHODS)
            return answer
        if not self._access.token or scope["path"] in _OPEN:
            return None
        return self._admission(scope, headers)

    def _admission(self, scope: Scope, headers: Headers) -> Response | None:
        """Returns None if already admitted, a cookie for a valid token, else 401."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [text for name, text in query if name == "token"]
        if given and _same(given[-1], self._access.token):
            rest = urlencode([(name, text) for name, text in query if name != "token"])
            # Never to another host, whatever the path looks like.
            path = "/" + scope["path"].lstrip("/\\")
            admitted = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            admitted.set_cookie(self._cookie, self._pass, httponly=True, samesite="strict")
            return admitted
        scheme, _, word = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(word.strip(), self._access.token):
            return None
        if not given and _same(_cookie_of(headers, self._cookie), self._pass):
            return None
        answer = message_response(
            401,
            "Open the address with the token of cclmark serve: /?token=…. If you have just "
            "followed a link with the token, continue to the list of runs.",
        )
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer


def _dress(headers: MutableHeaders) -> None:
    for name, text in _HEADERS.items():
        headers[name] = text
    headers.setdefault("Content-Security-Policy", policy())
    # Only a header can contain this directive; a page's own element cannot.
    headers["Content-Security-Policy"] += "; frame-ancestors 'none'"


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _host_of(header: str) -> str:
    """Returns the name without the port, which a tunnel may change."""
    name = header.lower().strip()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if ":" in name else name


def _cookie_of(headers: Headers, name: str) -> str:
    for line in headers.getlist("cookie"):
        for part in line.split(";"):
            try:
                found = SimpleCookie(part.strip())
            except CookieError:
                continue
            if name in found:
                return found[name].value
    return ""
