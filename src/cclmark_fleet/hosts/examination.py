"""Examines a host: all checks on one probe, and the facts that hosts are compared by."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from cclmark_fleet.hosts.check import CheckOutcome, HostCheck
from cclmark_fleet.hosts.checks.software import nccl_versions
from cclmark_fleet.hosts.host import NET, Host, settings_of

_MOST_VALUE = 60


class Examined(msgspec.Struct, omit_defaults=True):
    """The outcomes of a host, in the order of the checks, and its facts by name."""

    outcomes: list[CheckOutcome]
    facts: dict[str, str] = {}


def examine(host: Host, checks: Sequence[HostCheck], interval_s: float) -> Examined:
    """What ``checks`` find on a host. ``interval_s``: between readings of counters."""
    again = None
    if any(one.counters for one in checks):
        again = host.take_counters(interval_s)
    found = {one.id: one.on(host) for one in checks if not one.counters}
    facts = dict(_facts(host))
    if again is not None:
        again()
    found |= {one.id: one.on(host) for one in checks if one.counters}
    return Examined([found[one.id] for one in checks], facts)


def _counted(values: Sequence[str]) -> str:
    """``8 × NVIDIA H100``."""
    return ", ".join(f"{count} × {value}" for value, count in Counter(values).items() if value)


def _facts(host: Host) -> Iterator[tuple[str, str]]:
    """What equal hosts have in common."""
    probe = host.probe
    system = next(
        (
            line.partition("=")[2].strip('"')
            for line in probe.text("/etc/os-release").splitlines()
            if line.startswith("PRETTY_NAME=")
        ),
        "",
    )
    yield "system", system
    yield "kernel", probe.text("/proc/sys/kernel/osrelease")
    kind = ["virtual machine"] * host.is_virtual + [host.container] * bool(host.container)
    yield "kind", ", ".join(kind) or "bare metal"
    yield "GPUs", _counted(host.gpu_names) or _counted([f"PCI {one.vendor}" for one in host.gpus])
    yield "driver", host.driver
    yield (
        "VBIOS",
        _counted([own.at("VBIOS Version") for own in host.smi.values()]) if (host.has_smi) else "",
    )
    yield "NCCL", ", ".join(sorted({*nccl_versions(host).values()}))
    active = [port for port in host.ports if port.is_active]
    yield "RDMA", _counted([f"{port.layer} {port.rate}".strip() for port in active])
    firmware = {port.device: port.board for port in host.ports}
    texts = [
        f"{board.split()[0] if board.split() else ''} "
        f"{probe.text(f'/sys/class/infiniband/{device}/fw_ver')}"
        for device, board in firmware.items()
    ]
    yield "RDMA firmware", _counted(texts)
    shown = [probe.run("dcb", "pfc", "show", "dev", name).text for name in _roce_netdevs(host)]
    pfc = {" ".join(re.findall(r"\d:on", text)) or "off" for text in shown if "prio-pfc" in text}
    yield "PFC", ", ".join(sorted(pfc))
    yield "memory", _gib(probe.text("/proc/meminfo"))
    yield "online processors", str(len(probe.processors("/sys/devices/system/cpu/online")) or "")
    mtus = [probe.text(f"{NET}/{name}/mtu") for name in host.netdevs]
    yield "MTU", ", ".join(sorted({*mtus} - {""}))
    for name, (value, _) in settings_of(host).items():
        if name.startswith(("NCCL_", "RCCL_", "HCCL_", "UCX_", "FI_", "TORCH_NCCL_")):
            yield name, value if len(value) <= _MOST_VALUE else _shortened(value)


def _roce_netdevs(host: Host) -> list[str]:
    ports = [port for port in host.ports if port.is_active and port.is_ethernet]
    return sorted({name for port in ports for name in port.netdevs})


def _gib(text: str) -> str:
    """The host's memory in steps of 16 GiB: equal hosts differ by what the firmware takes."""
    found = re.search(r"^MemTotal:\s+(\d{1,15}) kB", text, re.MULTILINE)
    return f"{round(int(found[1]) / 2**24) * 16} GiB" if found else ""


def _shortened(value: str) -> str:
    digest = hashlib.sha256(value.encode(errors="replace")).hexdigest()[:8]
    return f"{value[: _MOST_VALUE - 12]}… {digest}"
