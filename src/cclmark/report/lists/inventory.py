"""The output of ``cclmark info``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.results.schema import DeviceDescription, LibraryDescription, Link, Machine


def inventory_text(
    machine: Machine,
    devices: Sequence[DeviceDescription],
    links: Sequence[Link],
    libraries: Sequence[LibraryDescription],
    unavailable: Mapping[str, str],
    nvrtc_path: str,
    notices: Sequence[str],
) -> str:
    """Returns the inventory as text."""
    lines = [
        f"Machine    {plain(machine.hostname)}: {plain(machine.system)}, kernel "
        f"{plain(machine.kernel)}",
        f"           {machine.processors} × {plain(machine.processor)}, "
        f"{format_size(machine.memory_bytes)}, {machine.numa_nodes} NUMA node"
        f"{'s' * (machine.numa_nodes > 1)}",
        "",
        "Devices",
    ]
    for device in devices:
        lines += _device_lines(device, [link for link in links if link.device == device.rank])
    if machine.vendor_driver:
        lines.append(f"  NVIDIA driver {plain(machine.vendor_driver)}")
    lines += [f"  {plain(text)}" for text in notices]
    lines += ["", "Libraries"]
    for library in libraries:
        lines.append(f"  {plain(library.name)} {plain(library.version)}  {plain(library.path)}")
        if library.capabilities:
            lines.append(f"    has    {', '.join(map(plain, library.capabilities))}")
        if library.missing:
            lines.append(f"    lacks  {', '.join(map(plain, library.missing))}")
    if nvrtc_path:
        lines.append(f"  NVRTC (compiles kernels)  {plain(nvrtc_path)}")
    absent = [name for name, reason in unavailable.items() if _just_not_installed(name, reason)]
    if unavailable:
        lines += ["", "Not available"]
        for name, reason in unavailable.items():
            if name in absent:
                continue
            first, *others = reason.splitlines()
            lines.append(f"  {name}: {plain(first)}")
            lines += [f"    {plain(other.strip())}" for other in others]
    if absent:
        lines.append(f"  not installed: {', '.join(map(plain, absent))}")
        lines.append("    'cclmark info --json' lists the paths that were searched.")
    return "\n".join(lines)


def _just_not_installed(name: str, reason: str) -> bool:
    """Whether a vendor's library is just not installed, as on most machines.

    A single file was named by the user: it is reported in full, like NVIDIA's libraries.
    """
    first, *others = reason.splitlines()
    tried = [line for line in others if not line.strip().startswith("Set ")]
    return (
        name not in ("nccl", "NVRTC", "runtime cuda")
        and first.endswith("was not found.")
        and len(tried) == 1
        and "," in tried[0].partition(":")[0]
        and tried[0].endswith("No such file or directory")
    )


def _device_lines(device: DeviceDescription, links: Sequence[Link]) -> list[str]:
    head = f"  {plain(device.runtime)}:{device.index}  {plain(device.name)}, "
    head += format_size(device.memory_bytes)
    if device.architecture:
        head += f", compute capability {device.architecture / 10:.1f}"
    lines = [head]
    if device.pci_bus_id:
        node = f", NUMA node {device.numa_node}" if device.numa_node >= 0 else ""
        lines.append(
            f"          PCI {plain(device.pci_bus_id)}{node} {plain(device.uuid)}".rstrip()
        )
    for link in links:
        rate = link.rate_bytes_per_s / 1e9
        what = f"{link.count} × {plain(link.kind)} {plain(link.version)}"
        if link.kind == "PCIe":
            what = f"PCIe {plain(link.version)} x{link.count}"
        lines.append(f"          {what}, {rate:.3g} GB/s each, {rate * link.count:.0f} GB/s in all")
    return lines


def inventory_json(
    machine: Machine,
    devices: Sequence[DeviceDescription],
    links: Sequence[Link],
    libraries: Sequence[LibraryDescription],
    unavailable: Mapping[str, str],
    nvrtc_path: str,
    notices: Sequence[str],
) -> str:
    """Returns the inventory as a JSON object."""
    document = {
        "machine": machine,
        "devices": devices,
        "links": links,
        "libraries": libraries,
        "unavailable": unavailable,
        "nvrtc_path": nvrtc_path,
        "notices": notices,
    }
    return json_of(document)


def json_of(document: object) -> str:
    """Returns one JSON object, indented for readability."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
