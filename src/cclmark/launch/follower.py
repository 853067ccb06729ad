"""A process other than the first one of a run: it executes orders for its own ranks."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from cclmark.base.errors import EXIT_DIED, EXIT_INTERRUPTED, RankError
from cclmark.base.printable import plain
from cclmark.base.signals import deferred, raise_if_ended
from cclmark.base.standard_error import tell
from cclmark.journal.schema import Machine
from cclmark.launch.agent import LocalAgent, describe_devices
from cclmark.launch.meeting import ADDRESS_VARIABLE, SECRET_VARIABLE, find_meeting
from cclmark.launch.mpi_ranks import MpiStart
from cclmark.launch.placement import Placement
from cclmark.rendezvous.client import Follower
from cclmark.rendezvous.messages import (
    Abort,
    Clear,
    Describe,
    Described,
    Failed,
    Heartbeat,
    Identified,
    Interrupted,
    Join,
    Leave,
    Ready,
    Seen,
    Start,
    ToProcess,
)

_POLL_S = 0.02
_BEAT_S = 0.5
_LOOK_S = 0.1
_NO_ANSWER_S = 2.0  # before the note is read again: it may be from an earlier run
SILENCE_S = 10.0  # the longest silence of a follower with an intact connection
_SILENCE_OF_FIRST_S = 20.0  # longer: the first process blocks while its output is not read
CUT_S = 1.0  # the time for which a process with a broken connection may reconnect
# The kernel's answer for the memory of a process in another user namespace.
_NO_ACCESS = (
    "processes of a host must have one user and one user namespace; containers that have one each "
    "(Apptainer without setuid): start one process for each host, which uses all devices"
)


def follow(
    placement: Placement, env: Mapping[str, str], join: Join, agent: LocalAgent, timeout_s: float
) -> int:
    """Connects to the first process, executes its orders and returns the exit code of the run.

    Raises UsageError, MissingError and RankError if the first process cannot be reached.
    """
    with deferred():
        return _follow(placement, env, join, agent, timeout_s)


def _follow(
    placement: Placement, env: Mapping[str, str], join: Join, agent: LocalAgent, timeout_s: float
) -> int:
    deadline_s = time.monotonic() + timeout_s
    endpoint = ""
    while True:
        endpoint, keys = find_meeting(placement, env, deadline_s, endpoint)
        join.token = keys.token
        follower = Follower(endpoint, keys)
        orders: list[ToProcess] = []
        try:
            follower.send(join)
            # With thousands of processes the answer takes time, and a second Join would count as
            # a second process.
            looked_s = time.monotonic()
            while not orders and (remaining_s := deadline_s - time.monotonic()) > 0:
                orders = follower.receive(min(_LOOK_S, remaining_s))
                raise_if_ended()
                if not orders and time.monotonic() > looked_s + _NO_ANSWER_S:
                    looked_s = time.monotonic()
                    if _has_moved(placement, env, endpoint):
                        break
            if orders:
                return _Obedience(placement, join, agent, follower).run(orders)
        finally:
            if orders:
                follower.close()
            else:
                follower.close(linger_ms=0)  # no process receives the pending messages
        if time.monotonic() > deadline_s:
            secret = (
                f" (is {SECRET_VARIABLE} the same for that process, and {ADDRESS_VARIABLE} its "
                "address?)"
                if SECRET_VARIABLE in env
                else ""
            )
            raise RankError(
                f"process {placement.process} of {placement.processes} received no answer from the "
                f"first process at {endpoint} within {timeout_s:g} s{secret}. {placement.doubts}"
            )


def _has_moved(placement: Placement, env: Mapping[str, str], endpoint: str) -> bool:
    """Whether the first process now listens at another address than ``endpoint``."""
    try:
        return find_meeting(placement, env, 0.0, endpoint)[0] != endpoint
    except RankError:
        return False


class _Obedience:
    """Executes the orders of the first process, from the first to the last one."""

    def __init__(
        self, placement: Placement, join: Join, agent: LocalAgent, follower: Follower
    ) -> None:
        self._placement = placement
        self._process = placement.process
        self._machine: Machine = join.host.machine
        self._token = join.token
        self._agent = agent
        self._follower = follower
        self._heard_s = time.monotonic()
        self._cut_s: float | None = None
        self._said_s = 0.0
        self._said: list[tuple[object, ...]] = []
        self._aborted = False
        self._described: Described | None = None
        self._exit_code: int | None = None
        self._first_host = "unknown"

    def run(self, orders: list[ToProcess]) -> int:
        """Runs until the first process ends the run or is lost, and returns the exit code."""
        try:
            while self._exit_code is None:
                for order in orders:
                    self._obey(order)
                if orders:
                    self._heard_s = time.monotonic()
                    self._cut_s = None
                if self._exit_code is None:
                    self._report()
                    if self._is_alone():
                        if not self._placement.local:
                            tell(self._on_loss())
                        return EXIT_DIED
                    orders = self._follower.receive(_POLL_S)
                    raise_if_ended()
            return self._exit_code
        except KeyboardInterrupt as interruption:
            # A launcher ends all processes when one dies. The first process must distinguish the
            # process that died from the interrupted ones.
            seen = self._agent.rank_statuses(closely=False)
            self._follower.send(Seen(self._process, self._token, seen))
            self._follower.send(Interrupted(self._process, self._token, str(interruption)))
            return EXIT_INTERRUPTED

    def _obey(self, order: ToProcess) -> None:
        agent = self._agent
        if isinstance(order, Start):
            self._start(order)
        elif isinstance(order, Identified):
            agent.found(order.rank, order.host, order.pid)
        elif isinstance(order, Clear):
            self._first_host = order.host or self._first_host
            left = agent.clear()
            self._aborted = False
            self._follower.send(
                Ready(
                    self._process,
                    self._token,
                    order.attempt,
                    time.time(),
                    agent.memory,
                    left,
                )
            )
        elif isinstance(order, Abort):
            agent.abort()
            self._aborted = True
            self._said_s = 0.0
        elif isinstance(order, Describe):
            threading.Thread(target=self._describe, args=(order,), daemon=True).start()
        elif isinstance(order, Leave):
            if order.exit_code == 0:
                agent.end()
            self._exit_code = order.exit_code
        else:
            assert isinstance(order, Heartbeat)

    def _start(self, order: Start) -> None:
        """Starts the ranks. An OSError is reported as a failure of the first of them."""
        try:
            self._agent.meet_in(order.owner_pid, order.memory)
            self._agent.start_by(MpiStart("") if order.by_mpirun else None)
            self._agent.start(order.jobs)
        except OSError as error:
            job = order.jobs[0]
            text = f"process {self._process} cannot start its ranks: {error}"
            if isinstance(error, PermissionError):
                text += f"; {_NO_ACCESS}"
            self._follower.send(Failed(job.rank, job.token, "error", text, "start-up", -1))

    def _describe(self, order: Describe) -> None:
        self._described = describe_devices(
            order.devices, self._machine, self._process, self._token, order.reach
        )

    def _report(self) -> None:
        """Reports the states of the ranks regularly, and immediately after a significant change."""
        if self._described is not None:
            self._follower.send(self._described)
            self._described = None
        rank_statuses = self._agent.rank_statuses(closely=self._aborted)
        now_s = time.monotonic()
        matters = [
            (
                rank_status.rank,
                rank_status.exit_status,
                rank_status.stopped,
                rank_status.late,
                rank_status.overdue,
            )
            for rank_status in rank_statuses
        ]
        if matters != self._said or now_s > self._said_s + _BEAT_S:
            self._said, self._said_s = [*matters], now_s
            self._follower.send(Seen(self._process, self._token, rank_statuses))

    def _on_loss(self) -> str:
        """The message of a process without its first one."""
        why = f"has not answered for {_SILENCE_OF_FIRST_S:g} s" if self._cut_s is None else "exited"
        return (
            f"process {self._process}: the connection to the first process is lost: that "
            f"of host {plain(self._first_host)} {why}. Its journal, if another host can read it, "
            "has the results so far: --resume continues with as many hosts"
        )

    def _is_alone(self) -> bool:
        """Whether the first process has exited without a Leave message or cannot be reached."""
        now_s = time.monotonic()
        if self._follower.was_cut():
            self._cut_s = now_s
        cut = self._cut_s is not None and now_s > self._cut_s + CUT_S
        return cut or now_s > self._heard_s + _SILENCE_OF_FIRST_S
