"""A PostgreSQL server of its own, from the programs that are installed, gone without a trace."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patience import scaled
from ports import free_port

PASSWORD = "corréct/h0rse@battery"
_PROGRAMS = ("initdb", "postgres", "psql")
_ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


@dataclass(frozen=True)
class Postgres:
    """A running server. ``reader`` may look and not write; both users have PASSWORD over TCP."""

    programs: Path
    directory: Path
    port: int

    def url(self, database: str, user: str = "postgres") -> str:
        """By the socket in its directory, where nobody is asked for a password."""
        return f"postgresql://{user}@/{database}?host={self.directory}&port={self.port}"

    def new_database(self, copied: str = "template1") -> str:
        """The name of an empty database, or of a copy of the one that is named ``copied``."""
        name = f"history_{uuid.uuid4().hex}"
        self.sql("postgres", f"CREATE DATABASE {name} TEMPLATE {copied}")
        return name

    def sql(self, database: str, statement: str) -> str:
        """Runs a statement by psql and returns what it prints, bare."""
        psql = [str(self.programs / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        place = ["-h", str(self.directory), "-p", str(self.port), "-U", "postgres", "-d", database]
        told = subprocess.run(
            [*psql, *place, "-c", statement],
            capture_output=True,
            text=True,
            timeout=scaled(30),
            check=False,
        )
        assert told.returncode == 0, told.stderr
        return told.stdout.strip()


def programs() -> Path | None:
    """Where the newest server is installed; distributions keep it from the path."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    beside = shutil.which("initdb")
    found += [Path(beside).resolve().parent] if beside else []
    whole = [one for one in found if all((one / name).exists() for name in _PROGRAMS)]
    return max(whole, key=lambda one: one.parent.name.zfill(8), default=None)


def missing() -> str:
    """Why there can be no server on this machine; empty where there can."""
    if programs() is None:
        return "PostgreSQL's server is not installed (Debian: postgresql)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "there is no user postgres, and root may not run the server"
        if shutil.which("setpriv") is None:
            return "setpriv is not installed, and root may not run the server"
    return ""


@contextmanager
def running() -> Iterator[Postgres]:
    """A server for as long as the context lasts."""
    found = programs()
    assert found is not None
    directory = Path(tempfile.mkdtemp(prefix="cclmark-pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(directory, "postgres", "postgres")
        data = directory / "data"
        _as_owner([str(found / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N"])
        (data / "pg_hba.conf").write_text(_ACCESS)
        server = Postgres(found, directory, free_port())
        with _process(server, data):
            quoted = PASSWORD.replace("'", "''")
            server.sql("postgres", f"ALTER USER postgres PASSWORD '{quoted}'")
            server.sql("postgres", f"CREATE USER reader PASSWORD '{quoted}'")
            yield server
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _process(server: Postgres, data: Path) -> Iterator[None]:
    settings = {
        "port": server.port,
        "unix_socket_directories": server.directory,
        "listen_addresses": "127.0.0.1",
        "fsync": "off",
        "max_connections": 50,
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    log = server.directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_owner(), str(server.programs / "postgres"), "-D", str(data), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=server.directory,
        )
    try:
        _wait(process, server, log)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(scaled(20))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], server: Postgres, log: Path) -> None:
    deadline_s = time.monotonic() + scaled(60)
    while True:
        assert process.poll() is None, log.read_text()
        try:
            server.sql("postgres", "SELECT 1")
            return
        except AssertionError:
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.1)


def _owner() -> Sequence[str]:
    """What stands before a command that root may not run."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--")


def _as_owner(command: Sequence[str]) -> None:
    told = subprocess.run(
        [*_owner(), *command], capture_output=True, text=True, timeout=120, check=False, cwd="/"
    )
    assert told.returncode == 0, told.stderr
