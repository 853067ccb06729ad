"""Runs ``cclmark torch check``: flags to checks, checks to ranks, verdicts to screen and file."""

from __future__ import annotations

import os
import time

from cclmark.cli.option_values import check_limits, size_of
from cclmark.cli.torch.command import USUAL_FACTOR, ObjectFlags, TorchFlags
from cclmark.document.exporter import Exporter
from cclmark.document.paint import ansi, unpainted
from cclmark.errors import UsageError
from cclmark.kinds.check import kind as check
from cclmark.kinds.check.document import CheckTable
from cclmark.kinds.check.plan import CHECK, chosen_checks
from cclmark.kinds.check.result import CheckResult
from cclmark.kinds.objects import kind as objects
from cclmark.kinds.objects.document import ObjectTable
from cclmark.kinds.objects.plan import OBJECTS, calls_of, chosen_calls
from cclmark.kinds.objects.result import ObjectResult
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import find_placement
from cclmark.launch.request import Request
from cclmark.plan.binding import Binding
from cclmark.plan.inject import Injection
from cclmark.plan.libraries import require_torch_devices, usual_runtime
from cclmark.plan.sizes import format_size, sweep
from cclmark.recording.joining import joined
from cclmark.recording.output import Output
from cclmark.recording.recorder import record
from cclmark.report.journal_text import exporter_of
from cclmark.results.schema import Settings
from cclmark.run import locate

_MOST_USUAL_RANKS = 4  # of the host
_MOST_BYTES = 1 << 30  # of one pickled object


def measure_objects(flags: ObjectFlags) -> int:
    """Measures the calls of ``flags`` and returns the exit code.

    Raises CclmarkError before anything is started or written if the flags are invalid.
    """
    began_s = time.monotonic()
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    check_backend_name(flags.backend, "torch objects")
    usual_ranks = max(2, min(_MOST_USUAL_RANKS, len(os.sched_getaffinity(0))))
    with joined(
        lambda: wanted_devices(flags.devices, flags.count, flags.backend, usual_ranks),
        flags.count,
        flags.timeout_s,
    ) as coordinator:
        coordinator.exit_code = _measure(flags, coordinator, began_s)
        return coordinator.exit_code


def _measure(flags: ObjectFlags, coordinator: Coordinator, began_s: float) -> int:
    settings = _settings(flags, len(coordinator.devices.indices))
    sizes = sweep(
        settings.begin_bytes, settings.end_bytes, settings.step_bytes, settings.factor or 2.0
    )
    operations = chosen_calls(flags.only)
    backend = checked_backend(flags.backend, coordinator, "object calls")
    ranks = len(coordinator.devices.indices)
    request = Request(
        devices=coordinator.devices,
        settings=settings,
        ccl_wheels={},
        kind=objects.KIND,
        planned=calls_of(operations, backend, ranks, sizes, flags.content),
        modules=flags.modules,
        coordinator=coordinator,
    )
    return record(
        request,
        lambda output: _exporter(flags.format, output),
        began_s,
        output=flags.output,
        journal=flags.journal,
        resume=flags.resume,
        stem=f"torch-objects-{backend}-{ranks}",
    )


def _settings(flags: ObjectFlags, ranks: int) -> Settings:
    """Creates the settings that the flags request. Raises UsageError."""
    begin_bytes, end_bytes = size_of("-b", flags.begin), size_of("-e", flags.end)
    if flags.end == ObjectFlags.end:
        end_bytes = max(begin_bytes, end_bytes)
    if end_bytes > _MOST_BYTES:
        raise UsageError(
            f"-e {flags.end}: objects of up to {format_size(_MOST_BYTES)} are supported"
        )
    if flags.step and flags.factor is not None:
        raise UsageError("-i (step) and -f (factor) exclude each other")
    for text in flags.inject:
        Injection.parse(text, ranks)
    return Settings(
        begin_bytes=begin_bytes,
        end_bytes=end_bytes,
        step_bytes=size_of("-i", flags.step) if flags.step else 0,
        factor=0.0 if flags.step else flags.factor or USUAL_FACTOR,
        timing="calls in a row",
        across_ranks="max",
        precision=flags.precision_percent / 100,
        max_time_s=flags.max_time_s,
        timeout_s=flags.timeout_s,
        iterations=None,
        warmup=None,
        group=1,
        graph_launches=1,
        check=flags.check,
        cycles=1,
        registration="none",
        seed=flags.seed,
        inject=list(flags.inject),
        bind=str(Binding.parse(flags.bind, ranks)),
    )


def _exporter(format_name: str, output: Output) -> Exporter[ObjectResult]:
    if format_name == "table":
        return ObjectTable(paint=ansi if output.takes_colours else unpainted)
    return exporter_of(OBJECTS, format_name)


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


_USUAL_RANKS = 4
_MOST_RANKS_WITH_VALUES = 256


def check_torch(flags: TorchFlags) -> int:
    """Runs the checks of ``flags`` and returns the exit code.

    Raises CclmarkError before anything is started or written if the flags are invalid.
    """
    began_s = time.monotonic()
    check_limits(1.0, 1.0, flags.timeout_s)
    check_backend_name(flags.backend, "torch check")
    with joined(
        lambda: wanted_devices(flags.devices, flags.count, flags.backend, _USUAL_RANKS),
        flags.count,
        flags.timeout_s,
    ) as coordinator:
        coordinator.exit_code = _check(flags, coordinator, began_s)
        return coordinator.exit_code


def _check(flags: TorchFlags, coordinator: Coordinator, began_s: float) -> int:
    devices = coordinator.devices
    backend = checked_backend(flags.backend, coordinator, "the checks")
    ranks = len(devices.indices)
    if flags.values and ranks > _MOST_RANKS_WITH_VALUES:
        raise UsageError(
            f"--values supports at most {_MOST_RANKS_WITH_VALUES} ranks, but there are {ranks}: "
            "select fewer with --devices or -g"
        )
    for text in flags.inject:
        if Injection.parse(text, ranks).kind == "hang":
            raise UsageError(f"{text!r}: checks support only the faults corrupt and delay")
    settings = Settings(
        begin_bytes=0,
        end_bytes=0,
        step_bytes=0,
        factor=0.0,
        timing="checked",
        across_ranks="max",
        precision=0.0,
        max_time_s=0.0,
        timeout_s=flags.timeout_s,
        iterations=1,
        warmup=0,
        group=1,
        graph_launches=1,
        check=1,
        cycles=1,
        registration="none",
        seed=0,
        inject=list(flags.inject),
        bind=str(Binding.parse(flags.bind, ranks)),
        values=flags.values,
    )
    request = Request(
        devices=devices,
        settings=settings,
        ccl_wheels={},
        kind=check.KIND,
        planned=chosen_checks(flags.only, backend),
        modules=flags.modules,
        coordinator=coordinator,
    )
    return record(
        request,
        lambda output: _check_exporter(flags.format, output),
        began_s,
        output=flags.output,
        journal=flags.journal,
        stem=f"torch-check-{backend}-{ranks}",
    )


def _check_exporter(format_name: str, output: Output) -> Exporter[CheckResult]:
    if format_name == "table":
        return CheckTable(paint=ansi if output.takes_colours else unpainted)
    return exporter_of(CHECK, format_name)
