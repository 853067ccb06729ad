"""The devices and libraries of this machine and their capabilities, without measurements."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache

import cclmark._engine as engine
from cclmark.base.errors import MissingError
from cclmark.base.version import VERSION
from cclmark.journal.schema import CclReport, DeviceDescription, LibraryDescription
from cclmark.rank.engine_values import describe_device, open_ccl
from cclmark.rank.locate import find_mpirun, wheel_files
from cclmark.work.libraries import BRIDGE, engine_libraries, in_place_only, library_called, verified
from cclmark.work.library_files import Library
from cclmark.work.operations import COLLECTIVES
from cclmark.work.torch_devices import TORCH_DEVICES, torch_runtimes


@dataclass
class Inventory:
    """The devices and libraries found, and the reasons why others are unavailable, by name."""

    devices: list[DeviceDescription] = field(default_factory=list)
    libraries: list[LibraryDescription] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    nvrtc_path: str = ""


def count_devices(runtime: str) -> int:
    """The number of devices of ``runtime``. Raises MissingError if it is missing or fails."""
    try:
        return engine.device_count(runtime)
    except engine.MissingError as error:
        raise MissingError(str(error)) from None
    except engine.EngineError as error:
        raise MissingError(f"the runtime {runtime} does not work: {error}") from None


def open_found(name: str, ccl_path: str) -> engine.Ccl:
    """Opens a library of the engine on this machine. ``ccl_path``: the file for NCCL.

    A library that no symbol identifies is opened only if its runtime has devices, or if the
    environment names its file. Raises EngineError and MissingError.
    """
    library = library_called(name)
    if library is not None and library.indistinct:
        _require_devices(library)
    files = find_mpirun().libraries if name == "mpi" else wheel_files(name)
    return open_ccl(name, ccl_path if name == "nccl" else "", files)


def _require_devices(library: Library) -> None:
    if os.environ.get(library.variable):
        return
    [runtime] = library.devices
    if engine.device_count(runtime) == 0:
        raise MissingError(f"the runtime {runtime} found no device")
    other = _runtime_of_same_devices(runtime)
    if other:
        raise MissingError(
            f"the devices of this machine belong to {other}; to open a file as {library.name} "
            f"nevertheless, set {library.variable} to its path"
        )


def _runtime_of_same_devices(runtime: str) -> str:
    """An earlier runtime of the table that has every device of ``runtime``, empty for none.

    NVIDIA's libcudart has the devices of libcuda, and each physical device is listed once.
    """
    places = _bus_ids(runtime)
    for other in _runtimes():
        if other == runtime:
            break
        if places and places <= _bus_ids(other):
            return other
    return ""


@cache
def _bus_ids(runtime: str) -> frozenset[str]:
    """The PCI addresses of the devices of ``runtime``, empty if it does not work."""
    if runtime == "host":
        return frozenset()
    try:
        count = engine.device_count(runtime)
        found = [engine.open_device(runtime, index).info.pci_bus_id for index in range(count)]
    except engine.EngineError:
        return frozenset()
    return frozenset(filter(None, (bus_id.lower() for bus_id in found)))


def _runtimes() -> list[str]:
    """All runtimes, in the order of the table of libraries."""
    every = (runtime for library in engine_libraries() for runtime in library.devices)
    return list(dict.fromkeys(every))


def take_inventory(ccl_path: str) -> Inventory:
    """Opens every device and every library of this machine."""
    inventory = Inventory()
    os.environ.setdefault("CCLMARK_NVRTC_WHEELS", ":".join(wheel_files("nvrtc")))
    for runtime in _runtimes():
        try:
            if other := _runtime_of_same_devices(runtime):
                inventory.unavailable[f"runtime {runtime}"] = f"its devices belong to {other}"
                continue
            count = engine.device_count(runtime) if runtime != "host" else 1
        except engine.EngineError as error:
            inventory.unavailable[f"runtime {runtime}"] = str(error)
            continue
        for index in range(count):
            try:
                device = engine.open_device(runtime, index)
            except engine.EngineError as error:
                inventory.unavailable[f"device {runtime}:{index}"] = str(error)
                continue
            inventory.devices.append(describe_device(device, len(inventory.devices)))
    for name in [library.name for library in engine_libraries()]:
        try:
            info = open_found(name, ccl_path).info
        except (engine.EngineError, MissingError) as error:
            inventory.unavailable[name] = str(error)
            continue
        inventory.libraries.append(
            LibraryDescription(info.name, info.version, info.path, info.capabilities, info.missing)
        )
    try:
        inventory.nvrtc_path = engine.nvrtc_path()
    except engine.EngineError as error:
        inventory.unavailable["NVRTC"] = str(error)
    return inventory


def report_ccls(ccl_path: str) -> list[CclReport]:
    """Reports on all libraries, torch's backends, missing ones. ``ccl_path``: for NCCL."""
    reports = [_native(one, ccl_path) for one in engine_libraries()]
    return [*reports, _bridge(), *_torch()]


def _bridge() -> CclReport:
    return CclReport(
        name=BRIDGE,
        runtimes=["any"],
        verified=verified(BRIDGE),
        version=VERSION,
        path="built in",
        routes=dict.fromkeys(COLLECTIVES, "by island and between islands"),
    )


def _native(library: Library, ccl_path: str) -> CclReport:
    name = library.name
    report = CclReport(name, library.devices, verified(name))
    try:
        info = open_found(name, ccl_path).info
    except (engine.EngineError, MissingError) as error:
        report.reason = str(error)
        return report
    report.version, report.path, report.id_bytes = info.version, info.path, info.id_bytes
    report.dtypes, report.reduced_dtypes = info.dtypes, info.reduced_dtypes
    report.reductions = info.reductions
    report.routes = dict(info.routes)
    report.in_place_only = [one for one in COLLECTIVES if in_place_only(name, one)]
    report.has, report.lacks = info.capabilities, info.missing
    return report


def _torch() -> list[CclReport]:
    from cclmark.rank.torch_backend import PLUG_INS, built_in_names, load_torch

    try:
        torch = load_torch("", [])
    except engine.MissingError as error:
        return [CclReport("torch:BACKEND", ["any"], "", str(error))]
    names = built_in_names(torch).union(PLUG_INS, (it.backend for it in TORCH_DEVICES.values()))
    return [_of_torch(backend) for backend in sorted(names - {""})]


def _of_torch(backend: str) -> CclReport:
    from cclmark.rank.torch_backend import describe_backend, load_torch
    from cclmark.rank.torch_ccl import route_of

    name = f"torch:{backend}"
    runtimes = torch_runtimes(backend)
    report = CclReport(name, runtimes or ["any"], verified(name))
    runtime = next((one for one in runtimes if TORCH_DEVICES[one].plug_in), "host")
    try:
        description = describe_backend(load_torch(backend, [], runtime), backend, runtime)
    except engine.MissingError as error:
        report.reason = str(error)
        return report
    report.version, report.path = description.version, description.path
    report.routes = {operation: route_of(operation) for operation in COLLECTIVES}
    report.in_place_only = [one for one in COLLECTIVES if in_place_only(name, one)]
    return report
