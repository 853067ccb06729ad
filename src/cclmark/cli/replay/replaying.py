"""Runs ``cclmark replay``: a profile and flags to replays, these to ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cclmark.cli.collective.measuring import check_limits, unknown_library
from cclmark.cli.communicator_options import check_options_of
from cclmark.cli.replay.replay_options import USUAL_ROUNDS, ReplayFlags
from cclmark.cli.usual_references import usual_references
from cclmark.cli.varied import check_settings
from cclmark.errors import MissingError, UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.devices import choose_devices
from cclmark.launch.placement import find_placement
from cclmark.launch.request import Request
from cclmark.plan.binding import Binding
from cclmark.plan.inject import Injection
from cclmark.plan.items import REPLAY
from cclmark.plan.libraries import (
    BRIDGE,
    MPI,
    meant_by,
    names_for,
    native_library,
    torch_backend_of,
)
from cclmark.plan.replays import Replay, replays_of
from cclmark.plan.variants import (
    DEFAULT,
    LIBRARY,
    PROCESS,
    Assignment,
    Variant,
    parse_vary,
    variants_of,
)
from cclmark.profile.program_step import FoundStep, step_of
from cclmark.recording.joining import devices_here, joined
from cclmark.recording.output import Output
from cclmark.recording.recorder import record
from cclmark.report.formats.exporter import Exporter
from cclmark.report.kinds.replay_table import ReplayTable
from cclmark.report.replay import exporter_of
from cclmark.report.wording.paint import ansi, unpainted
from cclmark.report.wording.reference_notes import ReferenceNotes
from cclmark.results.journal import read_journal
from cclmark.results.kinds import ReplayResult
from cclmark.results.schema import Settings
from cclmark.run import locate

_OF_HOST = "shm"
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
_USUAL_CONNECTIONS = 8


def measure_replays(flags: ReplayFlags) -> int:
    """Measures the replays of ``flags`` and returns the exit code.

    Raises CclmarkError before anything is started or written if the flags are invalid.
    """
    began_s = time.monotonic()
    if not flags.profile:
        raise UsageError(
            "the profile is missing: cclmark replay [OPTIONS] PROFILE, the journal of cclmark "
            "profile or of imported traces"
        )
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    path = Path(flags.profile)
    found = step_of(read_journal(path), flags.profile)
    ranks = len(found.step.calls)
    with joined(lambda: _devices_text(flags, ranks), flags.count, flags.timeout_s) as coordinator:
        coordinator.exit_code = _measure(flags, found, coordinator, began_s)
        return coordinator.exit_code


def _devices_text(flags: ReplayFlags, ranks: int) -> str:
    """Returns ``--devices``; without it as many as the profile has ranks. Raises MissingError."""
    if flags.devices or flags.count is not None or find_placement(os.environ) is not None:
        return flags.devices
    found = choose_devices("", None, devices_here)
    if found.runtime == "host":
        return f"host:{ranks}"
    if len(found.indices) < ranks:
        raise MissingError(
            f"the profile has {ranks} ranks, but this machine has {len(found.indices)} "
            f"{found.runtime} devices: replay it where there are as many, or on the host with "
            f"--devices host:{ranks}"
        )
    return f"{found.runtime}:{','.join(map(str, found.indices[:ranks]))}"


def _measure(flags: ReplayFlags, found: FoundStep, coordinator: Coordinator, began_s: float) -> int:
    devices = coordinator.devices
    ranks = len(devices.indices)
    if ranks != len(found.step.calls):
        raise UsageError(
            f"the profile has {len(found.step.calls)} ranks, but {ranks} devices are chosen: see "
            "--devices and -g"
        )
    libraries = _libraries(flags, devices.runtime)
    variants, notices = _variants(flags, libraries)
    rounds = flags.rounds or (USUAL_ROUNDS if len(variants) > 1 else 1)
    if coordinator.placement is not None and (len(variants) > 1 or rounds > 1):
        raise UsageError(
            "replay starts new ranks for each variant and round: run these without "
            f"{coordinator.placement.launcher}, or one variant in one round"
        )
    _check_faults(flags, ranks)
    replay = Replay(
        variant=DEFAULT,
        round=0,
        ccl=libraries[0],
        ranks=ranks,
        program=Path(flags.profile).name,
        digest=found.digest,
        calls=max(len(own) for own in found.step.calls),
        groups=len(found.step.groups),
        gaps=flags.gaps,
        original=found.original,
    )
    request = Request(
        devices=devices,
        settings=_settings(flags, ranks),
        ccl_path=flags.ccl_path,
        ccl_wheels={name: locate.wheel_files(name) for name in libraries},
        kind=REPLAY,
        planned=replays_of(replay, variants, rounds),
        warnings=[*found.remarks, *_few_connections(found, devices.runtime), *notices],
        attachment=msgspec.msgpack.encode(found.step),
        coordinator=coordinator,
    )
    return record(
        request,
        lambda output: _exporter(flags, output),
        began_s,
        output=flags.output,
        journal=flags.journal,
        resume=flags.resume,
        stem=f"replay-{ranks}",
    )


def _few_connections(found: FoundStep, runtime: str) -> list[str]:
    """A notice if gaps on one stream may delay calls on another one."""
    text = os.environ.get(_CONNECTIONS, "")
    connections = int(text) if text.isascii() and text.isdecimal() else _USUAL_CONNECTIONS
    streams = max(1 + call.stream for own in found.step.calls for call in own)
    if runtime != "cuda" or streams <= connections:
        return []
    return [
        f"the step has {streams} streams, but the device {connections} hardware queues "
        f"({_CONNECTIONS}): a gap on one stream may delay calls on another one. Set it to 32"
    ]


def _libraries(flags: ReplayFlags, runtime: str) -> list[str]:
    """Returns the libraries of ``--ccl``, the default of the devices without it.

    Raises UsageError.
    """
    usual = _OF_HOST if runtime == "host" else native_library(runtime)
    named = [one.strip() for one in flags.ccl.split(",")] if flags.ccl else [usual or ""]
    found = list(dict.fromkeys(meant_by(name, runtime) for name in named))
    for name in found:
        if name in (MPI, BRIDGE) or torch_backend_of(name) is not None:
            raise UsageError(
                f"--ccl {name}: replay supports only libraries that cclmark loads itself and whose "
                "calls are enqueued on streams, and shm"
            )
        if name not in names_for(runtime):
            raise unknown_library(name, runtime)
    if flags.ccl_path and len(found) > 1:
        raise UsageError("--ccl-path is the file of one library, but --ccl names several")
    return found


def _variants(flags: ReplayFlags, libraries: Sequence[str]) -> tuple[list[Variant], list[str]]:
    """Returns the default, other libraries, varied settings; and notices. Raises UsageError."""
    varied = [parse_vary(text) for text in flags.vary]
    for name, _ in varied:
        if not (Assignment(name, "").is_variable or Assignment(name, "").option):
            raise UsageError(
                f"--vary {name}: replay varies variables of the environment and options of the "
                "communicators only"
            )
    if varied and len(libraries) > 1:
        raise UsageError("--vary and several libraries in --ccl exclude each other")
    notices = check_settings(varied, libraries[0])
    settings = (
        variants_of(varied, lambda name: PROCESS, one_at_a_time=flags.one_at_a_time)
        if varied
        else []
    )
    check_options_of(settings, libraries[0], {})
    others = [Variant((Assignment(LIBRARY, name, PROCESS),)) for name in libraries[1:]]
    return [DEFAULT, *others, *settings], notices


def _check_faults(flags: ReplayFlags, ranks: int) -> None:
    """Raises UsageError for a fault that cannot be observed."""
    for text in flags.inject:
        fault = Injection.parse(text, ranks)
        if fault.kind == "hang":
            raise UsageError(f"{text!r}: replay supports only the faults corrupt and delay")
        if fault.kind == "corrupt" and not flags.check:
            raise UsageError(f"{text!r}: -c 0 checks no data, so the fault would not be detected")


def _settings(flags: ReplayFlags, ranks: int) -> Settings:
    return Settings(
        begin_bytes=0,
        end_bytes=0,
        step_bytes=0,
        factor=0.0,
        timing="steps",
        across_ranks="max",
        precision=flags.precision_percent / 100,
        max_time_s=flags.max_time_s,
        timeout_s=flags.timeout_s,
        iterations=flags.steps,
        warmup=flags.warmup,
        group=1,
        graph_launches=1,
        check=flags.check,
        cycles=1,
        registration="none",
        seed=flags.seed,
        inject=list(flags.inject),
        bind=str(Binding.parse(flags.bind, ranks)),
    )


def _exporter(flags: ReplayFlags, output: Output) -> Exporter[ReplayResult]:
    if flags.format != "table":
        return exporter_of(REPLAY, flags.format)
    return ReplayTable(
        paint=ansi if output.takes_colours else unpainted,
        references=ReferenceNotes(usual_references),
    )
