"""NVLinks, NVSwitches and their fabric manager."""

from __future__ import annotations

import re
from collections import Counter

from cclmark_fleet.hosts.check import (
    CannotTellError,
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    reset,
    service,
    setting,
)
from cclmark_fleet.hosts.checks.gpu import judged_as_read
from cclmark_fleet.hosts.host import NVIDIA, PCI, Host
from cclmark_fleet.hosts.host_probe import MISSING
from cclmark_fleet.hosts.tool_texts import (
    NvLink,
    inactive_gpus,
    is_fatal,
    is_without_links,
    parse_nvlinks,
    sxids_of,
)

_LADDER = (
    reset("stop all programs, restart nvidia-fabricmanager, and reset all GPUs together"),
    reboot("drain and reboot the host"),
    service("replace the GPU or the switch board"),
)
_MANAGER = "systemctl is-active nvidia-fabricmanager"


def _links(host: Host) -> dict[int, list[NvLink]]:
    """The links of each GPU, by its number."""
    if len(host.smi) < 2:
        raise NotApplicableError("one GPU")
    reading = host.probe.run("nvidia-smi", "nvlink", "-s")
    found: dict[int, list[NvLink]] = {}
    for number in inactive_gpus(reading.text):
        found[number] = []
    for one in parse_nvlinks(reading.text):
        found.setdefault(one.gpu, []).append(one)
    machine = host.machine
    if not found and not (machine and machine.nvlinks):
        raise NotApplicableError("the GPUs have no NVLink")
    if not found and not is_without_links(reading.text):
        raise CannotTellError(f"nvidia-smi nvlink -s: {reading.error or 'no links'}")
    return found or {number: [] for number in range(len(host.smi))}


def _down(host: Host) -> Judged:
    by_gpu = _links(host)
    active = {gpu: sum(one.rate_gbps > 0 for one in own) for gpu, own in by_gpu.items()}
    machine = host.machine
    # Without a class: as many as the other GPUs have.
    limit = machine.nvlinks if machine else max(active.values())
    if not limit:
        raise NotApplicableError("no NVLink is in use, and the machine class is unknown")
    found = Judged()
    for gpu, count in active.items():
        found.see(f"GPU {gpu}", f"{count} NVLinks", f"{limit}", ok=count >= limit)
    found.source = machine.source if machine else "the other GPUs of the host"
    return found


DOWN = HostCheck(
    "nvlink-down",
    "NVLinks that are down",
    _down,
    "a collective is as slow as its slowest GPU; without fabric manager peer copies fail",
    _LADDER,
    "the machine class, or the other GPUs",
)


def _rate(host: Host) -> Judged:
    links = [one for own in _links(host).values() for one in own if one.rate_gbps]
    machine = host.machine
    if not links:
        raise NotApplicableError("no NVLink is active")
    limit = machine.nvlink_gbps if machine else max(one.rate_gbps for one in links)
    usual = Counter(one.rate_gbps for one in links).most_common(1)[0][0]
    found = Judged()
    for one in links:
        least = f"≥ {0.95 * limit:.5g} GB/s, 95 % of {limit:g}"
        is_slower = one.rate_gbps < 0.99 * usual  # links of equal GPUs train at one rate
        found.see(
            f"GPU {one.gpu} link {one.link}",
            f"{one.rate_gbps:g} GB/s",
            f"{usual:g} GB/s, as other links" if is_slower else least,
            ok=one.rate_gbps >= 0.95 * limit and not is_slower,
        )
    found.source = machine.source if machine else "the other links of the host"
    return found


RATE = HostCheck(
    "nvlink-rate",
    "rate of NVLinks",
    _rate,
    "the share of the bandwidth that the link has lost, for every collective through this GPU",
    _LADDER,
    "the machine class, or the other links",
)


# Of fields of health whose names differ between drivers: Route Unhealthy, Incorrect Configuration …
_HEALTHY = ("", "False", "None", "No", "Healthy", "Full", "Success", "Not Available", "Unknown")


def _fabric(host: Host) -> Judged:
    found = Judged()
    for address, own in host.smi.items():
        fabric = own.part("Fabric")
        state, status = fabric.at("State"), fabric.at("Status") or fabric.fault("Status")
        if not state:
            continue
        health = fabric.part("Health")
        bandwidth = health.at("Bandwidth")
        is_ok = state == "Completed" and status in ("", "Success") and bandwidth != "Degraded"
        others = [
            name if text == "True" else f"{name} {text}"
            for name in health
            if name != "Bandwidth" and (text := health.at(name)) not in _HEALTHY
        ]
        width = f"bandwidth {bandwidth}" if bandwidth else ""
        text = ", ".join(filter(None, (state, status, width, *others)))
        found.see(address, text, "Completed, Success, Full", ok=is_ok and not others)
    if not found.signals:
        raise NotApplicableError("the GPUs are in no NVLink fabric")
    return found


FABRIC = HostCheck(
    "nvlink-fabric",
    "registration of GPUs in the NVLink fabric",
    judged_as_read(_fabric, "Fabric"),
    "CUDA does not start (error 802), or copies between GPUs are slow",
    (setting("systemctl restart nvidia-fabricmanager (nvidia-imex between hosts)"), *_LADDER),
    "Fabric in nvidia-smi -q: State Completed, Status Success, Health Full",
)


def _has_switches(host: Host) -> bool:
    return any(one.vendor == NVIDIA and one.kind[:4] == "0680" for one in host.pci.values())


def _manager(host: Host) -> Judged:
    if not _has_switches(host):
        raise NotApplicableError("no NVSwitch on the PCI bus")
    if host.container:
        raise CannotTellError(
            "the service runs outside this container", "cclmark doctor on the host"
        )
    found = Judged()
    reading = host.probe.run(*_MANAGER.split())
    if reading.error:
        raise CannotTellError(f"systemctl: {reading.error}", "systemctl")
    state = reading.text.strip().split("\n")[-1]
    found.see("nvidia-fabricmanager", state or "unknown", "active", ok=state == "active")
    text = host.probe.run("nv-fabricmanager", "--version")
    version = re.search(r"(\d{3}\.[\d.]{1,12}\d)", text.text)
    if version and host.driver:
        found.see(
            "nvidia-fabricmanager",
            version[1],
            f"{host.driver}, as the driver",
            ok=version[1] == host.driver,
        )
    elif text.error != MISSING and not version:
        found.cannot_tell("the version of nv-fabricmanager is unknown")
    return found


MANAGER = HostCheck(
    "fabric-manager",
    "fabric manager of NVSwitches",
    _manager,
    "CUDA does not start (error 802)",
    (
        setting(
            "install the version of the driver; systemctl enable --now nvidia-fabricmanager",
        ),
        reboot("reboot after a change of the driver"),
    ),
    "NVIDIA's fabric manager user guide: its version has to equal the driver's",
)


def _imex(host: Host) -> Judged:
    """The service that shares memory over NVLink between hosts of a rack."""
    if not any(re.search(r"\bGB[23]00", name) for name in host.gpu_names):
        raise NotApplicableError("no NVLink between hosts")
    if host.container:
        channels = host.probe.entries("/dev/nvidia-caps-imex-channels")
        found = Judged()
        text = ", ".join(channels[:3]) or "no channel"
        found.see("/dev/nvidia-caps-imex-channels", text, "a channel", ok=bool(channels))
        return found
    reading = host.probe.run("systemctl", "is-active", "nvidia-imex")
    state = reading.text.strip().split("\n")[-1]
    if reading.error or not state:
        raise CannotTellError(f"systemctl: {reading.error or 'no state'}", "nvidia-imex-ctl -N")
    found = Judged()
    found.see("nvidia-imex", state, "active", ok=state == "active")
    return found


IMEX = HostCheck(
    "imex",
    "IMEX service of NVLink between hosts",
    _imex,
    "NCCL fails, or the rack communicates over its network in place of NVLink",
    (
        setting(
            "list the hosts of the rack in /etc/nvidia-imex/nodes_config.cfg; systemctl enable "
            "--now nvidia-imex; containers: a channel of /dev/nvidia-caps-imex-channels",
        ),
    ),
    "NVIDIA's IMEX guide; NCCL 2.27.3 and later fail without it",
    certainty="likely",
)


def _switches(host: Host) -> Judged:
    if not _has_switches(host) and not host.gpus:
        raise NotApplicableError("no NVSwitch on the PCI bus")
    host.gpus_of(NVIDIA, "NVIDIA GPU")
    found = Judged()
    for one in sxids_of(host.recent_kernel_log):
        if is_fatal(one.text):
            limit = "none that is fatal within 24 h"
            found.see(one.address, f"SXid {one.code}: {one.text[:100]}", limit, ok=False)
    for device in host.pci.values():
        if device.vendor == NVIDIA and device.kind[:4] == "0680":
            revision = host.probe.text(f"{PCI}/{device.address}/revision")
            if revision == "0xff":
                found.see(device.address, "does not answer on the bus", "answers", ok=False)
    recent = {*host.recent_kernel_log}
    old = [one for one in host.kernel_log if one not in recent]
    codes = sorted({one.code for one in sxids_of(old) if is_fatal(one.text)})
    listed = f"; older: {', '.join(map(str, codes[:8]))}" if codes else ""
    found.see("kernel log", f"no fatal SXid within 24 h{listed}")
    return found


SWITCHES = HostCheck(
    "nvswitch-errors",
    "fatal errors of NVSwitches (SXid)",
    _switches,
    "links of the switch are down or replay; jobs on it fail",
    _LADDER,
    "kernel log of the last 24 hours; the first line of an SXid says whether it is fatal (lines of "
    "its severity and data follow); non-fatal SXids are corrected and not judged",
)
