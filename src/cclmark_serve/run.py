"""Opens the history, listens, and serves its pages until a signal ends it."""

from __future__ import annotations

import errno
import ipaddress
import os
import secrets
import socket
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

from cclmark.base.errors import MissingError, UsageError
from cclmark.base.printable import plain
from cclmark.base.signals import on_ending_signals
from cclmark.base.standard_error import tell
from cclmark.history.history_model import RunFilter, default_path
from cclmark.recording.output import usual_references
from cclmark.recording.standard_output import say
from cclmark.references.reference import Reference
from cclmark_serve.command import ServeFlags

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

TOKEN_VARIABLE = "CCLMARK_SERVE_TOKEN"
_LEAST_TOKEN = 16  # characters, as in a run's secret
_MOST_TOKEN = 4096
_GRACE_S = 10  # for responses under way when the server is stopped


def serve_history(flags: ServeFlags) -> NoReturn:
    """Serves the history until a signal ends it.

    Raises KeyboardInterrupt then; MissingError if the packages or the history are missing;
    UsageError for an unusable history, token, address or port.
    """
    try:
        import uvicorn  # noqa: F401 - before anything is opened

        from cclmark.history.store import History
        from cclmark_serve.app import make_app
        from cclmark_serve.guard import AccessRules
    except ModuleNotFoundError as error:
        _lacking(error)
    token, host = _token(flags.token_file), flags.host
    history = History(flags.db or str(default_path()), read_only=True)
    history.runs(RunFilter(), 1)
    with _listening(host, flags.port) as listener:
        bound, port = listener.getsockname()[:2]
        wide = not ipaddress.ip_address(bound).is_loopback
        made = wide and not token
        if made:
            token = secrets.token_urlsafe(32)
        access = (
            AccessRules(token, port=port) if wide else AccessRules.on_loopback(host, port, token)
        )
        app = make_app(history, _references, access, _tell, _tell if flags.verbose else None)
        address = _address(host, bound, port) + (f"?token={quote(token)}" if made else "")
        say(f"cclmark: serving {plain(history.name)} at {address} until Ctrl-C")
        _run(app, listener)
    raise KeyboardInterrupt


def _run(app: ASGIApp, listener: socket.socket) -> None:
    """Serves until a signal has arrived and the requests under way are answered."""
    import uvicorn

    class SiteServer(uvicorn.Server):
        """A server that stops on the signals that end all commands, SIGHUP included."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            on_ending_signals(self.handle_exit)  # type: ignore[arg-type]
            yield

    SiteServer(config_of(app)).run(sockets=[listener])


def config_of(app: ASGIApp) -> uvicorn.Config:
    """Returns the configuration of the server: requests have a deadline, and nothing is logged."""
    import uvicorn

    from cclmark_serve.guard import DeadlineProtocol

    return uvicorn.Config(
        app,
        http=DeadlineProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # it would log every bad request
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
    )


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yields a socket that already accepts connections. Raises UsageError."""
    try:
        [(family, kind, protocol, _, place), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or "not a host name"
        raise UsageError(f"--host {host}: {said}") from None
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
            listener.listen(128)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise UsageError(
                    f"port {port} of {host} is in use: choose another with --port, or 0 for any "
                    "free port"
                ) from None
            raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror}") from None
        yield listener


def _address(host: str, bound: str, port: int) -> str:
    """Returns the URL of the server, with the host's name if it listens on all addresses."""
    name = socket.gethostname() if ipaddress.ip_address(bound).is_unspecified else host
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def _token(file: Path | None) -> str:
    """Returns the token from the file or the variable, empty for neither. Raises UsageError."""
    if file is None:
        token, where = os.environ.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE
        if not token:
            return ""
    else:
        token, where = _read_token(file), str(file)
    if len(token) < _LEAST_TOKEN or not token.isprintable():
        raise UsageError(
            f"{where}: a token requires at least {_LEAST_TOKEN} characters on one line; create one "
            "with python3 -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def _read_token(file: Path) -> str:
    """Reads the token. Raises UsageError for a file that others can read, or that is unreadable."""
    try:
        with file.open("rb") as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                raise UsageError(f"{file} can be read by other users: chmod 600 {file}")
            return opened.read(_MOST_TOKEN).decode().strip()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not text") from None


@cache
def _of_kinds(kinds: frozenset[str]) -> Sequence[Reference]:
    return usual_references(kinds)


def _references(kinds: Collection[str]) -> Sequence[Reference]:
    """Returns the default references, read on first use, when errors are reported once."""
    return _of_kinds(frozenset(kinds))


def _tell(text: str) -> None:
    tell(text)


def _lacking(error: ModuleNotFoundError) -> NoReturn:
    raise MissingError(
        f"cclmark serve requires the Python package {error.name}, which is not installed: pip "
        "install 'cclmark[serve]'"
    ) from None
