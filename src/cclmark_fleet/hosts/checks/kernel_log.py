"""Faults that the kernel reported in the last day: hangs, network devices, PCIe, GPUs, memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from cclmark_fleet.hosts.check import (
    Grade,
    HostCheck,
    Judged,
    Remedy,
    reboot,
    reset,
    service,
    setting,
)
from cclmark_fleet.hosts.host import Host
from cclmark_fleet.hosts.shipped_data import KernelLine, table
from cclmark_fleet.hosts.tool_texts import KernelEvent, pci_address

_ADDRESS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
_MOST_LINES, _LINE_LENGTH = 3, 140


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _subject(found: re.Match[str]) -> str:
    groups = found.groups()
    return (groups[0] or "").lower() if len(groups) == 1 else ""


def _standing(rule: KernelLine, events: Sequence[KernelEvent], is_relevant: _Filter) -> list[str]:
    """The lines of a rule that no later line has ended."""
    lines: list[tuple[str, str]] = []
    for event in events:
        if rule.ended and (end := _pattern(rule.ended).search(event.text)) is not None:
            lines = [one for one in lines if one[0] != _subject(end)]
        elif (found := _pattern(rule.text).search(event.text)) is not None and (
            not rule.of_devices or is_relevant(event.text)
        ):
            lines.append((_subject(found), event.text))
    return [text for _, text in lines]


_Filter = Callable[[str], bool]


def _of_devices(host: Host) -> _Filter:
    """Whether a line names a device that communicates, a bridge above one, or no address."""
    own = {address for one in [*host.gpus, *host.rdma_pci] for address in (one.address, *one.path)}

    def is_relevant(text: str) -> bool:
        named = [pci_address(one) for one in _ADDRESS.findall(text.lower())]
        return not named or any(one in own for one in named)

    return is_relevant


def _failing(host: Host, family: str) -> Iterator[tuple[KernelLine, list[str]]]:
    # Xids and SXids have checks of their own.
    events = [one for one in host.recent_kernel_log if "Xid (" not in one.text]
    is_relevant = _of_devices(host)
    for rule in table("kernel_lines"):
        if rule.family == family:
            lines = _standing(rule, events, is_relevant)
            if len(lines) > rule.most:
                yield rule, lines


def _family(family: str, none: str) -> Callable[[Host], Judged]:
    def judge(host: Host) -> Judged:
        found = Judged()
        grades: set[Grade] = set()
        for rule, lines in _failing(host, family):
            limit = f"≤ {rule.most} within 24 h" if rule.most else "none within 24 h"
            shown = [*dict.fromkeys(lines)][:_MOST_LINES]
            for number, line in enumerate(shown):
                times = f" ({len(lines)} such lines)" if not number and len(lines) > 1 else ""
                found.see("kernel log", f"{line[:_LINE_LENGTH]}{times}", limit, ok=False)
            grades.add(rule.grade)
            found.source = f"{rule.source}; kernel log of the last 24 hours"
        if not grades:
            found.see("kernel log", none)
        found.grade = "bad" if "bad" in grades else "look"
        return found

    return judge


def _check(family: str, title: str, none: str, cost: str, *fix: Remedy) -> HostCheck:
    return HostCheck(
        *(family, title, _family(family, none), cost, fix),
        "cclmark_fleet/hosts/data/kernel_lines.toml",
        certainty="likely",
    )


HANGS = _check(
    "kernel-hangs",
    "tasks, processors and file systems that hang",
    "no hang within 24 h",
    "drivers or file systems do not answer: programs stand still and cannot be ended",
    reboot("drain and reboot the host; for a file system check its server first"),
)
NETWORK = _check(
    "network-log",
    "faults of network devices in the kernel's log",
    "no fault of a network device within 24 h",
    "the device stops or restarts: connections break, and collectives time out",
    setting("update the firmware and the driver of the device to one release"),
    reset("reseat the cable or the transceiver, and reload the driver"),
    reboot("drain the host and power it off and on"),
    service("replace the transceiver, then the network device"),
)
PCIE = _check(
    "pcie-log",
    "errors of PCIe and of the IOMMU in the kernel's log",
    "no error of PCIe or of the IOMMU within 24 h",
    "packets are sent again, or the device is removed; a fault of the IOMMU ends its program",
    setting("for faults of the IOMMU: update the driver of the device, or boot with iommu=pt"),
    reboot("drain the host and power it off and on"),
    service("reseat the device, its riser or its cable, then replace it"),
)
GPUS = _check(
    "gpu-log",
    "faults of accelerators' drivers in the kernel's log",
    "no fault of a driver of accelerators within 24 h",
    "the accelerator does not start, or its programs end",
    setting("install modules and user-space packages of one version of the driver"),
    reset("reset the accelerator"),
    reboot("drain the host and power it off and on"),
    service("reseat or replace the accelerator"),
)
MEMORY = _check(
    "memory-log",
    "memory and processors in the kernel's log",
    "no lack or error of memory within 24 h",
    "processes are killed, or the host slows down or ends",
    setting("more memory for the job, or fewer processes; check fans and the inlet temperature"),
    reboot("drain the host and test its memory"),
    service("replace the memory module"),
)
