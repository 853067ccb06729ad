"""Collectives of all ranks, from the side of one rank."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cclmark import _engine as engine
from cclmark.base.errors import MissingError
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Condition
from cclmark.rank.context import RankContext
from cclmark.rank.item_loop import CaseLoop, Measure
from cclmark.rank.measure import CaseRunner, batches_of
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import room_for
from cclmark.work.cases import Case
from cclmark.work.inject import RankFaults
from cclmark.work.items import items_of

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


def reader_for(runtime: str, pci_bus_id: str) -> NvmlReader | HostReader:
    """The reader of a rank's device. Raises MissingError if no condition can be read."""
    if runtime == "host":
        return HostReader(os.sched_getaffinity(0))
    if runtime == "cuda":
        return NvmlReader(pci_bus_id)
    raise MissingError(f"they are not supported on {runtime} devices")


class NvmlReader:
    """The condition of an NVIDIA device, by its management library; never in a timed region."""

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
        """The current condition, after case ``index``. Unknown values are None."""
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
        """The mean frequency and the throttling count since boot; unknown values are None."""
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
        self._reader: NvmlReader | HostReader | None = None
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
    _CollectiveLoop(context, items_of(context.rank.planned, Case)).run()


class _CollectiveLoop(CaseLoop):
    """Cycles of cases. The places of a job count the cases of all cycles."""

    def __init__(self, context: RankContext, cases: Sequence[Case]) -> None:
        super().__init__(context, cases, self._measurer_with, has_variants=False)
        self._places = set(self.job.pending)
        self._cycle = 0
        self._soak: Soak | None = None
        self._tracer: CaseTracer | None = None

    def pending(self, name: str) -> list[int]:
        """See CaseLoop: the cases of any cycle."""
        number = len(self.cases)
        left = {place % number for place in self._places} or set(range(number))
        return [index for index in sorted(left) if self.cases[index].ccl == name]

    def order(self, indices: list[int], *, skipped: bool = False) -> Iterator[int]:
        """Each case in every cycle, until all are measured or the soak's time is over."""
        number, cycles = len(self.cases), self.job.settings.cycles
        soak = None if skipped else self._begun_soak()
        if skipped:
            cycles = cycles or 1
        self._cycle = 0
        while indices and (cycles == 0 or self._cycle < cycles):
            for index in indices:
                if not self._places or index + self._cycle * number in self._places:
                    yield index
                    if soak is not None and soak.over_after(index, self._cycle):
                        return
            self._cycle += 1
            if soak is not None:
                indices = [index for index in indices if index not in soak.given_up]
                gc.collect()

    def _begun_soak(self) -> Soak | None:
        """The soak of this run with the time of the next library started, None for other runs."""
        if self.job.settings.duration_s and self._soak is None:
            self._soak = Soak(self.rank, self.device)
        if self._soak is not None:
            self._soak.begin()
        return self._soak

    def skip(self, index: int, reason: str) -> CaseResult:
        """See CaseLoop. Such a case is left out of the next cycles of a soak."""
        if self._soak is not None:
            self._soak.given_up.add(index)
        return CaseResult(index, self.cases[index], "skipped", reason, cycle=self._cycle)

    def _measurer_with(self, session: engine.Session) -> Measure:
        rank, job = self.rank, self.job
        runner = CaseRunner(
            session,
            rank.agreement,
            job.settings,
            RankFaults.of_rank(job.settings.inject, job.rank, job.ranks),
            rank.enter,
            batches=batches_of(job),
        )
        if job.settings.check and runner.checking_host == job.rank:
            rank.notice(f"outputs are checked on the host: {session.checked_on_host}")

        def measure(index: int) -> CaseResult:
            result = runner.run(index, self.cases[index], self._cycle)
            if result.status == "skipped" and self._soak is not None:
                self._soak.given_up.add(index)
            return result

        return measure

    def measured(self, index: int, session: engine.Session) -> None:
        """Notes what is explained at the end of the run."""
        if self.context.measured is not None:
            self.context.measured.add(index, self.cases[index], session)

    def used(self, communicator: engine.Communicator, indices: list[int]) -> None:
        """Notes the connections for the same."""
        if self.context.measured is not None:
            self.context.measured.connect(self.cases[indices[0]].ccl, communicator)

    def observe(
        self,
        communicator: engine.Communicator,
        indices: list[int],
        left_out: Mapping[Case, str],
    ) -> None:
        """Explains the cases, or traces one. Raises MissingError without memory for that."""
        if not self.job.traced_operations:
            super().observe(communicator, indices, left_out)
            return
        from cclmark.kinds.collective.trace import CaseTracer  # not imported by ranks that measure

        rank, instruments = self.rank, self.context.instruments
        assert instruments is not None and self.session is not None
        buffer_bytes = max(sum(room_for(self.cases[index])) for index in indices)
        rank.stage_bytes = buffer_bytes
        case = self.cases[indices[0]]
        if case in left_out:
            raise engine.MissingError(left_out[case])
        self._tracer = CaseTracer(
            rank, self.session, communicator, self.device, instruments, rank.enter
        )
        rank.case_index = indices[0]
        try:
            self._tracer.run(case, communicator)
        except engine.UnsupportedError as error:
            raise engine.MissingError(str(error)) from None
        rank.case_index = -1
        rank.enter("releasing buffers")
        rank.stage_bytes = buffer_bytes
        self._tracer.release()
        self.session = None

    def left(self) -> None:
        """Sends the trace."""
        if self._tracer is not None:
            self.rank.enter("finished")
            self._tracer.send()
            self._tracer = None
