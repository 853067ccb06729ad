"""The rank processes: their start, supervision and guaranteed end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import msgspec

from cclmark.base.files import process_stat
from cclmark.launch.debugging import Foreground, start_debugged
from cclmark.rendezvous.messages import Job, JobsFile

_GRACE_S = 2.0
_POLL_S = 0.01


@dataclass
class RankProcess:
    """One rank's process, in a separate process group, or the debugger that it runs under.

    ``process``: None if another process has started it.
    """

    rank: int
    process: subprocess.Popen[bytes] | None

    @property
    def pid(self) -> int:
        """The pid of the process."""
        assert self.process is not None
        return self.process.pid

    def exit_status(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        assert self.process is not None
        return self.process.poll()

    def remains(self) -> bool:
        """Whether the process still runs, or hangs in the kernel."""
        return self.exit_status() is None

    def is_stopped(self) -> bool:
        """Whether the process is stopped, for example by SIGSTOP or a debugger."""
        return is_stopped(self.pid)

    def kill(self) -> None:
        """Kills the process group of the rank."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait_for_exit(self, timeout_s: float) -> None:
        """Waits at most ``timeout_s`` until the process exits by itself."""
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout_s)

    def close(self) -> None:
        """Releases what the process has of this one, after its end."""


@dataclass
class DebuggedRank(RankProcess):
    """One rank under a debugger. ``job``: the descriptor of its job, which the rank opens late."""

    job: int
    foreground: Foreground | None

    def wait_for_exit(self, timeout_s: float) -> None:
        """Waits until the user has left the debugger."""
        assert self.process is not None
        self.process.wait()

    def close(self) -> None:
        """Takes the terminal back."""
        if self.job >= 0:
            os.close(self.job)
            self.job = -1
            if self.foreground is not None:
                self.foreground.take_back()


def is_stopped(pid: int) -> bool:
    """Whether a process of this host is stopped, for example by SIGSTOP or a debugger."""
    try:
        return process_stat(pid)[0] in ("T", "t")
    except OSError:
        return False


def start_rank(job: Job, ranks: list[RankProcess]) -> None:
    """Starts the rank of ``job`` and appends it to ``ranks``. It is killed with this process."""
    if job.debugger:
        ranks.append(_debugged_rank(job))
        return
    # A memory file instead of a pipe: a rank that does not read cannot block the others.
    with os.fdopen(os.memfd_create("cclmark-job"), "w+b") as file:
        file.write(msgspec.msgpack.encode(job))
        file.seek(0)
        # The rank inherits that SIGINT is blocked, until it has replaced Python's handler, which
        # would print a traceback.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "cclmark.rank_process", *_early_runtime(job)],
                stdin=file,
                stdout=2,  # output of libraries; standard output is reserved for results
                pass_fds=(*_of_job(job), *_of_launcher(job)),
                start_new_session=True,
                env=environment(),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
    ranks.append(RankProcess(job.rank, process))


def _debugged_rank(job: Job) -> DebuggedRank:
    """Starts a rank whose standard input may be a terminal: it opens its job through /proc.

    So does it the shared files, since debuggers close the descriptors that they do not know.
    """
    descriptor = os.memfd_create("cclmark-job")
    os.pwrite(descriptor, msgspec.msgpack.encode(JobsFile([job])), 0)
    process, foreground = start_debugged(
        job.debugger,
        f"/proc/{os.getpid()}/fd/{descriptor}",
        environment(),
        on_terminal=job.debugs_on_terminal,
    )
    return DebuggedRank(job.rank, process, descriptor, foreground)


def _early_runtime(job: Job) -> list[str]:
    """The runtime that the rank may load before it reads its job, as arguments.

    Not where the rank sets variables before, which a driver may read when it is initialised.
    """
    sets = job.environment or job.explain or job.traced_operations
    return [] if sets or job.runtime == "host" else ["--runtime", job.runtime]


def _of_job(job: Job) -> list[int]:
    """Descriptors of the files that a rank shares with this process."""
    return [fd for fd in (job.rank_group_fd, job.board_fd, job.stack_fd) if fd >= 0]


def _of_launcher(job: Job) -> list[int]:
    """Descriptors by which an MPI rank communicates with the launcher of this process."""
    numbers = [os.environ.get(name, "") for name in ("PMI_FD", "PMI2_FD")] if job.mpi else []
    found = []
    for number in numbers:
        if number.isdecimal():
            with contextlib.suppress(OSError):
                os.fstat(int(number))
                found.append(int(number))
    return found


def environment() -> dict[str, str]:
    """The environment for ranks: that of this process without the rendezvous secret."""
    kept = {name: text for name, text in os.environ.items() if name != "CCLMARK_SECRET"}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def end_ranks(ranks: list[RankProcess]) -> None:
    """Waits briefly for the ranks to exit by themselves, then kills the remaining ones."""
    deadline_s = time.monotonic() + _GRACE_S
    for rank in ranks:
        rank.wait_for_exit(max(0.0, deadline_s - time.monotonic()))
    kill_ranks(ranks)


def kill_ranks(ranks: list[RankProcess]) -> None:
    """Kills the ranks and waits for their end. A process that hangs in the kernel may remain."""
    for rank in ranks:
        rank.kill()
    deadline_s = time.monotonic() + _GRACE_S
    for rank in ranks:
        if rank.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.process.wait(max(0.0, deadline_s - time.monotonic()))
    # wait does not support ranks that are not children of this process.
    while any(rank.remains() for rank in ranks) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    for rank in ranks:
        rank.close()
