"""Discovery and authentication of the first process by the other processes of a launcher.

The first process picks a port and writes its endpoint and a new secret to a note, a file that only
its user can read. The directory is local if all processes are on one host, otherwise it is below
the home directory. Where hosts share no directory, the secret comes from the environment, and the
address from the environment or the launcher.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import socket
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import zmq

from cclmark.base.errors import MissingError, RankError, UsageError
from cclmark.base.signals import raise_if_ended
from cclmark.launch.placement import HYDRA, Placement, launching_program
from cclmark.rendezvous.interfaces import address_of, is_own
from cclmark.rendezvous.keys import LEAST_SECRET_CHARACTERS, SECRET_BYTES, Keys
from cclmark.rendezvous.server import Server

SECRET_VARIABLE = "CCLMARK_SECRET"
ADDRESS_VARIABLE = "CCLMARK_ADDRESS"
DIRECTORY_VARIABLE = "CCLMARK_SHARED_DIR"
INTERFACE_VARIABLE = "CCLMARK_INTERFACE"
_FIRST_PORT = 29470
_PORTS = 400
_LOOPBACK = "127.0.0.1"
_POLL_S = 0.05
_LOOK_UP_S = 0.5
_MOST_NOTE_BYTES = 4096
_NOWHERE = "192.0.2.1"  # for documentation only (RFC 5737): nothing is sent there


class _Note(msgspec.Struct):
    """The content of the file that the first process writes for the others."""

    endpoint: str
    secret: bytes


@dataclass
class Meeting:
    """The first process's end of the rendezvous: its server and the note with its endpoint."""

    server: Server
    note: Path | None = None

    def close_door(self) -> None:
        """Removes the note once all processes have connected."""
        if self.note is not None:
            with contextlib.suppress(OSError):
                self.note.unlink()
            self.note = None

    def close(self) -> None:
        """Closes the port and removes the note."""
        self.close_door()
        self.server.close()


def open_meeting(
    placement: Placement | None, env: Mapping[str, str], timeout_s: float = 0.0
) -> Meeting:
    """Listens for the other processes. Without others, listens on loopback with new keys.

    The name of a pod may resolve only some time after its start; ``timeout_s`` bounds that wait.
    Raises UsageError for invalid variables, and MissingError if it cannot listen or write the note.
    """
    if placement is None:
        return Meeting(Server())
    secret = given_secret(env)
    if secret is not None:
        host, port = _given_address(placement, env)
        address = _local_address(host, time.monotonic() + timeout_s, far=not placement.on_one_host)
        return Meeting(_listen(Keys.of(secret), address, port))
    secret = os.urandom(SECRET_BYTES)
    address = _LOOPBACK if placement.on_one_host else _own_address(placement, env)
    server = _listen(Keys.of(secret), address, 0)
    try:
        note = _leave_note(placement, env, _Note(server.endpoint, secret))
    except BaseException:
        server.close()
        raise
    return Meeting(server, note)


def find_meeting(
    placement: Placement, env: Mapping[str, str], deadline_s: float, known: str = ""
) -> tuple[str, Keys]:
    """The endpoint of the first process and the keys for it.

    Waits for its note until ``deadline_s`` of the monotonic clock. ``known``: an endpoint that did
    not answer. Raises UsageError, and RankError if no other endpoint appears before the deadline.
    """
    secret = given_secret(env)
    if secret is not None:
        host, port = _given_address(placement, env)
        where = f"[{host}]" if ":" in host else host
        return f"tcp://{where}:{port}", Keys.of(secret)
    path = _directory(placement, env) / _name(placement)
    while True:
        note = _read_note(path)
        if note is not None and note.endpoint != known:
            return note.endpoint, Keys.of(note.secret)
        raise_if_ended()
        if time.monotonic() > deadline_s:
            raise RankError(
                f"process {placement.process} of {placement.processes} did not find the note of "
                f"the first process in {path.parent}: if this directory is not shared by all "
                f"hosts, set {DIRECTORY_VARIABLE} to a shared one, or give all processes the same "
                f"{SECRET_VARIABLE} and {ADDRESS_VARIABLE}. {placement.doubts}"
            )
        time.sleep(_POLL_S)


def _listen(keys: Keys, address: str, port: int) -> Server:
    try:
        return Server(keys, address, port)
    except zmq.ZMQError as error:
        where = f"{address} port {port}" if port else address
        raise MissingError(
            f"cannot listen on {where}: {error.strerror}. Set another address with "
            f"{ADDRESS_VARIABLE}=HOST:PORT, or an interface with {INTERFACE_VARIABLE}"
        ) from None


def given_secret(env: Mapping[str, str]) -> bytes | None:
    """The key derived from the secret in the environment, None without one. Raises UsageError."""
    text = env.get(SECRET_VARIABLE)
    if text is None:
        return None
    if len(text) < LEAST_SECRET_CHARACTERS:
        raise UsageError(
            f"{SECRET_VARIABLE} has {len(text)} characters: use at least "
            f"{LEAST_SECRET_CHARACTERS}, and a new secret for every run (export "
            f"{SECRET_VARIABLE}=$(openssl rand -hex 32))"
        )
    # Users choose secrets that can be guessed, so a slow key derivation makes each guess expensive.
    words = text.encode(errors="surrogateescape")
    return hashlib.scrypt(words, salt=b"cclmark", n=1 << 14, r=8, p=1, dklen=SECRET_BYTES)


def _given_address(placement: Placement, env: Mapping[str, str]) -> tuple[str, int]:
    """The host and port of the first process, from the environment or else from the launcher."""
    text = env.get(ADDRESS_VARIABLE, "").strip()
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"{ADDRESS_VARIABLE}={text}: {port!r} is not a port; write HOST:PORT")
    if not host:
        host = _LOOPBACK if placement.on_one_host else placement.address
    if not host:
        raise UsageError(
            f"{placement.launcher} does not report the host of its first process: with "
            f"{SECRET_VARIABLE}, {ADDRESS_VARIABLE}=HOST:PORT is required too"
        )
    return host, int(port) if port else _FIRST_PORT + int(placement.identity[:8], 16) % _PORTS


def _local_address(host: str, deadline_s: float, *, far: bool) -> str:
    """Resolves ``host``, the name of this host, until ``deadline_s``. Raises MissingError.

    ``far``: prefers an address that other hosts can reach, since many systems resolve their own
    name to a loopback address.
    """
    while True:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = [str(entry[4][0]) for entry in found]
            return next((one for one in addresses if not far or _reachable(one)), addresses[0])
        except (OSError, UnicodeError) as error:
            if isinstance(error, UnicodeError) or time.monotonic() > deadline_s:
                raise MissingError(
                    f"unknown host {host!r}: set the host of the first process with "
                    f"{ADDRESS_VARIABLE}"
                ) from None
        time.sleep(_LOOK_UP_S)


def _own_address(placement: Placement, env: Mapping[str, str]) -> str:
    """An address of this host that other hosts can reach. Raises UsageError and MissingError."""
    chosen = env.get(INTERFACE_VARIABLE, "").strip()
    if chosen:
        address = address_of(chosen)
        if address is None:
            names = ", ".join(name for _, name in socket.if_nameindex())
            raise UsageError(f"{INTERFACE_VARIABLE}={chosen}: choose from {names}, or an address")
        return address
    candidates = []
    with contextlib.suppress(MissingError):
        if placement.address:
            candidates.append(_local_address(placement.address, time.monotonic(), far=True))
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((_NOWHERE, 9))
        candidates.append(str(probe.getsockname()[0]))
    candidates += [address_of(name) or "" for _, name in socket.if_nameindex()]
    for address in candidates:
        if address and _reachable(address) and is_own(address):
            return address
    raise MissingError(f"other hosts can reach no interface of this host: set {INTERFACE_VARIABLE}")


def _reachable(address: str) -> bool:
    """Whether other hosts could reach an address: it is neither loopback nor link-local."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return not (parsed.is_loopback or parsed.is_link_local)


def _name(placement: Placement) -> str:
    """The name of the note. Hydra names no job: the port of its proxy identifies it."""
    words = placement.identity
    if placement.launcher == HYDRA:
        program = launching_program(os.getpid())
        if program is not None:
            words += f"-{program.job}"
    return f"meeting-{words}"


def _directory(placement: Placement, env: Mapping[str, str]) -> Path:
    """The directory of the note. Raises MissingError, UsageError if others could write to it."""
    chosen = env.get(DIRECTORY_VARIABLE)
    if chosen:
        directory = Path(chosen)
    elif placement.on_one_host:
        directory = Path(tempfile.gettempdir()) / f"cclmark-{os.getuid()}"
    else:
        directory = Path.home() / ".cache" / "cclmark"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise MissingError(
            f"cannot use {directory} to connect the processes: {error.strerror}. Set another "
            f"directory with {DIRECTORY_VARIABLE}"
        ) from None
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"{directory} is writable for other users: set a private directory with "
            f"{DIRECTORY_VARIABLE}"
        )
    return directory


def _leave_note(placement: Placement, env: Mapping[str, str], note: _Note) -> Path:
    directory = _directory(placement, env)
    path = directory / _name(placement)
    try:
        descriptor, draft = tempfile.mkstemp(dir=directory, prefix=".meeting-")  # 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.msgpack.encode(note))
        Path(draft).replace(path)
    except OSError as error:
        raise MissingError(
            f"cannot write {path}: {error.strerror}. Set another directory with "
            f"{DIRECTORY_VARIABLE}"
        ) from None
    return path


def _read_note(path: Path) -> _Note | None:
    """The note, None if it is missing or incomplete. Raises UsageError if it is not private."""
    # Listing a directory invalidates a network file system's cached entry of a missing file.
    with contextlib.suppress(OSError):
        os.listdir(path.parent)  # noqa: PTH208 - the result is not used
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        private = not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if found.st_uid != os.getuid() or not stat.S_ISREG(found.st_mode) or not private:
            raise UsageError(f"{path} is not private to this user: remove it")
        try:
            return msgspec.msgpack.decode(file.read(_MOST_NOTE_BYTES), type=_Note)
        except msgspec.DecodeError:
            return None
