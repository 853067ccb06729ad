"""Determines whether a command runs alone or as one of the processes that a launcher started."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cclmark.base.errors import EXIT_OK, CclmarkError, Followed, UsageError
from cclmark.base.standard_error import tell
from cclmark.journal.machine import describe_host
from cclmark.journal.schema import HostDescription
from cclmark.launch.coordinator import (
    Coordinator,
    LaunchedProcess,
    coordinator_of_one,
    follow_first,
    gather_processes,
)
from cclmark.launch.debugging import debugged
from cclmark.launch.devices import (
    DeviceChoice,
    choose_devices,
    choose_own_devices,
    quick_cuda_count,
)
from cclmark.launch.placement import (
    LAUNCHER_VARIABLE,
    STEP_VARIABLE,
    Placement,
    find_placement,
    notices_alone,
)
from cclmark.recording.caller import caller, notice
from cclmark.work.runtimes import NamedDevices

if TYPE_CHECKING:
    from cclmark.recording.recorder import Recorded


@contextmanager
def libraries_on_standard_error() -> Iterator[None]:
    """Sends the output of libraries to standard error, so that it does not mix with results."""
    kept = os.dup(1)
    _flush()
    os.dup2(2, 1)
    try:
        yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(kept)


def _flush() -> None:
    """Flushes the buffers of Python and of C."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


@dataclass(frozen=True)
class WantedDevices:
    """The devices that a command requests of each of its processes.

    ``choice`` returns ``--devices``; ``count``: ``-g``. ``timeout_s``: how long processes wait for
    each other. ``mixed``: devices may be of several runtimes. ``falls_back``: see choose_devices.
    """

    choice: Callable[[], NamedDevices]
    count: int | None
    timeout_s: float
    mixed: bool = False
    falls_back: bool | None = None


@contextmanager
def joined(wanted: WantedDevices) -> Iterator[Coordinator]:
    """Yields the processes of this run, with the devices that each selected.

    On exit, the processes are released with the exit code that the coordinator then holds. A
    failure of ``wanted.choice`` in any of them ends the run, as other failures there do.

    Raises Followed in all processes but the first; UsageError, MissingError and RankError in the
    first, for any of them. The command of the caller must be the same in all processes.
    """
    began_s = time.monotonic()
    asked = caller()
    step = {} if asked.step is None else {STEP_VARIABLE: str(asked.step)}
    placement = find_placement({**os.environ, **step})
    if placement is None:
        devices = _chosen(wanted)
        _warn(devices)
        with coordinator_of_one(devices) as coordinator:
            coordinator.began_s = began_s
            yield coordinator
        return
    own = _own_devices(placement, wanted)
    process = LaunchedProcess(placement, own, wanted.timeout_s, asked.command[1:])
    if placement.process > 0:
        raise Followed(follow_first(process))
    with gather_processes(process) as coordinator:
        if coordinator.devices.mixed and not wanted.mixed:
            raise _no_mixture()
        _warn(coordinator.devices)
        coordinator.began_s = began_s
        yield coordinator


def run_joined(wanted: WantedDevices, run: Callable[[Coordinator], Recorded]) -> Recorded:
    """Calls ``run`` with the processes of this run, and returns how it ended. See joined."""
    with joined(wanted) as coordinator:
        recorded = run(coordinator)
        coordinator.exit_code = recorded.exit_code
        return recorded


def run_with_reports(
    report: Callable[[], bytes],
    timeout_s: float,
    run: Callable[[Sequence[tuple[HostDescription, bytes]]], Recorded],
) -> Recorded:
    """Calls ``run`` with what ``report`` returned on each host, and returns how it ended.

    Without a launcher this host is the only one. Otherwise the first process of each host reports;
    no rank takes part. Raises as ``joined`` does.
    """
    placement = find_placement(os.environ)
    if placement is None:
        return run([(describe_host(os.environ), report())])
    own = report() if placement.local in (0, None) else b""
    no_device, arguments = DeviceChoice("host", ()), caller().command[1:]
    process = LaunchedProcess(placement, no_device, timeout_s, arguments, own)
    if placement.process > 0:
        raise Followed(follow_first(process))
    with gather_processes(process) as coordinator:
        by_host: dict[int, tuple[HostDescription, bytes]] = {}
        for join, host in zip(coordinator.joins, coordinator.host_of, strict=True):
            if join.report:
                by_host.setdefault(host, (join.host, join.report))
        recorded = run([*by_host.values()])
        coordinator.exit_code = recorded.exit_code
        return recorded


def pick_devices(
    named: NamedDevices, count: int | None, *, falls_back: bool | None = None
) -> DeviceChoice:
    """The devices of ``--devices`` and ``-g``, see choose_devices; tells notices at once."""
    devices = _chosen(WantedDevices(lambda: named, count, 0.0, falls_back=falls_back))
    _warn(devices)
    return devices


def _chosen(wanted: WantedDevices) -> DeviceChoice:
    debugged().require_program()
    devices = choose_devices(
        wanted.choice(), wanted.count, devices_here, falls_back=wanted.falls_back
    )
    if devices.mixed and not wanted.mixed:
        raise _no_mixture()
    if find_placement(os.environ) is None:
        notices = [text for text in (devices.notice, *notices_alone(os.environ)) if text]
        devices = replace(devices, notice="; ".join(notices))
    return devices


def first_of(command: str) -> Placement | None:
    """Returns the placement if one process runs the command for this host, None without a launcher.

    Raises Followed in all processes but the first, and UsageError if some are on other hosts.
    """
    placement = find_placement(os.environ)
    if placement is None:
        return None
    if placement.process > 0:
        raise Followed(EXIT_OK)
    if not placement.on_one_host:
        raise UsageError(
            f"{placement.launcher} started {placement.processes} processes, which may "
            f"be on several hosts: {command} supports only one host. Run it on each host"
        )
    for text in placement.notices:
        notice(text)
    return placement


def leave_it_to_the_first() -> None:
    """Raises Followed in all processes of a host but the first, which reports for the host."""
    try:
        placement = find_placement(os.environ)
    except UsageError as error:
        tell(str(error))  # the host can still be reported
        return
    if placement is None:
        return
    if placement.process > 0:
        raise Followed(EXIT_OK)
    tell(
        f"{placement.launcher} started {placement.processes} processes; this output describes the "
        f"host of the first one. With {LAUNCHER_VARIABLE}=none each process describes its own host"
    )


def _own_devices(placement: Placement, wanted: WantedDevices) -> DeviceChoice | CclmarkError:
    try:
        return choose_own_devices(
            placement, wanted.choice(), wanted.count, devices_here, falls_back=wanted.falls_back
        )
    except CclmarkError as error:
        return error


def _warn(devices: DeviceChoice) -> None:
    if devices.notice:  # the header has it, but not every format shows it
        notice(devices.notice)


def _no_mixture() -> UsageError:
    return UsageError(
        "devices of several runtimes are supported by collectives only, with --ccl bridge"
    )


def devices_here(runtime: str) -> int:
    """Counts the devices of ``runtime`` on this host. Raises MissingError."""
    quick = quick_cuda_count() if runtime == "cuda" else None
    if quick is not None:
        return quick
    from cclmark.rank.probe import count_devices

    with libraries_on_standard_error():
        return count_devices(runtime)
