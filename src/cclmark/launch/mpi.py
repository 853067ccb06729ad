"""Ranks that an mpirun starts, where one of the libraries measured is MPI.

The mpirun gets nothing but the command line of a rank; each process finds its job, and the memory
that all share, among the open files of this one. So no secret is in an environment or in an
argument, and nothing is left behind in a directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cclmark.launch.ranks import RankProcess, environment
from cclmark.rendezvous.messages import Job

_MOST_TEXT = 65536
_GRACE_S = 3.0
_SEGMENT = re.compile(r"/dev/shm/(?:sm_segment\.|vader_segment\.|mpich_shm_)\S+")
# What mpiruns say of the process that they end the others for.
_CULPRIT = re.compile(r"\bPID (\d+)\b")
_SIGNAL = re.compile(r"(?:signal |EXIT CODE: )(\d+)")
# Becomes the mpirun and dies with this process: kept over exec.
_STARTER = (
    "import os, signal, sys; from cclmark import _engine; "
    "_engine.die_with_parent(int(sys.argv[1]), signal.SIGTERM); os.execv(sys.argv[2], sys.argv[2:])"
)


@dataclass
class MpiRank(RankProcess):
    """One rank, which is not a child of this process: known once it has said hello."""

    mpirun: MpiRanks
    number: int = 0

    @property
    def pid(self) -> int:
        """The process's number, 0 as long as it is not known."""
        return self.number

    def exit_status(self) -> int | None:
        """How it ended, as the mpirun tells; None while the mpirun runs, and for the others."""
        return self.mpirun.status_of(self)

    def kill(self) -> None:
        """Ends all ranks: they come and go together."""
        self.mpirun.end()


class MpiRanks:
    """All ranks of a run under one mpirun."""

    def __init__(self, jobs: list[Job], mpirun: str) -> None:
        """Starts them with the program ``mpirun``."""
        self._output = os.memfd_create("cclmark-mpirun")
        self._jobs = os.memfd_create("cclmark-jobs")
        with os.fdopen(os.dup(self._jobs), "wb") as file:
            file.write(msgspec.msgpack.encode(jobs))
        self._segments: set[str] = set()
        self._noted = False
        own = os.getpid()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _STARTER, str(own), mpirun),
                *("-n", str(len(jobs)), "--bind-to", "none"),
                *(sys.executable, "-m", "cclmark.run.worker", f"/proc/{own}/fd/{self._jobs}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
            env=_environment_of(environment()),
        )
        self.ranks = [MpiRank(job.rank, self._process, self) for job in jobs]

    def said(self) -> str:
        """What the mpirun and its processes have printed so far."""
        text = os.pread(self._output, _MOST_TEXT, 0).decode(errors="replace")
        return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

    def note_segments(self) -> None:
        """Remembers which files in shared memory the ranks have mapped by now: once."""
        if self._noted:
            return
        self._noted = True
        for rank in self.ranks:
            with contextlib.suppress(OSError):
                maps = Path(f"/proc/{rank.number or 'none'}/maps").read_text()
                self._segments.update(_SEGMENT.findall(maps))

    def status_of(self, rank: MpiRank) -> int | None:
        """The exit status of a rank; only of one where the mpirun blames one."""
        code = self._process.poll()
        if code is None:
            return None
        said = self.said()
        culprit = _CULPRIT.search(said)
        if culprit is None or all(int(culprit[1]) != one.number for one in self.ranks):
            return code
        if int(culprit[1]) != rank.number:
            return None
        ended = _SIGNAL.search(said, culprit.end())
        return -int(ended[1]) if ended is not None else code

    def end(self) -> None:
        """Ends the mpirun, if it still runs, and whatever it leaves behind."""
        if self._process.returncode == 0:
            return
        self.note_segments()
        # It gets a moment: it knows best what its ranks have made.
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            self._process.terminate()
            self._process.wait(_GRACE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for rank in self.ranks:
            if rank.number:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(rank.number, signal.SIGKILL)
        # An MPI whose ranks are killed leaves its memory behind.
        for name in self._segments:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108 - as it stands in maps

    def close(self) -> None:
        """Frees what the run had."""
        os.close(self._jobs)
        os.close(self._output)


def _environment_of(inherited: Mapping[str, str]) -> dict[str, str]:
    """Lets more ranks than processors start, and those of root: it is the user's own machine."""
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    return {**allowed, **inherited}
