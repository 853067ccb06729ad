"""The network interfaces of this host, and their places on its PCIe buses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cclmark.journal.host_processors import device_numa_node, kernel_text, pci_directory
from cclmark.journal.schema import NetworkInterface

_SYSTEM = Path("/sys")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_RATE = re.compile(r"([\d.]+)\s*Gb/sec")
_STATE = re.compile(r"\d+:\s*(\w+)")
_LAYERS = {"InfiniBand": "InfiniBand", "Ethernet": "RoCE"}


def network_interfaces(system: Path = _SYSTEM) -> list[NetworkInterface]:
    """Returns the interfaces of devices: first those with RDMA, a port each, then the others.

    ``system``: sysfs's path. What cannot be read is unknown or left out: containers often hide it.
    """
    with_rdma = [*_with_rdma(system)]
    places = {one.pci_bus_id for one in with_rdma} - {""}
    others = (one for one in _plain(system) if one.pci_bus_id not in places)
    return [*with_rdma, *others]


def pci_path(pci_bus_id: str, system: Path = _SYSTEM) -> list[str]:
    """Returns the host bridge and the bridges above a PCI device, the outermost first."""
    return _path(pci_directory(pci_bus_id, system))[:-1]


def _with_rdma(system: Path) -> Iterator[NetworkInterface]:
    for device in _entries(system / "class/infiniband"):
        for port in _entries(device / "ports"):
            rate = _RATE.match(_text(port / "rate"))
            state = _STATE.match(_text(port / "state"))
            is_first = port.name == "1"
            yield _described(
                device,
                system,
                name=device.name if is_first else f"{device.name}:{port.name}",
                kind=_LAYERS.get(_text(port / "link_layer"), ""),
                rate_bits_per_s=float(rate[1]) * 1e9 if rate else 0.0,
                state=state[1].lower() if state else "",
                interfaces=[one.name for one in _entries(device / "device/net")] * is_first,
            )


def _plain(system: Path) -> Iterator[NetworkInterface]:
    for interface in _entries(system / "class/net"):
        if not (interface / "device").exists():  # virtual
            continue
        rate = 0.0
        with suppress(ValueError):
            rate = max(0.0, float(_text(interface / "speed")) * 1e6)
        yield _described(
            interface,
            system,
            name=interface.name,
            kind="Ethernet" if _text(interface / "type") == "1" else "",
            rate_bits_per_s=rate,
            state=_text(interface / "operstate"),
            interfaces=[],
        )


def _described(
    entry: Path,
    system: Path,
    *,
    name: str,
    kind: str,
    rate_bits_per_s: float,
    state: str,
    interfaces: list[str],
) -> NetworkInterface:
    path = _path(entry / "device")
    pci_bus_id = path[-1] if path and _ADDRESS.fullmatch(path[-1]) else ""
    return NetworkInterface(
        name,
        kind=kind,
        pci_bus_id=pci_bus_id,
        numa_node=device_numa_node(pci_bus_id, system) if pci_bus_id else -1,
        rate_bits_per_s=rate_bits_per_s,
        state=state,
        interfaces=interfaces,
        pci_path=path[:-1],
    )


def _path(device: Path) -> list[str]:
    """The host bridge and the PCI devices in the path of a device, whose last part is not PCI's if
    the device belongs to another bus.
    """
    with suppress(OSError):
        parts = device.resolve(strict=True).parts
        return [one for one in parts if _ADDRESS.fullmatch(one) or _HOST_BRIDGE.fullmatch(one)]
    return []


def _entries(directory: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(directory.iterdir(), key=lambda one: (len(one.name), one.name))
    return []


def _text(path: Path) -> str:
    with suppress(OSError):
        return kernel_text(path).strip()
    return ""
