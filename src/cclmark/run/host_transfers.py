"""Transfers of devices on several hosts, from the side of one rank.

Each host measures the copies between its own devices, all hosts at the same time. Then messages of
a library between devices on different hosts are measured, one pair at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from cclmark import _engine as engine
from cclmark.plan.inject import Injection
from cclmark.plan.items import items_of
from cclmark.plan.transfers import MEASURES_MEMORY, Transfer
from cclmark.results.item_results import TransferResult
from cclmark.run.context import RankContext
from cclmark.run.measured_libraries import NativeLibrary
from cclmark.run.measuring_transfers import measure_transfers, open_transfers
from cclmark.run.memory_limit import memory_bytes_per_s
from cclmark.run.messages_between_hosts import MessageCases
from cclmark.run.opening import open_libraries
from cclmark.run.pair_measurement import PairsRunner
from cclmark.run.transfer import TransferRunner

_PHASES_OF_A_TRANSFER = 4  # each with the timeout of one phase


class HostTransfers:
    """Measures the transfers of a run on several hosts, in step with the other ranks."""

    def __init__(self, context: RankContext) -> None:
        self._context = context
        self._rank = context.rank
        self._job = context.job
        self._transfers = items_of(context.rank.planned, Transfer)
        #: The ranks of this host, which are the numbers of their devices in the run.
        self._members = self._job.ranks_here
        #: Kept until the process exits if a copy hangs, because releasing its memory would hang.
        self.runner: TransferRunner | None = None

    def run(self) -> None:
        """Loads the library, introduces the rank and measures. Raises MissingError, EngineError."""
        rank, job = self._rank, self._job
        rank.enter("loading the library")
        names = sorted({one.ccl for one in self._transfers if one.ccl})
        opened = open_libraries(names, job, all_needed=True) if names else {}
        rank.enter("communicator creation")
        for library in opened.values():
            assert isinstance(library, NativeLibrary)
            # Here, because a library that cannot start ends the run: not after minutes of copies.
            library.ccl.start(rank.rank_group, self._context.devices[0])
        before = sum(host < job.hosts[job.rank] for host in job.hosts)
        group = rank.form_subgroup(self._members, before)
        limit = 0.0
        if job.attachment == MEASURES_MEMORY:
            rank.enter("measuring the memory")
            limit = memory_bytes_per_s(self._context.devices, group, job.settings.seed)
        self._context.introduce([it for one in opened.values() for it in one.descriptions], limit)
        hung = self._copy_within_host(group)
        self._leave_out(hung)
        for library in opened.values():
            assert isinstance(library, NativeLibrary)
            cases = MessageCases(self._transfers, without=hung)
            PairsRunner(rank, library.ccl, self._context.devices[0], None, cases).run()
        rank.case_index = -1
        rank.enter("finished")

    def _copy_within_host(self, group: engine.RankGroup) -> set[int]:
        """Measures the copies of this host, and waits for the other hosts.

        Returns the ranks of all hosts on whose devices a copy hangs.
        """
        rank, job = self._rank, self._job
        pending = list(job.pending or range(len(self._transfers)))
        own = {
            index: self._renumbered(self._transfers[index])
            for index in pending
            if self._is_here(self._transfers[index])
        }
        hung = self._measure(own, group) if own else set()
        rank.case_index = -1
        rank.leave_subgroup()
        elsewhere = max(self._copies_of(host) for host in set(job.hosts))
        of_one_s = _PHASES_OF_A_TRANSFER * job.settings.timeout_s + job.settings.max_time_s
        rank.enter("waiting for other hosts", others_s=elsewhere * of_one_s)
        hangs = rank.rank_group.gather([float(rank.rank_group.rank in hung)])
        return {number for number, flag in enumerate(hangs) if flag}

    def _leave_out(self, hung: set[int]) -> None:
        """Reports the messages of devices on which a copy hangs: the first rank does."""
        for index in self._job.pending or range(len(self._transfers)):
            transfer = self._transfers[index]
            affected = sorted(hung & {end for flow in transfer.flows for end in flow})
            if transfer.ccl and affected and self._job.rank == 0:
                reason = f"a copy did not complete on the device of rank {affected[0]}"
                self._rank.report(TransferResult(index, transfer, "skipped", reason))

    def _measure(self, own: Mapping[int, Transfer], group: engine.RankGroup) -> set[int]:
        """Measures the copies of this host, by index; the first rank of the host reports.

        Returns the ranks on whose devices a copy hangs. If the devices of this host support no
        copies between processes, all are skipped: the other hosts' and messages need not be.
        """
        host = self._job.host_name

        def report(result: TransferResult) -> None:
            result.transfer = self._transfers[result.index]
            if result.reason:  # names devices by their numbers on this host
                result.reason = f"{host}: {result.reason}"
            if group.rank == 0:
                self._rank.report(result)

        try:
            self.runner = open_transfers(self._context, group, self._injections(), host)
            hung = measure_transfers(self._context, self.runner, own, report)
        except engine.MissingError as error:
            for index, transfer in own.items():
                report(TransferResult(index, transfer, "skipped", str(error)))
            hung = set()
        if not hung:
            self.runner = None  # makes room for messages
        return {self._members[device] for device in hung}

    def _copies_of(self, host: int) -> int:
        hosts = self._job.hosts
        return sum(not one.ccl and hosts[one.flows[0][0]] == host for one in self._transfers)

    def _is_here(self, transfer: Transfer) -> bool:
        return not transfer.ccl and transfer.flows[0][0] in self._members

    def _renumbered(self, transfer: Transfer) -> Transfer:
        """The transfer with the numbers of devices on this host instead of those of the run."""
        flows = tuple(self._places(flow) for flow in transfer.flows)
        return msgspec.structs.replace(transfer, flows=flows)

    def _places(self, pair: tuple[int, int]) -> tuple[int, int]:
        return self._members.index(pair[0]), self._members.index(pair[1])

    def _injections(self) -> Sequence[Injection]:
        faults = [
            Injection.parse_for_pairs(text, self._job.ranks) for text in self._job.settings.inject
        ]
        return [
            replace(fault, pair=self._places(fault.pair))
            for fault in faults
            if fault.pair is not None and set(fault.pair) <= set(self._members)
        ]
