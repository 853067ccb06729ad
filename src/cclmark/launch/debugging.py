"""Ranks that run under a debugger, as ``--debug-rank`` requests for all runs of this process.

A debugger without a command of the user gets the terminal: its process group is in the foreground,
so that Ctrl-C reaches it, until it has exited.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cclmark.base.errors import MissingError, UsageError
from cclmark.launch.placement import find_placement

#: The time in seconds that a phase may take while a rank is debugged: the largest of ``-T``.
NO_DEADLINE_S = 1e6
_DEBUGGERS = {"gdb": ("gdb", "--args"), "lldb": ("lldb", "--")}
_EXAMPLE = "--debug-rank 0='gdb -batch -ex run -ex bt --args'"


@dataclass(frozen=True)
class Debugged:
    """The debugged ranks and the command before theirs. ``name``: of a debugger on the terminal."""

    ranks: tuple[int, ...]
    command: tuple[str, ...]
    name: str = ""

    def command_of(self, rank: int) -> list[str]:
        """Returns the command before that of a rank, empty for a rank that is not debugged."""
        return list(self.command) if rank in self.ranks else []

    def require_program(self) -> None:
        """Raises UsageError without a terminal that is needed, MissingError without a program."""
        if self.name:
            self._require_terminal()
        if self.command and shutil.which(self.command[0]) is None:
            raise MissingError(
                f"--debug-rank: {self.command[0]} is not installed here: install it, or give "
                f"another command, as {_EXAMPLE}"
            )

    def _require_terminal(self) -> None:
        remedy = f"give a command that needs no terminal, as {_EXAMPLE}"
        if len(self.ranks) > 1:
            raise UsageError(f"--debug-rank: one terminal is for one rank: {remedy}")
        if find_placement(os.environ) is not None:
            raise UsageError(f"--debug-rank: processes of a launcher have no terminal: {remedy}")
        try:
            with open_terminal() as terminal:
                is_ours = os.tcgetpgrp(terminal) == os.getpgrp()
        except OSError:
            raise UsageError(f"--debug-rank: {self.name} needs a terminal: {remedy}") from None
        if not is_ours:
            raise UsageError(
                "--debug-rank: cclmark is in the background: start it in the foreground, or "
                f"{remedy}"
            )

    def require(self, ranks: int) -> None:
        """Raises UsageError if a debugged rank is none of the run."""
        for rank in self.ranks:
            if rank >= ranks:
                least = "only rank 0" if ranks == 1 else f"ranks 0 to {ranks - 1}"
                raise UsageError(f"--debug-rank {rank}: the run has {least}")

    @property
    def notice(self) -> str:
        """Describes what differs from a run without a debugger."""
        which = f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))}"
        return (
            f"{which} under {shlex.join(self.command)}: deadlines (-T) are off for all ranks, and "
            "times contain the debugger"
        )


_NOTHING = Debugged((), ())
_chosen = [_NOTHING]


def debugged() -> Debugged:
    """Returns the debugged ranks of this process's runs."""
    return _chosen[0]


def choose_debugged(text: str | None) -> None:
    """Debugs ranks by ``RANK[,RANK][=gdb|lldb|COMMAND]``; None: none. Raises UsageError."""
    _chosen[0] = _NOTHING if text is None else _parsed(text)


def _parsed(text: str) -> Debugged:
    numbers, _, command = text.partition("=")
    try:
        ranks = tuple(int(number) for number in numbers.split(","))
        words = tuple(shlex.split(command))
    except ValueError:
        ranks, words = (-1,), ()
    if min(ranks) < 0 or ("=" in text and not words):
        raise UsageError(f"--debug-rank {text!r}: expected RANK[=gdb|lldb|COMMAND], as {_EXAMPLE}")
    name = command if command in _DEBUGGERS else "" if words else "gdb"
    return Debugged(ranks, _DEBUGGERS[name] if name else words, name)


@contextlib.contextmanager
def open_terminal() -> Iterator[int]:
    """Opens the terminal of this process. Raises OSError if it has none."""
    terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    try:
        yield terminal
    finally:
        os.close(terminal)


class Foreground:
    """Gives the terminal to a process group, and takes it back."""

    def __init__(self) -> None:
        with open_terminal() as terminal:
            self._modes = termios.tcgetattr(terminal)

    def give(self, group: int) -> None:
        """Makes a process group the foreground of the terminal, and continues it."""
        with open_terminal() as terminal:
            _set_foreground(terminal, group)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGCONT)  # it may have read before, which stops it

    def take_back(self) -> None:
        """Makes the group of this process the foreground, with the former modes."""
        with contextlib.suppress(OSError, termios.error), open_terminal() as terminal:
            _set_foreground(terminal, os.getpgrp())
            termios.tcsetattr(terminal, termios.TCSADRAIN, self._modes)


def _set_foreground(terminal: int, group: int) -> None:
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def start_debugged(
    command: Sequence[str], job_path: str, environment: dict[str, str], *, on_terminal: bool
) -> tuple[subprocess.Popen[bytes], Foreground | None]:
    """Starts a rank under a debugger, which may get the terminal. ``job_path``: of its job."""
    words = [*command, sys.executable, "-m", "cclmark.rank_process", job_path]
    if not on_terminal:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True, env=environment
        )
        return process, None
    foreground = Foreground()
    with open_terminal() as terminal:
        process = subprocess.Popen(
            words,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            preexec_fn=os.setpgrp,  # noqa: PLW1509 - process_group is of Python 3.11
            env=environment,
        )
    foreground.give(process.pid)
    return process, foreground
