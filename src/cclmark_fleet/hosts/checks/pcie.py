"""Links of PCI Express: of devices, and of every bridge on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cclmark_fleet.hosts.check import (
    CannotTellError,
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    service,
    setting,
)
from cclmark_fleet.hosts.checks.gpu import is_used
from cclmark_fleet.hosts.host import MELLANOX, PCI, Host, PciDevice
from cclmark_fleet.hosts.tool_texts import limited_of

_SEAT = (
    setting("set the slot to x16 and its highest generation in the BIOS, without bifurcation"),
    reboot("drain the host and power it off and on, which trains the link again"),
    service("reseat the device or its riser, then replace it"),
)
# GB/s of a lane in one direction after encoding (PCI-SIG), by GT/s.
_LANE_GBPS = {2.5: 0.25, 5.0: 0.5, 8.0: 0.985, 16.0: 1.969, 32.0: 3.938, 64.0: 7.563}
_WIDTH_COST = "half of the lanes are half of the bandwidth of every copy with the host or the NIC"


def _above(host: Host, one: PciDevice) -> PciDevice | None:
    """The bridge above a device; None in a virtual machine, whose bridges are not the host's."""
    return None if host.is_virtual or not one.path else host.pci.get(one.path[-1])


def _possible(own: float | None, above: float | None) -> float | None:
    """What both ends of a link support."""
    known = [value for value in (own, above) if value is not None]
    return min(known) if own is not None and known else None


def _judge_link(host: Host, one: PciDevice, found: Judged, *, by_speed: bool = False) -> None:
    """Compares a link with what both of its ends support."""
    above = _above(host, one)
    if by_speed:
        now, most = one.speed, _possible(one.max_speed, above.max_speed if above else None)
    else:
        now, most = one.width, _possible(one.max_width, above.max_width if above else None)
    unit = "{:g} GT/s" if by_speed else "x{:g}"
    if now is None or most is None:
        found.cannot_tell(f"{one.address}: sysfs does not report the link")
        return
    found.see(one.address, unit.format(now), f"≥ {unit.format(most)}", ok=now >= most)


def _width(host: Host) -> Judged:
    found = Judged()
    for one in host.communicating:
        _judge_link(host, one, found)
    for address, now, most in _links_of_smi(host, "Link Width"):
        found.see(address, f"x{now:g} in nvidia-smi", f"≥ x{most:g}", ok=now >= most)
    return found


def _links_of_smi(host: Host, name: str) -> Iterator[tuple[str, float, float]]:
    """The current and the possible value of each GPU's link, as nvidia-smi reports it."""
    for address, own in host.smi.items() if host.has_smi else ():
        info = own.part("PCI").part("GPU Link Info").part(name)
        values = [re.match(r"\d{1,2}", info.at(key)) for key in ("Current", "Max")]
        now, most = (float(one[0]) if one else 0.0 for one in values)
        if now and most:
            yield address, now, most


WIDTH = HostCheck(
    "pcie-width",
    "PCIe width of accelerators and RDMA devices",
    _width,
    f"{_WIDTH_COST} (PCI-SIG)",
    _SEAT,
    "max_link_width of both ends of the link in sysfs; idle devices keep their width",
)


def _slot(host: Host) -> Judged:
    ports = {port.pci for port in host.ports if port.is_active}
    possible: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for one in host.communicating:
        above = _above(host, one)
        width = _possible(one.max_width, above.max_width if above else None)
        speed = _possible(one.max_speed, above.max_speed if above else None)
        if width is not None and (one in host.gpus or one.address in ports):
            own = possible.setdefault((one.vendor, one.device), {})
            own[one.address] = width, speed or 0.0
    found = Judged()
    for own in possible.values():
        wide, fast = (max(values) for values in zip(*own.values(), strict=True))
        for address, (width, speed) in own.items():
            at = f" at {speed:g} GT/s" if speed else ""
            best = f"≥ x{wide:g}{f' at {fast:g} GT/s' if fast else ''}, as others"
            is_ok = width >= wide and (speed >= fast or not speed)
            found.see(address, f"x{width:g}{at}", best, ok=is_ok)
    if not found.signals:
        raise NotApplicableError("sysfs reports no width of a slot")
    return found


SLOT = HostCheck(
    "pcie-slot",
    "equal slots of equal devices",
    _slot,
    "a collective is as slow as its slowest device",
    _SEAT,
    "what both ends of the link support, beside the best slot of a device of its kind",
    certainty="likely",
)


def _speed(host: Host) -> Judged:
    found = Judged()
    try:
        states = dict(host.of_gpus("Performance State"))
    except (NotApplicableError, CannotTellError):
        states = {}
    gpus = {one.address for one in host.gpus}
    for one in host.communicating:
        top = one.max_speed is not None and one.speed == one.max_speed
        if one.address in gpus and not top and not _is_busy(host, one.address, states):
            now = "an unknown speed" if one.speed is None else f"{one.speed:g} GT/s"
            reason = f"{one.address} has {now}, and GPUs without load lower it"
            found.cannot_tell(reason, "cclmark doctor during a job")
        else:
            _judge_link(host, one, found, by_speed=True)
    for address, generation, possible in _links_of_smi(host, "PCIe Generation"):
        if _is_busy(host, address, states):
            text = f"generation {generation:g} in nvidia-smi"
            found.see(address, text, f"≥ {possible:g}, under load", ok=generation >= possible)
    return found


def _is_busy(host: Host, address: str, states: Mapping[str, str]) -> bool:
    """Whether a GPU is under load, by nvidia-smi or by amdgpu."""
    if address in states:
        return states[address] in ("P0", "P1") and is_used(host.smi[address])
    return (host.probe.number(f"{PCI}/{address}/gpu_busy_percent") or 0) > 50


SPEED = HostCheck(
    "pcie-speed",
    "PCIe generation of RDMA devices, and of accelerators under load",
    _speed,
    "each generation less halves the bandwidth (PCI-SIG)",
    _SEAT,
    "max_link_speed of both ends of the link in sysfs; idle GPUs lower their speed",
)


def _bridges(host: Host) -> Judged:
    if host.is_virtual:
        raise NotApplicableError("bridges of a virtual machine are not those of the host")
    bridges = dict.fromkeys(
        name for one in host.communicating for name in one.path if name in host.pci
    )
    ends = {one.path[-1]: one for one in host.communicating if one.path}
    found = Judged()
    for name in bridges:
        one = host.pci[name]
        below = ends.get(name)
        if one.width is None or not one.path:
            continue
        if below is not None and (below.width, below.speed) == (one.width, one.speed):
            continue  # the other end of the device's link, which is judged with it
        _judge_link(host, one, found)
        if below is None and one.speed is not None:  # idle devices lower that of their own link
            _judge_link(host, one, found, by_speed=True)
    if not found.signals and not found.unknown:
        raise NotApplicableError("no PCIe switch on the way")
    return found


BRIDGES = HostCheck(
    "pcie-bridges",
    "PCIe width and speed of every bridge on the way",
    _bridges,
    "all devices below the bridge share what is left",
    (_SEAT[1], service("check the riser and the cables of the switch board, then replace it")),
    "max_link_width and max_link_speed of both ends of the link in sysfs",
)


def _limited(host: Host) -> Judged:
    found = Judged()
    relevant = {one.address for one in host.communicating}
    rates = _network_gbit(host)
    for one in limited_of(host.kernel_log):
        if one.address in relevant:
            need = rates.get(one.address, one.capable_gbit)
            where = f"{one.address} through {one.bridge}"
            found.see(
                where, f"{one.gbit:g} Gb/s ({one.link})", f"≥ {need:g} Gb/s", ok=one.gbit >= need
            )
    if not found.signals:
        found.see("kernel log", "no device is limited")
    return found


LIMITED = HostCheck(
    "pcie-limited",
    "PCIe bandwidth as the kernel reported it at start",
    _limited,
    "the device cannot receive what its ports or its slot could carry",
    _SEAT,
    "the kernel's line 'available PCIe bandwidth, limited by'",
)


def _network_gbit(host: Host) -> dict[str, float]:
    """The rates of active ports together, by the device's address."""
    found: dict[str, float] = {}
    for port in host.ports:
        if port.is_active:
            found[port.pci] = found.get(port.pci, 0.0) + port.gbit
    return found


def _bandwidth(host: Host) -> Judged:
    found = Judged()
    rates = _network_gbit(host)
    for one in host.rdma_pci:
        rate = rates.get(one.address, 0.0)
        chain = [one, *(host.pci[name] for name in one.path[1:] if name in host.pci)]
        links = [
            (8 * (link.width or 0) * _LANE_GBPS.get(link.speed or 0.0, 0.0), link.address)
            for link in (chain[:1] if host.is_virtual else chain)
        ]
        known = [link for link in links if link[0]]
        if rate and known:
            gbit, where = min(known)
            found.see(
                where,
                f"{gbit:.0f} Gb/s for {one.address}",
                f"≥ {rate:g} Gb/s of its ports",
                ok=gbit >= rate,
            )
    if not found.signals:
        raise NotApplicableError("no active port of an RDMA device with a known PCIe link")
    return found


BANDWIDTH = HostCheck(
    "pcie-bandwidth",
    "PCIe bandwidth of RDMA devices beside that of their ports",
    _bandwidth,
    "the port never reaches its rate",
    _SEAT,
    "width × GB/s of a lane (PCI-SIG), the least on the way, and the rate of active ports",
)


def _power_saving(host: Host) -> Judged:
    _ = host.communicating  # not applicable without such devices
    text = host.probe.text("/sys/module/pcie_aspm/parameters/policy")
    chosen = re.search(r"\[(\w{1,32})\]", text)
    if chosen is None:
        raise CannotTellError("the policy of ASPM is not readable")
    found = Judged()
    found.see(
        "pcie_aspm",
        chosen[1],
        "default or performance",
        ok=not chosen[1].startswith("powersave") and chosen[1] != "powersupersave",
    )
    return found


POWER_SAVING = HostCheck(
    "pcie-power-saving",
    "power saving of PCIe links",
    _power_saving,
    "links that sleep add microseconds to each small message",
    (
        setting(
            "echo performance > /sys/module/pcie_aspm/parameters/policy, or boot with "
            "pcie_aspm=off",
        ),
    ),
    "documentation of the Linux kernel, pcie_aspm",
    grade="look",
    certainty="likely",
)


def _registers(host: Host, name: str) -> Iterator[tuple[PciDevice, str]]:
    """A register of each device. Raises CannotTellError if it cannot be read."""
    for one in host.communicating:
        yield one, host.register(one.address, name)


def _payload(host: Host) -> Judged:
    if host.is_virtual:
        raise NotApplicableError("the hypervisor sets the payload")
    found = Judged()
    for one, control in _registers(host, "DevCtl"):
        now = re.search(r"MaxPayload (\d{1,5}) bytes", control)
        most = re.search(r"MaxPayload (\d{1,5}) bytes", host.register(one.address, "DevCap"))
        if now and most:
            limit = min(256, int(most[1]))
            found.see(one.address, f"{now[1]} bytes", f"≥ {limit}", ok=int(now[1]) >= limit)
    return found


PAYLOAD = HostCheck(
    "pcie-payload",
    "payload of PCIe packets",
    _payload,
    "packets of 128 bytes carry 8 % less than those of 256 bytes (24 bytes of head each)",
    (setting("boot with pci=pcie_bus_perf, or set the payload in the BIOS"),),
    "MaxPayload of DevCap and DevCtl; own limit: 256 bytes where the device supports it",
    grade="look",
)


_LEAST_READ = 512


def _requests(host: Host) -> Judged:
    if host.is_virtual:
        raise NotApplicableError("the hypervisor sets the size of requests")
    _ = host.rdma_ports  # not applicable without such devices
    found = Judged()
    for one in host.rdma_pci:
        control = host.register(one.address, "DevCtl")
        if size := re.search(r"MaxReadReq (\d{1,5}) bytes", control):
            is_ok = int(size[1]) >= _LEAST_READ
            found.see(one.address, f"reads of {size[1]} bytes", f"≥ {_LEAST_READ}", ok=is_ok)
        if "ExtTag-" in control and one.vendor == MELLANOX:
            found.see(one.address, "ExtTag-: 32 reads at once", "ExtTag+", ok=False)
    return found


READ_REQUESTS = HostCheck(
    "pcie-read-requests",
    "size and number of PCIe read requests of RDMA devices",
    _requests,
    "the device does not read memory as fast as its port sends",
    (
        setting("setpci -s ADDRESS CAP_EXP+8.w=5000:7000, as root: reads of 4096 bytes"),
        reboot("restore the defaults of PCIe in the BIOS"),
    ),
    "MaxReadReq and ExtTag of DevCtl; 512 bytes are the value after a reset (PCI-SIG), 4096 that "
    "of NVIDIA's guides for ConnectX",
    grade="look",
)


def _ordering(host: Host) -> Judged:
    _ = host.rdma_ports  # not applicable without such devices
    found = Judged()
    for one in host.rdma_pci:
        control = re.search(r"RlxdOrd([+-])", host.register(one.address, "DevCtl"))
        if control:
            found.see(one.address, f"RlxdOrd{control[1]}", "RlxdOrd+", ok=control[1] == "+")
    return found


ORDERING = HostCheck(
    "pcie-relaxed-ordering",
    "relaxed ordering of RDMA devices",
    _ordering,
    "writes wait for each other, most on AMD's processors and in virtual machines",
    (setting("setpci -s ADDRESS CAP_EXP+8.w=0010:0010, as root"),),
    "DevCtl of the device; the driver's EnablePCIERelaxedOrderingMode is harmless and not judged",
    grade="look",
)
