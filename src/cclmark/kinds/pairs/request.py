"""Runs ``cclmark pairs``: flags to a plan, the plan to ranks, results to journal and screen."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.base.errors import MissingError, UsageError
from cclmark.document.report_kind import View
from cclmark.kinds.collective.request import instead_of_mpi, libraries_of_pairs
from cclmark.kinds.pairs.command import PairFlags
from cclmark.kinds.pairs.kind import KIND
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.options.case_request import (
    check_config,
    check_faults,
    no_cases,
    require_added_to_be_used,
    settings_of,
    sweep_of,
    wanted_of,
    warnings_of,
    with_mpirun,
)
from cclmark.rank import locate
from cclmark.recording.caller import notice
from cclmark.recording.joining import run_joined
from cclmark.recording.recorder import Recorded, record
from cclmark.work.binding import Binding
from cclmark.work.inject import Injection
from cclmark.work.libraries import MPI
from cclmark.work.operations import OPERATIONS, PAIR_OPERATIONS


def measure_pairs(flags: PairFlags) -> Recorded:
    """Measures the cases of ``flags``."""
    return run_joined(wanted_of(flags), lambda coordinator: _measure(flags, coordinator))


def _measure(flags: PairFlags, coordinator: Coordinator) -> Recorded:
    devices = coordinator.devices
    number = len(devices.indices)
    if number < 2:
        raise (UsageError if flags.count or flags.devices else MissingError)(
            f"a pair requires two devices, but there is only {number}: see --devices and -g; "
            "cclmark p2p measures the copies of one device"
        )
    settings = settings_of(flags, devices.runtime)
    settings = msgspec.structs.replace(
        settings,
        timing="throughput" if settings.timing == "auto" else settings.timing,
        one_by_one=flags.one_by_one,
        bind=str(Binding.parse(flags.bind, number)),
    )
    operations = _chosen(flags.only, flags.group)
    ccls = libraries_of_pairs(flags, coordinator, "pairs are measured with")
    sweep = sweep_of(operations, flags, ccls, settings, 2, [0, 1])
    settings.weights = [list(row) for row in sweep.uneven.weights]
    require_added_to_be_used(sweep.ccls)
    check_config(settings.config, sweep.ccls)
    cases = list(sweep.cases())
    if not cases:
        raise no_cases(flags, sweep)
    faults = {text: Injection.parse_for_pairs(text, number) for text in flags.inject}
    for text, fault in faults.items():
        if fault.pair is not None and fault.pair[0] == fault.pair[1]:
            raise UsageError(f"{text!r}: a pair requires two devices")
    check_faults(faults, settings, cases)
    request = Request(
        devices=devices,
        kind=KIND,
        planned=cases,
        settings=settings,
        ccl_path=flags.ccl_path,
        ccl_wheels={name: locate.wheel_files(name) for name in (*sweep.ccls, "nvrtc")},
        warnings=[*warnings_of(sweep.ccls), *sweep.rounding()],
        coordinator=coordinator,
    )
    if MPI in sweep.ccls:
        request = with_mpirun(
            request, coordinator, "--ccl mpi", instead_of_mpi(flags.ccl, coordinator)
        )
    return record(
        request,
        flags,
        f"pairs-{'-'.join(sweep.ccls)}-{number}",
        view=View(most_devices=flags.most_shown),
        explain=flags.explain,
    )


def _chosen(chosen: Sequence[str], group: int) -> list[str]:
    """Returns the operations of ``--only``, those that fit -m without it. Raises UsageError."""
    operations = list(chosen) or list(PAIR_OPERATIONS)
    round_trips = [name for name in operations if OPERATIONS[name].round_trip]
    if group > 1 and round_trips:
        if chosen:
            raise UsageError(
                "-m groups operations, but in a group no rank waits for a message before it answers"
            )
        notice(f"{' and '.join(round_trips)} is omitted: -m groups operations")
        operations = [name for name in operations if name not in round_trips]
    return operations
