"""Runs ``cclmark p2p``: flags to a plan, the plan to processes, results to journal and screen."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from cclmark.base.errors import UsageError
from cclmark.document.exporter import Exporter
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import View
from cclmark.journal.item_results import TransferResult
from cclmark.journal.schema import Settings, settings_without_sweep
from cclmark.kinds.collective.request import instead_of_mpi, libraries_of_pairs, on_each_host
from cclmark.kinds.p2p.command import PERFORMANCES, PcclFlags, TransferFlags, TransferOptions
from cclmark.kinds.p2p.formats import TransferPccl
from cclmark.kinds.p2p.kind import KIND
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.devices import DeviceChoice
from cclmark.launch.placement import Placement, find_placement
from cclmark.launch.request import Request
from cclmark.options.case_request import with_mpirun
from cclmark.options.groups import CaseOptions
from cclmark.rank import locate
from cclmark.recording.caller import notice
from cclmark.recording.joining import WantedDevices, first_of, pick_devices, run_joined
from cclmark.recording.output import usual_references
from cclmark.recording.recorder import Recorded, record
from cclmark.work.binding import Binding
from cclmark.work.inject import Injection
from cclmark.work.libraries import MPI
from cclmark.work.sizes import sweep
from cclmark.work.transfers import (
    DIRECTIONS,
    ELEMENT_BYTES,
    ENGINES,
    KERNELS,
    MEASURES_MEMORY,
    MESSAGE_LATENCY,
    SCOPES,
    Transfer,
    TransferPlan,
    random_sizes,
)

_DEFAULT_BYTES = {"host": 16 << 20}
_DEFAULT_BYTES_OF_ACCELERATORS = 512 << 20
_PCCL_ELEMENTS = 8  # of a random size, where PCCL's options give no bounds
_MEASURES = {"uniBw": "unidirectional", "biBw": "bidirectional", "latency": "latency"}
_ACROSS = ("all-to-one", "one-to-all", "all-pairs")  # scopes of all devices at once
_NO_PEER_ON_HOST = "copies without peer access are between accelerators: use -a 0"
_MEANINGLESS = {
    "fake_driver": "--use_fake_driver",
    "virtual": "--disable_vm",
    "single_die": "--is_single_die",
    "no_link_check": "--ignore_icn_conn_check",
}


def measure_transfers(flags: TransferFlags) -> Recorded:
    """Measures the transfers of ``flags``."""
    began_s = time.monotonic()
    placement = find_placement(os.environ)
    if placement is not None and not placement.on_one_host:
        wanted = WantedDevices(
            lambda: flags.device_list or flags.devices,
            flags.count,
            flags.timeout_s,
            falls_back=_falls_back(flags),
        )
        flags = replace(flags, per_device=1)
        return run_joined(
            wanted,
            lambda coordinator: _measure(flags, coordinator.devices, began_s, coordinator),
        )
    launched = first_of("p2p")
    if launched is not None and not flags.per_device:
        notice(
            f"{launched.launcher} started {launched.processes} processes; the first one "
            "measures all devices and starts the required ranks. With -m 1 the launcher's "
            "processes measure a device each."
        )
        launched = None
    return _measure(flags, devices_of(flags, launched), began_s, None, launched is not None)


def _measure(
    flags: TransferFlags,
    devices: DeviceChoice,
    began_s: float,
    coordinator: Coordinator | None,
    by_process: bool = True,
) -> Recorded:
    """``coordinator``: of processes on several hosts, each with its devices.

    ``by_process``: whether a launcher has started a process for each device.
    """
    _say_what_is_ignored(flags, devices.runtime)
    settings = settings_of(flags, devices.runtime)
    several_hosts = coordinator is not None and len(coordinator.hosts) > 1
    plans = plans_of(flags, devices, settings, several_hosts=several_hosts)
    ccl = ""
    if coordinator is not None and several_hosts:
        _check_several_hosts(flags)
        has_fabric = flags.between_hosts == "auto" and coordinator.have_imex_channels
        fabric = flags.between_hosts == "fabric" or (has_fabric and devices.runtime == "cuda")
        plans = [
            replace(plan, hosts=coordinator.host_of_rank, fabric=fabric and "pairs" in plan.scopes)
            for plan in plans
        ]
        if any(True for plan in plans for _ in plan.messages()):
            ccl = _library_between_hosts(flags, coordinator)
            plans = [replace(plan, ccl=ccl) for plan in plans]
    elif flags.between_hosts != "auto":
        raise UsageError(
            f"--between-hosts {flags.between_hosts}: all devices are on one host: leave it out"
        )
    if not ccl and (flags.ccl or flags.ccl_path):
        where = "all devices are on one host"
        if plans[0].hosts:
            where = f"--scope {','.join(plans[0].scopes)} has no pairs on different hosts"
        raise UsageError(
            f"--ccl and --ccl-path select the library between hosts, but {where}: leave them out"
        )
    copies = (one for plan in plans for one in plan.copies())
    messages = (one for plan in plans for one in plan.messages())
    transfers = list(dict.fromkeys((*copies, *messages)))
    if not transfers:
        if flags.no_peer and devices.runtime == "host":
            raise UsageError(_NO_PEER_ON_HOST)
        raise UsageError(
            "nothing to measure: peer access off requires --direction write and --engine CE; the "
            "host supports --direction write and uniBw; within a device uniBw and latency are "
            "supported; latency requires --scope pairs or local; chase is a read, ping-pong a "
            "write, both by SM"
        )
    asked = "latency" in flags.perf and flags.latency_method in ("chase", "ping-pong")
    if asked and all(one.measure != "latency" for one in transfers):
        notice(
            "no latency to measure: chase is a read, ping-pong a write, both by SM with "
            "--scope pairs"
        )
    together = is_together(flags, devices.runtime, transfers, several_hosts=bool(plans[0].hosts))
    _check_faults(settings, transfers, len(devices.indices))
    settings.bind = str(Binding.parse(flags.bind, 1 if together else len(devices.indices)))
    request = Request(
        devices=devices,
        settings=settings,
        kind=KIND,
        planned=transfers,
        together=together,
        ccl_path=flags.ccl_path,
        ccl_wheels={name: locate.wheel_files(name) for name in ("nvrtc", ccl) if name},
        coordinator=coordinator,
        attachment=MEASURES_MEMORY if flags.shares and devices.runtime == "host" else b"",
    )
    if coordinator is not None and ccl == MPI:
        request = with_mpirun(
            request,
            coordinator,
            "a pair on different hosts",
            instead_of_mpi(flags.ccl, coordinator),
        )
    return record(
        request,
        flags,
        f"p2p-{devices.runtime}-{len(devices.indices)}",
        view=View(
            references=ReferenceNotes(usual_references),
            most_devices=flags.most_shown,
            details=bool(flags.shares),
        ),
        exporter_for=(lambda view: _pccl(view, by_process=by_process))
        if flags.format == "pccl"
        else None,
        began_s=began_s,
    )


def _check_several_hosts(flags: TransferFlags) -> None:
    """Raises UsageError for what several hosts do not support."""
    if set(flags.scope) & set(_ACROSS):
        supported = [name for name in SCOPES if name not in _ACROSS]
        rest = [name for name in supported if name in flags.scope] or supported[:1]
        raise UsageError(
            f"--scope {','.join(flags.scope)}: several hosts do not support "
            f"{', '.join(_ACROSS)}: use --scope {','.join(rest)}, or {on_each_host(flags.ccl)}"
        )


def _library_between_hosts(flags: TransferFlags, coordinator: Coordinator) -> str:
    """The library of messages between hosts. Raises UsageError, MissingError if there is none."""
    shared = CaseOptions(ccl=flags.ccl, ccl_path=flags.ccl_path, devices=flags.devices)
    user = "pairs on different hosts are measured with"
    (name, *others) = libraries_of_pairs(shared, coordinator, user)
    if others:
        raise UsageError(
            f"--ccl {','.join(flags.ccl)}: p2p uses one library between hosts: use --ccl {name}"
        )
    return name


def _say_what_is_ignored(flags: TransferFlags, runtime: str) -> None:
    for name, words in _MEANINGLESS.items():
        if getattr(flags, name):
            notice(f"{words} has no effect and is ignored")
    if flags.engine == ["CE"] and (flags.blocks != [0] or flags.threads is not None):
        notice("the copy engine has no thread blocks: use -t SM")
    if flags.bench != "none" and (flags.no_peer or len(flags.direction) > 1):
        notice("--bench-type sets the measurements: -a and -d are ignored")
    if flags.gate != "auto" and runtime == "host":
        notice("--gate is ignored: copies of the host are done in their call")
    if not flags.warmup:
        notice("-w 0 is ignored: the first copy never counts")


def devices_of(flags: TransferOptions, launched: Placement | None) -> DeviceChoice:
    """Returns the devices that the flags select. Raises UsageError, MissingError."""
    count = flags.count if launched is None else launched.processes
    if listed := flags.device_list:
        number = len(listed.numbers[listed.runtime])
        if count is not None and number != count:
            raise UsageError(f"--dev_list lists {number} devices, but -g requests {count}")
        return pick_devices(listed, None)
    return pick_devices(flags.devices, count, falls_back=_falls_back(flags))


def _falls_back(flags: TransferOptions) -> bool:
    """Whether the host is measured on a machine without accelerators.

    PCCL's program measures accelerators only, and its text does not distinguish them.
    """
    return flags.count is None and not isinstance(flags, PcclFlags)


def is_together(
    flags: TransferOptions,
    runtime: str,
    transfers: Sequence[Transfer],
    *,
    several_hosts: bool = False,
) -> bool:
    """Whether one process opens all devices. Raises UsageError for copies that require it."""
    together = runtime != "host" and not flags.per_device
    if together or all(one.peer_access for one in transfers):
        return together
    if runtime == "host":
        raise UsageError(_NO_PEER_ON_HOST)
    if several_hosts:
        raise UsageError(
            "copies without peer access require one process for all devices, but on several hosts "
            f"each device has its own: use -a 0, or {on_each_host(flags.ccl)}"
        )
    raise UsageError("copies without peer access require one process: remove --is_multi_proc")


def _check_faults(settings: Settings, transfers: list[Transfer], devices: int) -> None:
    for text in settings.inject:
        fault = Injection.parse_for_pairs(text, devices)
        assert fault.pair is not None
        struck = [one for one in transfers if _strikes(fault.pair, one)]
        if not struck:
            raise UsageError(f"{text!r}: no transfer of this run has this direction")
        if fault.kind == "corrupt" and not settings.check:
            raise UsageError(
                f"{text!r}: with --verify 0 no output is checked, so the fault would not be "
                "detected"
            )
        if fault.kind == "corrupt" and all(
            fault.value >= one.size_bytes // ELEMENT_BYTES for one in struck
        ):
            raise UsageError(f"{text!r}: no transfer of this run has this many elements")


def _strikes(pair: tuple[int, int], transfer: Transfer) -> bool:
    """Whether a fault of a direction concerns a transfer; round trips have both directions."""
    flows = set(transfer.flows)
    if transfer.method == MESSAGE_LATENCY:
        flows |= {(end, start) for start, end in flows}
    return transfer.has_output and pair in flows


def plans_of(
    flags: TransferOptions,
    devices: DeviceChoice,
    settings: Settings,
    *,
    several_hosts: bool = False,
) -> list[TransferPlan]:
    """Returns the plans that contain the transfers of the flags. Raises UsageError."""
    number = len(devices.indices)
    if flags.offset % ELEMENT_BYTES:
        raise UsageError(f"--buffer-offset must be a multiple of {ELEMENT_BYTES} bytes")
    scopes = flags.scope or ["pairs"]
    if not flags.scope and number < 2:
        scopes = ["local"] if devices.runtime == "host" else ["local", "host"]
        also = " and with the memory of the host" if "host" in scopes else ""
        notice(f"one device: copies within it{also}, instead of pairs")
    if flags.format == "pccl" and set(scopes) - {"pairs", "all-pairs"}:
        raise UsageError(
            f"--format pccl supports only matrices of pairs, not {','.join(scopes)}: use another "
            "format"
        )
    sizes = _sizes(flags, settings)
    if number < 2 and set(scopes) - {"local", "host"}:
        raise UsageError(
            f"{', '.join(sorted(set(scopes) - {'local', 'host'}))}: a pair requires two devices, "
            f"but there is only {number}: see --devices and -g, or use --scope local,host"
        )

    def plan(**changes: object) -> TransferPlan:
        usual: dict[str, object] = {
            "devices": number,
            "sizes": sizes,
            "scopes": scopes,
            "blocks": flags.blocks,
            "threads": flags.threads or 0,
            "offset_bytes": flags.offset,
            "triangle": bool(flags.triangle),
            "local_too": bool(flags.local_too),
            "latency_method": flags.latency_method,
            "numa": ("near", "far") if "host" in scopes else ("near",),
        }
        return TransferPlan(**{**usual, **changes})  # type: ignore[arg-type]

    if flags.bench == "all":
        return [
            plan(
                measures=tuple(_MEASURES.values()),
                directions=DIRECTIONS,
                engines=ENGINES,
                kernels=KERNELS,
            )
        ]
    if flags.bench != "none":
        direction = flags.bench.removeprefix("p2p_")
        staged = not flags.per_device and devices.runtime != "host"
        if not staged:
            notice("copies without peer access require one process and are omitted")
        return [
            plan(
                measures=tuple(_MEASURES.values()),
                directions=(direction,),
                engines=("CE",),
                peer_access=(True, False) if staged else (True,),
            )
        ]
    # Processors have no engines, and what their caches hold makes latencies of copies meaningless.
    on_host = devices.runtime == "host" and not several_hosts
    usual = [name for name in PERFORMANCES if not (on_host and name == "latency")]
    return [
        plan(
            measures=[_MEASURES[name] for name in flags.perf or usual],
            directions=flags.direction,
            engines=flags.engine or (["CE"] if on_host else ENGINES),
            kernels=flags.kernel,
            peer_access=(not flags.no_peer,),
        )
    ]


def _sizes(flags: TransferOptions, settings: Settings) -> list[int]:
    least, most = flags.least_elements, flags.most_elements
    if least or most or flags.random_sizes > 1:
        if isinstance(flags, PcclFlags):
            least, most = least or _PCCL_ELEMENTS, most or _PCCL_ELEMENTS
        elif not least and not most:
            raise UsageError("-i requires -y and -x, the bounds of the random sizes")
        least, most = least or 1, most or least or 1
        if least > most:
            raise UsageError(
                f"random sizes from {least} (-y) to {most} (-x): give both, -x not below -y"
            )
        sizes = random_sizes(
            flags.random_sizes, least * ELEMENT_BYTES, most * ELEMENT_BYTES, flags.seed
        )
        if len(set(sizes)) < len(sizes):
            between = f"from {least} (-y) to {most} (-x) integers"
            notice(f"of the {len(sizes)} random sizes (-i) {between}, equal ones are measured once")
        return sizes
    for size in (settings.begin_bytes, settings.end_bytes):
        if size % ELEMENT_BYTES:
            raise UsageError(f"sizes must be multiples of {ELEMENT_BYTES} bytes, not {size}")
    sizes = sweep(settings.begin_bytes, settings.end_bytes, 0, settings.factor)
    return list(dict.fromkeys(size // ELEMENT_BYTES * ELEMENT_BYTES for size in sizes))


def settings_of(flags: TransferOptions, runtime: str) -> Settings:
    """Returns the settings of the flags. Raises UsageError."""
    if flags.begin is not None:
        begin_bytes = flags.begin
    elif flags.elements is not None:
        begin_bytes = flags.elements * ELEMENT_BYTES
    else:
        begin_bytes = _DEFAULT_BYTES.get(runtime, _DEFAULT_BYTES_OF_ACCELERATORS)
    return settings_without_sweep(
        "gated",
        flags.timeout_s,
        begin_bytes=begin_bytes,
        end_bytes=begin_bytes if flags.end is None else flags.end,
        factor=flags.factor,
        precision=flags.precision_percent / 100,
        max_time_s=flags.max_time_s,
        iterations=flags.repeat,
        check=flags.verify,
        seed=flags.seed,
        inject=list(flags.inject),
        triangle=bool(flags.triangle),
        gate="" if flags.gate == "auto" or runtime == "host" else flags.gate,
        conditions=flags.conditions,
    )


def _pccl(view: View, *, by_process: bool) -> Exporter[TransferResult]:
    return TransferPccl(shares=view.details, by_process=by_process, most_devices=view.most_devices)
