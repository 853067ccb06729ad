"""Isolation of PCIe devices: ACS, ATS and the IOMMU."""

from __future__ import annotations

import re

from cclmark_fleet.hosts.check import (
    ROOT,
    CannotTellError,
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    setting,
)
from cclmark_fleet.hosts.host import PCI, Host

_GROUPS = "/sys/kernel/iommu_groups"
_REDIRECTS = re.compile(r"(ReqRedir|CmpltRedir|UpstreamFwd)\+")


def _groups(host: Host) -> dict[str, str]:
    """The IOMMU group of each device that has one."""
    found = {}
    for one in [*host.gpus, *host.rdma_pci]:
        group = host.probe.resolved(f"{PCI}/{one.address}/iommu_group").rpartition("/")[2]
        if group.isdecimal():
            found[one.address] = group
    return found


def _acs(host: Host) -> Judged:
    if host.is_virtual:
        raise NotApplicableError("ACS has to stay on below virtual machines: see ats")
    by_switch: dict[str, list[str]] = {}
    for one in host.communicating:
        if switch := host.switch_of(one):
            by_switch.setdefault(switch, []).append(one.address)
    shared = {switch: own for switch, own in by_switch.items() if len(own) > 1}
    if not shared:
        raise NotApplicableError("no two devices share a PCIe switch")
    found = Judged()
    groups = _groups(host)
    for switch, own in shared.items():
        bridges = dict.fromkeys(
            name for address in own for name in host.pci[address].path[1:] if name in host.lspci
        )
        registers = [host.lspci[name] for name in bridges if not host.lspci[name].is_denied]
        if registers:
            redirecting = [
                one.address
                for one in registers
                if _REDIRECTS.search(one.registers.get("ACSCtl", ""))
            ]
            where = redirecting[0] if redirecting else switch
            found.see(where, f"{len(redirecting)} bridges redirect", "none", ok=not redirecting)
        elif all(address in groups for address in own):
            apart = len({groups[address] for address in own})
            text = f"{len(own)} devices in {apart} IOMMU groups"
            found.see(switch, text, "1 group: no isolation", ok=apart == 1)
            found.certainty = "likely"  # registers that were cleared after the start leave groups
        else:
            found.cannot_tell(f"{switch}: no IOMMU group, and registers require root", ROOT)
    return found


ACS = HostCheck(
    "acs",
    "ACS of bridges between devices",
    _acs,
    "copies between devices of one switch go through the root port: 56 % of the line rate between "
    "nodes (NVIDIA/nccl issue 949), half in a node (nccl-tests issue 112)",
    (
        setting(
            "clear it on every bridge: setpci -s ADDRESS ECAP_ACS+0x6.w=0000, as root, at "
            "every start",
        ),
        reboot("disable ACS in the BIOS, or IOMMU where nothing requires it"),
    ),
    "ACSCtl with ReqRedir, CmpltRedir or UpstreamFwd; without root separate IOMMU groups below one "
    "switch (documentation of NCCL, troubleshooting)",
)


def _ats(host: Host) -> Judged:
    if not host.is_virtual:
        raise NotApplicableError("no virtual machine")
    _ = host.rdma_ports  # not applicable without such devices
    if not host.gpus:
        raise NotApplicableError("no accelerator")
    found = Judged()
    for one in host.rdma_pci:
        control = re.search(r"Enable([+-])", host.register(one.address, "ATSCtl"))
        if control:
            found.see(one.address, f"ATS Enable{control[1]}", "Enable+", ok=control[1] == "+")
    if not found.signals:
        raise CannotTellError("no RDMA device has ATSCtl", "the hypervisor's configuration")
    return found


ATS = HostCheck(
    "ats",
    "ATS of RDMA devices in virtual machines",
    _ats,
    "copies between device and network go through the root port: 25 to 35 % of bare metal "
    "(NVIDIA/nccl issues 1464, 2171)",
    (
        setting("on the hypervisor: mlxconfig -d DEVICE set ATS_ENABLED=1"),
        reboot("power the hypervisor off and on"),
    ),
    "documentation of NCCL, troubleshooting: ACS and ATS in virtual machines",
)


def _iommu(host: Host) -> Judged:
    if host.is_virtual:
        raise NotApplicableError("the IOMMU belongs to the hypervisor")
    _ = host.communicating  # not applicable without such devices
    found = Judged()
    for address, group in _groups(host).items():
        kind = host.probe.text(f"{_GROUPS}/{group}/type")
        if kind == "identity" or kind.startswith("DMA"):
            found.see(address, f"IOMMU {kind}", "identity", ok=kind == "identity")
    command = host.probe.text("/proc/cmdline")
    if not found.signals and _groups(host) and command:  # kernels before 5.11 show no type
        is_on = re.search(r"\b(intel_iommu|amd_iommu)=(on|force)\b", command)
        passes = re.search(r"\biommu=(pt|soft|off)\b|iommu\.passthrough=1", command)
        words = f"{is_on[0] if is_on else 'no IOMMU'}{' iommu=pt' if passes else ''}"
        found.see("/proc/cmdline", words, "with iommu=pt", ok=bool(passes) or not is_on)
    if not found.signals:
        if host.probe.ask("list", _GROUPS).error:
            raise CannotTellError(f"{_GROUPS} is not readable")
        found.see("host", "IOMMU not in use", "off or identity")
    return found


IOMMU = HostCheck(
    "iommu",
    "IOMMU of devices",
    _iommu,
    "each transfer is translated: NCCL's documentation reports slow or hanging transfers",
    (
        setting("boot with iommu=pt (on ARM iommu.passthrough=1)"),
        reboot("disable it in the BIOS where no virtual machine requires it"),
    ),
    "type of the device's IOMMU group: identity passes addresses through",
    grade="look",
    certainty="likely",
)
