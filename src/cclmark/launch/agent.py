"""The ranks of one process that a user or a launcher started: their start, supervision and end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence

import msgspec

from cclmark.journal.machine import complete_from_nvml
from cclmark.journal.schema import DeviceDescription, Machine
from cclmark.journal.topology import relations_between
from cclmark.launch.debugging import collect_stacks
from cclmark.launch.mpi_ranks import MpiRanks, MpiStart
from cclmark.launch.ranks import RankProcess, end_ranks, kill_ranks, start_rank
from cclmark.rendezvous.board import Board
from cclmark.rendezvous.messages import Described, Job, Memory, RankStatus

OVERTIME_S = 3.0  # a rank reports its own timeouts; after this time its supervisor does
# A rank's stack is requested before its deadline, because afterwards the rank may have exited.
_LATE_S = 3.0
_LATE_SHARE = 0.2
_STACK_S = 0.5


class LocalAgent:
    """This process's own ranks, and the memory shared by the ranks of a host.

    The memory of another process of this host can replace its own.
    """

    def __init__(self) -> None:
        self._own = _new_memory()
        self.memory = self._own
        self._board: Board | None = None
        self.ranks: list[RankProcess] = []
        self.mpi: MpiRanks | None = None
        self._mpi_start: MpiStart | None = None
        self._stack_files: dict[int, int] = {}
        self._stacks: dict[int, list[str]] = {}

    def start_by(self, mpi_start: MpiStart | None) -> None:
        """Has an mpirun start ranks from now on; None starts them directly."""
        self._mpi_start = mpi_start

    def meet_in(self, owner_pid: int, memory: Memory) -> None:
        """Uses the memory of process ``owner_pid``. Raises OSError if access is not permitted."""
        self._drop_foreign()
        if owner_pid == os.getpid():
            return
        rank_group = os.open(f"/proc/{owner_pid}/fd/{memory.rank_group_fd}", os.O_RDWR)
        try:
            board = os.open(f"/proc/{owner_pid}/fd/{memory.board_fd}", os.O_RDWR)
        except OSError:
            os.close(rank_group)
            raise
        self.memory = Memory(rank_group, board, self._own.jobs_fd)
        self._board = None

    def start(self, jobs: Sequence[Job]) -> None:
        """Starts the ranks, or offers their jobs to an mpirun. They die with what starts them."""
        first = jobs[0]
        self._board = Board(self.memory.board_fd, first.ranks)
        self._stack_files = {job.rank: os.memfd_create("cclmark-stack") for job in jobs}
        own = [
            msgspec.structs.replace(
                job,
                parent_pid=os.getpid(),
                rank_group_fd=self.memory.rank_group_fd,
                board_fd=self.memory.board_fd,
                stack_fd=self._stack_files[job.rank],
            )
            for job in jobs
        ]
        for job in own:
            self._board.enter(job.rank, "start-up", -1, 0, job.settings.timeout_s)
        if self._mpi_start is not None:
            self.mpi = MpiRanks(own, self.memory.jobs_fd, self._mpi_start)
            self.ranks += self.mpi.ranks
            return
        for job in own:
            start_rank(job, self.ranks)

    def found(self, rank: int, host: str, pid: int) -> None:
        """Records the pid of a rank on ``host`` that an mpirun started."""
        if self.mpi is not None:
            self.mpi.found(rank, host, pid)

    def rank_statuses(self, *, closely: bool) -> list[RankStatus]:
        """The state of each rank. When one is close to its deadline, collects all stacks once."""
        rank_statuses = [self._look(rank, closely) for rank in self.ranks]
        if not any(rank_status.late for rank_status in rank_statuses):
            self._stacks = {}
        elif not self._stacks:
            pids = {
                rank_status.rank: rank_status.pid
                for rank_status in rank_statuses
                if rank_status.exit_status is None
            }
            self._stacks = collect_stacks(pids, self._stack_files, _STACK_S)
        for rank_status in rank_statuses:
            rank_status.stack = self._stacks.get(rank_status.rank, [])
        return rank_statuses

    def _look(self, rank: RankProcess, closely: bool) -> RankStatus:
        assert self._board is not None
        status = self._board.read(rank.rank)
        if self.mpi is not None:
            self.mpi.note_phase(rank.rank, status.phase)
        now_s = time.monotonic()
        counts = status.operations
        has_end = status.deadline_s > 0
        margin_s = min(_LATE_S, _LATE_SHARE * (status.deadline_s - status.since_s))
        return RankStatus(
            rank=rank.rank,
            pid=rank.pid,
            phase=status.phase,
            case_index=status.case_index,
            batches=status.batches,
            in_phase_s=now_s - status.since_s,
            overdue=has_end and now_s > status.deadline_s + OVERTIME_S,
            exit_status=rank.exit_status(),
            stopped=closely and rank.is_stopped(),
            late=has_end and status.phase != "finished" and now_s > status.deadline_s - margin_s,
            operations=(counts.entered, counts.complete, counts.before_batch) if counts else None,
        )

    def abort(self) -> None:
        """Sets the flag that every waiting rank of this host polls."""
        os.pwrite(self.memory.rank_group_fd, b"\1", 0)

    def end(self) -> None:
        """Waits briefly for ranks to exit and kills the others."""
        end_ranks(self.ranks)

    def clear(self) -> list[int]:
        """Kills the ranks and creates new memory for the ranks of another attempt.

        A process that still has the old memory mapped cannot affect the new one. Returns the pids
        of processes that cannot be ended, for example because they hang in a driver.
        """
        kill_ranks(self.ranks)
        left = [rank.pid for rank in self.ranks if rank.remains()]
        self.ranks = []
        self.close()
        self.mpi = self._board = None
        self._own = self.memory = _new_memory()
        return left

    def close(self) -> None:
        """Kills the remaining ranks and releases the memory."""
        kill_ranks(self.ranks)
        if self.mpi is not None:
            self.mpi.close()
        for descriptor in (*self._stack_files.values(), *msgspec.structs.astuple(self._own)):
            os.close(descriptor)
        self._stack_files, self._stacks = {}, {}
        self._drop_foreign()

    def _drop_foreign(self) -> None:
        if self.memory != self._own:
            for descriptor in (self.memory.rank_group_fd, self.memory.board_fd):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self.memory = self._own


def _new_memory() -> Memory:
    return Memory(*(os.memfd_create(f"cclmark-{name}") for name in ("rank-group", "board", "jobs")))


def describe_devices(
    devices: list[DeviceDescription],
    machine: Machine,
    process: int,
    token: bytes,
    reach: Sequence[tuple[int, int]] | None = None,
) -> Described:
    """Completes the descriptions of this host's devices from the vendor's interface.

    ``reach``: the pairs of them with peer access, to describe how they are connected too.
    """
    try:
        links, notices = complete_from_nvml(devices, machine)
    except Exception as error:  # the run can continue after any error of NVML
        links, notices = [], [f"links unknown: {type(error).__name__}: {error}"]
    relations = [] if reach is None else relations_between(devices, links, set(reach))
    return Described(process, token, devices, links, machine.vendor_driver, notices, relations)
