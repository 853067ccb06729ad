"""The choice of devices for a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cclmark.errors import MissingError, UsageError
from cclmark.launch.placement import Placement
from cclmark.plan.runtimes import ACCELERATOR_RUNTIMES, RUNTIMES, AcceleratorRuntime

_MOST_HOST_RANKS = 1024
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
    text: str,
    count: int | None,
    probe: Callable[[str], int],
    *,
    falls_back: bool | None = None,
) -> DeviceChoice:
    """Parses ``--devices`` and ``-g``.

    ``text`` is empty (accelerators if there are any, else the host), a runtime, indices, or both:
    ``host``, ``cuda``, ``0,2,3``, ``cuda:0-3``, ``host:4`` (any number of host devices), or several
    of these joined by ``+``.
    ``falls_back``: whether the host is measured, with a notice, if no devices are named and the
    machine has no accelerator; by default only if ``count`` is not given, because a count is one of
    accelerators. Accelerators that are present but unusable are always an error.
    ``probe`` returns the number of devices of a runtime, or raises MissingError. Raises UsageError
    for malformed text and MissingError for missing devices.
    """
    if "+" in text:
        return _mixed(text, count, probe)
    runtime, _, part = text.partition(":")
    if runtime and not runtime.isalpha():
        runtime, part = "", text
    if runtime and runtime not in RUNTIMES:
        raise UsageError(f"unknown runtime {runtime!r}: choose from {', '.join(RUNTIMES)}")
    notice = ""
    if not runtime and not part:
        runtime, notice = _best_runtime(probe)
        falls_back = count is None if falls_back is None else falls_back
        if runtime == "host" and not falls_back:
            requested, named = "", "host"
            if count is not None:
                plural = "s are" if count > 1 else " is"
                requested, named = f"{count} device{plural} requested, but ", f"host:{count}"
            raise MissingError(
                f"{requested}{notice}. To measure the host instead, use --devices {named}"
            )
    runtime = runtime or "cuda"
    if runtime == "host":
        notice += notice and ": its host is measured instead"
        return DeviceChoice("host", _host_indices(part, count), notice)
    present = probe(runtime)
    if present < 1:
        raise MissingError(f"the runtime {runtime} found no device")
    indices = _parse_indices(part) if part else tuple(range(present))
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
    text: str,
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
    alone = placement.local is None or placement.local_size == 1
    each = count or 1
    runtime = _runtime_of(text)
    if runtime == "host" and not text.partition(":")[2]:
        text = f"host:{each}" if alone else "host"
    if alone:
        found = choose_devices(text, count, probe, falls_back=falls_back)
        # The host has no device count to choose from.
        return (
            found if text or found.runtime != "host" else replace(found, indices=tuple(range(each)))
        )
    assert placement.local is not None
    first = placement.local * each
    if "+" in text:
        raise UsageError(
            f"--devices {text}: a process of a launcher supports only one kind of device"
        )
    if runtime == "host":
        indices = _host_indices(text.partition(":")[2], None) if ":" in text else ()
        found = DeviceChoice("host", indices or tuple(range(_MOST_HOST_RANKS)))
    else:
        found = choose_devices(text, None, probe, falls_back=falls_back)
        if found.runtime == "host" and ":" not in text:
            found = replace(found, indices=tuple(range(_MOST_HOST_RANKS)))
    if len(found.indices) == each:
        return found
    own = found.indices[first : first + each]
    if len(own) < each:
        raise MissingError(
            f"the processes of one host require at least {first + each} {found.runtime} devices, "
            f"{each} for each process, but only {len(found.indices)} are available. Start fewer "
            "processes, or use --devices host"
        )
    return replace(found, indices=own)


def _runtime_of(text: str) -> str:
    """The runtime that ``--devices`` names, empty if it names none."""
    name = text.partition(":")[0].strip()
    return name if name.isalpha() else ""


def _mixed(text: str, count: int | None, probe: Callable[[str], int]) -> DeviceChoice:
    """Devices of several runtimes, in the order of ``--devices``."""
    if count is not None:
        raise UsageError(
            f"--devices {text} sets the number of devices of each runtime: remove -g and -p"
        )
    if not all(part.strip() for part in text.split("+")):
        raise UsageError(f"cannot read the devices {text!r}: write cuda:0-1+host:2")
    parts = [choose_devices(part.strip(), None, probe) for part in text.split("+")]
    names = [part.runtime for part in parts]
    if len(set(names)) < len(names):
        raise UsageError(
            f"the devices {text!r} list a runtime twice: list all its devices together"
        )
    return DeviceChoice(
        runtime=next((name for name in names if name != "host"), "host"),
        indices=tuple(index for part in parts for index in part.indices),
        mixed=tuple(part.runtime for part in parts for _ in part.indices),
    )


def _best_runtime(probe: Callable[[str], int]) -> tuple[str, str]:
    """The default runtime and a notice about it: for the host, why there is no accelerator.

    Raises MissingError if there are accelerators, but none can be used.
    """
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
        vendor = _indicated_vendor(runtime)
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


def _indicated_vendor(runtime: AcceleratorRuntime) -> str:
    """The vendor of the devices that device nodes or a variable indicate, empty for none."""
    for vendor, pattern in runtime.nodes.items():
        if _device_nodes(pattern):
            return vendor
    return " or ".join(runtime.nodes) if os.environ.get(runtime.library_variable) else ""


def _hiding_variable(runtime: AcceleratorRuntime) -> str:
    """The variable that hides all devices of the runtime, empty for none."""
    for name in runtime.visible_variables:
        if os.environ.get(name, "all").strip() in _HIDES:
            return name
    return ""


def _host_indices(part: str, count: int | None) -> tuple[int, ...]:
    if _is_number(part):
        part, number = "", int(part)
        if count is not None and count > number:
            raise UsageError(f"-g requests {count} devices, but --devices gives only {number}")
        count = number if count is None else count
    if part:
        indices = _parse_indices(part)
        return indices[:count]
    if count is None:
        count = max(2, min(_DEFAULT_HOST_RANKS, len(os.sched_getaffinity(0))))
    if not 1 <= count <= _MOST_HOST_RANKS:
        raise UsageError(f"{count} host ranks: choose from 1 to {_MOST_HOST_RANKS}")
    return tuple(range(count))


def _parse_indices(text: str) -> tuple[int, ...]:
    indices: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not _is_number(first) or not _is_number(last) or int(last) < int(first):
            raise UsageError(f"cannot read the devices {text!r}: write 0,2,3 or cuda:0-3 or host:4")
        if int(last) >= _MOST_HOST_RANKS:
            raise UsageError(f"device {last} of {text!r}: the limit is {_MOST_HOST_RANKS - 1}")
        indices += range(int(first), int(last) + 1)
    if len(set(indices)) != len(indices):
        raise UsageError(
            f"the devices {text!r} list a device twice: each rank requires its own device"
        )
    return tuple(indices)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


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
