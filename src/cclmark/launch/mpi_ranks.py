"""Ranks below an mpirun, for runs that measure MPI: their start, their ends and their memory."""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cclmark.launch.ranks import RankProcess, environment
from cclmark.rendezvous.messages import Job, JobsFile

_MOST_OUTPUT_BYTES = 65536
_BATCH_SYSTEMS = ("SLURM_", "PBS_", "LSB_", "PE_HOSTFILE", "COBALT_", "LOADL_")
# Variables of an outer launcher, which a nested mpirun must not inherit.
_OUTER_LAUNCHERS = (
    *("OMPI_COMM_WORLD_", "PMIX_", "PMI_", "PMI2_", "MPI_LOCAL", "PALS_", "FLUX_"),
    *("OMPI_MCA_ess", "OMPI_UNIVERSE_SIZE", "PRTE_LAUNCHED", "HYDI_CONTROL_FD"),
    *(f"OMPI_MCA_orte_{one}" for one in ("app_num", "ess_", "hnp_", "jobfam_", "local_", "num_")),
)
_KEPT_PREFIXES = ("PMIX_MCA_",)
_GRACE_S = 3.0
_POLL_S = 0.02
_SEGMENT = re.compile(r"/dev/shm/(?:sm_segment\.|vader_segment\.|mpich_shm_)\S+")
# Messages of mpiruns about the end of a process.
_SIGNAL = re.compile(r"\bsignal (\d+)")
_EXIT_CODE = re.compile(r"\bexit code:\s+(\d+)", re.IGNORECASE)
_RANK = re.compile(r"\bprocess rank (\d+) with PID |\bProcess name: \[.*,(\d+)\]")
_PID = re.compile(r"\bPID (\d+) RUNNING AT (\S+)")
# Executes the mpirun with a parent-death signal, which exec preserves.
_STARTER = (
    "import os, signal, sys; from cclmark import _engine; "
    "_engine.die_with_parent(int(sys.argv[1]), signal.SIGTERM); os.execv(sys.argv[2], sys.argv[2:])"
)


@dataclass(frozen=True)
class MpiStart:
    """How an mpirun starts ranks.

    ``mpirun``: empty where the first process starts it for all. ``ranks``: of all processes.
    ``files``: ``FIRST=PATH`` of each process, the jobs of its ranks from FIRST on. ``hosts``: the
    number of ranks of each host by name. All three are 0 or empty for ranks of this process alone.
    """

    mpirun: str
    ranks: int = 0
    files: Sequence[str] = ()
    hosts: Mapping[str, int] = field(default_factory=dict)


@dataclass
class MpiRank(RankProcess):
    """One rank, not a child of this process; its pid is known once it has sent Hello."""

    mpirun: MpiRanks
    number: int = 0
    handle: int = -1  # a pidfd

    def found(self, pid: int) -> None:
        """Records the pid of the rank and opens a pidfd for it."""
        self.number = pid
        with contextlib.suppress(OSError):
            self.handle = os.pidfd_open(pid)

    @property
    def pid(self) -> int:
        """The pid of the rank, 0 while it is unknown."""
        return self.number

    def exit_status(self) -> int | None:
        """The exit status according to the mpirun; None while the mpirun runs or if unknown."""
        return self.mpirun.status_of(self)

    def remains(self) -> bool:
        """Whether the process still runs; a zombie does not."""
        if self.handle < 0:
            return self.number > 0 and _is_rank(self.number)
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return not poll.poll(0)

    def wait_for_exit(self, timeout_s: float) -> None:
        """Waits for the mpirun, or for the rank of one that another process started."""
        deadline_s = time.monotonic() + timeout_s
        while self.process is None and self.remains() and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        super().wait_for_exit(timeout_s)

    def kill(self) -> None:
        """Ends all ranks of this process together, and the mpirun if this process started it."""
        self.mpirun.end()


class MpiRanks:
    """The ranks of this process under an mpirun, for runs that measure MPI.

    The mpirun of the first process starts those of all, and receives only the command line of a
    rank. Each rank opens its job and the shared memory through the open files of its process: no
    secret appears in an environment or an argument, and no file is left behind in a directory.
    """

    def __init__(self, jobs: list[Job], jobs_fd: int, start: MpiStart) -> None:
        """Offers the ``jobs`` in the file ``jobs_fd``, and starts the mpirun, if this one does."""
        self._program = start.mpirun
        self._output = os.memfd_create("cclmark-mpirun")
        self._segments: set[str] = set()
        self._noted: set[tuple[int, str, int]] = set()
        self._ended = False
        self._ended_s = math.inf
        self._said_bytes: int | None = None
        self._first_gone: MpiRank | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._hosts, self._by_pid = start.hosts, dict[tuple[str, int], int]()
        hosts = ",".join(f"{name}:{number}" for name, number in start.hosts.items())
        own = _environment_of(environment())
        # Ranks below the mpirun of another process inherit its environment, or that of its ssh.
        jobs_file = JobsFile(jobs, {} if start.mpirun else own)
        with os.fdopen(os.dup(jobs_fd), "wb") as file:
            file.write(msgspec.msgpack.encode(jobs_file))
        if start.mpirun:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _STARTER, str(os.getpid()), start.mpirun),
                    *("-n", str(start.ranks or len(jobs)), "--bind-to", "none"),
                    *(("-host", hosts) if hosts else ()),
                    *(sys.executable, "-m", "cclmark.rank_process"),
                    *(start.files or (f"0=/proc/{os.getpid()}/fd/{jobs_fd}",)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                start_new_session=True,
                env=own,
            )
        self.ranks = [MpiRank(job.rank, self._process, self) for job in jobs]

    def said(self) -> str:
        """The output of the mpirun and its processes, up to the time when this process ended them.

        Later messages of the mpirun only report that end.
        """
        end = self._said_bytes
        if end is None:
            end = os.fstat(self._output).st_size
        begin = max(0, end - _MOST_OUTPUT_BYTES)
        text = os.pread(self._output, end - begin, begin).decode(errors="replace")
        # The mpirun of MPICH ends with a NUL character.
        lines = [line.strip("\0").rstrip() for line in text.splitlines()]
        return "\n".join(line for line in lines if line)

    def began_nothing(self) -> str:
        """A report on the mpirun if no rank has begun, empty if one has."""
        begun = any(rank.number for rank in self.ranks) or self.failed()[0] >= 0
        if self._process is None or begun:
            return ""
        code = self._process.poll()
        if code is None:
            found = "is running, but no rank has started"
        else:
            how = f"status {code}" if code >= 0 else f"signal {-code}"
            found = f"ended with {how} before any rank had started"
        return f"{self._program} {found} (CCLMARK_MPIRUN=FILE selects another mpirun)"

    def watch(self) -> None:
        """Starts a thread that records the first rank to exit.

        An mpirun ends the other ranks immediately afterwards and may report one of them instead.
        """
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        poll = select.poll()
        by_descriptor: dict[int, MpiRank] = {}
        for rank in self.ranks:
            with contextlib.suppress(OSError):
                descriptor = os.dup(rank.handle)
                by_descriptor[descriptor] = rank
                poll.register(descriptor, select.POLLIN)
        ready = poll.poll() if by_descriptor else []
        if ready:
            self._first_gone = by_descriptor[ready[0][0]]
        for descriptor in by_descriptor:
            os.close(descriptor)

    def note_phase(self, rank: int, phase: str) -> None:
        """Records the shared-memory files of a rank that enters a phase for the first time.

        Repeats this every second while a communicator is created. A rank that exited has no maps.
        """
        second = int(time.monotonic()) if phase == "communicator creation" else 0
        if (rank, phase, second) not in self._noted:
            self._noted.add((rank, phase, second))
            self._note_segments([one for one in self.ranks if one.rank == rank])

    def _note_segments(self, ranks: Sequence[MpiRank]) -> None:
        for rank in (one for one in ranks if one.remains()):
            with contextlib.suppress(OSError):
                maps = Path(f"/proc/{rank.number}/maps").read_text("utf-8", errors="replace")
                self._segments.update(_SEGMENT.findall(maps))

    def _code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def status_of(self, rank: MpiRank) -> int | None:
        """The exit status of a rank, after a failure only of the one that failed, if known."""
        code = self._code()
        if code is None or (code == 0 and not self._hosts):
            return code
        failed, status = self.failed()
        if failed < 0:
            return None if self._hosts else code
        return status if failed == rank.rank else None

    def failed(self) -> tuple[int, int]:
        """The rank whose end made the mpirun fail, and its exit status; (-1, 0) if unknown.

        It is the first rank of this process that exited, if the mpirun names one of this process or
        the ranks of all are its own; else the one that the mpirun names.
        """
        if not (code := self._code()):
            return -1, 0
        said, first = self.said(), self._first_gone
        killed, exited = _SIGNAL.search(said), _EXIT_CODE.search(said)
        status = -int(killed[1]) if killed else int(exited[1]) if exited else code
        named = self._named_in(said) if self._hosts else -1
        if first is not None and (not self._hosts or named in [rank.rank for rank in self.ranks]):
            named = first.rank
        return (named, status) if named >= 0 else (-1, 0)

    def lost(self) -> str:
        """The reason if an mpirun for several processes ended without naming a rank, else empty."""
        code, now_s = self._code(), time.monotonic()
        if code is None or not self._hosts or self.failed()[0] >= 0:
            return ""
        self._ended_s = min(self._ended_s, now_s)  # last messages of ranks may be in transit
        ended = f"{self._program} ended with status {code}, and names no rank"
        return ended if now_s > self._ended_s + _GRACE_S else ""

    def found(self, rank: int, host: str, pid: int) -> None:
        """Records the pid of a rank, possibly of another process on ``host``."""
        self._by_pid[host, pid] = rank
        for one in self.ranks:
            if one.rank == rank:
                one.found(pid)

    def _named_in(self, said: str) -> int:
        """The rank that an mpirun reports, -1 for none: by its number, or by its pid and host."""
        if (by_number := _RANK.search(said)) is not None:
            return int(by_number[1] or by_number[2])
        by_pid = _PID.search(said)
        return -1 if by_pid is None else self._by_pid.get((by_pid[2], int(by_pid[1])), -1)

    def end(self) -> None:
        """Ends the mpirun and its ranks, once, and removes the shared memory that they leave."""
        process = self._process
        if self._ended or self._code() == 0:
            return
        self._ended = True
        self._said_bytes = os.fstat(self._output).st_size
        self._note_segments(self.ranks)
        if process is not None:
            # The mpirun gets time to clean up after its ranks by itself.
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                process.terminate()
                process.wait(_GRACE_S)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        for rank in self.ranks:
            if rank.handle >= 0:  # the pid of a rank that exited earlier may have been reused
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(rank.handle, signal.SIGKILL)
        # An MPI leaves its shared memory behind if its ranks are killed.
        for name in self._segments:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108 - as it stands in maps

    def close(self) -> None:
        """Closes the descriptors of the run."""
        os.close(self._output)
        for rank in self.ranks:
            if rank.handle >= 0:
                os.close(rank.handle)
                rank.handle = -1


def _is_rank(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"cclmark.rank_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _environment_of(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of an mpirun on this host.

    It allows more ranks than processors and ranks of root, since the machine is the user's own.
    Variables of batch systems are removed, because they would make the mpirun use other hosts, and
    those of an outer launcher, but not parameters of PMIx (``PMIX_MCA_``).
    """
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    foreign = (*_BATCH_SYSTEMS, *_OUTER_LAUNCHERS)
    here = {
        name: text
        for name, text in inherited.items()
        if name.startswith(_KEPT_PREFIXES) or not name.startswith(foreign)
    }
    return {**allowed, **here}
