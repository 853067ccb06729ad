"""Copies between the devices of one process, timed behind a gate until the median converges."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence

import cclmark._engine as engine
from cclmark.analysis.stopping import Precision
from cclmark.base.statistics import median
from cclmark.journal.host_processors import far_processors, largest_cache_bytes, processors_near
from cclmark.journal.item_results import TransferResult
from cclmark.journal.sample_times import rounded
from cclmark.journal.schema import (
    Settings,
    TransferSamples,
    TransferSummary,
    Verification,
    WrongOutput,
)
from cclmark.kinds.p2p.figures import summarise_copies
from cclmark.rank.context import RankContext
from cclmark.rank.item_loop import measure_items
from cclmark.work.inject import Injection
from cclmark.work.sizes import format_size
from cclmark.work.transfers import EVENTS, HOST_FUNCTION, STREAM_WAIT, Transfer

_ENGINES = {
    "": engine.Engine.copy_engine,
    "cacheCopy": engine.Engine.cache_copy,
    "ncCopy": engine.Engine.nc_copy,
    "bulkCopy": engine.Engine.bulk_copy,
}
_FAR_ENDS = {
    "": engine.FarEnd.device,
    "pinned": engine.FarEnd.pinned,
    "pageable": engine.FarEnd.pageable,
}
_GATES = {
    "": engine.GateKind.automatic,
    STREAM_WAIT: engine.GateKind.stream_wait,
    HOST_FUNCTION: engine.GateKind.host_function,
    EVENTS: engine.GateKind.events,
}
_GATE_WORDS = {
    engine.GateKind.host_function: HOST_FUNCTION,
    engine.GateKind.events: EVENTS,
}
_GATE_NOTICES = {
    engine.GateKind.host_function: "host functions hold the streams of copies",
    engine.GateKind.events: "streams are not held, so launches are a part of the times of copies, "
    "which tables state",
}
_SAMPLE_S = 5e-3  # of consecutive copies: long enough to make their start and end negligible
_MOST_COPIES = 200  # all copies wait behind the gate, and the queue of a stream is limited
# On accelerators, and on the host.
_CHASE_ACCESSES, _CHASE_ACCESSES_OF_HOST = 1024, 1 << 18
_PING_PONG_ROUNDS, _PING_PONG_ROUNDS_OF_HOST = 1000, 500
_LATENCY_SAMPLES = 5
_KEPT_FREE = 0.02
_LEAST_IN_ONE_LAUNCH = 64 << 20  # bytes; smaller data might come out of caches near the kernel
_HOST_ALIGNMENT = 256  # of places in one block of host memory, as in the engine
_NO_FAR_MEMORY, _NO_HOST_MEMORY = 1.0, 2.0


class TransferRunner:
    """Runs transfers in one process, in step with the same object in the others."""

    def __init__(
        self,
        devices: Sequence[engine.Device],
        rank_group: engine.RankGroup,
        settings: Settings,
        injections: Sequence[Injection],
        enter: Callable[[str, int], None],
        processors: set[int],
    ) -> None:
        """``processors``: the processors on which this process may touch memory near and far.

        Raises UnsupportedError if the requested gate does not work on these devices.
        """
        self._transfers = engine.Transfers(list(devices), rank_group, settings.seed)
        self._rank_group = rank_group
        self._settings = settings
        self._enter = enter
        self._injections = injections
        self._runtime = devices[0].info.runtime
        self._pci_bus_ids = [device.info.pci_bus_id for device in devices]
        self._processors = processors
        self._first = rank_group.rank * len(devices)
        self._host_kind: tuple[str, str, int] | None = None
        # The runtime's indices of all devices of the run, which users recognise.
        self._indices = [
            int(index)
            for index in rank_group.gather([float(device.info.index) for device in devices])
        ]
        memory_bytes = min(device.info.memory_bytes for device in devices)
        sharing = self._transfers.devices if self._runtime == "host" else 1
        own_free = (self._transfers.free_memory_bytes() - _KEPT_FREE * memory_bytes) / sharing
        self._free_bytes = int(min(rank_group.gather([own_free])))
        self._transfers.choose_gate(_GATES[settings.gate])

    @property
    def checked_on_host(self) -> str:
        """The reason why checks run on the host, empty if they run on the devices."""
        return self._transfers.checked_on_host

    @property
    def gate_notice(self) -> str:
        """How streams are held if not in the usual way, and why; otherwise empty."""
        text = _GATE_NOTICES.get(self._transfers.gate)
        reason = self._transfers.gate_reason
        return "" if text is None else f"{text}{f': {reason}' if reason else ''}"

    def room_bytes(self, transfer: Transfer) -> int:
        """The memory of each device for a transfer: the source and the destinations."""
        size_bytes, landings = self._room(transfer)
        return size_bytes * (1 + landings)

    def reserve(self, transfers: Sequence[Transfer]) -> dict[Transfer, str]:
        """Reserves memory for all transfers that fit and returns the others with the reason."""
        rooms = {transfer: self._room(transfer) for transfer in transfers}
        too_large: dict[Transfer, str] = {}
        fitting: list[tuple[int, int]] = []
        for transfer, (size_bytes, landings) in rooms.items():
            needed = self.room_bytes(transfer)
            if needed > self._free_bytes:
                too_large[transfer] = (
                    f"requires {format_size(needed)} of memory per device; "
                    f"{format_size(max(0, self._free_bytes))} are free"
                )
            else:
                fitting.append((size_bytes, landings))
        while fitting:
            size_bytes = max(room[0] for room in fitting)
            # The largest size and the most landings may not fit together, so only the landings of
            # the largest size are reserved; run reserves again if necessary.
            landings = max(room[1] for room in fitting if room[0] == size_bytes)
            try:
                self._transfers.reserve(size_bytes, landings)
                break
            except engine.OutOfMemoryError as error:
                # Free memory is not always contiguous.
                reason = f"not enough memory: {error}"
                fitting = [room for room in fitting if room[0] < size_bytes]
                for transfer, room in rooms.items():
                    if room[0] == size_bytes:
                        too_large.setdefault(transfer, reason)
        return too_large

    @staticmethod
    def _room(transfer: Transfer) -> tuple[int, int]:
        arrivals = [end for _, end in transfer.flows]
        landings = max(arrivals.count(end) for end in set(arrivals))
        return transfer.offset_bytes + transfer.size_bytes, landings

    def run(self, index: int, transfer: Transfer) -> TransferResult:
        """Measures and checks one transfer. An unsupported transfer is skipped."""
        begin_s = time.monotonic()
        result = TransferResult(index, transfer, "ok", started_at_s=time.time())
        self._enter("preparing", 0)
        try:
            if not transfer.has_output:
                self._transfers.reserve(*self._room(transfer))
                self._measure_access(transfer, result)
            else:
                self.prepare(transfer)
                self._measure_copies(transfer, result)
        except engine.UnsupportedError as error:
            result.status, result.reason = "skipped", str(error)
        except engine.OutOfMemoryError as error:
            result.status, result.reason = "skipped", f"not enough memory: {error}"
        result.duration_s = time.monotonic() - begin_s
        return result

    def prepare(self, transfer: Transfer) -> None:
        """Makes room for a transfer and opens its ways. Raises UnsupportedError."""
        self._transfers.reserve(*self._room(transfer))
        self._prepare(transfer)

    def copy(self, transfer: Transfer, copies: int) -> None:
        """Copies every flow ``copies`` times. Raises EngineError for a flow that does not end."""
        limit_s = self._settings.timeout_s / 2
        self._require_end(transfer, self._transfers.run(copies, limit_s).timed_out, limit_s)

    def trace(self, transfer: Transfer, copies: int) -> engine.TracedCopies:
        """Does the same and returns the times of every copy."""
        limit_s = self._settings.timeout_s / 2
        traced = self._transfers.trace(copies, limit_s)
        self._require_end(transfer, traced.timed_out, limit_s)
        return traced

    def _require_end(self, transfer: Transfer, timed_out: Sequence[bool], limit_s: float) -> None:
        if any(timed_out):
            raise engine.EngineError(self._no_data(transfer, timed_out, limit_s))

    def _prepare(self, transfer: Transfer) -> None:
        if transfer.host_memory:
            self._reserve_host(transfer)
        delays_s: dict[tuple[int, int] | None, float] = {}
        for fault in self._faults("delay"):
            delays_s[fault.pair] = delays_s.get(fault.pair, 0.0) + fault.value * 1e-3
        landings: dict[int, int] = {}
        flows = []
        for number, (start, end) in enumerate(transfer.flows):
            place = landings.get(end, 0)
            landings[end] = place + 1
            flows.append(
                engine.Flow(
                    from_device=start,
                    to_device=end,
                    runner=transfer.runner((start, end)),
                    far=_FAR_ENDS[transfer.host_memory],
                    to_host=transfer.goes_to_host(number),
                    landing=place,
                    delay_s=delays_s.get((start, end), 0.0),
                )
            )
        is_long = transfer.measure != "latency" and transfer.size_bytes >= _LEAST_IN_ONE_LAUNCH
        self._transfers.prepare(
            engine.Transfer(
                flows=flows,
                engine=_ENGINES[transfer.kernel],
                size_bytes=transfer.size_bytes,
                offset_bytes=transfer.offset_bytes,
                blocks=transfer.blocks,
                threads=transfer.threads,
                one_launch=is_long,
                staged=not transfer.peer_access,
            )
        )

    def _faults(self, kind: str) -> list[Injection]:
        return [fault for fault in self._injections if fault.kind == kind]

    def _reserve_host(self, transfer: Transfer) -> None:
        """Allocates host memory near or far from each device, by the first touch of its pages."""
        if self._runtime == "host":
            raise engine.UnsupportedError(
                "a host device is the host itself: there is no transfer between them"
            )
        size_bytes = transfer.offset_bytes + transfer.size_bytes
        size_bytes *= len(transfer.flows)
        size_bytes += _HOST_ALIGNMENT * (len(transfer.flows) - 1)
        wanted = (transfer.host_memory, transfer.numa, size_bytes)
        if self._host_kind is not None and (
            self._host_kind[:2] == wanted[:2] and self._host_kind[2] >= size_bytes
        ):
            return
        self._host_kind = None
        usual = os.sched_getaffinity(0)
        trouble = 0.0
        try:
            for offset, bus_id in enumerate(self._pci_bus_ids):
                where = far_processors if transfer.numa == "far" else processors_near
                chosen = where(bus_id) & self._processors
                if transfer.numa == "far" and not chosen:
                    trouble = max(trouble, _NO_FAR_MEMORY)
                    continue
                os.sched_setaffinity(0, chosen or usual)
                self._transfers.reserve_host(
                    self._first + offset, size_bytes, _FAR_ENDS[transfer.host_memory]
                )
        except (engine.OutOfMemoryError, engine.UnsupportedError):
            trouble = _NO_HOST_MEMORY
        finally:
            os.sched_setaffinity(0, usual)
        # All ranks continue or skip the transfer together.
        worst = max(self._rank_group.gather([trouble]))
        if worst == _NO_HOST_MEMORY:
            raise engine.OutOfMemoryError("the host cannot allocate this memory for every device")
        if worst == _NO_FAR_MEMORY:
            raise engine.UnsupportedError("this machine has no memory far from the device")
        self._host_kind = wanted

    def _measure_copies(self, transfer: Transfer, result: TransferResult) -> None:
        settings = self._settings
        self._enter("warm-up", 0)
        limit_s = settings.timeout_s / 2
        times = self._transfers.run(1, limit_s)
        if self._gave_up(transfer, times, limit_s, result):
            return
        copies = settings.iterations or _copies_per_sample(max(times.device_s))
        if transfer.measure == "latency" and settings.iterations is None:
            copies = _MOST_COPIES
        samples = TransferSamples([], [], copies)
        rule = Precision(settings.precision, settings.max_time_s)
        elapsed_s = 0.0
        slowest_s: list[float] = []
        begin_s = time.monotonic()
        while not rule.done(slowest_s, elapsed_s):
            self._enter("timing", len(slowest_s))
            times = self._transfers.run(copies, limit_s)
            if self._gave_up(transfer, times, limit_s, result):
                return
            samples.device_s += rounded([times.device_s], copies)
            samples.call_s += rounded([times.call_s], copies)
            if any(times.launch_s):
                samples.launch_s += rounded([times.launch_s], copies)
            result.by_host |= times.by_host
            slowest_s.append(max(times.device_s))
            # By the clock of rank 0, so that all ranks decide alike.
            elapsed_s = self._rank_group.gather([time.monotonic() - begin_s])[0]
        if len(samples.launch_s) != len(samples.device_s):
            samples.launch_s = []
        result.gate = _GATE_WORDS.get(self._transfers.gate, "") if transfer.peer_access else ""
        result.samples = samples
        result.converged = len(slowest_s) == 1 or rule.reached(slowest_s)
        result.summary = summarise_copies(transfer, samples)
        if settings.check:
            self.verify(transfer, result)

    def _gave_up(
        self,
        transfer: Transfer,
        times: engine.FlowTimes,
        limit_s: float,
        result: TransferResult,
    ) -> bool:
        result.hung = [number for number, gone in enumerate(times.timed_out) if gone]
        if result.hung:
            result.status = "timeout"
            result.reason = self._no_data(transfer, times.timed_out, limit_s)
        return bool(result.hung)

    def _no_data(self, transfer: Transfer, timed_out: Sequence[bool], limit_s: float) -> str:
        ways = [
            f"from DEV{self._indices[start]} at DEV{self._indices[end]}"
            for (start, end), gone in zip(transfer.flows, timed_out, strict=True)
            if gone
        ]
        return f"no data arrived {', '.join(ways)} within {limit_s:g} s"

    def verify(self, transfer: Transfer, result: TransferResult) -> None:
        """Checks what the last copies left and adds the findings to ``result``."""
        self._enter("verification", 0)
        begin_s = time.monotonic()
        struck = [
            (int(fault.value), transfer.flows.index(fault.pair))
            for fault in self._faults("corrupt")
            if fault.pair in transfer.flows
        ]
        corrupt, flow = struck[0] if struck else (None, 0)
        found = self._transfers.verify(corrupt, flow)
        findings = [
            WrongOutput(
                rank=number,
                wrong=entry.wrong,
                first_element=entry.first_element,
                expected=f"0x{entry.expected_bits:08x}",
                actual=f"0x{entry.actual_bits:08x}",
            )
            for number, entry in enumerate(found)
            if entry.wrong
        ]
        where = "host" if self._transfers.checked_on_host else "device"
        wrong = sum(entry.wrong for entry in findings)
        result.verification = Verification(wrong, findings, where, time.monotonic() - begin_s)
        if wrong:
            result.status = "wrong"

    def _measure_access(self, transfer: Transfer, result: TransferResult) -> None:
        self._enter("timing", 0)
        limit_s = self._settings.timeout_s / 2
        on_host = self._runtime == "host"
        start, end = transfer.flows[0]
        times_s = []
        for _ in range(_LATENCY_SAMPLES):
            if transfer.method == "chase":
                runner = transfer.runner((start, end))
                owner = start if runner == end else end
                accesses = _CHASE_ACCESSES_OF_HOST if on_host else _CHASE_ACCESSES
                time_s = self._transfers.chase(runner, owner, accesses, limit_s)
            else:
                rounds = _PING_PONG_ROUNDS_OF_HOST if on_host else _PING_PONG_ROUNDS
                time_s = self._transfers.ping_pong(start, end, rounds, limit_s)
            if math.isnan(time_s):
                result.status = "timeout"
                first, second = self._indices[start], self._indices[end]
                result.reason = f"no answer between DEV{first} and DEV{second}"
                return
            times_s.append(time_s)
        result.samples = TransferSamples([[time_s] for time_s in times_s], [], 1)
        result.summary = TransferSummary(median(times_s), min(times_s), max(times_s), len(times_s))


def _copies_per_sample(time_s: float) -> int:
    return min(_MOST_COPIES, max(1, math.ceil(_SAMPLE_S / time_s))) if time_s > 0 else _MOST_COPIES


_SAMPLES = 5
_TIMES_THE_CACHE = 4  # as STREAM requires, so that copies go to memory
_LEAST_BYTES = 16 << 20  # of each device
_LIMIT_S = 30.0


def memory_bytes_per_s(
    devices: Sequence[engine.Device], rank_group: engine.RankGroup, seed: int
) -> float:
    """Copies within the memory of every host device at once; returns the best total bandwidth.

    A collective call of ``rank_group``, whose ranks are on one host and have one device each. A
    copied byte counts once, though it is read and written. Returns 0 if memory for that is missing
    or a copy does not end in time.
    """
    number = rank_group.size
    share = _TIMES_THE_CACHE * largest_cache_bytes() // number
    size_bytes = max(_LEAST_BYTES, share) // 4096 * 4096
    transfers = engine.Transfers(list(devices), rank_group, seed)
    free_bytes = min(rank_group.gather([float(transfers.free_memory_bytes())]))
    if 4 * size_bytes * number > free_bytes:
        return 0.0
    transfers.reserve(size_bytes, 1)
    transfers.prepare(
        engine.Transfer(
            flows=[
                engine.Flow(
                    from_device=rank,
                    to_device=rank,
                    runner=rank,
                    far=engine.FarEnd.device,
                    to_host=False,
                    landing=0,
                    delay_s=0.0,
                )
                for rank in range(number)
            ],
            engine=engine.Engine.copy_engine,
            size_bytes=size_bytes,
            offset_bytes=0,
            blocks=0,
            threads=0,
            one_launch=False,
            staged=False,
        )
    )
    samples_s = []
    for _ in range(_SAMPLES + 1):
        times = transfers.run(1, _LIMIT_S)
        if any(times.timed_out):
            return 0.0
        samples_s.append(max(times.device_s))
    return size_bytes * number / min(samples_s[1:])  # the first one touches the pages


def open_transfers(
    context: RankContext,
    rank_group: engine.RankGroup,
    injections: Sequence[Injection],
    host: str = "",
) -> TransferRunner:
    """A runner on the devices of ``rank_group``; its first rank reports checked outputs.

    ``host``: the name of their host in messages, empty in a run on a single one.

    The caller keeps it until the process exits if a copy hangs, because releasing the memory of
    such a copy would hang. Raises MissingError for a gate that does not work here.
    """
    rank, job = context.rank, context.job
    rank.enter("allocating buffers")
    try:
        runner = TransferRunner(
            context.devices, rank_group, job.settings, injections, rank.enter, context.inherited
        )
    except engine.UnsupportedError as error:
        raise engine.MissingError(f"--gate {job.settings.gate}: {error}") from None
    where = f"{host}: " if host else ""
    if runner.gate_notice and rank_group.rank == 0:
        rank.notice(f"{where}{runner.gate_notice}")
    if runner.checked_on_host and rank_group.rank == 0 and not job.traced_operations:
        rank.notice(f"{where}outputs are checked on the host: {runner.checked_on_host}")
    return runner


def reserve(runner: TransferRunner, transfers: Sequence[Transfer]) -> dict[Transfer, str]:
    """Reserves memory; returns transfers without room and why. Raises MissingError."""
    try:
        return runner.reserve(transfers)
    except engine.UnsupportedError as error:
        raise engine.MissingError(str(error)) from None


def measure_transfers(
    context: RankContext,
    runner: TransferRunner,
    transfers: Mapping[int, Transfer],
    report: Callable[[TransferResult], None] | None = None,
) -> set[int]:
    """Measures transfers by index; returns the devices of copies that hang. Raises MissingError."""
    too_large = reserve(runner, list(transfers.values()))
    hung: set[int] = set()

    def measure(index: int) -> TransferResult:
        transfer = transfers[index]
        if transfer in too_large:
            return TransferResult(index, transfer, "skipped", too_large[transfer])
        result = runner.run(index, transfer)
        hung.update(device for number in result.hung for device in transfer.flows[number])
        return result

    gc.collect()
    gc.disable()
    measure_items(context.rank, transfers, measure, report)
    context.rank.case_index = -1
    return hung
