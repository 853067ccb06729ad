"""Runs ``cclmark torch check``: flags to checks, checks to ranks, verdicts to screen and file."""

from __future__ import annotations

import os

from cclmark.base.errors import UsageError
from cclmark.journal.schema import settings_without_sweep
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import find_placement
from cclmark.launch.request import Request
from cclmark.options.groups import DeviceOptions
from cclmark.rank import locate
from cclmark.recording.joining import WantedDevices, run_joined
from cclmark.recording.recorder import Recorded, record
from cclmark.work.binding import Binding
from cclmark.work.inject import Injection
from cclmark.work.runtimes import NamedDevices, parse_devices
from cclmark.work.torch_devices import require_support, torch_runtimes, usual_backend
from cclmark_training.check.command import TorchFlags
from cclmark_training.check.kind import KIND
from cclmark_training.check.plan import RANDOM_CHECKS, chosen_checks

_USUAL_RANKS = 4
_MOST_RANKS_WITH_VALUES = 256
_USUAL_SEED = 1


def check_torch(flags: TorchFlags) -> Recorded:
    """Runs the checks of ``flags``."""
    wanted = WantedDevices(
        lambda: devices_of_backend(flags, flags.backend, _USUAL_RANKS), flags.count, flags.timeout_s
    )
    return run_joined(wanted, lambda coordinator: _check(flags, coordinator))


def _check(flags: TorchFlags, coordinator: Coordinator) -> Recorded:
    devices = coordinator.devices
    backend = checked_backend(flags.backend, coordinator, "the checks")
    ranks = len(devices.indices)
    if flags.values and ranks > _MOST_RANKS_WITH_VALUES:
        raise UsageError(
            f"--values supports at most {_MOST_RANKS_WITH_VALUES} ranks, but there are {ranks}: "
            "select fewer with --devices or -g"
        )
    checks = chosen_checks(flags.only, backend, random=flags.seed is not None)
    is_random = any(check.name in RANDOM_CHECKS for check in checks)
    for text in flags.inject:
        if Injection.parse(text, ranks).kind == "hang":
            raise UsageError(f"{text!r}: checks support only the faults corrupt and delay")
    settings = settings_without_sweep(
        "checked",
        flags.timeout_s,
        iterations=1,
        warmup=0,
        inject=list(flags.inject),
        bind=str(Binding.parse(flags.bind, ranks)),
        values=flags.values,
        seed=(flags.seed or _USUAL_SEED) if is_random else 0,
    )
    request = Request(
        devices=devices,
        settings=settings,
        ccl_wheels={},
        kind=KIND,
        planned=checks,
        modules=flags.modules,
        coordinator=coordinator,
    )
    return record(request, flags, f"torch-check-{backend}-{ranks}")


def devices_of_backend(flags: DeviceOptions, backend: str, usual_ranks: int) -> NamedDevices:
    """Returns ``--devices``; without it, a backend for hosts has ``usual_ranks`` host ranks."""
    if flags.devices or torch_runtimes(backend) != ["host"]:
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
    ranks = len(devices.indices)
    if ranks < 2:
        raise UsageError(
            f"{purpose} require two ranks, but there is only {ranks}: see --devices and -g, or use "
            "gloo on the host with --backend gloo --devices host:2"
        )
    chosen = backend or usual_backend(devices.runtime, "--backend")
    require_support(chosen, chosen, devices.runtime)
    return chosen
