"""Where ranks are that say nothing any more: they are asked by a signal, else the kernel is.

A rank writes its stack, Python's and the native one, from a signal handler into a file in memory
(engine/core/stack.hpp), so it answers from inside any call. One that is stopped, or asleep in a
driver, does not: of it the kernel tells what little it knows.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cclmark.signals import STACK_SIGNAL

_POLL_S = 0.005
_MOST_BYTES = 1 << 16
_MOST_NATIVE = 7
_MOST_PYTHON = 6
_MOST_KERNEL = 5
_LONGEST = 100
_INTERPRETER = re.compile(r"(lib)?python[\d.]*t?(\.so.*)?")
_PYTHON_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')
_EXTENSION = re.compile(r"\.(cpython-[\w-]+|abi3)\.so$")
# Where packages are installed, and this one itself wherever it is.
_PACKAGES = re.compile(r".*/(?:(?:site|dist)-packages/|(?=cclmark/run/))")


@dataclass(frozen=True)
class _Frame:
    """One native frame: numbers are offsets, ``symbol`` is empty where the module exports none."""

    module: str
    offset: int
    symbol: str = ""

    def text(self) -> str:
        """As a line of the report."""
        if self.symbol:
            name, _, offset = self.symbol.rpartition("+")
            return f"{_readable(name)}+{offset} ({self.module})"
        return f"{self.module}+{self.offset:#x}"


@dataclass
class _Question:
    """A rank that was asked: its answer begins at ``start`` of the file ``fd``."""

    pid: int
    fd: int
    start: int

    def answer(self) -> str:
        """What it has written by now."""
        return os.pread(self.fd, _MOST_BYTES, self.start).decode(errors="replace")

    def answered(self) -> bool:
        """Whether that is all of it."""
        return self.answer().endswith("\nend\n")

    def over(self) -> bool:
        """Whether there is nothing more to wait for: it may have been stopped in the meantime."""
        return self.answered() or _state(self.pid) in _DUMB


def collect_stacks(
    pids: Mapping[int, int], files: Mapping[int, int], timeout_s: float
) -> dict[int, list[str]]:
    """Where the ranks with these ``pids`` are, each in at most some 15 lines, innermost first.

    ``files``: the descriptor that each rank was given as ``stack_fd``, open here as well. Returns
    something for every rank of ``pids`` within ``timeout_s``: where a rank does not answer, why,
    and what the kernel says of it. A process that would not survive the signal is not sent it.
    """
    questions: dict[int, _Question] = {}
    stacks: dict[int, list[str]] = {}
    for rank, pid in pids.items():
        why = _why_not(pid) if rank in files else "it was given no file to write its stack to"
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
            missing = "the stack is not whole" if stacks[rank] else "no stack"
            why = _describe(question.pid)
            if _state(question.pid) not in _DUMB:
                why = f"no answer within {timeout_s:g} s, {why}"
            stacks[rank] += [f"{missing}: {why}", *_of_kernel(question.pid)]
    return {rank: stacks[rank] for rank in pids}


def render(answer: str, memory: _Map | None = None) -> list[str]:
    """The lines of a report from what a rank wrote, which may be cut off anywhere.

    ``memory`` tells the module of an address that the rank did not get to name itself.
    """
    lines = answer.split("\n")[:-1]
    named = [_frame(line) for line in lines if line.startswith("frame\t")]
    addresses = [_number(line[8:]) for line in lines if line.startswith("address ")]
    frames = [*named, *(_unnamed(pc, memory) for pc in addresses[len(named) :])]
    return [*_native(frames), *_python(lines)]


class _Map:
    """Which file is where in the memory of a process, as far as the kernel tells."""

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
        """The frame of an address; None where there is no file."""
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
    """Those inside of the interpreter, whose own frames say nothing that Python's do not."""
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
            # Several frames in a row of which only the module is known tell no more than the first.
            more += 1
            if more > 1:
                lines.pop()
            lines.append(f"  {more} more in {frame.module}")
        nameless = frame.module if not frame.symbol else "-"
    return _at_most(_MOST_NATIVE, lines)


def _python(lines: Sequence[str]) -> list[str]:
    """Python's frames without those by which it was started."""
    frames = [found.groups() for line in lines if (found := _PYTHON_FRAME.match(line))]
    while frames and _starts_a_rank(frames[-1][0], frames[-1][2]):
        frames.pop()
    shown = [f"{name} ({_short(path)}:{line})" for path, line, name in frames]
    return [f"python: {text}" for text in _at_most(_MOST_PYTHON, shown)]


def _starts_a_rank(path: str, name: str) -> bool:
    own = path.endswith("cclmark/run/worker.py") and name in ("main", "<module>")
    return own or path.startswith("<frozen")


def _short(path: str) -> str:
    inside = _PACKAGES.sub("", path)
    return inside if inside != path else "/".join(path.split("/")[-2:])


def _at_most(count: int, lines: Sequence[str]) -> list[str]:
    if len(lines) <= count + 1:
        return list(lines)
    return [*lines[:count], f"... {len(lines) - count} more"]


def _readable(symbol: str) -> str:
    """A C++ symbol as its source has it, without the arguments."""
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
    """A file of the kernel's on a process; empty where there is none, or it is not for us."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _state(pid: int) -> str:
    """The letter of its state, empty for a process that is gone."""
    return _read(pid, "stat").rpartition(")")[2][:2].strip()


_STATES = {
    "": "the process is gone",
    "D": "it sleeps in the kernel and cannot be woken (state D), as in a driver",
    "R": "it runs (state R)",
    "S": "it sleeps (state S)",
    "T": "it is stopped (state T)",
    "t": "a debugger has stopped it (state t)",
    "X": "the process has ended",
    "Z": "the process has ended",
}
_DUMB = ("", "T", "t", "X", "Z")  # who is in one of these says nothing more


def _describe(pid: int) -> str:
    state = _state(pid)
    return _STATES.get(state, f"its state is {state}")


def _why_not(pid: int) -> str:
    """Why a process cannot be asked; empty where it can."""
    if pid <= 0:
        return "its process is not known"
    if _state(pid) in _DUMB:
        return _describe(pid)
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", _read(pid, "status"), re.MULTILINE)
    if caught is None or not int(caught[1], 16) >> (STACK_SIGNAL - 1) & 1:
        return f"it does not listen for the question, {_describe(pid)}"
    return ""


def _ask(pid: int) -> str:
    """Sends the question. Returns why that cannot be done; empty where it can."""
    try:
        os.kill(pid, STACK_SIGNAL)
    except OSError as error:
        return f"it cannot be asked: {error.strerror}"
    return ""


def _of_kernel(pid: int) -> list[str]:
    """What the kernel knows of a process that does not say itself where it is."""
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
        return lines  # how it was stopped is of no interest
    stack = [line.partition("] ")[2] for line in _read(pid, "stack").splitlines()]
    return [*lines, *_at_most(_MOST_KERNEL, [f"kernel: {line}" for line in stack if line])]
