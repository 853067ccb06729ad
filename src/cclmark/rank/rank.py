"""The state of a rank: its job, its current phase and its connections to launcher and ranks."""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING

import msgspec

import cclmark._engine as engine
from cclmark.journal.item_results import Result
from cclmark.journal.kind import Kind
from cclmark.rendezvous.board import Board
from cclmark.rendezvous.client import Client
from cclmark.rendezvous.messages import Arrived, Failed, Job, Measured, Notice, Observed
from cclmark.trace.rank_trace import Stage

if TYPE_CHECKING:
    from cclmark.rank.condition_readers import ConditionReaders


class Rank:
    """One rank of a run, for any kind of work.

    ``kind``: of its job. ``planned``: the items. ``case_index``: the index of the current case, -1
    between cases. ``rank_group``: all ranks. ``subgroup``: the ranks that measure the case, None if
    all do. Agreement uses separate slots (rank/all_or_none.py): ``agreement`` for all ranks,
    ``subgroup_agreement`` for the subgroup. ``counter``: the counter of operations on the board.
    """

    def __init__(self, job: Job, client: Client, kind: Kind) -> None:
        self.job = job
        self.kind = kind
        self.client = client
        self.client.send(Arrived(job.rank, job.token))
        self.rank_group = engine.RankGroup(
            engine.RankGroupOptions(
                fd=job.rank_group_fd,
                rank=job.rank,
                size=job.ranks,
                oversubscribed=job.oversubscribed,
                hosts=job.hosts,
                value_exchange=self._exchange_values,
            )
        )
        self.subgroup: engine.RankGroup | None = None
        self.subgroup_agreement: engine.RankGroup | None = None
        #: The ranks of communicators that are used at the same time, besides those above.
        self.groups: list[engine.RankGroup] = []
        everyone = list(range(job.ranks))
        self.agreement = self.rank_group.subgroup(
            job.rank_group_fd, everyone, 2 * job.ranks, self._exchange_for_agreement
        )
        #: Of the devices, None unless the run asks for their conditions.
        self.conditions: ConditionReaders | None = None
        self.case_index = -1
        self.phases_s: dict[str, float] = {}
        self._board = Board(job.board_fd, job.ranks)
        self.counter = engine.OperationCounter(job.board_fd, Board.counts_at(job.rank))
        self.planned = job.planned(kind.item)
        self._items = kind.items(self.planned, job.ranks)
        self._phase = "start-up"
        self._since_s = time.monotonic()
        #: The phases that have ended, if the rank is traced, and the bytes of the current one.
        self.stages: list[Stage] = []
        self.stage_bytes = 0
        self._noticed: set[str] = set()

    @property
    def board_bytes(self) -> int:
        """The size of the status board."""
        return self._board.size_bytes

    def form_subgroup(self, members: list[int], place: int) -> engine.RankGroup:
        """Creates ``subgroup`` from some of the ranks.

        ``place``: the first of its slots, one per member, which no other subgroup uses meanwhile.
        """
        file, ranks = self.job.rank_group_fd, self.job.ranks
        self.subgroup = self.rank_group.subgroup(file, members, ranks + place)
        self.subgroup_agreement = self.rank_group.subgroup(
            file, members, 3 * ranks + place, self._exchange_for_subgroup
        )
        return self.subgroup

    def leave_subgroup(self) -> None:
        """Returns to measurements with all ranks."""
        self.subgroup = self.subgroup_agreement = None

    def _exchange_for_agreement(self, members: list[int], own: list[float]) -> list[float]:
        return self._exchange_values(members, own, "agreement of ", self.agreement)

    def _exchange_for_subgroup(self, members: list[int], own: list[float]) -> list[float]:
        return self._exchange_values(members, own, "agreement of ", self.subgroup_agreement)

    def _exchange_values(
        self,
        members: list[int],
        own: list[float],
        lane: str = "",
        rank_group: engine.RankGroup | None = None,
    ) -> list[float]:
        """Exchanges values with the other hosts of ``members`` through the first process.

        See engine.RankGroup. ``rank_group``: whose deadline applies, by default that of all ranks.
        """
        hosts = self.job.hosts
        here = hosts[self.job.rank]
        everyone = len(members) == self.job.ranks
        key = lane + ("all" if everyone else f"ranks {','.join(map(str, members))}")
        parts = len({hosts[member] for member in members})
        met = self.client.gather(
            key,
            here,
            parts,
            array("d", own).tobytes(),
            (rank_group or self.rank_group).wait_elsewhere,
        )
        by_host = {host: array("d", values) for host, values in met.items()}
        count = len(own) // sum(hosts[member] == here for member in members)
        taken = dict.fromkeys(by_host, 0)
        result: list[float] = []
        for member in members:
            begin = taken[hosts[member]]
            taken[hosts[member]] = begin + count
            result += by_host[hosts[member]][begin : begin + count]
        return result

    def enter(self, phase: str, batches: int = 0, others_s: float = 0.0) -> None:
        """Records the phase on the board and sets the deadline of its waits.

        ``others_s``: additional time, for work of other ranks in which this rank has no part, or
        for work of known length.
        """
        now_s = time.monotonic()
        self.phases_s[self._phase] = self.phases_s.get(self._phase, 0.0) + now_s - self._since_s
        if self.job.traced_operations:
            begin_ns, end_ns = int(self._since_s * 1e9), int(now_s * 1e9)
            self.stages.append(Stage(self._phase, begin_ns, end_ns, self.stage_bytes))
            self.stage_bytes = 0
        self._since_s = now_s
        self._phase = phase
        timeout_s = self.job.settings.timeout_s + others_s
        self._board.enter(self.job.rank, phase, self.case_index, batches, timeout_s)
        doing = phase
        if self.case_index >= 0:
            doing += f" of {self._items[self.case_index].describe()}"
        several = (self.rank_group, self.agreement, self.subgroup, self.subgroup_agreement)
        for rank_group in (*several, *self.groups):
            if rank_group is not None:
                rank_group.expect_within(timeout_s, doing)

    def report(self, result: Result) -> None:
        """Sends a result to the launcher."""
        self.client.send(
            Measured(self.job.rank, self.job.token, msgspec.Raw(msgspec.msgpack.encode(result)))
        )

    def begin_conditions(self) -> None:
        """Begins the time of the shares and traffic of the next reading."""
        if self.conditions is not None:
            self.conditions.begin()

    def read_conditions(self, index: int, cycle: int = 0) -> None:
        """Sends the conditions of the devices after item ``index``, if the run asks for them."""
        for condition in [] if self.conditions is None else self.conditions.read(index, cycle):
            self.client.send(Observed(self.job.rank, self.job.token, condition))

    def notice(self, text: str) -> None:
        """Sends a notice for the user that does not end the run, once."""
        if text in self._noticed:
            return
        self._noticed.add(text)
        self.client.send(Notice(self.job.rank, self.job.token, text))

    def fail(self, kind: str, message: str) -> None:
        """Reports the error to the launcher and ends the other ranks' waits."""
        at_s = time.monotonic()
        self.rank_group.abort()
        job = self.job
        self.client.send(
            Failed(job.rank, job.token, kind, message, self._phase, self.case_index, at_s)
        )
