"""InfiniBand and RoCE: ports, rates, MTU, GIDs, PFC and classes of traffic, GPUDirect."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
from cclmark_fleet.hosts.host import AMD, NET, NVIDIA, RDMA, Host, RdmaPort, amount, settings_of
from cclmark_fleet.hosts.host_probe import whole

_CABLE = (
    reset("take the port down and up; reseat the cable"),
    service("replace the cable or the transceiver; check the port of the switch"),
)
_LOST = (
    "a rail is lost: one of eight costs 12.5 % of a host, and ring all-reduce up to 57 % (OptCC)"
)


_UNLINKED = re.compile("recover|polling|training|disabled|sleep", re.IGNORECASE)


def _state(host: Host) -> Judged:
    found = Judged()
    by_board: dict[str, list[RdmaPort]] = {}
    for port in host.rdma_ports:
        by_board.setdefault(port.board, []).append(port)
    ports = host.rdma_ports
    if ports and not any(port.is_active or "LinkUp" in port.physical for port in ports):
        was_up = [port for port in ports if _times_down(host, port)]
        if 2 * len(was_up) < len(ports):
            reason = "no RDMA port is active: all may be without a cable, or lost"
            raise CannotTellError(reason, "a host of the same kind: cclmark doctor --from A B")
        for port in was_up:
            times = _times_down(host, port)
            found.see(port.name, f"DOWN, and was up before ({times} ×)", "ACTIVE", ok=False)
        found.certainty = "likely"
        return found
    for ports in by_board.values():
        active = sum(port.is_active for port in ports)
        # Hosts have ports without a cable: one that is down is a fault where most others are up.
        for port in ports:
            words = f"{port.state.partition(': ')[2] or port.state}"
            is_linked = "LinkUp" in port.physical
            is_lost = not port.is_active and (is_linked or active * 4 >= 3 * len(ports))
            # The state of a port that trains its link again follows later.
            is_lost = is_lost or (port.is_active and bool(_UNLINKED.search(port.physical)))
            text = f"{words}, {port.physical.partition(': ')[2] or port.physical}"
            limit = "ACTIVE, LinkUp" if port.is_active else "ACTIVE, as others of its type"
            found.see(port.name, text, limit, ok=not is_lost)
    return found


def _times_down(host: Host, port: RdmaPort) -> int:
    """How often a port has lost its link since the driver was loaded."""
    path = f"{RDMA}/{port.device}/ports/{port.port}/counters/link_downed"
    return host.probe.number(path) or 0


STATE = HostCheck(
    "rdma-state",
    "state of RDMA ports",
    _state,
    _LOST,
    (setting("INIT: start the subnet manager; Disabled: ip link set INTERFACE up"), *_CABLE),
    "state in sysfs; three of four ports of one type are active, so the others should be; if "
    "none is, link_downed tells whether they had a link",
)


def _width(host: Host) -> Judged:
    found = Judged()
    for port in host.active_ports:
        lanes = re.search(r"\((\d{1,2})X( NDR| XDR)?", port.rate)
        if lanes and not port.is_ethernet:
            least = 2 if lanes[2] else 4  # two ports share a connector of NDR and XDR
            found.see(port.name, f"{lanes[1]}X", f"≥ {least}X", ok=int(lanes[1]) >= least)
    if not found.signals:
        raise NotApplicableError("no active InfiniBand port")
    return found


WIDTH = HostCheck(
    "rdma-width",
    "width of InfiniBand links",
    _width,
    "a quarter or half of the port's rate",
    _CABLE,
    "4X is the width of all HCAs; of NDR and XDR also 2X, where two ports share a connector",
)


def _rate(host: Host) -> Judged:
    best: dict[str, float] = {}
    layers: dict[str, list[str]] = {}
    for port in host.active_ports:
        best[port.board] = max(best.get(port.board, 0.0), port.gbit)
        layers.setdefault(port.board, []).append(port.layer)
    found = Judged()
    for port in host.active_ports:
        own = layers[port.board]
        usual = max(own, key=own.count)
        # One that differs from all others: cards for storage are often of the same type.
        if port.layer != usual and len(own) >= 4 and own.count(usual) == len(own) - 1:
            found.see(port.name, port.layer, f"{usual}, as others of its type", ok=False)
            found.remedies = [setting("mlxconfig -d DEVICE set LINK_TYPE_P1=1 (IB) or 2"), *_CABLE]
    for port in host.active_ports:
        if port.gbit:
            limit = best[port.board]
            found.see(
                port.name,
                f"{port.gbit:g} Gb/s",
                f"≥ {limit:g} Gb/s, as others of its type",
                ok=port.gbit >= limit,
            )
    return found


RATE = HostCheck(
    "rdma-rate",
    "equal rates and link layers of RDMA ports of one type",
    _rate,
    "every collective over all rails waits for the slowest",
    _CABLE,
    "the fastest active port with the same type and board of the host",
    certainty="likely",
)


def _mtu(host: Host) -> Judged:
    found = Judged()
    for port in host.active_ports:
        verbs = host.verbs.get((port.device, port.port))
        active = whole(verbs.active_mtu.partition(" ")[0]) if verbs else None
        if active is not None:
            found.see(port.name, f"MTU {active}", "4096", ok=active >= 4096)
            continue
        sizes = [host.probe.number(f"{NET}/{one}/mtu") for one in port.netdevs]
        known = [size for size in sizes if size]
        if port.is_ethernet and known:
            found.see(
                port.name, f"MTU {max(known)} of {port.netdevs[0]}", "≥ 4200", ok=max(known) >= 4200
            )
        else:
            found.cannot_tell(f"{port.name}: the active MTU is unknown", "ibv_devinfo")
    return found


MTU = HostCheck(
    "rdma-mtu",
    "MTU of RDMA ports",
    _mtu,
    "more packets: devices and switches reach less than the port's rate",
    (
        setting(
            "InfiniBand: mtu 5 (4096) in the subnet manager; RoCE: ip link set INTERFACE mtu "
            "9000, and on the switches",
        ),
    ),
    "4096 bytes are the largest MTU of InfiniBand and RoCE; with 1500 of Ethernet RoCE has 1024",
    grade="look",
)


def _gids(host: Host) -> Judged:
    found = Judged()
    wanted = settings_of(host).get("NCCL_IB_GID_INDEX", ("", ""))[0].strip()
    tables = {port.name: _gid_table(host, port) for port in host.roce_ports}
    # Networks may use link-local addresses alone, but not for some ports.
    has_addresses = any(_has_address(gids) for gids in tables.values())
    for port in host.roce_ports:
        types = {name: kind for name, (_, kind) in tables[port.name].items()}
        if not types:
            found.see(port.name, "no GID", "a GID of RoCE v2", ok=False)
        elif wanted and wanted not in ("-1",):
            kind = types.get(wanted, "")
            found.see(
                port.name,
                f"GID {wanted}: {kind or 'empty'}",
                "RoCE v2 (NCCL_IB_GID_INDEX)",
                ok="v2" in kind,
            )
        elif has_addresses and not _has_address(tables[port.name]):
            text = f"{amount(len(types), 'GID')}, link-local alone"
            found.see(port.name, text, "one of an IP address, as other ports", ok=False)
        else:
            found.see(
                port.name,
                amount(len(types), "GID"),
                "one of RoCE v2",
                ok=any("v2" in kind for kind in types.values()) or not any(types.values()),
            )
    return found


def _gid_table(host: Host, port: RdmaPort) -> dict[str, tuple[str, str]]:
    """The GIDs of a port and their types by index, without empty ones."""
    root = f"{RDMA}/{port.device}/ports/{port.port}"
    gids = {
        name: host.probe.text(f"{root}/gids/{name}") for name in host.probe.entries(f"{root}/gids")
    }
    return {
        name: (gid, host.probe.text(f"{root}/gid_attrs/types/{name}"))
        for name, gid in gids.items()
        if gid.strip("0:")
    }


def _has_address(gids: Mapping[str, tuple[str, str]]) -> bool:
    """Whether a GID is that of an IP address beyond the link."""
    return any(not gid.lower().startswith("fe80:") for gid, _ in gids.values())


GIDS = HostCheck(
    "roce-gid",
    "GIDs of RoCE v2",
    _gids,
    "connections fail, or run over RoCE v1, which routers do not carry",
    (
        setting(
            "give the interface an address; unset NCCL_IB_GID_INDEX (NCCL 2.21 and later "
            "choose), or set it to a GID of RoCE v2: show_gids",
        ),
    ),
    "gid_attrs/types in sysfs",
)


def _pfc(host: Host) -> Judged:
    """Whether any priority of the RoCE ports that NCCL uses is lossless by PFC."""
    if any(port.is_active and not port.is_ethernet for port in host.ports):
        raise NotApplicableError("InfiniBand carries the traffic")
    if not host.gpus:
        raise NotApplicableError("no accelerator")
    found = Judged()
    for port in host.roce_ports:
        for name in port.netdevs:
            text = host.probe.run("dcb", "pfc", "show", "dev", name).text
            if not re.search(r"prio-pfc(\s+\d:(on|off)){8}", text):
                continue
            own = sorted(_lossless(host, port))
            words = (
                f"PFC on for {', '.join(map(str, own))}" if own else "PFC off for all priorities"
            )
            if not own and _has_global_pause(host, name):
                words += ", global pause on"
                found.cost = "a pause stops all traffic of the port, that of other jobs, too"
            found.see(name, words, "on for the priority of RDMA", ok=bool(own))
    if not found.signals:
        raise NotApplicableError("dcb shows no PFC")
    return found


def _has_global_pause(host: Host, name: str) -> bool:
    """Whether 802.3x makes the port lossless in place of PFC, with all of its traffic."""
    text = host.probe.run("ethtool", "-a", name).text
    return re.search(r"^[RT]X:\s+on\b", text, re.MULTILINE) is not None


PFC = HostCheck(
    "roce-pfc",
    "PFC of RoCE ports",
    _pfc,
    "the fabric loses packets under load, and each loss costs a timeout or a window",
    (
        setting(
            "dcb pfc set dev INTERFACE prio-pfc 3:on (or mlnx_qos --pfc), and on the switches, "
            "unless the fabric is meant to lose packets; with PFC: ethtool -A INTERFACE rx off tx "
            "off",
        ),
    ),
    "dcb pfc show; NVIDIA's and Broadcom's guides for RoCE: PFC with ECN",
    grade="look",
    certainty="likely",
)


def _classes(host: Host) -> Judged:
    """Whether the traffic of RDMA has the class that does not lose packets."""
    found = Judged()
    environment = host.probe.environment
    for port in host.roce_ports:
        lossless = _lossless(host, port)
        if not lossless:
            continue
        text = host.probe.text(f"{RDMA}/{port.device}/tc/{port.port}/traffic_class")
        kernel = re.search(r"(\d{1,3})\s*$", text)
        value = environment.get("NCCL_IB_TC", "") or (kernel[1] if kernel else "0")
        number = whole(value) or 0
        priority = _priority(host, port, number)
        found.see(
            port.name,
            f"traffic class {number}, priority {priority}",
            f"one of priority {min(lossless)}",
            ok=priority in lossless,
        )
    if not found.signals:
        raise NotApplicableError("no port with PFC that dcb shows")
    return found


def _priority(host: Host, port: RdmaPort, traffic_class: int) -> int:
    """The priority of a traffic class: by the port's map of DSCPs, else by the usual one."""
    dscp = traffic_class >> 2 & 63
    for name in port.netdevs:
        text = host.probe.run("dcb", "app", "show", "dev", name).text
        row = re.search(r"dscp-prio((?:\s+\S{1,8}:\d)+)", text)
        if row and (own := re.search(rf"\b{dscp}:(\d)", row[1])):
            return int(own[1])
    return dscp >> 3


def _lossless(host: Host, port: RdmaPort) -> set[int]:
    """The priorities with PFC of a port's interfaces, as ``dcb`` shows them."""
    found: set[int] = set()
    for name in port.netdevs:
        text = host.probe.run("dcb", "pfc", "show", "dev", name).text
        row = re.search(r"prio-pfc((?:\s+\d:(?:on|off)){1,8})", text)
        found |= {int(one) for one in re.findall(r"(\d):on", row[1] if row else "")}
    return found


CLASSES = HostCheck(
    "roce-traffic-class",
    "class of RoCE traffic beside PFC",
    _classes,
    "packets of NCCL are in a class that loses them: retransmissions under load",
    (
        setting(
            "NCCL_IB_TC=106 (DSCP 26, priority 3 by the usual map), or the class of your switches",
        ),
    ),
    "dcb pfc show beside NCCL_IB_TC and the device's traffic_class; priority of a class: dcb app, "
    "else its DSCP divided by 8",
    grade="look",
    certainty="likely",
)


def _ecn(host: Host) -> Judged:
    found = Judged()
    for port in host.roce_ports:
        for name in port.netdevs:
            for priority in sorted(_lossless(host, port)):
                for role in ("roce_np", "roce_rp"):
                    path = f"{NET}/{name}/ecn/{role}/enable/{priority}"
                    if text := host.probe.text(path):
                        found.see(
                            f"{name} priority {priority}", f"{role} {text}", "1", ok=text == "1"
                        )
    if not found.signals:
        raise NotApplicableError("ECN of priorities with PFC is not readable on this host")
    return found


ECN = HostCheck(
    "roce-ecn",
    "ECN of priorities with PFC",
    _ecn,
    "nothing slows senders down before switches send pauses, which spread",
    (setting("echo 1 > /sys/class/net/INTERFACE/ecn/roce_np/enable/PRIORITY, and roce_rp"),),
    "NVIDIA's guides for RoCE: PFC with ECN",
    grade="look",
    certainty="likely",
)


def _routing(host: Host) -> Judged:
    _ = host.active_ports
    raise CannotTellError(
        "switches and subnet manager set adaptive routing; the host does not show it",
        "NCCL_DEBUG=INFO logs what NCCL assumes (NET/IB … ar=); the fabric's administrator",
    )


ROUTING = HostCheck(
    "adaptive-routing",
    "adaptive routing",
    _routing,
    "flows that collide on one link share its rate",
    (setting("enable it in the fabric"),),
    "documentation of NCCL_IB_ADAPTIVE_ROUTING",
)


def _direct(host: Host) -> Judged:
    _ = host.active_ports
    if not [one for one in host.gpus if one.vendor in (NVIDIA, AMD)]:
        raise NotApplicableError("no GPU of NVIDIA or AMD")
    modules = (
        *("/sys/module/nvidia_peermem/version", "/sys/module/nv_peer_mem/version"),
        *(
            "/sys/kernel/mm/memory_peers/nv_mem/version",
            "/sys/kernel/mm/memory_peers/amdkfd/version",
        ),
        "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
        "/sys/module/efa_nv_peermem/version",
    )
    found = Judged()
    loaded = [path for path in modules if host.probe.exists(path)]
    if loaded:
        found.see("peer memory", loaded[0])
        return found
    driver = host.probe.text("/proc/driver/nvidia/version")
    release = re.match(r"(\d{1,3})\.(\d{1,4})", host.probe.text("/proc/sys/kernel/osrelease"))
    is_new = bool(release and (int(release[1]), int(release[2])) >= (5, 12))
    is_open = "Open Kernel Module" in driver or not driver
    is_off = settings_of(host).get("NCCL_DMABUF_ENABLE", ("", ""))[0] == "0"
    text = f"no peer-memory module, {'open' if is_open else 'proprietary'} kernel module"
    kernel = f"kernel {release[0]}" if release else "unknown kernel"
    off = ", NCCL_DMABUF_ENABLE=0" if is_off else ""
    limit = "a module, or DMA-BUF (open kernel module, kernel ≥ 5.12)"
    found.see("host", f"{text}, {kernel}{off}", limit, ok=is_open and is_new and not is_off)
    if is_off:
        found.remedies = [setting("unset NCCL_DMABUF_ENABLE"), *DIRECT.fix]
    return found


DIRECT = HostCheck(
    "gpudirect-rdma",
    "GPUDirect RDMA",
    _direct,
    "data goes through host memory: imbue's floor falls from 720 to 300 Gb/s of both directions, "
    "without an error",
    (
        setting("modprobe nvidia-peermem, and add it to /etc/modules-load.d"),
        reboot("install the driver's open kernel modules"),
    ),
    "what NCCL looks for: memory_peers, nvidia_peermem, or DMA-BUF",
)


def _copy(host: Host) -> Judged:
    is_loaded = host.probe.exists("/sys/module/gdrdrv")
    asked = host.probe.environment.get("NCCL_GDRCOPY_ENABLE") == "1"
    if not is_loaded and not asked:
        raise NotApplicableError("GDRCopy is not installed; NCCL does not use it by default")
    found = Judged()
    has_device = host.probe.exists("/dev/gdrdrv")
    found.see("/dev/gdrdrv", "present" if has_device else "missing", "present", ok=has_device)
    return found


COPY = HostCheck(
    "gdrcopy",
    "GDRCopy",
    _copy,
    "small messages of UCX and NVSHMEM take microseconds more",
    (setting("modprobe gdrdrv; in containers --device /dev/gdrdrv"),),
    "the module is loaded or NCCL_GDRCOPY_ENABLE=1 is set, so its device should exist",
    grade="look",
)


def _peermem(host: Host) -> Judged:
    _ = host.rdma_ports
    found = Judged()
    lines = [one.text for one in host.kernel_log if re.search("peermem|memory_peers", one.text)]
    errors = [text for text in lines if re.search("ERROR|Unknown symbol|Invalid|disagrees", text)]
    found.see_lines(errors, "none", "no error of peer memory")
    return found


PEERMEM = HostCheck(
    "peermem-errors",
    "errors of the peer-memory module",
    _peermem,
    "GPUDirect RDMA is not used, or programs fail",
    (
        setting(
            "install the driver after the network's drivers (OFED), so that the module fits",
        ),
        reboot("reboot with the new module"),
    ),
    "kernel log since boot (gpud watches the same lines)",
    grade="look",
)
