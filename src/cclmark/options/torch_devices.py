"""The devices and the backend of commands that use torch.distributed itself."""

from __future__ import annotations

import os

from cclmark.errors import UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import find_placement
from cclmark.plan.libraries import require_torch_devices, usual_runtime
from cclmark.run import locate

_USUAL_BACKEND = {"cuda": "nccl", "host": "gloo"}


def check_backend_name(backend: str, command: str) -> None:
    """Raises UsageError for several backends. ``command``: for example ``torch objects``."""
    names = [part.strip().rpartition(":")[2] for part in backend.split(",")]  # cpu:gloo,cuda:nccl
    names = [*dict.fromkeys(filter(None, names))]
    if "," in backend:
        runs = " and then ".join(f"cclmark {command} --backend {name}" for name in names)
        raise UsageError(
            f"--backend {backend}: one backend is allowed at a time"
            + (f": run {runs}" if runs else "")
        )


def wanted_devices(devices: str, count: int | None, backend: str, usual_ranks: int) -> str:
    """Returns the devices to select: those of a backend for hosts are ``usual_ranks`` host ranks.

    ``devices`` and ``count``: what the user requested.
    """
    if devices or usual_runtime(backend) != "host":
        return devices
    return f"host:{count or usual_ranks}" if find_placement(os.environ) is None else "host"


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
