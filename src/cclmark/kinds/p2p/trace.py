"""Records a timeline of one transfer on the devices of one process."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

import cclmark._engine as engine
from cclmark.journal.item_results import TransferResult
from cclmark.kinds.p2p.transfer_runner import TransferRunner
from cclmark.rank.rank import Rank
from cclmark.rank.tracing import PHASE, more_batches, read_clock
from cclmark.rendezvous.messages import Traced
from cclmark.trace.rank_trace import RankTrace, TracedFlow, pieces_of
from cclmark.work.transfers import Transfer

_WARMUP = 5
# All copies wait behind the gate, each with two events, and the queue of a stream is limited.
MOST_AT_ONCE = 100


class CopyTracer:
    """Traces a transfer in one process, in step with the same object in the others."""

    def __init__(
        self, rank: Rank, runner: TransferRunner, devices: Sequence[engine.Device]
    ) -> None:
        self._rank = rank
        self._runner = runner
        self._devices = devices
        first = rank.job.rank * len(devices)
        self._traces = [
            RankTrace(first + place, platform.node(), device.info.name, device.info.runtime)
            for place, device in enumerate(devices)
        ]

    def run(self, index: int, transfer: Transfer) -> None:
        """Copies as often as the job requests, then checks what arrived. Raises EngineError."""
        rank, runner = self._rank, self._runner
        settings, copies = rank.job.settings, rank.job.traced_operations
        rank.case_index = index
        rank.enter("preparing")
        runner.prepare(transfer)
        rank.enter("warm-up")
        warmup = _WARMUP if settings.warmup is None else settings.warmup
        if warmup:
            runner.copy(transfer, warmup)
        rank.enter("reading clocks")
        for device, trace in zip(self._devices, self._traces, strict=True):
            trace.clock_begin, trace.clock_reason = read_clock(device)
        rank.enter("tracing")
        rank.stage_bytes = copies * transfer.size_bytes
        for begin in range(0, copies, MOST_AT_ONCE):
            number = min(MOST_AT_ONCE, copies - begin)
            for trace, flow in self._flows(transfer, runner.trace(transfer, number)):
                trace.flows.append(flow)
        rank.enter("reading clocks")
        for device, trace in zip(self._devices, self._traces, strict=True):
            trace.clock_end, reason = read_clock(device)
            trace.clock_reason = trace.clock_reason or reason
        self._time_more(transfer, copies)
        if settings.check:
            result = TransferResult(index, transfer, "ok")
            runner.verify(transfer, result)
            if result.verification is not None:
                self._traces[0].wrong = result.verification.wrong
        rank.case_index = -1
        rank.enter("shutdown")

    def _time_more(self, transfer: Transfer, copies: int) -> None:
        """Copies more batches of the traced size: one is not enough to compare their times."""
        number = min(MOST_AT_ONCE, copies)
        firsts = [trace.flows[0] for trace in self._traces if trace.flows]
        batch_s = max(
            ((flow.complete_ns - flow.call_begin_ns[0]) * 1e-9 for flow in firsts), default=0.0
        )
        for _ in range(more_batches(self._rank.agreement, copies // number, batch_s)):
            self._rank.enter(PHASE)
            for trace, flow in self._flows(transfer, self._runner.trace(transfer, number)):
                trace.timed_flows.append(flow)

    def _flows(
        self, transfer: Transfer, traced: engine.TracedCopies
    ) -> Iterator[tuple[RankTrace, TracedFlow]]:
        """Yields the flows of a batch, each with the trace of the device that executed it."""
        first = self._traces[0].rank
        for number, (ends, flow) in enumerate(zip(transfer.flows, traced.flows, strict=True)):
            if not flow.call_begin_ns:
                continue  # of another process
            yield (
                self._traces[transfer.runner(ends) - first],
                TracedFlow(
                    number,
                    flow.call_begin_ns,
                    flow.call_end_ns,
                    flow.device_begin_s,
                    flow.device_end_s,
                    flow.reference.before_ns,
                    flow.reference.after_ns,
                    traced.gate_ns,
                    traced.complete_ns,
                ),
            )

    def send(self) -> None:
        """Sends the trace of each device, the first with the stages so far."""
        rank, job = self._rank, self._rank.job
        rank.enter("finished")
        self._traces[0].stages = rank.stages
        for trace in self._traces:
            pieces = list(pieces_of(trace))
            for number, content in enumerate(pieces):
                rank.client.send(Traced(job.rank, job.token, number, len(pieces), content))
