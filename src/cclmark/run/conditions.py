"""The condition of a rank's device between cases: clocks, temperature, power, throttling."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from cclmark.errors import MissingError
from cclmark.results.schema import Condition

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
