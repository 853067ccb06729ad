"""Runs ``cclmark torch objects``: flags to calls, calls to ranks, times to screen and file."""

from __future__ import annotations

import os

from cclmark.journal.schema import Settings, settings_without_sweep
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.recording.joining import WantedDevices, run_joined
from cclmark.recording.recorder import Recorded, record
from cclmark.work.binding import Binding
from cclmark.work.inject import Injection
from cclmark.work.sizes import sweep
from cclmark_training.check.request import checked_backend, devices_of_backend
from cclmark_training.objects.command import USUAL_END_BYTES, ObjectFlags
from cclmark_training.objects.kind import KIND
from cclmark_training.objects.plan import OBJECT_CALLS, calls_of

_MOST_USUAL_RANKS = 4  # of the host


def measure_objects(flags: ObjectFlags) -> Recorded:
    """Measures the calls of ``flags``."""
    usual_ranks = max(2, min(_MOST_USUAL_RANKS, len(os.sched_getaffinity(0))))
    wanted = WantedDevices(
        lambda: devices_of_backend(flags, flags.backend, usual_ranks), flags.count, flags.timeout_s
    )
    return run_joined(wanted, lambda coordinator: _measure(flags, coordinator))


def _measure(flags: ObjectFlags, coordinator: Coordinator) -> Recorded:
    settings = _settings(flags, len(coordinator.devices.indices))
    sizes = sweep(settings.begin_bytes, settings.end_bytes, settings.step_bytes, settings.factor)
    operations = flags.only or list(OBJECT_CALLS)
    backend = checked_backend(flags.backend, coordinator, "object calls")
    ranks = len(coordinator.devices.indices)
    request = Request(
        devices=coordinator.devices,
        settings=settings,
        ccl_wheels={},
        kind=KIND,
        planned=calls_of(operations, backend, ranks, sizes, flags.content),
        modules=flags.modules,
        coordinator=coordinator,
    )
    return record(request, flags, f"torch-objects-{backend}-{ranks}")


def _settings(flags: ObjectFlags, ranks: int) -> Settings:
    """Creates the settings that the flags request. Raises UsageError."""
    for text in flags.inject:
        Injection.parse(text, ranks)
    return settings_without_sweep(
        "calls in a row",
        flags.timeout_s,
        begin_bytes=flags.begin,
        end_bytes=max(flags.begin, USUAL_END_BYTES) if flags.end is None else flags.end,
        step_bytes=flags.step,
        factor=0.0 if flags.step else flags.factor or flags.usual_factor,
        precision=flags.precision_percent / 100,
        max_time_s=flags.max_time_s,
        check=flags.check,
        seed=flags.seed,
        inject=list(flags.inject),
        bind=str(Binding.parse(flags.bind, ranks)),
        conditions=flags.conditions,
    )
