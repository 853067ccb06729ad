"""Reads the condition of the devices of a rank after its items; never in a timed region.

Of NVIDIA devices by NVML, of processors from the kernel's files. Shares of time and traffic are
those since the reading before, or since the rank began to measure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import cclmark._engine as engine
from cclmark.base.errors import MissingError
from cclmark.journal.schema import Condition

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
_ALL_LINKS = 0xFFFFFFFF
_LEAST_SAMPLES = 2  # of the time in which kernels ran, for its share
# NVML's counters by the field of a condition: name, scope, bytes of a unit.
_COUNTERS = {
    "nvlink_sent_bytes": ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", _ALL_LINKS, 1024),
    "nvlink_received_bytes": ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", _ALL_LINKS, 1024),
    "pcie_sent_bytes": ("NVML_FI_DEV_PCIE_COUNT_TX_BYTES", 0, 1),
    "pcie_received_bytes": ("NVML_FI_DEV_PCIE_COUNT_RX_BYTES", 0, 1),
}


class ConditionReaders:
    """The readers of the devices of a rank."""

    def __init__(self, devices: Sequence[engine.Device], first: int) -> None:
        """``first``: the number of the first device in the run. Raises MissingError."""
        self._readers = [
            (first + place, reader_for(device.info.runtime, device.info.pci_bus_id))
            for place, device in enumerate(devices)
        ]

    def begin(self) -> None:
        """Begins the time of the first shares and traffic."""
        self.read(0, 0)

    def read(self, index: int, cycle: int) -> list[Condition]:
        """The current conditions, after item ``index``."""
        return [reader.read(number, index, cycle) for number, reader in self._readers]


def reader_for(runtime: str, pci_bus_id: str) -> NvmlReader | HostReader:
    """The reader of a device. Raises MissingError if no condition can be read."""
    if runtime == "host":
        return HostReader(os.sched_getaffinity(0))
    if runtime == "cuda":
        return NvmlReader(pci_bus_id)
    raise MissingError(f"they are not supported on {runtime} devices")


class NvmlReader:
    """The condition of an NVIDIA device, by its management library."""

    def __init__(self, pci_bus_id: str) -> None:
        """Raises MissingError if NVML is not available or does not find the device."""
        import pynvml

        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        except pynvml.NVMLError as error:
            raise MissingError(f"NVML is not available ({error})") from None
        self._read_until_us = int(time.time() * 1e6)
        self._counted = self._counters()

    def read(self, rank: int, index: int, cycle: int) -> Condition:
        """The current condition, after item ``index``. Unknown values are None."""
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
            busy_share=self._busy_share(),
            **self._traffic_bytes(),
        )

    def _ask(self, names: list[str], *arguments: int) -> int | None:
        for name in names:
            call = getattr(self._nvml, name, None)
            with suppress(self._nvml.NVMLError):
                if call is not None:
                    return int(call(self._handle, *arguments))
        return None

    def _busy_share(self) -> float | None:
        """The mean of the driver's samples since the last call; None with too few of them.

        A sample is of the time before it: the first one is partly of the time before that call.
        """
        nvml = self._nvml
        samples: Sequence[Any] = ()
        kind = getattr(nvml, "NVML_GPU_UTILIZATION_SAMPLES", None)  # unknown to old bindings
        with suppress(nvml.NVMLError):
            if kind is not None:
                _, samples = nvml.nvmlDeviceGetSamples(self._handle, kind, self._read_until_us)
        new = sorted(
            (one for one in samples if one.timeStamp > self._read_until_us),
            key=lambda one: one.timeStamp,
        )
        if not new:
            return None
        self._read_until_us = new[-1].timeStamp
        within = new[1:]
        if len(within) < _LEAST_SAMPLES:
            return None
        return float(sum(one.sampleValue.uiVal for one in within) / len(within) / 100)

    def _traffic_bytes(self) -> dict[str, int]:
        """What the links carried since the last call; without links that are not counted."""
        before, now = self._counted, self._counters()
        self._counted = now
        # A counter that became smaller was reset.
        return {
            name: count - before[name]
            for name, count in now.items()
            if name in before and count >= before[name]
        }

    def _counters(self) -> dict[str, int]:
        nvml = self._nvml
        found: dict[str, int] = {}
        for name, (field, scope, unit_bytes) in _COUNTERS.items():
            number = getattr(nvml, field, None)
            with suppress(nvml.NVMLError):
                if number is None:
                    continue
                (value,) = nvml.nvmlDeviceGetFieldValues(self._handle, [(number, scope)])
                # A counter of 32 bits, as of PCIe, may begin again unseen: 4 GiB take 0.1 s.
                is_wide = value.valueType != nvml.NVML_VALUE_TYPE_UNSIGNED_INT
                if value.nvmlReturn == nvml.NVML_SUCCESS and is_wide:
                    found[name] = int(value.value.ullVal) * unit_bytes
        return found


class HostReader:
    """The processors that a rank of the host may use, from the kernel's files."""

    def __init__(self, processors: Iterable[int], root: Path = Path("/")) -> None:
        """Raises MissingError if the kernel reports nothing of these processors."""
        self._names = {f"cpu{processor}" for processor in processors}
        directories = [root / "sys/devices/system/cpu" / name for name in sorted(self._names)]
        self._frequencies = [it / "cpufreq" / "scaling_cur_freq" for it in directories]
        self._throttles = [
            it / "thermal_throttle" / name
            for it in directories
            for name in ("core_throttle_count", "package_throttle_count")
        ]
        self._stat = root / "proc/stat"
        self._times = self._processor_times()
        if not (_numbers(self._frequencies) or _numbers(self._throttles) or self._times):
            raise MissingError(
                "the kernel reports neither frequencies nor throttling nor times of processors"
            )

    def read(self, rank: int, index: int, cycle: int) -> Condition:
        """The mean frequency, the throttling count since boot, and how busy the processors were.

        Unknown values are None.
        """
        frequencies_khz = _numbers(self._frequencies)
        throttles = _numbers(self._throttles)
        return Condition(
            rank=rank,
            index=index,
            cycle=cycle,
            at_s=time.time(),
            clock_hz=sum(frequencies_khz) * 1e3 / len(frequencies_khz) if frequencies_khz else None,
            throttle_count=sum(throttles) if throttles else None,
            busy_share=self._busy_share(),
        )

    def _busy_share(self) -> float | None:
        """The share of the time since the last call; None if the kernel's clock has not ticked."""
        now = self._processor_times()
        if now is None or self._times is None:
            return None
        idle, total = (one - other for one, other in zip(now, self._times, strict=True))
        if total <= 0:
            return None
        self._times = now
        return min(1.0, max(0.0, 1 - idle / total))

    def _processor_times(self) -> tuple[int, int] | None:
        """The idle and the whole time of the processors, in ticks; None if unknown."""
        idle = total = 0
        with suppress(OSError, ValueError):
            for line in self._stat.read_text(encoding="utf-8", errors="replace").splitlines():
                name, *ticks = line.split()
                if name in self._names:
                    # user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
                    own = [int(tick) for tick in ticks[:8]]
                    idle += sum(own[3:5])
                    total += sum(own)
        return (idle, total) if total else None


def _numbers(paths: Iterable[Path]) -> list[int]:
    """The numbers in those of the files that can be read."""
    found = []
    for path in paths:
        with suppress(OSError, ValueError):
            found.append(int(path.read_text(encoding="utf-8", errors="replace")))
    return found
