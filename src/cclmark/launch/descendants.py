"""The processes of a program, found by a variable in their environment, and their libraries."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

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
