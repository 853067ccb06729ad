"""The devices that the options of a command choose, also those of torch.distributed itself."""

from __future__ import annotations

import os
import sys

from cclmark.base.errors import EXIT_OK, Followed, UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import LAUNCHER_VARIABLE, find_placement, is_primary
from cclmark.options.groups import CaseOptions, DeviceOptions
from cclmark.rank import locate
from cclmark.recording.joining import WantedDevices
from cclmark.work.libraries import require_torch_devices, runtimes_of, usual_runtime
from cclmark.work.runtimes import NamedDevices, parse_devices


def devices_for(flags: CaseOptions) -> NamedDevices:
    """Returns ``--devices``, or by default the devices that the named libraries require.

    Accelerators come before the host. Reads ``--ccl-file`` first, which may describe one of those
    libraries. Raises UsageError.
    """
    flags.add_ccl_files()
    if flags.devices or not flags.ccl:
        return flags.devices
    needed = [runtimes_of(name) for name in flags.ccl]
    for runtimes in needed:
        if len(runtimes) == 1 and runtimes != ["host"]:
            return parse_devices(runtimes[0])
    return parse_devices("host" if all(runtimes == ["host"] for runtimes in needed) else "")


def wanted_of(flags: CaseOptions, *, mixed: bool = False) -> WantedDevices:
    """Returns the devices that a command for cases requests. Raises UsageError."""
    return WantedDevices(lambda: devices_for(flags), device_count(flags), flags.timeout_s, mixed)


def device_count(flags: CaseOptions) -> int | None:
    """Returns the device count of ``-g``, or of hccl_test's ``-p``, which counts per host."""
    if flags.npus is None or flags.npus > 1:
        if flags.count is not None and flags.npus is not None and flags.count != flags.npus:
            raise UsageError("-g and -p request different numbers of devices")
        if flags.count is not None or flags.npus is None:
            return flags.count
        placement = find_placement(os.environ)
        beside = placement.local_size if placement is not None else None
        return max(1, flags.npus // (beside or 1))
    if is_primary(os.environ):
        print(
            f"cclmark: -p {flags.npus} is ignored: ranks always start in parallel and outputs are "
            "checked. For one device write -g 1.",
            file=sys.stderr,
        )
    return flags.count


def leave_it_to_the_first() -> None:
    """Raises Followed in all processes of a host but the first, which reports for the host."""
    try:
        placement = find_placement(os.environ)
    except UsageError as error:
        print(f"cclmark: {error}", file=sys.stderr)  # the host can still be reported
        return
    if placement is None:
        return
    if placement.process > 0:
        raise Followed(EXIT_OK)
    print(
        f"cclmark: {placement.launcher} started {placement.processes} processes; this output "
        f"describes the host of the first one. With {LAUNCHER_VARIABLE}=none each process "
        "describes its own host",
        file=sys.stderr,
    )


_USUAL_BACKEND = {"cuda": "nccl", "host": "gloo"}


def devices_of_backend(flags: DeviceOptions, backend: str, usual_ranks: int) -> NamedDevices:
    """Returns ``--devices``; without it, a backend for hosts has ``usual_ranks`` host ranks."""
    if flags.devices or usual_runtime(backend) != "host":
        return flags.devices
    is_alone = find_placement(os.environ) is None
    return parse_devices(f"host:{flags.count or usual_ranks}" if is_alone else "host")


def checked_backend(backend: str, coordinator: Coordinator, purpose: str) -> str:
    """Returns the backend to use on the devices, the default one if ``backend`` is empty.

    ``purpose``: the measurement in messages. Raises UsageError if the devices do not suit,
    MissingError without torch.
    """
    devices = coordinator.devices
    locate.require_torch()
    require_torch_devices(devices.runtime)
    ranks = len(devices.indices)
    if ranks < 2:
        raise UsageError(
            f"{purpose} require two ranks, but there is only {ranks}: see --devices and -g"
        )
    chosen = backend or _USUAL_BACKEND[devices.runtime]
    if chosen == "nccl" and devices.runtime != "cuda":
        raise UsageError("nccl supports cuda devices, not the host: see --devices")
    return chosen
