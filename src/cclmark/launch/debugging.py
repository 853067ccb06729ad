"""Ranks under a debugger, as ``--debug-rank`` requests for all runs of this process; stacks.

A debugger without a command of the user gets the terminal: its process group is in the foreground,
so that Ctrl-C reaches it, until it has exited.

The stacks of unresponsive ranks are requested by a signal, or else read from the kernel. A rank
writes its Python stack and its native stack to a memory file from a signal handler
(engine/core/stack.hpp), so it can answer from inside any call. A rank that is stopped, or sleeps in
a driver, cannot answer; for it the kernel provides limited information.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cclmark.base.errors import MissingError, UsageError
from cclmark.base.signals import STACK_SIGNAL
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


_POLL_S = 0.005
_MOST_BYTES = 1 << 16
_MOST_NATIVE = 7
_MOST_PYTHON = 6
_MOST_KERNEL = 5
_LONGEST = 100
_INTERPRETER = re.compile(r"(lib)?python[\d.]*t?(\.so.*)?")
_PYTHON_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')
_EXTENSION = re.compile(r"\.(cpython-[\w-]+|abi3)\.so$")
# The directories of installed packages, and the one of cclmark itself.
_PACKAGES = re.compile(r".*/(?:(?:site|dist)-packages/|(?=cclmark/(?:rank|kinds)/))")


@dataclass(frozen=True)
class _Frame:
    """One native frame: ``offset`` is in the module, ``symbol`` is empty if none is exported."""

    module: str
    offset: int
    symbol: str = ""

    def text(self) -> str:
        """The frame as a line of the report."""
        if self.symbol:
            name, _, offset = self.symbol.rpartition("+")
            return f"{_readable(name)}+{offset} ({self.module})"
        return f"{self.module}+{self.offset:#x}"


@dataclass
class _Question:
    """A pending stack request: the answer begins at offset ``start`` of the file ``fd``."""

    pid: int
    fd: int
    start: int

    def answer(self) -> str:
        """The part of the answer written so far."""
        return os.pread(self.fd, _MOST_BYTES, self.start).decode(errors="replace")

    def answered(self) -> bool:
        """Whether the answer is complete."""
        return self.answer().endswith("\nend\n")

    def over(self) -> bool:
        """Whether the wait is over: the answer is complete, or the process cannot answer now."""
        return self.answered() or _state(self.pid) in _DUMB


def collect_stacks(
    pids: Mapping[int, int], files: Mapping[int, int], timeout_s: float
) -> dict[int, list[str]]:
    """Collects the stacks of the ranks with these ``pids``, innermost first, about 15 lines each.

    ``files``: the descriptor that each rank received as ``stack_fd``, open in this process too.
    Returns an entry for every rank of ``pids`` within ``timeout_s``: for a rank that does not
    answer, the reason and the information from the kernel. A process without a handler is not sent
    the signal, which would kill it.
    """
    questions: dict[int, _Question] = {}
    stacks: dict[int, list[str]] = {}
    for rank, pid in pids.items():
        why = _why_not(pid) if rank in files else "it has no file for its stack"
        if not why:
            question = _Question(pid, files[rank], os.fstat(files[rank]).st_size)
            why = _ask(pid)
        if why:
            stacks[rank] = [f"no stack: {why}", *_of_kernel(pid)]
        else:
            questions[rank] = question
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if all(question.over() for question in questions.values()):
            break
        time.sleep(_POLL_S)
    for rank, question in questions.items():
        stacks[rank] = render(question.answer(), _Map(question.pid))
        if not question.answered():
            missing = "the stack is incomplete" if stacks[rank] else "no stack"
            why = _describe(question.pid)
            if _state(question.pid) not in _DUMB:
                why = f"no answer within {timeout_s:g} s, {why}"
            stacks[rank] += [f"{missing}: {why}", *_of_kernel(question.pid)]
    return {rank: stacks[rank] for rank in pids}


def render(answer: str, memory: _Map | None = None) -> list[str]:
    """The lines of a report from a rank's answer, which may be truncated at any point.

    ``memory`` provides the module of an address for which the rank wrote none.
    """
    lines = answer.split("\n")[:-1]
    named = [_frame(line) for line in lines if line.startswith("frame\t")]
    addresses = [_number(line[8:]) for line in lines if line.startswith("address ")]
    frames = [*named, *(_unnamed(pc, memory) for pc in addresses[len(named) :])]
    return [*_native(frames), *_python(lines)]


class _Map:
    """The files mapped in the memory of a process, as far as the kernel reports them."""

    def __init__(self, pid: int) -> None:
        self._begins: list[int] = []
        self._places: list[tuple[int, int, str]] = []
        first: dict[str, int] = {}
        for line in _read(pid, "maps").splitlines():
            words = line.split(maxsplit=5)
            if len(words) < 6 or not words[5].startswith("/"):
                continue
            begin, end = (int(number, 16) for number in words[0].split("-"))
            self._begins.append(begin)
            self._places.append((end, first.setdefault(words[5], begin), words[5]))

    def frame(self, pc: int) -> _Frame | None:
        """The frame of an address, None if no file is mapped there."""
        place = bisect_right(self._begins, pc) - 1
        if place < 0 or pc >= self._places[place][0]:
            return None
        _, base, path = self._places[place]
        return _Frame(_module(path), pc - base)


def _frame(line: str) -> _Frame:
    _, pc, path, offset, symbol = [*line.split("\t"), "", "", "", ""][:5]
    return _Frame(_module(path), _number(offset or pc), symbol)


def _module(path: str) -> str:
    return _EXTENSION.sub("", Path(path).name) or "unknown code"


def _unnamed(pc: int, memory: _Map | None) -> _Frame:
    return (memory.frame(pc) if memory is not None else None) or _Frame(_module(""), pc)


def _number(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _native(frames: Sequence[_Frame]) -> list[str]:
    """The native frames up to the interpreter, whose own frames repeat the Python stack."""
    lines: list[str] = []
    nameless = ""
    more = 0
    for frame in frames:
        if _INTERPRETER.fullmatch(frame.module):
            break
        if frame.symbol or frame.module != nameless:
            more = 0
            lines.append(frame.text())
        else:
            # Consecutive frames with only a module name add no information to the first one.
            more += 1
            if more > 1:
                lines.pop()
            lines.append(f"  {more} more in {frame.module}")
        nameless = frame.module if not frame.symbol else "-"
    return _at_most(_MOST_NATIVE, lines)


def _python(lines: Sequence[str]) -> list[str]:
    """The Python frames without the ones that started the rank."""
    frames = [found.groups() for line in lines if (found := _PYTHON_FRAME.match(line))]
    while frames and _starts_a_rank(frames[-1][0], frames[-1][2]):
        frames.pop()
    shown = [f"{name} ({_short(path)}:{line})" for path, line, name in frames]
    return [f"python: {text}" for text in _at_most(_MOST_PYTHON, shown)]


def _starts_a_rank(path: str, name: str) -> bool:
    entries = ("run_rank", "main", "<module>")
    own = path.endswith(("cclmark/rank/worker.py", "cclmark/rank_process.py")) and name in entries
    return own or path.startswith("<frozen")


def _short(path: str) -> str:
    inside = _PACKAGES.sub("", path)
    return inside if inside != path else "/".join(path.split("/")[-2:])


def _at_most(count: int, lines: Sequence[str]) -> list[str]:
    if len(lines) <= count + 1:
        return list(lines)
    return [*lines[:count], f"... {len(lines) - count} more"]


def _readable(symbol: str) -> str:
    """A C++ symbol in its demangled form, without the arguments."""
    if not re.fullmatch(r"_Z[\w.$]{1,1000}", symbol):
        return symbol[:_LONGEST]
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return symbol[:_LONGEST]
    demangle.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]
    status = ctypes.c_int(0)
    found = demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not found:
        return symbol[:_LONGEST]
    name = ctypes.string_at(found).decode(errors="replace")
    free(found)
    name = name.replace("(anonymous namespace)", "{anonymous}")
    return (name.partition("(")[0] or name)[:_LONGEST]


def _read(pid: int, name: str) -> str:
    """A file in /proc about a process, empty if it is missing or not readable."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _state(pid: int) -> str:
    """The state letter of a process, empty for one that has exited."""
    return _read(pid, "stat").rpartition(")")[2][:2].strip()


_STATES = {
    "": "the process has exited",
    "D": (
        "it is sleeping in the kernel and cannot be interrupted (state D), for example in a driver"
    ),
    "R": "it is running (state R)",
    "S": "it is sleeping (state S)",
    "T": "it is stopped (state T)",
    "t": "a debugger has stopped it (state t)",
    "X": "the process has exited",
    "Z": "the process has exited",
}
_DUMB = ("", "T", "t", "X", "Z")  # a process in one of these states cannot answer


def _describe(pid: int) -> str:
    state = _state(pid)
    return _STATES.get(state, f"its state is {state}")


def _why_not(pid: int) -> str:
    """The reason why a process cannot be sent the signal, empty if it can."""
    if pid <= 0:
        return "its process is unknown"
    if _state(pid) in _DUMB:
        return _describe(pid)
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", _read(pid, "status"), re.MULTILINE)
    if caught is None or not int(caught[1], 16) >> (STACK_SIGNAL - 1) & 1:
        return f"it does not handle the request, {_describe(pid)}"
    return ""


def _ask(pid: int) -> str:
    """Sends the signal. Returns the reason for a failure, empty on success."""
    try:
        os.kill(pid, STACK_SIGNAL)
    except OSError as error:
        return f"the request failed: {error.strerror}"
    return ""


def _of_kernel(pid: int) -> list[str]:
    """The kernel's information about a process that does not answer."""
    lines = []
    call = _read(pid, "syscall").split()
    if len(call) > 2:
        frame = _Map(pid).frame(_number(call[-1]))
        if frame is not None:
            lines.append(frame.text())
        if call[0].isdecimal():
            lines.append(f"kernel: system call {call[0]}")
    waits = _read(pid, "wchan").strip()
    if waits not in ("", "0"):
        lines.append(f"kernel: waits in {waits}")
    if _state(pid) in _DUMB:
        return lines  # the kernel stack only shows how the process was stopped
    stack = [line.partition("] ")[2] for line in _read(pid, "stack").splitlines()]
    return [*lines, *_at_most(_MOST_KERNEL, [f"kernel: {line}" for line in stack if line])]
