"""The signals that ask a run to end, and the one that asks a rank where it is."""

import os
import signal
from collections.abc import Callable

from cclmark.errors import EXIT_INTERRUPTED

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, a scheduler, a closed terminal

# Nobody else's: PyTorch prints stacks of its own on SIGUSR2, NCCL's proxy can be told to dump on
# either SIGUSR, and schedulers and mpiruns send both to programs. Of the real-time signals glibc
# keeps the first two, profilers take their timers' from SIGRTMIN upwards, Valgrind takes the last.
STACK_SIGNAL = signal.SIGRTMAX - 9


def on_ending_signals(handler: Callable[[int, object], object] | signal.Handlers) -> None:
    """Sets what they do. One that is ignored, as nohup asks for, stays ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def leave_at_once(number: int, frame: object) -> None:
    """For as long as nothing has been begun that would have to be ended well."""
    try:
        os.write(2, b"cclmark: interrupted\n")
    finally:
        os._exit(EXIT_INTERRUPTED)


def interrupt(number: int, frame: object) -> None:
    """Ends a run with everything kept, whichever signal it was."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise KeyboardInterrupt(f"ended by {signal.Signals(number).name}")
