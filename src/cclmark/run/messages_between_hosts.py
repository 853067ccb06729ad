"""Messages of a library between devices on different hosts, as cases of pairs of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import msgspec

from cclmark.analysis.stopping import LEAST_BATCH_BETWEEN_HOSTS_S
from cclmark.analysis.summary import chosen_times, combine
from cclmark.analysis.transfer_results import summarise_copies
from cclmark.plan.cases import Case
from cclmark.plan.operations import OPERATIONS
from cclmark.plan.pair_cases import Pair
from cclmark.plan.transfers import ELEMENT_BYTES, Transfer
from cclmark.rendezvous.messages import Job
from cclmark.results.item_results import CaseResult, TransferResult
from cclmark.results.schema import Settings, TransferSamples, WrongOutput
from cclmark.run.measure import Batches

_DTYPE = "int32"  # of ELEMENT_BYTES, and supported by every library
_OPERATIONS = {"unidirectional": "send", "bidirectional": "sendrecv", "latency": "ping_pong"}


class MessageCases:
    """The cases of the messages among ``transfers``, see run.pair_measurement.CasesOfPairs."""

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
        return TransferSamples(rows, [], samples.operations_per_sample)


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
