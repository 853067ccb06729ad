"""The signals that ask a run to end, and the one that asks a rank for its stack.

A handler that raises is not enough while messages are received: pyzmq runs pending handlers in
``Frame.__dealloc__``, where Python reports an exception as ignored and goes on. So the handler
notes the signal first, and raises only where no loop looks at what was noted.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cclmark.errors import EXIT_INTERRUPTED

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, a scheduler, a closed terminal

# Unused by others: PyTorch prints its stacks on SIGUSR2, NCCL's proxy can be configured to dump on
# either SIGUSR, and schedulers and mpiruns send both to programs. Of the real-time signals glibc
# keeps the first two, profilers take their timers' from SIGRTMIN upwards, Valgrind takes the last.
STACK_SIGNAL = signal.SIGRTMAX - 9

_noted: list[int] = []
_deferrals: list[None] = []


def on_ending_signals(handler: Callable[[int, object], object] | signal.Handlers) -> None:
    """Sets the handler of all of them. One that is ignored, as nohup asks for, stays ignored."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def leave_at_once(number: int, frame: object) -> None:
    """A handler for as long as nothing has been started that would have to be ended well."""
    try:
        os.write(2, b"cclmark: interrupted\n")
    finally:
        os._exit(EXIT_INTERRUPTED)


def note(number: int, frame: object) -> None:
    """A handler for who looks at ``noted`` all the time."""
    _noted.append(number)


def interrupt(number: int, frame: object) -> None:
    """The handler of a command: notes the signal; unless ``deferred``, raises KeyboardInterrupt."""
    note(number, frame)
    if not _deferrals:
        raise _interruption(number)


def noted() -> list[int]:
    """The ending signals that have arrived so far, in their order."""
    return [*_noted]


def raise_if_noted() -> None:
    """Raises KeyboardInterrupt where an ending signal has arrived, whether or not it was raised."""
    if _noted:
        raise _interruption(_noted[0])


@contextmanager
def deferred() -> Iterator[None]:
    """Signals are only noted in this context: every wait in it has to look at ``noted``.

    They stay so behind it once one has arrived: further ones must not keep the end from going well.
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
    return KeyboardInterrupt(f"ended by {signal.Signals(number).name}")
