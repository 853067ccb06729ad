"""Finds differences between the hosts of a run, because mixed settings make clusters hang."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cclmark.base.grouping import by_key
from cclmark.journal.schema import DeviceDescription, HostDescription
from cclmark.work.sizes import in_ranges

_MOST_SKEW_S = 2.0
_MOST_NAMED = 4
_OF_DEVICES: dict[str, Callable[[DeviceDescription], str]] = {
    "names": lambda device: device.name,
    "memory": lambda device: f"{device.memory_bytes / 2**30:.0f} GiB",
    "drivers' versions": lambda device: device.driver_version,
    "highest clocks": lambda device: (
        f"{device.max_clock_hz / 1e6:.0f} MHz" if device.max_clock_hz else ""
    ),
}


def differences_between(hosts: Sequence[HostDescription]) -> list[str]:
    """The differences between ``hosts``, one sentence each; none for a single host."""
    if len(hosts) < 2:
        return []
    found = [
        *_split("drivers", hosts, [host.machine.vendor_driver for host in hosts]),
        *_split("kernels", hosts, [host.machine.kernel for host in hosts]),
        *_split("processors", hosts, [host.machine.processor for host in hosts]),
        *_split("Pythons", hosts, [host.machine.python for host in hosts]),
    ]
    names = sorted({name for host in hosts for name in host.environment})
    for name in names:
        if name.startswith("CCLMARK_") or name.endswith("VISIBLE_DEVICES"):
            continue
        values = [host.environment.get(name, "unset") for host in hosts]
        found += _split(f"values of {name}", hosts, values)
    skewed = [
        f"{host.machine.hostname} by {host.clock_ahead_s:+.1f} s"
        for host in hosts
        if abs(host.clock_ahead_s) > _MOST_SKEW_S
    ]
    if skewed:
        beside = hosts[0].machine.hostname
        found.append(f"clocks differ from {beside}'s: {', '.join(skewed[:_MOST_NAMED])}")
    return found


def unlike_devices(devices: Sequence[DeviceDescription]) -> list[str]:
    """The differences between the accelerators, one sentence each."""
    found = []
    own = [device for device in devices if device.runtime != "host"]
    for what, value_of in _OF_DEVICES.items():
        values = by_key((value_of(device), device.rank) for device in own)
        # An unknown value is no difference.
        if len(values) > 1 and "" not in values:
            parts = [f"{value} of ranks {in_ranges(ranks)}" for value, ranks in values.items()]
            found.append(f"devices differ in {what}: {', '.join(parts)}")
    return found


def _split(what: str, hosts: Sequence[HostDescription], values_of: Sequence[str]) -> list[str]:
    values = by_key((value, number) for number, value in enumerate(values_of))
    if len(values) == 1:
        return []
    parts = [f"{value or 'none'} on {_named(hosts, numbers)}" for value, numbers in values.items()]
    return [f"hosts differ in {what}: {', '.join(parts)}"]


def _named(hosts: Sequence[HostDescription], numbers: Sequence[int]) -> str:
    if len(numbers) > _MOST_NAMED:
        return f"hosts {in_ranges(numbers)}"
    return " and ".join(hosts[number].machine.hostname for number in numbers)
