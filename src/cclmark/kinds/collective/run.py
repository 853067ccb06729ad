"""Collectives of all ranks, from the side of one rank."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cclmark import _engine as engine
from cclmark.errors import MissingError
from cclmark.plan.cases import Case
from cclmark.plan.inject import Injection
from cclmark.plan.items import items_of
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Condition
from cclmark.run.all_or_none import in_step
from cclmark.run.context import RankContext
from cclmark.run.measure import CaseRunner, batches_of
from cclmark.run.measured_libraries import OpenLibrary
from cclmark.run.opening import measure_each, require_present
from cclmark.run.rank import Rank
from cclmark.run.reserved_buffers import buffer_kind_of, free_on_all, reserve_for, room_for

if TYPE_CHECKING:
    from cclmark.kinds.collective.trace import CaseTracer


# NVML's clock event reasons by bit. The idle reason is omitted because it is harmless.
_REASONS = {
    0x002: "application clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "power brake",
    0x100: "display clocks",
}


class ConditionReader(Protocol):
    """Samples the condition of one device, never within a timed region."""

    def read(self, rank: int, index: int, cycle: int) -> Condition:
        """The current condition, after case ``index``. Unknown values are None."""


def reader_for(runtime: str, pci_bus_id: str) -> ConditionReader:
    """The reader of a rank's device. Raises MissingError if no condition can be read."""
    if runtime == "host":
        return HostReader(os.sched_getaffinity(0))
    if runtime == "cuda":
        return NvmlReader(pci_bus_id)
    raise MissingError(f"they are not supported on {runtime} devices")


class NvmlReader:
    """An NVIDIA device, through its management library."""

    def __init__(self, pci_bus_id: str) -> None:
        """Raises MissingError if NVML is not available or does not find the device."""
        import pynvml

        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        except pynvml.NVMLError as error:
            raise MissingError(f"NVML is not available ({error})") from None

    def read(self, rank: int, index: int, cycle: int) -> Condition:
        """See ConditionReader."""
        nvml = self._nvml
        clock_mhz = self._ask(["nvmlDeviceGetClockInfo"], nvml.NVML_CLOCK_SM)
        memory_clock_mhz = self._ask(["nvmlDeviceGetClockInfo"], nvml.NVML_CLOCK_MEM)
        power_mw = self._ask(["nvmlDeviceGetPowerUsage"])
        # Renamed functions are tried under both names, since driver and binding versions vary.
        reasons = self._ask(
            ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"]
        )
        return Condition(
            rank=rank,
            index=index,
            cycle=cycle,
            at_s=time.time(),
            clock_hz=None if clock_mhz is None else clock_mhz * 1e6,
            memory_clock_hz=None if memory_clock_mhz is None else memory_clock_mhz * 1e6,
            temperature_c=self._ask(
                ["nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"], nvml.NVML_TEMPERATURE_GPU
            ),
            power_w=None if power_mw is None else power_mw * 1e-3,
            reasons=[name for bit, name in _REASONS.items() if (reasons or 0) & bit],
        )

    def _ask(self, names: list[str], *arguments: int) -> int | None:
        for name in names:
            call = getattr(self._nvml, name, None)
            with suppress(self._nvml.NVMLError):
                if call is not None:
                    return int(call(self._handle, *arguments))
        return None


class HostReader:
    """The processors that a rank of the host may use, from the kernel's files."""

    def __init__(
        self, processors: Iterable[int], root: Path = Path("/sys/devices/system/cpu")
    ) -> None:
        """Raises MissingError if the kernel reports neither frequencies nor throttling."""
        directories = [root / f"cpu{processor}" for processor in sorted(processors)]
        self._frequencies = [it / "cpufreq" / "scaling_cur_freq" for it in directories]
        self._throttles = [
            it / "thermal_throttle" / name
            for it in directories
            for name in ("core_throttle_count", "package_throttle_count")
        ]
        if not _numbers(self._frequencies) and not _numbers(self._throttles):
            raise MissingError(
                "the kernel reports neither frequencies nor throttling of processors"
            )

    def read(self, rank: int, index: int, cycle: int) -> Condition:
        """The mean frequency and the throttling count since boot. See ConditionReader."""
        frequencies_khz = _numbers(self._frequencies)
        throttles = _numbers(self._throttles)
        return Condition(
            rank=rank,
            index=index,
            cycle=cycle,
            at_s=time.time(),
            clock_hz=sum(frequencies_khz) * 1e3 / len(frequencies_khz) if frequencies_khz else None,
            throttle_count=sum(throttles) if throttles else None,
        )


def _numbers(paths: Iterable[Path]) -> list[int]:
    """The numbers in those of the files that can be read."""
    found = []
    for path in paths:
        with suppress(OSError, ValueError):
            found.append(int(path.read_text(encoding="utf-8", errors="replace")))
    return found


class Soak:
    """A soak on one rank, in step with the same object on the others."""

    def __init__(self, rank: Rank, device: engine.Device) -> None:
        self._rank = rank
        self._share_s = rank.job.settings.duration_s / len(
            {one.ccl for one in items_of(rank.planned, Case)}
        )
        self._until_s = 0.0
        # Cases that cannot be measured. Results for them in every cycle would fill the journal.
        self.given_up: set[int] = set()
        self._reader: ConditionReader | None = None
        try:
            self._reader = reader_for(device.info.runtime, device.info.pci_bus_id)
        except MissingError as error:
            if rank.job.rank == 0:
                rank.notice(f"device conditions unknown: {error}")

    def begin(self) -> None:
        """Starts the time of one library. All libraries get the same time."""
        self._until_s = time.monotonic() + self._share_s

    def over_after(self, index: int, cycle: int) -> bool:
        """Samples the device after a case, and returns whether the time is over on any rank."""
        rank = self._rank
        if self._reader is not None:
            rank.observe(self._reader.read(rank.job.rank, index, cycle))
        rank.enter("preparing")
        return max(rank.rank_group.gather([float(time.monotonic() >= self._until_s)])) > 0


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the cases; rank 0 reports."""
    runner = _Runner(context)
    measure_each(context, runner.cases, runner.measure)


class _Runner:
    def __init__(self, context: RankContext) -> None:
        self._context = context
        self._rank = context.rank
        self._job = context.job
        self._device = context.devices[0]
        self.cases = items_of(context.rank.planned, Case)
        self._soak: Soak | None = None

    def measure(self, name: str, library: OpenLibrary) -> None:
        """Measures the cases of one library, a collective call. Raises EngineError."""
        job = self._job
        number = len(self.cases)
        pending = {place for place in job.pending if self.cases[place % number].ccl == name}
        if job.pending and not pending:
            return
        indices = [index for index, case in enumerate(self.cases) if case.ccl == name]
        if pending:
            left = {place % number for place in pending}
            indices = [index for index in indices if index in left]
        self._rank.enter("communicator creation")
        try:
            in_step(self._rank.agreement, partial(require_present, library))
            communicator = in_step(
                self._rank.agreement, partial(library.join, self._rank, self._device)
            )
        except engine.UnsupportedError as error:
            self._leave_out(name, indices, pending, str(error))
            return
        try:
            self._measure_on(communicator, library, indices, pending)
        except engine.AbortedError:
            communicator.check()  # may raise the error that made the other ranks stop
            raise
        del communicator
        self._rank.leave_subgroup()

    def _measure_on(
        self,
        communicator: engine.Communicator,
        library: OpenLibrary,
        indices: list[int],
        pending: set[int],
    ) -> None:
        job, device = self._job, self._device
        session = engine.Session(device, self._rank.rank_group, communicator, self._rank.counter)
        self._rank.enter("allocating buffers")
        kind = buffer_kind_of(self._context, library)
        cases = [self.cases[index] for index in indices]
        free_bytes = free_on_all(device, self._rank.rank_group, len(job.ranks_here))
        buffer_bytes = max(sum(room_for(case)) for case in cases)
        if job.traced_operations:
            self._rank.stage_bytes = buffer_bytes
        too_large = reserve_for(cases, session, self._rank.rank_group, kind, free_bytes)
        if self._context.instruments is not None and job.traced_operations:
            tracer = self._trace(session, communicator, indices[0], too_large)
            self._rank.enter("releasing buffers")
            self._rank.stage_bytes = buffer_bytes
            tracer.release()
            del session
            self._rank.enter("shutdown")
            communicator.leave()
            self._rank.enter("finished")
            tracer.send()
            return
        if self._context.instruments is not None:
            self._explain(session, communicator, indices, too_large)
            del session
            communicator.leave()
            return
        runner = CaseRunner(
            session,
            self._rank.agreement,
            job.settings,
            self._injections(),
            self._rank.enter,
            batches=batches_of(job),
        )
        if runner.checking_host == job.rank:
            self._rank.notice(f"outputs are checked on the host: {session.checked_on_host}")
        gc.collect()
        gc.disable()
        soak, known = self._soak_on(device), self._context.measured
        for index, cycle in self._rounds(indices, pending, soak):
            self._rank.case_index = index
            case = self.cases[index]
            if case in too_large:
                result = CaseResult(index, case, "skipped", too_large[case], cycle=cycle)
            else:
                result = runner.run(index, case, cycle)
            if job.rank == 0:
                self._rank.report(result)
            if known is not None and result.status != "skipped":
                known.add(index, case, session)
            if soak is not None and result.status == "skipped":
                soak.given_up.add(index)
        self._rank.case_index = -1
        if known is not None and indices:
            known.connect(self.cases[indices[0]].ccl, communicator)
        self._rank.enter("shutdown")
        del runner, session
        communicator.leave()

    def _trace(
        self,
        session: engine.Session,
        communicator: engine.Communicator,
        index: int,
        left_out: Mapping[Case, str],
    ) -> CaseTracer:
        """Traces a case instead of measuring it. Raises MissingError without enough memory."""
        from cclmark.kinds.collective.trace import CaseTracer  # not imported by ranks that measure

        case, instruments = self.cases[index], self._context.instruments
        assert instruments is not None
        if case in left_out:
            raise engine.MissingError(left_out[case])
        tracer = CaseTracer(
            self._rank, session, communicator, self._device, instruments, self._rank.enter
        )
        self._rank.case_index = index
        try:
            tracer.run(case, communicator)
        except engine.UnsupportedError as error:
            raise engine.MissingError(str(error)) from None
        self._rank.case_index = -1
        return tracer

    def _explain(
        self,
        session: engine.Session,
        communicator: engine.Communicator,
        indices: list[int],
        left_out: Mapping[Case, str],
    ) -> None:
        """Observes cases instead of measuring them."""
        from cclmark.run.explaining import CaseExplainer  # not imported by ranks that measure

        instruments = self._context.instruments
        assert instruments is not None
        explainer = CaseExplainer(self._rank, session, self._rank.agreement, instruments)
        for index in indices:
            if self.cases[index] not in left_out:
                explainer.run(index, self.cases[index])
        self._rank.case_index = -1
        if indices:
            explainer.finish(self.cases[indices[0]].ccl, communicator)
        self._rank.enter("shutdown")

    def _leave_out(self, name: str, indices: list[int], pending: set[int], reason: str) -> None:
        """Skips the cases of a library that does not support these devices.

        Raises MissingError if the run measures no other library.
        """
        job = self._job
        if all(case.ccl == name for case in self.cases):
            raise engine.MissingError(reason)
        if job.rank > 0:
            return
        for cycle in range(job.settings.cycles or 1):
            for index in indices:
                if not pending or index + cycle * len(self.cases) in pending:
                    case = self.cases[index]
                    self._rank.report(CaseResult(index, case, "skipped", reason, cycle=cycle))

    def _soak_on(self, device: engine.Device) -> Soak | None:
        """The soak of this run with the time of the next library started, None for other runs."""
        if self._job.settings.duration_s and self._soak is None:
            self._soak = Soak(self._rank, device)
        if self._soak is not None:
            self._soak.begin()
        return self._soak

    def _rounds(
        self, indices: list[int], pending: set[int], soak: Soak | None
    ) -> Iterator[tuple[int, int]]:
        """Yields each case with its cycle until all are measured or the soak's time is over."""
        number, cycles = len(self.cases), self._job.settings.cycles
        cycle = 0
        while indices and (cycles == 0 or cycle < cycles):
            for index in indices:
                if not pending or index + cycle * number in pending:
                    yield index, cycle
                    if soak is not None and soak.over_after(index, cycle):
                        return
            cycle += 1
            if soak is not None:
                indices = [index for index in indices if index not in soak.given_up]
                gc.collect()

    def _injections(self) -> list[Injection]:
        parsed = [Injection.parse(text, self._job.ranks) for text in self._job.settings.inject]
        return [injection for injection in parsed if injection.rank == self._job.rank]
