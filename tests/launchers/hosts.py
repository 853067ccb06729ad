"""Hosts of their own on this machine: each a set of namespaces, joined by a cable.

A host has its own name, network, process numbers and shared memory; files are shared, as on a
cluster with a network file system. Nothing of it has a name outside, so nothing can be left behind:
its first process ends when the test session does, however that ends, and the kernel then ends every
process of the host and takes the cable away.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

DEVICE = "eth0"
#: A directory that is the host's own, as /tmp is not: for files named after process numbers, which
#: the hosts of other tests have too.
OWN_DIRECTORY = "/run"
PATIENCE = float(os.environ.get("CCLMARK_TEST_PATIENCE", "1"))  # as in tests/patience.py
# The first process reaps whoever loses its parent, for it ignores how its children end, and ends
# with its standard input. A cache as small as tests/conftest.py makes it here is as small there.
_FIRST = """
set -e
hostname "$1"
mount --bind "$2" /etc/hosts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
cache=/sys/devices/system/cpu/cpu0/cache/index3/size
! test -e $cache || cat $cache >/run/cache_size
mount -t sysfs sys /sys
! test -e $cache || mount --bind /run/cache_size $cache
ip link set lo up
mkdir /run/sshd
echo up
exec env --ignore-signal=CHLD cat
"""


@dataclass(frozen=True)
class Host:
    """One host: ``address`` is that of its end of the cable."""

    name: str
    address: str
    holder: subprocess.Popen[bytes]

    def at(self, directory: Path) -> list[str]:
        """What stands before a command that is to run here, in ``directory``."""
        own = f"/proc/{self.holder.pid}/ns"
        spaces = [f"--{kind}={own}/{kind[:3]}" for kind in ("net", "uts", "ipc")]
        return [
            *("nsenter", *spaces, f"--mount={own}/mnt", f"--pid={own}/pid_for_children"),
            *(f"--wd={directory}", "--"),
        ]

    @property
    def entrance(self) -> list[str]:
        """The same, in the directory of this process."""
        return self.at(Path.cwd())

    def run(
        self, *command: str | Path, timeout_s: float = 60, **options
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program here to its end; its output is text."""
        return subprocess.run(
            [*self.entrance, *map(str, command)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s * PATIENCE,
            check=False,
            **options,
        )

    def received_bytes(self) -> int:
        """What came in through the cable since the host was made."""
        return int(self.run("cat", f"/sys/class/net/{DEVICE}/statistics/rx_bytes").stdout)

    def has_carrier(self) -> bool:
        """Whether the cable can be used, by the state that programs see."""
        return self.run("cat", f"/sys/class/net/{DEVICE}/operstate").stdout == "up\n"

    def processes(self) -> dict[int, str]:
        """The command lines of all processes here by their number outside, zombies left out."""
        own = Path(f"/proc/{self.holder.pid}/ns/pid_for_children").readlink()
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and (entry / "ns" / "pid").readlink() == own:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = words.decode(errors="replace").strip()
        return {pid: line for pid, line in found.items() if line}


@dataclass(frozen=True)
class Hosts:
    """Two hosts and their cable. ``residents`` are the processes that are to stay."""

    first: Host
    second: Host
    agent: Path  # goes where an ssh goes: HOST COMMAND ...
    residents: set[int] = field(default_factory=set)

    def __iter__(self) -> Iterator[Host]:
        return iter((self.first, self.second))

    def processes(self) -> dict[int, str]:
        """Those of both, by their number outside."""
        return {**self.first.processes(), **self.second.processes()}

    def cut(self) -> None:
        self._link("down")

    def mend(self) -> None:
        self._link("up")

    def settle(self) -> None:
        """Takes whatever runs now for residents."""
        self.residents.update(self.processes())

    def guests(self, patience_s: float = 0.0) -> dict[int, str]:
        """What else runs on them, and does not end by itself within ``patience_s``."""

        def found() -> dict[int, str]:
            return {
                pid: line for pid, line in self.processes().items() if pid not in self.residents
            }

        with suppress(TimeoutError):
            wait_until(lambda: not found(), "all guests have gone", patience_s)
        return found()

    def evict(self) -> None:

        def none_left() -> bool:
            left = self.guests()
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        wait_until(none_left, "all guests are killed")

    def _link(self, state: str) -> None:
        _do(*_network_of(self.first), "ip", "link", "set", DEVICE, state)


def elsewhere(directory: Path, name: str = "beta") -> list[str]:
    """What stands before a command that is to run on a host of another name and identity.

    Memory and network are those of this machine, through which fake libraries send messages.
    """
    boot = directory / f"boot_id_of_{name}"
    boot.write_text("11111111-2222-3333-4444-555555555555\n")
    named = 'mount --bind "$0" /proc/sys/kernel/random/boot_id; hostname "$1"; shift; exec "$@"'
    return ["unshare", "--uts", "--mount", "sh", "-c", named, str(boot), name]


def ranks_on(host: Host) -> list[int]:
    lines = host.processes().items()
    return sorted(pid for pid, line in lines if "cclmark.rank_process" in line.split())


def program_of(process: subprocess.Popen[bytes]) -> int:
    """The program that was started through an entrance, by its number outside: signals go to it.

    The entrance itself must not be killed first: what it leaves would then have a parent outside,
    and the host's first process could not end before that one.
    """
    children = _children(process.pid)
    return children[0] if children else process.pid


def missing() -> str:
    """Why there can be no hosts on this machine; empty where there can."""
    for program in ("unshare", "nsenter", "ip", "ssh", "sshd", "ssh-keygen"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    tried = subprocess.run(
        [
            *("unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc"),
            "true",
        ],
        capture_output=True,
        text=True,
        timeout=20.0 * PATIENCE,
        check=False,
    )
    return tried.stderr.strip() if tried.returncode else ""


@contextmanager
def two_hosts(directory: Path) -> Iterator[Hosts]:
    """Makes ``alpha`` and ``beta``; root of one may go to the other by ssh, without a question."""
    addresses = {"alpha": "10.1.0.1", "beta": "10.1.0.2"}
    names = directory / "hosts"
    lines = [f"{address} {name}\n" for name, address in addresses.items()]
    names.write_text("".join(["127.0.0.1 localhost\n", *lines]))
    made: list[Host] = []
    try:
        for name, address in addresses.items():
            made.append(_host(name, address, names))
        first, second = made
        _do(
            *(*_network_of(first), "ip", "link", "add", DEVICE, "type", "veth"),
            *("peer", "name", DEVICE, "netns", str(second.holder.pid)),
        )
        for host in made:
            within = _network_of(host)
            _do(*within, "ip", "address", "add", f"{host.address}/24", "dev", DEVICE)
            _do(*within, "ip", "link", "set", DEVICE, "up")
        for host in made:  # the kernel reports a carrier up to a second late, and libraries ask
            wait_until(host.has_carrier, f"{host.name} is connected")
        yield Hosts(first, second, _ssh(directory, made))
    finally:
        for host in made:
            host.holder.kill()
            host.holder.communicate()


def _host(name: str, address: str, names: Path) -> Host:
    holder = subprocess.Popen(
        [
            *("unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc"),
            *("--kill-child", "sh", "-c", _FIRST, "sh", name, str(names)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert holder.stdout is not None
    if holder.stdout.readline() != b"up\n":
        holder.kill()
        raise RuntimeError(f"the host {name} could not be made")
    return Host(name, address, holder)


def _ssh(directory: Path, hosts: Sequence[Host]) -> Path:
    """Starts a server on each host; gives a client that knows the way."""
    key, known, options = (directory / name for name in ("key", "known_hosts", "ssh_config"))
    _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    server = directory / "sshd_config"
    server.write_text(
        f"HostKey {key}\nAuthorizedKeysFile {key}.pub\nPermitRootLogin yes\nStrictModes no\n"
        "UsePAM no\nPidFile none\nLogLevel ERROR\n"
    )
    kind, public = (directory / "key.pub").read_text().split()[:2]
    known.write_text("".join(f"{host.name},{host.address} {kind} {public}\n" for host in hosts))
    options.write_text(
        f"IdentityFile {key}\nUserKnownHostsFile {known}\nIdentitiesOnly yes\nBatchMode yes\n"
        "ConnectTimeout 5\nLogLevel ERROR\n"
    )
    for host in hosts:
        started = host.run(shutil.which("sshd") or "sshd", "-f", server)
        assert started.returncode == 0, started.stderr
    agent = directory / "ssh"
    agent.write_text(f'#!/bin/sh\nexec ssh -F {options} "$@"\n')
    agent.chmod(0o755)
    return agent


def _network_of(host: Host) -> list[str]:
    return ["nsenter", f"--net=/proc/{host.holder.pid}/ns/net", "--"]


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    """Looks again and again until ``condition`` holds. TimeoutError when it never does."""
    deadline_s = time.monotonic() + timeout_s * PATIENCE
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {timeout_s:g} s until {what}")
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _do(*command: str) -> None:
    subprocess.run(command, check=True, timeout=20.0 * PATIENCE, stdin=subprocess.DEVNULL)
