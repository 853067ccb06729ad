"""Runs a program of the user in the foreground, and passes signals on to it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cclmark.errors import UsageError
from cclmark.printable import plain

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
