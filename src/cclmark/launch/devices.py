"""The choice of devices for a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cclmark.base.errors import MissingError, UsageError
from cclmark.launch.placement import Placement
from cclmark.work.runtimes import (
    ACCELERATOR_RUNTIMES,
    MOST_HOST_RANKS,
    AcceleratorRuntime,
    NamedDevices,
)

_DEFAULT_HOST_RANKS = 8
_HIDES = ("", "-1")  # the values of CUDA_VISIBLE_DEVICES and its like that hide all devices


@dataclass(frozen=True)
class DeviceChoice:
    """A runtime and the indices of its devices, one rank each.

    ``notice``: a notice for the user about the choice, or empty. ``mixed``: the runtime of every
    device if there are several runtimes; ``runtime`` is then the runtime of the accelerators.
    """

    runtime: str
    indices: tuple[int, ...]
    notice: str = ""
    mixed: tuple[str, ...] = ()

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The runtime of every rank's device."""
        return self.mixed or (self.runtime,) * len(self.indices)


def choose_devices(
    named: NamedDevices,
    count: int | None,
    probe: Callable[[str], int],
    *,
    falls_back: bool | None = None,
) -> DeviceChoice:
    """Chooses the devices of ``--devices`` and ``-g``.

    ``falls_back``: whether the host is measured, with a notice, if no devices are named and the
    machine has no accelerator; by default only if ``count`` is not given, because a count is one of
    accelerators. Accelerators that are present but unusable are always an error.
    Numbers without a runtime are of the same accelerators, never of the host.
    ``probe`` returns the number of devices of a runtime, or raises MissingError. Raises UsageError
    for counts that the named devices exclude and MissingError for missing devices.
    """
    if len(named.numbers) > 1:
        return _mixed(named, count, probe)
    notice, runtime, numbers = "", named.runtime, named.numbers.get(named.runtime, ())
    if not runtime:
        runtime, notice = _best_runtime(probe)
        falls_back = not named and (count is None if falls_back is None else falls_back)
        if runtime == "host" and not falls_back:
            requested, instead = "", "host"
            if named:
                requested = f"--devices {named}: numbers alone are of accelerators, but "
                instead = f"host:{max(2, len(numbers))}"
                notice += f" (runtimes tried: {', '.join(ACCELERATOR_RUNTIMES)})"
            elif count is not None:
                plural = "s are" if count > 1 else " is"
                requested, instead = f"{count} device{plural} requested, but ", f"host:{count}"
            raise MissingError(
                f"{requested}{notice}. To measure the host instead, use --devices {instead}"
            )
    if runtime == "host":
        notice += notice and ": its host is measured instead"
        return DeviceChoice("host", _host_ranks(numbers, count), notice)
    present = probe(runtime)
    if present < 1:
        raise MissingError(f"the runtime {runtime} found no device")
    indices = numbers or tuple(range(present))
    absent = [index for index in indices if index >= present]
    if absent:
        raise MissingError(
            f"device {absent[0]} does not exist: this machine has {present} {runtime} devices "
            f"(0 to {present - 1})"
        )
    if count is not None:
        if count > len(indices):
            raise MissingError(
                f"-g requests {count} devices, but only {len(indices)} {runtime} "
                f"{'device is' if len(indices) == 1 else 'devices are'} available"
            )
        indices = indices[:count]
    return DeviceChoice(runtime, indices, notice)


def choose_own_devices(
    placement: Placement,
    named: NamedDevices,
    count: int | None,
    probe: Callable[[str], int],
    *,
    falls_back: bool | None = None,
) -> DeviceChoice:
    """Chooses the devices of one of the processes that a launcher started.

    A process that shares its host with others gets ``count`` devices, by default one, selected by
    its local rank. A process alone on its host gets all devices, as in choose_devices. A process
    that sees exactly its share gets the visible devices, because the launcher has assigned them.
    ``falls_back``: see choose_devices.
    """
    falls_back = count is None if falls_back is None else falls_back
    each = count or 1
    host_ranks = named.numbers.get("host", ()) or tuple(range(MOST_HOST_RANKS))
    if placement.local is None or placement.local_size == 1:  # alone on its host
        if named.numbers == {"host": ()}:
            return DeviceChoice("host", host_ranks[:each])
        found = choose_devices(named, count, probe, falls_back=falls_back)
        # The host has no device count to choose from.
        by_default = not named and found.runtime == "host"
        return replace(found, indices=host_ranks[:each]) if by_default else found
    if len(named.numbers) > 1:
        raise UsageError(
            f"--devices {named}: a process of a launcher supports only one kind of device"
        )
    if named.runtime == "host":
        found = DeviceChoice("host", host_ranks)
    else:
        found = choose_devices(named, None, probe, falls_back=falls_back)
        if found.runtime == "host":
            found = replace(found, indices=host_ranks)
    if len(found.indices) == each:
        return found
    first = placement.local * each
    own = found.indices[first : first + each]
    if len(own) < each:
        raise MissingError(
            f"the processes of one host require at least {first + each} {found.runtime} devices, "
            f"{each} for each process, but only {len(found.indices)} are available. Start fewer "
            "processes, or use --devices host"
        )
    return replace(found, indices=own)


def _mixed(named: NamedDevices, count: int | None, probe: Callable[[str], int]) -> DeviceChoice:
    """Devices of several runtimes, in the order of ``--devices``."""
    if count is not None:
        raise UsageError(
            f"--devices {named} sets the number of devices of each runtime: remove -g and -p"
        )
    parts = [
        choose_devices(NamedDevices(named.text, {runtime: numbers}), None, probe)
        for runtime, numbers in named.numbers.items()
    ]
    return DeviceChoice(
        runtime=next((part.runtime for part in parts if part.runtime != "host"), "host"),
        indices=tuple(index for part in parts for index in part.indices),
        mixed=tuple(part.runtime for part in parts for _ in part.indices),
    )


def _best_runtime(probe: Callable[[str], int]) -> tuple[str, str]:
    """The default runtime, and why it is no accelerator. Raises MissingError if none works."""
    failures: dict[str, str] = {}
    hidden = ""
    for runtime in ACCELERATOR_RUNTIMES.values():
        if runtime.may_be in failures:
            continue
        reason = "its driver finds no device"
        try:
            # Not only where device nodes exist: some machines have devices without them.
            if probe(runtime.name) > 0:
                return runtime.name, ". ".join(failures.values())
        except MissingError as error:
            reason = str(error).rstrip(".")
        vendor = indicated_vendor(runtime)
        if vendor and (variable := _hiding_variable(runtime)):
            hidden = hidden or f"{variable} hides the {vendor} devices of this machine"
        elif vendor:
            failures[runtime.name] = (
                f"the {vendor} devices of this machine cannot be used: {reason}"
            )
    if failures:
        raise MissingError(
            f"{'. '.join(failures.values())}.\nTo measure the host instead, use --devices host; "
            "cclmark info shows details"
        )
    return "host", hidden or "no accelerator was found on this machine"


def indicated_vendor(runtime: AcceleratorRuntime) -> str:
    """The vendor of the devices that device nodes or a variable indicate, empty for none."""
    for vendor, pattern in runtime.nodes.items():
        if _device_nodes(pattern):
            return vendor
    return " or ".join(runtime.nodes) if os.environ.get(runtime.library_variable) else ""


def _hiding_variable(runtime: AcceleratorRuntime) -> str:
    """The variable that hides all devices of the runtime, empty for none."""
    names = runtime.visible_variables
    return next((name for name in names if os.environ.get(name, "all").strip() in _HIDES), "")


def _host_ranks(numbers: tuple[int, ...], count: int | None) -> tuple[int, ...]:
    if numbers:
        if count is not None and count > len(numbers):
            raise UsageError(
                f"-g requests {count} devices, but --devices gives only {len(numbers)}"
            )
        return numbers[:count]
    if count is None:
        count = max(2, min(_DEFAULT_HOST_RANKS, len(os.sched_getaffinity(0))))
    if count > MOST_HOST_RANKS:
        raise UsageError(f"{count} host ranks: choose from 1 to {MOST_HOST_RANKS}")
    return tuple(range(count))


def quick_cuda_count() -> int | None:
    """The number of CUDA devices without initialisation of the driver, None where it is unknown.

    Initialisation of the driver takes longer than all other work of the launcher.
    """
    cuda = ACCELERATOR_RUNTIMES["cuda"]
    if os.environ.get(cuda.library_variable):
        return None
    nodes = sum(len(_device_nodes(pattern)) for pattern in cuda.nodes.values())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    count: int | None = None
    if visible is None:
        count = nodes or None
    else:
        entries = [entry.strip() for entry in visible.split(",")]
        if all(entry.isdigit() and int(entry) < nodes for entry in entries):
            count = len(entries)
    return count if count is not None and _cuda_driver_loads() else None


def _device_nodes(pattern: str) -> list[Path]:
    return list(Path("/dev").glob(pattern))


def _cuda_driver_loads() -> bool:
    """Whether the loader finds the driver's library, which containers may lack."""
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
