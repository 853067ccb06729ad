"""Runs a program of the user in the foreground, and passes signals on to it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain

_PROC = Path("/proc")
#: Libraries of collective communication, by the beginning of the file's name.
_LIBRARIES = re.compile(
    rb"/(lib(?:nccl|rccl|hccl|mccl|cncl|bkcl|flagcx|eccl|ixccl|mpi|gloo|torch_cuda|torch_hip|"
    rb"torch_cpu|cudart|cuda)[^/\n ]*\.so[^/\n ]*)"
)
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.25, 16.0
_SOON_S = 10.0  # programs load their libraries at the beginning


@dataclass
class SeenProcess:
    """A process of the program. ``libraries``: the names of the files that it had loaded."""

    pid: int
    name: str
    libraries: set[str] = field(default_factory=set)

    @property
    def has_nccl(self) -> bool:
        """Whether it had loaded NCCL, or a library that may contain it."""
        return any(one.startswith(("libnccl.", "librccl.")) for one in self.libraries)


class Descendants:
    """Looks at the processes of a program while no log of the plug-in exists.

    Reading the mappings of a process briefly blocks it, so that pauses become longer after a while,
    and nothing is read once there is a log.
    """

    def __init__(self, variable: str, value: str, logs: Path) -> None:
        """``variable=value`` is in the environment of all processes; ``logs``: their directory.

        It may contain logs of earlier programs.
        """
        self._mark = f"{variable}={value}".encode()
        self._logs = logs
        self._earlier = {*logs.glob("*.cclmlog")}
        self._pause_s = _FIRST_PAUSE_S
        #: Observed processes, by PID.
        self.seen: dict[int, SeenProcess] = {}

    def observe(self, now_s: float) -> float:
        """Looks, and returns how many seconds later to look again."""
        if any(path not in self._earlier for path in self._logs.glob("*.cclmlog")):
            return _LAST_PAUSE_S
        with contextlib.suppress(OSError):  # for instance too many open files
            for pid in self._processes():
                self._look_at(pid)
        if now_s > _SOON_S:
            self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)
        return self._pause_s

    def _processes(self) -> Iterator[int]:
        for entry in _PROC.iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if self._mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
            except OSError:  # it has ended, or belongs to another user
                continue

    def _look_at(self, pid: int) -> None:
        try:
            content = (_PROC / str(pid) / "maps").read_bytes()
            name = (_PROC / str(pid) / "comm").read_text(errors="replace").strip()
        except OSError:
            return
        found = self.seen.setdefault(pid, SeenProcess(pid, name))
        found.name = name
        found.libraries |= {
            match.decode(errors="replace") for match in set(_LIBRARIES.findall(content))
        }


_PASSED_ON = frozenset(
    (
        *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
    )
)
_FROM_KERNEL = 128  # si_code of a signal that the terminal sent, to the whole foreground group
_GRACE_S = 2.0  # between SIGTERM and SIGKILL
_SIGNAL_BASE = 128  # a shell's status of a program that a signal ended


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended. ``code``: its exit code, negative for a signal."""

    code: int
    wall_s: float

    @property
    def exit_code(self) -> int:
        """The exit code as a shell reports it."""
        return self.code if self.code >= 0 else _SIGNAL_BASE - self.code

    @property
    def text(self) -> str:
        """The end in words; empty if it succeeded."""
        if self.code > 0:
            return f"the program ended with exit code {self.code}"
        if self.code < 0:
            return f"the program was ended by {_name_of(-self.code)}"
        return ""


def _name_of(number: int) -> str:
    """The name of a signal; those of real time have none but the first and the last one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    observe: Callable[[float], float],
) -> ProgramEnd:
    """Runs ``command`` with this process's standard streams until it ends.

    Signals to this process alone are passed on; those of the terminal reach the program directly,
    since it is in the same process group. ``observe`` is called while the program runs, with the
    seconds since its start; it returns after how many seconds to call it again. Raises UsageError
    if the program cannot be started. A program that runs when anything else is raised is ended.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    waited_for = _PASSED_ON | {signal.SIGCHLD}
    former = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    # Where it was inherited as ignored, the kernel would discard how the program ended.
    on_end = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        began_s = time.monotonic()
        process = _started(command, environment, former, is_end_ignored=on_end == signal.SIG_IGN)
        try:
            next_s = observe(0.0)
            while process.poll() is None:
                now_s = time.monotonic() - began_s
                if now_s >= next_s:
                    next_s = now_s + observe(now_s)
                    continue
                received = signal.sigtimedwait(waited_for, next_s - now_s)
                if received is not None:
                    _pass_on(received, process)
        except BaseException:
            _end(process)
            raise
        return ProgramEnd(process.returncode, time.monotonic() - began_s)
    finally:
        signal.signal(signal.SIGCHLD, on_end if on_end is not None else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _started(
    command: Sequence[str],
    environment: Mapping[str, str],
    mask: set[int | signal.Signals],
    *,
    is_end_ignored: bool,
) -> subprocess.Popen[bytes]:
    def with_own_signals() -> None:
        if is_end_ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        # A signal to the group may arrive before the program replaces this process: it ends it, and
        # does not run this process's handlers.
        for number in _PASSED_ON:
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        # Descriptors that this process inherited are the program's, too.
        return subprocess.Popen(
            command,
            env=dict(environment),
            preexec_fn=with_own_signals,  # noqa: PLW1509 - no other thread
            close_fds=False,
        )
    except FileNotFoundError:
        raise UsageError(
            f"cannot run {plain(command[0])}: there is no such program. The program to profile "
            "follows the options: cclmark profile [OPTIONS] -- COMMAND..."
        ) from None
    except OSError as error:
        raise UsageError(f"cannot run {plain(command[0])}: {error.strerror}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the program: with a signal, and by force if it does not react or is stopped."""
    for end in (process.terminate, process.kill):
        end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            return


def _pass_on(received: signal.struct_siginfo, process: subprocess.Popen[bytes]) -> None:
    number = received.si_signo
    if number == signal.SIGCHLD or received.si_code == _FROM_KERNEL:
        return
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(process.pid, number)
