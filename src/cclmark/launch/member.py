"""The ranks of one process that a user or a launcher started: begun, looked after, ended."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from cclmark.launch.mpi import MpiRanks
from cclmark.launch.ranks import RankProcess, end_ranks, kill_ranks, start_rank
from cclmark.launch.stacks import collect_stacks
from cclmark.rendezvous.board import Board
from cclmark.rendezvous.messages import Described, Job, Look
from cclmark.results.machine import complete_from_nvml
from cclmark.results.schema import DeviceDescription, Machine

OVERTIME_S = 3.0  # a rank reports its own time-outs; after that its supervisor does
# Before its time is over a rank is asked where it is: then it leaves, or cannot be asked any more.
_LATE_S = 3.0
_LATE_SHARE = 0.2
_STACK_S = 0.5


class Member(Protocol):
    """One of the processes of a run, near or far, with its ranks."""

    def start(self, jobs: Sequence[Job]) -> None:
        """Starts the ranks that these jobs are for."""

    def looks(self, *, closely: bool) -> list[Look]:
        """How its ranks are, as far as is known here; ``closely``: also whether they are stopped.

        That takes the longest to find out.
        """

    def abort(self) -> None:
        """Lets the ranks of its host stop waiting for each other."""

    def end(self) -> None:
        """Gives ranks that leave by themselves a moment, and ends the others."""


class LocalMember:
    """This process's own ranks, and the memory in which the ranks of a host meet.

    The memory of another process of this host may be taken instead of the own.
    """

    def __init__(self) -> None:
        self._own = _new_memory()
        self.team_fd, self.board_fd = self._own
        self._board: Board | None = None
        self.ranks: list[RankProcess] = []
        self.mpi: MpiRanks | None = None
        self._mpirun = ""
        self._stack_files: dict[int, int] = {}
        self._stacks: dict[int, list[str]] = {}

    def start_by(self, mpirun: str) -> None:
        """Has the ranks started by this program from now on."""
        self._mpirun = mpirun

    def meet_in(self, owner_pid: int, team_fd: int, board_fd: int) -> None:
        """Takes the memory of the process ``owner_pid``. Raises OSError where that is forbidden."""
        if owner_pid == os.getpid():
            return
        self._drop_foreign()
        team = os.open(f"/proc/{owner_pid}/fd/{team_fd}", os.O_RDWR)
        try:
            board = os.open(f"/proc/{owner_pid}/fd/{board_fd}", os.O_RDWR)
        except OSError:
            os.close(team)
            raise
        self.team_fd, self.board_fd = team, board
        self._board = None

    def start(self, jobs: Sequence[Job]) -> None:
        """Starts the ranks, all of which die with this process."""
        first = jobs[0]
        self._board = Board(self.board_fd, first.ranks)
        self._stack_files = {job.rank: os.memfd_create("cclmark-stack") for job in jobs}
        own = [
            msgspec.structs.replace(
                job,
                parent_pid=os.getpid(),
                team_fd=self.team_fd,
                board_fd=self.board_fd,
                stack_fd=self._stack_files[job.rank],
            )
            for job in jobs
        ]
        for job in own:
            self._board.enter(job.rank, "start-up", -1, 0, job.settings.timeout_s)
        if self._mpirun:
            self.mpi = MpiRanks(own, self._mpirun)
            self.ranks += self.mpi.ranks
            return
        for job in own:
            start_rank(job, self.ranks)

    def looks(self, *, closely: bool) -> list[Look]:
        """How each rank is now. When one gets late, all are asked for their stacks, once."""
        looks = [self._look(rank, closely) for rank in self.ranks]
        if not any(look.late for look in looks):
            self._stacks = {}
        elif not self._stacks:
            pids = {look.rank: look.pid for look in looks if look.exit_status is None}
            self._stacks = collect_stacks(pids, self._stack_files, _STACK_S)
        for look in looks:
            look.stack = self._stacks.get(look.rank, [])
        return looks

    def _look(self, rank: RankProcess, closely: bool) -> Look:
        assert self._board is not None
        status = self._board.read(rank.rank)
        now_s = time.monotonic()
        counts = status.operations
        has_end = status.deadline_s > 0
        margin_s = min(_LATE_S, _LATE_SHARE * (status.deadline_s - status.since_s))
        return Look(
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
        """Sets the flag that every waiting rank of this host looks at."""
        os.pwrite(self.team_fd, b"\1", 0)

    def end(self) -> None:
        """Waits a moment for ranks that leave, kills the others."""
        end_ranks(self.ranks)

    def clear(self) -> list[int]:
        """Kills the ranks and makes new memory: ranks of another attempt may follow. Whoever still
        has the old memory keeps it to himself.

        Returns the processes that cannot be ended, as those that hang in a driver.
        """
        kill_ranks(self.ranks)
        left = [rank.pid for rank in self.ranks if rank.remains()]
        self.ranks = []
        if self.mpi is not None:
            self.mpi.close()
            self.mpi = None
        self._board = None
        self._close_stack_files()
        self._drop_foreign()
        for descriptor in self._own:
            os.close(descriptor)
        self._own = _new_memory()
        self.team_fd, self.board_fd = self._own
        return left

    def close(self) -> None:
        """Kills what is left and frees the memory."""
        kill_ranks(self.ranks)
        if self.mpi is not None:
            self.mpi.close()
        self._close_stack_files()
        self._drop_foreign()
        for descriptor in self._own:
            os.close(descriptor)

    def _close_stack_files(self) -> None:
        for descriptor in self._stack_files.values():
            os.close(descriptor)
        self._stack_files = {}
        self._stacks = {}

    def _drop_foreign(self) -> None:
        if (self.team_fd, self.board_fd) != self._own:
            for descriptor in (self.team_fd, self.board_fd):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self.team_fd, self.board_fd = self._own


def _new_memory() -> tuple[int, int]:
    """Files for the team and for the status board."""
    return os.memfd_create("cclmark-team"), os.memfd_create("cclmark-board")


def describe_devices(
    devices: list[DeviceDescription], machine: Machine, process: int, token: bytes
) -> Described:
    """What the vendor's interface says of devices of this host."""
    try:
        links, notices = complete_from_nvml(devices, machine)
    except Exception as error:  # whatever is wrong with NVML, the run itself can go on
        links, notices = [], [f"links unknown: {type(error).__name__}: {error}"]
    return Described(process, token, devices, links, machine.vendor_driver, notices)
