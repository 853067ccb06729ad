"""Cases and descriptions of libraries as values of the engine, and its devices as descriptions."""

from __future__ import annotations

from collections.abc import Sequence

import cclmark._engine as engine
from cclmark.journal.host_processors import device_numa_node, processors_near
from cclmark.journal.network_interfaces import pci_path
from cclmark.journal.schema import DeviceDescription
from cclmark.work.binding import format_processors
from cclmark.work.cases import Case
from cclmark.work.libraries import library_called, similar_libraries
from cclmark.work.library_fields import parse_version
from cclmark.work.library_files import Library


def operation_of(case: Case) -> engine.Operation:
    """The operation of ``case``, without its placement."""
    return engine.Operation(
        collective=case.operation,
        dtype=case.dtype,
        reduction=case.reduction or "sum",
        root=case.root or 0,
        count=case.count,
        matrix=list(case.matrix),
    )


def describe_device(device: engine.Device, rank: int) -> DeviceDescription:
    """The description of the device of ``rank``, without host and process."""
    info = device.info
    return DeviceDescription(
        rank=rank,
        host="",
        runtime=info.runtime,
        index=info.index,
        name=info.name,
        memory_bytes=info.memory_bytes,
        pci_bus_id=info.pci_bus_id,
        numa_node=device_numa_node(info.pci_bus_id) if info.pci_bus_id else -1,
        architecture=info.architecture,
        multiprocessors=info.multiprocessors,
        driver_version=info.driver_version,
        runtime_path=info.library_path,
        pci_path=pci_path(info.pci_bus_id) if info.pci_bus_id else [],
        near=format_processors(processors_near(info.pci_bus_id)) if info.pci_bus_id else "",
    )


def open_ccl(name: str, chosen: str, files: Sequence[str]) -> engine.Ccl:
    """Loads a library of the engine.

    Uses the file ``chosen`` if it is not empty. Otherwise tries the file that the environment
    names, ``files``, and the files in the description. Raises EngineError and its subclass
    MissingError.
    """
    library = library_called(name)
    if library is None:
        raise engine.EngineError(f"unknown collective library {name}")
    places = engine.CclPlaces()
    places.chosen = chosen
    places.wheels = list(files)
    return engine.open_ccl(_description_of(library), places)


def _description_of(library: Library) -> engine.CclDescription:
    description = engine.CclDescription()
    for field in ("name", "shape", "prefix", "files", "identified_by", "derived"):
        setattr(description, field, getattr(library, field))
    description.title = library.written_title
    description.full_name = library.full_name
    description.variable = library.variable
    description.oldest_version = parse_version(library.oldest_version)
    description.fp8_version = parse_version(library.fp8_since)
    description.fp8_architecture = library.fp8_architecture
    description.fp8_halved = library.fp8_codes != "OCP"
    description.set_dtypes(library.types)
    description.set_reductions(library.reductions)
    names = engine.ExchangeNames()
    for field in library.exchanges.__struct_fields__:
        setattr(names, field, getattr(library.exchanges, field))
    description.exchanges = names
    description.similar = [_similar(other) for other in similar_libraries(library)]
    return description


def _similar(library: Library) -> engine.SimilarCcl:
    similar = engine.SimilarCcl()
    similar.name = library.name
    similar.full_name = library.full_name
    similar.identified_by = library.identified_by
    return similar
