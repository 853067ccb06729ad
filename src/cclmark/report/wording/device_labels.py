"""The names of devices in tables and charts."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.results.schema import DeviceDescription, Header


def labels(devices: Sequence[DeviceDescription], *, hosts: bool = False) -> list[str]:
    """Returns the name of each device: ``DEV2``, or ``HOST0:DEV2`` with ``hosts``."""
    names = list(dict.fromkeys(device.host for device in devices))
    return [
        f"HOST{names.index(device.host)}:DEV{device.index}" if hosts else f"DEV{device.index}"
        for device in devices
    ]


def device_labels(header: Header) -> list[str]:
    """Returns the name of each device of a run, with its host if there are several."""
    return labels(header.devices, hosts=len({device.host for device in header.devices}) > 1)
