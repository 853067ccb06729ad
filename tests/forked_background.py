"""Runs in the background that are forked, not started: see ``forked``.

A run of three ranks takes nearly a second of processor time to import the program four times. A
fork has the environment of its source in /proc, so its ranks are found by their parent and session.
"""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from commands import PROGRAM, Background, default_signals, environment, is_alive, tagged_processes
from forked import Forked, Source, Sources


class ForkedProcess:
    """What tests use of the ``subprocess.Popen`` of a run that goes on."""

    def __init__(self, run: Forked) -> None:
        self._run = run
        self.pid = run.pid

    @property
    def returncode(self) -> int | None:
        return self._run.returncode

    def poll(self) -> int | None:
        return None if is_alive(self.pid) else self._run.returncode or 0

    def wait(self, timeout: float) -> None:
        deadline_s = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline_s:
                raise subprocess.TimeoutExpired(self._run.args, timeout)
            time.sleep(0.005)

    def communicate(self, timeout: float = 60.0) -> tuple[bytes, bytes]:
        """What it has written until every process has closed its end."""
        return self._run.communicate(timeout)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self._run.close()


@dataclass(kw_only=True)
class ForkedBackground(Background):
    """A forked run that goes on while the test looks at it."""

    source: Source
    _seen: set[int] = field(default_factory=set)

    def workers(self) -> list[int]:
        """Ranks have sessions of their own; without their parent they belong to the source.
        The kernel lists the children of a process in the order of their start. Those that an mpirun
        has started are found as always.
        """
        living = self.source.living()
        forks = [pid for pid in living if _is_rank(pid, self.process.pid, living)]
        # While one of its children ends, the kernel's list may lack others.
        forks += filter(is_alive, self._seen.difference(forks))
        self._seen.update(forks)
        by_mpirun = super().workers() if any("mpi" in word for word in self.command) else []
        return [*sorted(forks, key=_started_ticks), *by_mpirun]

    def is_rank(self, pid: int) -> bool:
        """By its parent first: while a sibling ends, the kernel's list of children may lack it."""
        return _stat(pid)[:2] == (self.process.pid, pid) or super().is_rank(pid)


def _is_rank(pid: int, of: int, living: Mapping[int, object]) -> bool:
    parent, session, _ = _stat(pid)
    return session == pid and (parent == of or parent not in living)


def _started_ticks(pid: int) -> int:
    return _stat(pid)[2]


def _stat(pid: int) -> tuple[int, int, int]:
    """The parent and the session of a process, and when it was started; zeros if it has gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0, 0
    return int(words[1]), int(words[3]), int(words[19])


def backgrounds(
    tag: str, directory: Path, sources: Sources | None
) -> Iterator[Callable[..., Background]]:
    """Starts the program, or forks it where a source suits, and returns at once. It is killed at
    the end if it still runs.
    """
    runs: list[Background] = []

    def start(
        *arguments: str, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> Background:
        journal = directory / f"background-{len(runs)}.jsonl"
        words = [*map(str, arguments), "--journal", str(journal)]
        command = [*prefix, *PROGRAM, *words]
        own_tag = f"{tag}-{uuid.uuid4().hex}"
        variables = environment(own_tag, env)
        place = (command, directory, journal, own_tag)
        with default_signals():
            source = None if sources is None or prefix else sources.of(words, variables)
            if source is not None and source.suits(variables):
                fork = ForkedProcess(source.start(words, directory, variables))
                runs.append(ForkedBackground(*place, fork, source=source))
                return runs[-1]
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        runs.append(Background(*place, process))
        return runs[-1]

    yield start
    for run in runs:
        left = [*run.workers(), *tagged_processes(run.tag)]
        if isinstance(run.process, ForkedProcess):
            run.process.close()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not isinstance(run.process, ForkedProcess):
            run.process.communicate()
