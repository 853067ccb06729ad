"""The signals and exits that end a run, and the signal that requests the stack of a rank.

A handler that raises is not sufficient while messages are received: pyzmq runs pending handlers in
``Frame.__dealloc__``, where Python reports an exception as ignored and continues. The handler
therefore records the signal first, and raises only where no loop polls the recorded signals.

Waits within ``deferred()`` poll several times a second. The exceptions are waits at the end of a
run: up to 5 s each for the descriptions of devices and for NCCL's RAS, up to 4 s for ranks to exit,
and up to 3 s more for an mpirun that started them.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cclmark.base.errors import EXIT_INTERRUPTED

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, a scheduler, a closed terminal

# Not used by others: PyTorch prints its stacks on SIGUSR2, NCCL's proxy can be configured to dump
# on SIGUSR1 or SIGUSR2, and schedulers and mpiruns send both to programs. Of the real-time signals
# glibc reserves the first two, profilers use timers from SIGRTMIN upwards, Valgrind uses the last.
STACK_SIGNAL = signal.SIGRTMAX - 9

_PARENT_PID = os.getppid()  # read as early as possible: the parent may exit during start-up
_noted: list[int] = []
_deferrals: list[None] = []


def signal_name(number: int) -> str:
    """The name of a signal; those of real time have none but the first and the last one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def on_ending_signals(handler: Callable[[int, object], object] | signal.Handlers) -> None:
    """Sets the handler of all ending signals. An ignored one, as under nohup, stays ignored."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def leave_at_once(number: int, frame: object) -> None:
    """A handler for the time before anything is started that requires an orderly end."""
    try:
        os.write(2, b"cclmark: interrupted\n")
    finally:
        os._exit(EXIT_INTERRUPTED)


def note(number: int, frame: object) -> None:
    """A handler for programs that poll ``noted``: only records the signal."""
    _noted.append(number)


def interrupt(number: int, frame: object) -> None:
    """The handler of a command: records the signal and raises KeyboardInterrupt unless deferred."""
    note(number, frame)
    if not _deferrals:
        raise _interruption(number)


def noted() -> list[int]:
    """The ending signals received so far, in order."""
    return [*_noted]


def raise_if_noted() -> None:
    """Raises KeyboardInterrupt if an ending signal has arrived, even if it was raised before."""
    if _noted:
        raise _interruption(_noted[0])


def launcher_is_gone() -> bool:
    """Whether the parent of this process has exited, so that no process waits for this one."""
    return os.getppid() != _PARENT_PID


def raise_if_ended(*, launched: bool = True) -> None:
    """Raises KeyboardInterrupt after a signal to end this process.

    With ``launched``, also raises it if the program that started this process has exited.
    """
    raise_if_noted()
    if launched and launcher_is_gone():
        raise KeyboardInterrupt("the launcher of this process has exited")


@contextmanager
def within_program() -> Iterator[None]:
    """A context for a run within a program of the user, whose handler of Ctrl-C applies again after
    it. Raises KeyboardInterrupt at its end if a signal has arrived, even if the run was complete.

    In another thread than the main one, Ctrl-C is not handled.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, interrupt) if is_main else None
    try:
        yield
        raise_if_noted()
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before or signal.default_int_handler)
        _noted.clear()
        _deferrals.clear()


@contextmanager
def deferred() -> Iterator[None]:
    """A context in which signals are only recorded: every wait inside must poll ``noted``.

    Once a signal has arrived, this remains in effect after the context, so that further signals do
    not disturb an orderly end.
    """
    _deferrals.append(None)
    try:
        yield
    finally:
        if not _noted:
            _deferrals.pop()


def _interruption(number: int) -> KeyboardInterrupt:
    if number == signal.SIGINT:
        return KeyboardInterrupt()
    return KeyboardInterrupt(f"ended by {signal_name(number)}")
