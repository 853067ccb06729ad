"""Ranks started and supervised by an mpirun, for runs that measure MPI.

The mpirun receives only the command line of a rank. Each rank opens its job and the shared memory
through the open files of this process, so that no secret appears in an environment or an argument,
and no file is left behind in a directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cclmark.launch.ranks import RankProcess, environment
from cclmark.rendezvous.messages import Job

_MOST_TEXT = 65536
_BATCH_SYSTEMS = ("SLURM_", "PBS_", "LSB_", "PE_HOSTFILE", "COBALT_", "LOADL_")
# Variables of an outer launcher that the user chose not to use.
_OTHER_LAUNCHERS = ("OMPI_COMM_WORLD_", "PMIX_", "PMI_", "PMI2_", "MPI_LOCAL", "PALS_", "FLUX_")
_SETTINGS = ("PMIX_MCA_",)
_GRACE_S = 3.0
_SEGMENT = re.compile(r"/dev/shm/(?:sm_segment\.|vader_segment\.|mpich_shm_)\S+")
# Messages of mpiruns about the end of a process.
_SIGNAL = re.compile(r"\bsignal (\d+)")
_EXIT_CODE = re.compile(r"\bexit code:\s+(\d+)", re.IGNORECASE)
# Executes the mpirun with a parent-death signal, which exec preserves.
_STARTER = (
    "import os, signal, sys; from cclmark import _engine; "
    "_engine.die_with_parent(int(sys.argv[1]), signal.SIGTERM); os.execv(sys.argv[2], sys.argv[2:])"
)


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

    def kill(self) -> None:
        """Ends all ranks of the mpirun together."""
        self.mpirun.end()


class MpiRanks:
    """All ranks of a run under one mpirun."""

    def __init__(self, jobs: list[Job], mpirun: str) -> None:
        """Starts the ranks of ``jobs`` with the program ``mpirun``."""
        self._program = mpirun
        self._output = os.memfd_create("cclmark-mpirun")
        self._jobs = os.memfd_create("cclmark-jobs")
        with os.fdopen(os.dup(self._jobs), "wb") as file:
            file.write(msgspec.msgpack.encode(jobs))
        self._segments: set[str] = set()
        self._noted = False
        self._ended = False
        self._said_bytes: int | None = None
        self._first_gone: MpiRank | None = None
        own = os.getpid()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _STARTER, str(own), mpirun),
                *("-n", str(len(jobs)), "--bind-to", "none"),
                *(sys.executable, "-m", "cclmark.rank_process", f"/proc/{own}/fd/{self._jobs}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
            env=_environment_of(environment()),
        )
        self.ranks = [MpiRank(job.rank, self._process, self) for job in jobs]

    def said(self) -> str:
        """The output of the mpirun and its processes, up to the time when this process ended them.

        Later messages of the mpirun only report that end.
        """
        end = self._said_bytes
        if end is None:
            end = os.fstat(self._output).st_size
        begin = max(0, end - _MOST_TEXT)
        text = os.pread(self._output, end - begin, begin).decode(errors="replace")
        # The mpirun of MPICH ends with a NUL character.
        lines = [line.strip("\0").rstrip() for line in text.splitlines()]
        return "\n".join(line for line in lines if line)

    def began_nothing(self) -> str:
        """A report on the mpirun if no rank has begun, empty if one has."""
        if any(rank.number for rank in self.ranks):
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

    def note_segments_of(self, ccl: str) -> None:
        """Records the shared-memory files of ranks that measure with ``ccl``, once with MPI."""
        if ccl == "mpi" and not self._noted:
            self._noted = True
            self._note_segments()

    def _note_segments(self) -> None:
        """Records the shared-memory files that the ranks have mapped."""
        for rank in self.ranks:
            with contextlib.suppress(OSError):
                maps = Path(f"/proc/{rank.number or 'none'}/maps").read_text(
                    encoding="utf-8", errors="replace"
                )
                self._segments.update(_SEGMENT.findall(maps))

    def status_of(self, rank: MpiRank) -> int | None:
        """The exit status of a rank, after a failure only of the first rank to exit, if known."""
        code = self._process.poll()
        if code is None:
            return None
        first = self._first_gone
        if code == 0 or first is None:
            return code
        if rank is not first:
            return None
        said = self.said()
        killed, exited = _SIGNAL.search(said), _EXIT_CODE.search(said)
        return -int(killed[1]) if killed else int(exited[1]) if exited else code

    def end(self) -> None:
        """Ends the mpirun and its ranks, once, and removes the shared memory that they leave."""
        if self._ended or self._process.poll() == 0:
            return
        self._ended = True
        self._said_bytes = os.fstat(self._output).st_size
        self._note_segments()
        # The mpirun gets time to clean up after its ranks by itself.
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            self._process.terminate()
            self._process.wait(_GRACE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for rank in self.ranks:
            # The pid of a rank that exited earlier may have been reused.
            if rank.number and _is_rank(rank.number):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(rank.number, signal.SIGKILL)
        # An MPI leaves its shared memory behind if its ranks are killed.
        for name in self._segments:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108 - as it stands in maps

    def close(self) -> None:
        """Closes the descriptors of the run."""
        os.close(self._jobs)
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
    Variables of batch systems are removed, because they would make the mpirun use other hosts.
    """
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    foreign = (*_BATCH_SYSTEMS, *_OTHER_LAUNCHERS)
    here = {
        name: text
        for name, text in inherited.items()
        if name.startswith(_SETTINGS) or not name.startswith(foreign)
    }
    return {**allowed, **here}
