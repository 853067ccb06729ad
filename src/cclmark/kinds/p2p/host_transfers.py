"""Copies within hosts and messages between them, from the side of one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import msgspec

import cclmark._engine as engine
from cclmark.analysis.stopping import LEAST_BATCH_BETWEEN_HOSTS_S
from cclmark.journal.item_results import CaseResult, TransferResult
from cclmark.journal.sample_times import rounded
from cclmark.journal.schema import Settings, TransferSamples, WrongOutput
from cclmark.journal.summaries import chosen_times, combine
from cclmark.kinds.p2p.figures import summarise_copies
from cclmark.kinds.p2p.transfer_runner import (
    TransferRunner,
    measure_transfers,
    memory_bytes_per_s,
    open_transfers,
)
from cclmark.kinds.pairs.run import PairsRunner
from cclmark.rank.context import RankContext
from cclmark.rank.measure import Batches
from cclmark.rank.opening import NativeLibrary, open_libraries
from cclmark.rendezvous.messages import Job
from cclmark.work.cases import Case
from cclmark.work.inject import Injection
from cclmark.work.items import items_of
from cclmark.work.operations import OPERATIONS
from cclmark.work.pair_cases import Pair
from cclmark.work.transfers import ELEMENT_BYTES, MEASURES_MEMORY, Transfer

_DTYPE = "int32"  # of ELEMENT_BYTES, and supported by every library
_OPERATIONS = {"unidirectional": "send", "bidirectional": "sendrecv", "latency": "ping_pong"}


class MessageCases:
    """The cases of the messages among ``transfers``, see kinds.pairs.run.CasesOfPairs."""

    def __init__(
        self, transfers: Sequence[Transfer], without: AbstractSet[int] = frozenset()
    ) -> None:
        """``without``: the ranks whose messages are not measured."""
        self._transfers = transfers
        places: dict[Case, int] = {}
        self._indices: dict[tuple[Pair, int], int] = {}
        for index, transfer in enumerate(transfers):
            if transfer.ccl:
                pair, case = _case_of(transfer)
                place = places.setdefault(case, len(places))
                if without.isdisjoint(pair):
                    self._indices[pair, place] = index
        self._of_two = list(places)

    @property
    def of_two(self) -> Sequence[Case]:
        """The cases of each pair, without the pair."""
        return self._of_two

    def index_of(self, pair: Pair, place: int) -> int:
        """The index of the transfer, -1 if it is not measured."""
        return self._indices.get((pair, place), -1)

    def case_of(self, pair: Pair, place: int) -> Case:
        """The case of a transfer."""
        return msgspec.structs.replace(self._of_two[place], pair=pair)

    def settings(self, settings: Settings) -> Settings:
        """The settings of the messages: enqueued one behind the other, in one buffer as copies."""
        return msgspec.structs.replace(settings, timing="throughput", one_by_one=True, cache="warm")

    def batches_of(self, job: Job, pair: Pair) -> Batches:
        """The samples of messages: repeated as those of copies, and long."""
        return Batches(LEAST_BATCH_BETWEEN_HOSTS_S, repeated=True)

    def result_of(self, result: CaseResult) -> TransferResult:
        """The result of the transfer, from the result of its case."""
        transfer = self._transfers[result.index]
        found = TransferResult(
            result.index,
            transfer,
            result.status,
            result.reason,
            result.converged,
            result.started_at_s,
            result.duration_s,
        )
        if result.samples is not None:
            found.samples = self._samples_of(result, transfer)
            # As copies, if the time allows a single sample.
            found.converged = found.converged or len(found.samples.device_s) == 1
            found.summary = summarise_copies(transfer, found.samples)
        if result.verification is not None:
            found.verification = msgspec.structs.replace(
                result.verification,
                findings=[_of_flow(one, transfer) for one in result.verification.findings],
                compare_s=0.0,
            )
        return found

    def _samples_of(self, result: CaseResult, transfer: Transfer) -> TransferSamples:
        """The times of one message, by the slower of both ranks."""
        samples = result.samples
        assert samples is not None and result.summary is not None
        times_s = combine(chosen_times(samples, result.summary.clock), "max")
        if OPERATIONS[result.case.operation].round_trip:
            times_s = [time_s / 2 for time_s in times_s]
        rows = [[time_s] * len(transfer.flows) for time_s in times_s]
        operations = samples.operations_per_sample
        return TransferSamples(rounded(rows, operations), [], operations)


def _case_of(transfer: Transfer) -> tuple[Pair, Case]:
    start, end = transfer.flows[0]
    operation = _OPERATIONS[transfer.measure]
    rooted = OPERATIONS[operation].rooted
    case = Case(
        operation=operation,
        ccl=transfer.ccl,
        ranks=2,
        dtype=_DTYPE,
        size_bytes=transfer.size_bytes,
        count=transfer.size_bytes // ELEMENT_BYTES,
        in_place=False,
        root=int(start > end) if rooted else None,
    )
    return (min(start, end), max(start, end)), case


def _of_flow(finding: WrongOutput, transfer: Transfer) -> WrongOutput:
    """A finding of a rank as one of the flow that ends there, its values in bits as of copies.

    A round trip has one flow, and wrong data on either rank belong to it.
    """
    ends = [end for _, end in transfer.flows]
    flow = ends.index(finding.rank) if len(ends) > 1 else 0
    return msgspec.structs.replace(
        finding, rank=flow, expected=_bits(finding.expected), actual=_bits(finding.actual)
    )


def _bits(value: str) -> str:
    """The bits of a number of _DTYPE in hexadecimal."""
    return f"0x{int(value) & 0xFFFFFFFF:08x}"


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
        self.between: TransferRunner | None = None

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
        hung |= self._copy_between_hosts()
        self._leave_out(hung)
        for library in opened.values():
            assert isinstance(library, NativeLibrary)
            cases = MessageCases(self._transfers, without=hung)
            PairsRunner(rank, library.ccl, self._context.devices[0], None, cases).run()
        rank.case_index = -1
        rank.enter("finished")

    def _copy_within_host(self, group: engine.RankGroup) -> set[int]:
        """Measures this host's copies, waits for others; returns all ranks whose devices hang."""
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

    def _copy_between_hosts(self) -> set[int]:
        """Measures the copies between hosts with all ranks; the first one reports.

        Returns the ranks on whose devices a copy hangs. Copies that are not possible are skipped
        with the reason, all if memory cannot be opened on other hosts; messages take their place.
        """
        rank, job = self._rank, self._job
        pending = {
            index: transfer
            for index in job.pending or range(len(self._transfers))
            if self._is_between(transfer := self._transfers[index])
        }
        if not pending:
            return set()
        faults = [Injection.parse_for_pairs(text, job.ranks) for text in job.settings.inject]
        hung: set[int] = set()
        refused: list[str] = []

        def report(result: TransferResult) -> None:
            if result.status == "skipped":
                refused.append(result.reason)
            if job.rank == 0:
                rank.report(result)

        try:
            runner = open_transfers(self._context, rank.rank_group, faults)
            hung = measure_transfers(self._context, runner, pending, report)
            if hung:
                self.between = runner
        except engine.MissingError as error:
            for index, transfer in pending.items():
                report(TransferResult(index, transfer, "skipped", str(error)))
        rank.case_index = -1
        if refused and job.rank == 0:
            part = "" if len(refused) == len(pending) else f"{len(refused)} of {len(pending)} "
            rank.notice(f"messages take the place of {part}copies between hosts: {refused[0]}")
        return hung

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
        return sum(
            not one.ccl and not self._is_between(one) and hosts[one.flows[0][0]] == host
            for one in self._transfers
        )

    def _is_between(self, transfer: Transfer) -> bool:
        """Whether it is a copy between hosts."""
        hosts = {self._job.hosts[end] for flow in transfer.flows for end in flow}
        return not transfer.ccl and len(hosts) > 1

    def _is_here(self, transfer: Transfer) -> bool:
        is_own = transfer.flows[0][0] in self._members
        return is_own and not transfer.ccl and not self._is_between(transfer)

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
