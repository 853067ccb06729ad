"""Runs ``cclmark scan``: flags to a fleet and its rounds, rounds to ranks."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import msgspec

from cclmark.base.errors import EXIT_OK, MissingError, UsageError
from cclmark.base.printable import plain
from cclmark.journal.journal_file import JournalReader
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.options.case_request import (
    libraries_of,
    settings_of,
    wanted_of,
    warnings_of,
    with_mpirun,
)
from cclmark.rank import locate
from cclmark.recording.caller import notice
from cclmark.recording.joining import run_joined
from cclmark.recording.recorder import Recorded, record
from cclmark.recording.run_files import new_journal
from cclmark.work.fabric_topology import parse_topology
from cclmark.work.inject import Injection
from cclmark.work.libraries import BRIDGE, MPI
from cclmark.work.operations import DTYPE_BYTES
from cclmark.work.sizes import format_size
from cclmark.work.thresholds import meant
from cclmark_fleet.scan.command import ScanFlags
from cclmark_fleet.scan.figures import figures_of
from cclmark_fleet.scan.fleet_rounds import planned_rounds
from cclmark_fleet.scan.fleet_shape import FleetShape, shape_of_hosts
from cclmark_fleet.scan.floors import (
    ALL_REDUCE,
    HOST_ALL_REDUCE,
    AcceptedScan,
    place_of,
    read_accepted,
    write_accepted,
)
from cclmark_fleet.scan.kind import KIND
from cclmark_fleet.scan.plan import rounds_of_scan
from cclmark_fleet.scan.result import KnownFleet, ScannedFleet, ScanResult

_USUAL_END_OF_HOSTS = (4 << 20, 256 << 10)  # of one, between several
_USUAL_END_OF_ACCELERATORS = 64 << 20
_STEPS = (16, 4, 1)  # of sizes below the largest


def measure_scan(flags: ScanFlags) -> Recorded:
    """Scans the devices of ``flags``. Raises UsageError, MissingError."""
    if find_spec("numpy") is None:
        raise MissingError(
            "cclmark scan requires numpy for its verdict: pip install 'cclmark[scale]'"
        )
    return run_joined(wanted_of(flags), lambda coordinator: _measure(flags, coordinator))


def _measure(flags: ScanFlags, coordinator: Coordinator) -> Recorded:
    devices = coordinator.devices
    number = len(devices.indices)
    if number < 2:
        raise UsageError(
            f"a scan requires two devices, but there is only {number}: see --devices and -g, or "
            "start it on several hosts with srun, mpirun or torchrun; cclmark doctor examines this "
            "host, and cclmark p2p measures the copies of one device"
        )
    names = [host.machine.hostname for host in coordinator.hosts]
    topology = parse_topology(flags.topology) if flags.topology else None
    shape = shape_of_hosts(coordinator.host_of_rank or [0] * number, names, topology)
    ccl = _library(flags, coordinator)
    sizes = _sizes(flags, devices.runtime, len(names))
    settings = msgspec.structs.replace(
        settings_of(flags, devices.runtime),
        timing="throughput",
        begin_bytes=sizes[0],
        end_bytes=sizes[-1],
        factor=4.0,
    )
    for text in flags.inject:
        parse = Injection.parse_for_pairs if "pair=" in text else Injection.parse
        if parse(text, number).kind != "delay":
            raise UsageError(f"{text!r}: cclmark scan injects delays: write delay:rank=2,ms=5")
    accepted = place_of(names, number, ccl, sizes[-1])
    fleet = _with_floors(flags, ScannedFleet(shape), read_accepted(accepted))
    divisions = (len(shape.node_names) - 1).bit_length() if flags.bisect else 0
    meetings = planned_rounds(shape, settings.seed)
    # Ranks that take turns on processors vary so much that few tests may mislead.
    crowded = devices.runtime == "host" and any(
        len(one.indices) > len(one.processors) for one in coordinator.joins
    )
    is_complete = flags.complete or flags.bisect or flags.accept or crowded
    known = KnownFleet(fleet, flags.budget, _network_gbit(coordinator), is_complete)
    request = Request(
        devices=devices,
        kind=KIND,
        planned=rounds_of_scan(shape, meetings, ccl, sizes, flags.dtype[0], divisions),
        settings=settings,
        ccl_path=flags.ccl_path,
        ccl_wheels={name: locate.wheel_files(name) for name in (ccl, "nvrtc")},
        modules=flags.modules,
        warnings=[*warnings_of([ccl]), *_warnings(shape)],
        attachment=msgspec.msgpack.encode(known),
        coordinator=coordinator,
    )
    if ccl == MPI:
        request = with_mpirun(request, coordinator, "--ccl mpi", "use --ccl torch:gloo")
    stem = f"scan-{ccl.replace(':', '-')}-{number}"
    journal = flags.journal or new_journal(stem)
    recorded = record(request, flags, stem, journal=journal)
    if flags.accept:
        _accept(journal if journal.exists() else flags.resume or journal, accepted, recorded)
    return recorded


def _library(flags: ScanFlags, coordinator: Coordinator) -> str:
    """The library. Raises UsageError for several, and for one that joins no parts of the ranks."""
    between = len(coordinator.hosts) > 1 and coordinator.devices.runtime == "host"
    if between and not flags.ccl and find_spec("torch") is not None:
        return "torch:gloo"
    ccls = libraries_of(flags, coordinator)
    if len(ccls) > 1 or ccls[0] == BRIDGE:
        raise UsageError("--ccl: a scan measures one library that connects any two devices")
    return ccls[0]


def _sizes(flags: ScanFlags, runtime: str, hosts: int) -> tuple[int, ...]:
    """A 16th, a quarter and all of the largest size. Raises UsageError if it is too small."""
    usual = _USUAL_END_OF_HOSTS[hosts > 1] if runtime == "host" else _USUAL_END_OF_ACCELERATORS
    end = flags.end or usual
    least = DTYPE_BYTES[flags.dtype[0]] * _STEPS[0]
    if end < least:
        raise UsageError(f"-e {format_size(end)}: a scan requires at least {least} bytes")
    return tuple(dict.fromkeys(max(1, end // step) for step in _STEPS))


def _with_floors(
    flags: ScanFlags, fleet: ScannedFleet, accepted: AcceptedScan | None
) -> ScannedFleet:
    """The floors of the user and of an accepted scan. Raises UsageError for an unknown level."""
    known = [*fleet.shape.level_names, ALL_REDUCE, HOST_ALL_REDUCE]
    floors = dict(accepted.floors_bps) if accepted is not None else {}
    sources = [f"accepted {accepted.accepted_at}"] if accepted is not None else []
    for name, gbps in flags.floor:
        if name not in known:
            raise UsageError(
                f"--floor {plain(name)}: no such level{meant(name, known)} Choose from "
                f"{', '.join(known)}"
            )
        floors[name] = gbps * 1e9
    sources += ["--floor"] if flags.floor else []
    return msgspec.structs.replace(
        fleet,
        floors_bps=floors,
        floor_source=", ".join(sources),
        accepted_at="" if accepted is None else accepted.accepted_at,
        rates_bps={} if accepted is None else accepted.rates_bps,
    )


def _network_gbit(coordinator: Coordinator) -> float:
    """The rate of the fastest working interface that all hosts have, in Gb/s; 0 if unknown."""
    rates = [
        max(
            (
                one.rate_bits_per_s
                for one in host.machine.interfaces
                if one.kind in ("InfiniBand", "RoCE") and one.state in ("active", "up")
            ),
            default=0.0,
        )
        for host in coordinator.hosts
    ]
    return min(rates) / 1e9


def _warnings(shape: FleetShape) -> list[str]:
    """What the verdict cannot tell with these devices."""
    sizes = Counter(map(len, shape.members))
    found = []
    if len(sizes) > 1:
        words = ", ".join(f"{count} of {size} devices" for size, count in sorted(sizes.items()))
        found.append(f"hosts have different numbers of devices ({words}): some meet fewer others")
    if len(shape.node_names) == 1:
        found.append("all devices are of one host: no link between hosts is tested")
    if shape.devices == 2:
        found.append("two devices have one link: a scan cannot tell which end is slow")
    return found


def _accept(journal: Path, place: Path, recorded: Recorded) -> None:
    """Stores the rates of a scan in which nothing is wrong. Raises UsageError."""
    if recorded.exit_code != EXIT_OK:
        notice("--accept: the scan is not stored, because something in it is slow or missing")
        return
    found = JournalReader([ScanResult]).read(journal)
    results = [one for one in found.results if isinstance(one, ScanResult)]
    figures = figures_of(found.header, results)
    write_accepted(place, figures, found.header.started_at)
    notice(f"accepted as the floors of this fleet: {place}")
