"""What stands above every table: the devices and their links in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from cclmark.plan.sizes import format_size
from cclmark.report.text import plain
from cclmark.results.schema import DeviceDescription, Link


def labelled(label: str, texts: Sequence[str]) -> list[str]:
    """Lines that begin with ``label``, the later ones indented as far."""
    return [
        f"  {label if number == 0 else '':<9}  {text}" for number, text in enumerate(texts) if text
    ]


def device_lines(devices: Sequence[DeviceDescription], driver: str) -> list[str]:
    """One line for each kind of device."""
    lines = []
    for (runtime, name), group in groupby(devices, key=lambda d: (d.runtime, d.name)):
        members = list(group)
        indices = ",".join(str(device.index) for device in members)
        line = f"{len(members)} × {plain(name)} ({plain(runtime)}:{indices})"
        if runtime != "host":
            line += f", {format_size(members[0].memory_bytes)} each"
            line += f", driver {plain(driver)}" if driver else ""
            line += f", {plain(runtime)} {plain(members[0].driver_version)}"
        lines.append(line)
    return lines


def link_lines(links: Sequence[Link]) -> list[str]:
    """The links of one device where all have the same; else one line for each device."""
    by_device: dict[int, list[str]] = {}
    for link in links:
        if link.kind == "PCIe":
            text = f"PCIe {plain(link.version)} x{link.count}"
        else:
            rate = f" at {link.rate_bytes_per_s / 1e9:.0f} GB/s" if link.rate_bytes_per_s else ""
            text = f"{link.count} × {plain(link.kind)} {plain(link.version)}{rate}"
        by_device.setdefault(link.device, []).append(text)
    described = {device: " and ".join(texts) for device, texts in by_device.items()}
    if len(set(described.values())) == 1:
        return [f"{next(iter(described.values()))} per device"]
    return [f"rank {device}: {text}" for device, text in described.items()]
