"""Network interfaces: the one where ranks meet, duplex, bonds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cclmark_fleet.hosts.check import HostCheck, Judged, NotApplicableError, reset, service, setting
from cclmark_fleet.hosts.host import NET, Host, settings_of
from cclmark_fleet.hosts.host_probe import whole

_VARIABLES = (
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "RCCL_SOCKET_IFNAME",
    "HCCL_SOCKET_IFNAME",
)
_PREFIXES = ("NCCL", "RCCL", "HCCL")  # these match beginnings of names


_INNER = re.compile(r"docker|veth|virbr|br-[0-9a-f]{6}|cni\d|lxc|flannel|cali")


def _is_named(one: str, names: Sequence[str], *, is_exact: bool) -> bool:
    return any(one == name or (not is_exact and one.startswith(name)) for name in names)


def _rendezvous(host: Host) -> Judged:
    own_settings = settings_of(host)
    present = host.probe.entries(NET)
    up = [one for one in present if host.probe.text(f"{NET}/{one}/operstate") in ("up", "unknown")]
    found = Judged()
    for variable in _VARIABLES:
        value = own_settings.get(variable, ("", ""))[0].strip()
        if not value:
            continue
        if value.startswith("^"):
            _see_excluded(found, variable, value, up)
            continue
        is_exact = value.startswith("=") or not variable.startswith(_PREFIXES)
        wanted = [name for name in value.lstrip("=").split(",") if name]
        own, there = (
            [one for one in names if _is_named(one, wanted, is_exact=is_exact)]
            for names in (up, present)
        )
        # Lists for several kinds of hosts are usual: one of them is enough.
        reaches = [one for one in own if one != "lo"]
        # Bridges of this host's containers reach no other host.
        reaches = [one for one in reaches if not _INNER.match(one)]
        state = ", ".join(reaches[:4]) or (
            "loopback or a bridge of containers" if own else "down" if there else "no interface"
        )
        found.see(variable, f"{value[:40]}: {state}", "an interface that is up", ok=bool(reaches))
    if not found.signals:
        names = [one for one in up if one != "lo" and not _INNER.match(one)]
        if not names:
            raise NotApplicableError("no network interface besides loopback")
        found.see("interfaces", ", ".join(names[:6]), "one that is up")
    return found


def _see_excluded(found: Judged, variable: str, value: str, up: Sequence[str]) -> None:
    """Adds what a value leaves that excludes interfaces: ``^docker,lo``."""
    usable = [one for one in up if one != "lo" and not _INNER.match(one)]
    if not variable.startswith(_PREFIXES) or not usable:
        return
    names = [name for name in value.lstrip("^=").split(",") if name]
    is_exact = value.startswith("^=")
    left = [one for one in usable if not _is_named(one, names, is_exact=is_exact)]
    text = ", ".join(left[:4]) or "leaves no interface besides loopback and bridges"
    found.see(variable, f"{value[:40]}: {text}", "an interface that is up", ok=bool(left))


RENDEZVOUS = HostCheck(
    "rendezvous-interface",
    "interface where ranks meet",
    _rendezvous,
    "communicators between hosts do not form, or wait until a timeout",
    (setting("unset the variable, or name an interface that is up on all hosts: ip -br addr"),),
    "variables of interfaces beside /sys/class/net",
)


def _duplex(host: Host) -> Judged:
    found = Judged()
    for name in host.netdevs_up:
        places = [host.probe.resolved(f"{NET}/{name}{part}") for part in ("", "/device")]
        if any("/usb" in place for place in places):
            continue  # of the board's controller
        duplex = host.probe.text(f"{NET}/{name}/duplex")
        if duplex in ("half", "full"):
            found.see(name, f"{duplex} duplex", "full", ok=duplex == "full")
    if not found.signals:
        raise NotApplicableError("no interface reports its duplex")
    return found


DUPLEX = HostCheck(
    "net-duplex",
    "duplex of network interfaces",
    _duplex,
    "both directions share the link, and frames collide",
    (setting("turn on autonegotiation on both ends: ethtool -s INTERFACE autoneg on"),),
    "duplex in sysfs",
)


_LEAST_MBPS = 1000


def _speed(host: Host) -> Judged:
    """One of several equal devices that is slower than all others; a fastest one below 1 Gb/s."""
    speeds: dict[str, int] = {}
    kinds: dict[tuple[str, str], list[str]] = {}
    of_rdma = {name for port in host.ports for name in port.netdevs}  # see rdma-rate
    for name in host.netdevs_up:
        place = host.probe.resolved(f"{NET}/{name}/device")
        mbps = host.probe.number(f"{NET}/{name}/speed")
        if mbps is None or mbps <= 0 or "/usb" in place:
            continue
        speeds[name] = mbps
        own = host.pci.get(place.rpartition("/")[2])
        if own is not None and name not in of_rdma and not host.is_virtual:
            kinds.setdefault((own.vendor, own.device), []).append(name)
    found = Judged()
    for names in kinds.values():
        usual = max(speeds[name] for name in names)
        slow = [name for name in names if speeds[name] < usual]
        if len(names) >= 3 and len(slow) == 1:
            text = f"{speeds[slow[0]]} Mb/s"
            found.see(slow[0], text, f"{usual} Mb/s, as equal devices", ok=False)
    for name, mbps in [*speeds.items()] if max(speeds.values(), default=0) < _LEAST_MBPS else ():
        found.see(name, f"{mbps} Mb/s", f"≥ {_LEAST_MBPS} Mb/s", ok=False)
    if not speeds:
        raise NotApplicableError("no interface reports its speed")
    if not found.signals:
        found.see(
            "interfaces", ", ".join(f"{one} {mbps} Mb/s" for one, mbps in speeds.items())[:80]
        )
    return found


SPEED = HostCheck(
    "network-speed",
    "speed of network interfaces",
    _speed,
    "ranks meet, and what has no RDMA communicates, at this speed",
    (
        setting("turn on autonegotiation on both ends: ethtool -s INTERFACE autoneg on"),
        reset("reseat the cable"),
        service("replace the cable or the transceiver; check the port of the switch"),
    ),
    "speed in sysfs, beside that of devices of one type; own limit for the fastest: 1 Gb/s",
    grade="look",
    certainty="likely",
)


def _own_name(host: Host) -> Judged:
    """The host's own name in /etc/hosts at an address that other hosts cannot reach."""
    is_alone = not host.ports and whole(host.probe.environment.get("SLURM_NNODES", "")) in (None, 1)
    if is_alone:
        raise NotApplicableError("no RDMA device and no job of several hosts")
    own = settings_of(host)
    found = Judged()
    for line in host.probe.text("/etc/hosts").splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        others = [name for name in names if not _LOCAL.match(name)]
        if address.startswith("127.") and others:
            is_ok = bool(own.get("GLOO_SOCKET_IFNAME", ("", ""))[0])
            limit = "the host's address in the network, or GLOO_SOCKET_IFNAME"
            found.see("/etc/hosts", f"{others[0]} is {address}", limit, ok=is_ok)
    if not found.signals:
        found.see("/etc/hosts", "no name of the host at loopback")
    return found


_LOCAL = re.compile(r"(?i)localhost|local$|ip6-|loopback|kubernetes|broadcasthost")
OWN_NAME = HostCheck(
    "host-name",
    "own name of the host in /etc/hosts",
    _own_name,
    "Gloo and MASTER_ADDR=$(hostname) give other hosts a loopback address: they wait until a "
    "timeout",
    (setting("remove the line from /etc/hosts, or set GLOO_SOCKET_IFNAME on all hosts"),),
    "documentation of torch.distributed: Gloo uses the address of the host's name",
    grade="look",
    certainty="likely",
)


def _bonds(host: Host) -> Judged:
    bonds = host.probe.entries("/proc/net/bonding")
    found = Judged()
    for bond in bonds:
        text = host.probe.text(f"/proc/net/bonding/{bond}")
        speeds: dict[str, int] = {}
        for part in re.split(r"\n(?=Slave Interface: )", text)[1:]:
            name = re.match(r"Slave Interface: (\S{1,64})", part)
            status = re.search(r"^MII Status: (\S{1,16})", part, re.MULTILINE)
            if name and status:
                found.see(f"{bond}: {name[1]}", status[1], "up", ok=status[1] == "up")
            if name and (speed := re.search(r"^Speed: (\d{1,7}) Mbps", part, re.MULTILINE)):
                speeds[name[1]] = int(speed[1])
        partner = re.search(r"^\s*Partner Mac Address: ([0:]{17})$", text, re.MULTILINE)
        if partner and "802.3ad" in text and speeds:
            limit = "a switch that answers with LACP"
            found.see(bond, f"802.3ad, partner {partner[1]}", limit, ok=False)
        for member, mbps in speeds.items():
            limit = f"≥ {max(speeds.values())} Mb/s, as other members"
            is_ok = mbps >= max(speeds.values())
            found.see(f"{bond}: {member}", f"{mbps} Mb/s", limit, ok=is_ok)
    if not found.signals:
        raise NotApplicableError("no bond")
    return found


BONDS = HostCheck(
    "net-bonds",
    "members of bonds",
    _bonds,
    "the bond has half of its rate, without an error of programs",
    (
        setting("802.3ad: configure LACP on the ports of the switch"),
        reset("reseat the cable of the member"),
        service("replace the cable or transceiver"),
    ),
    "/proc/net/bonding",
)


_DOWN = re.compile(
    r"(?i)link (?:is |status (?:is )?(?:definitely )?)?(?:down|lost)|lost carrier|carrier lost"
    r"|link disconnected|carrier (?:is )?(?:off|down)"
)
_START_S, _RECENT_S, _SAME_S = 300, 12 * 3600, 0.5


def _history(host: Host) -> Judged:
    """Interfaces that the kernel's log shows as going down again and again."""
    names = {*host.netdevs, *(port.device for port in host.ports)}
    addresses = {port.pci for port in host.ports if port.pci}
    if not names:
        raise NotApplicableError("no network device")
    downs: dict[str, int] = {}
    last_s: dict[str, float] = {}
    for event in host.recent_kernel_log:
        if _DOWN.search(event.text) is None or _is_start(host, event.at_s):
            continue
        words = [word.strip("():,") for word in event.text.split()]
        own = [word for word in words if word in names] or [
            word for word in words if word in addresses
        ]
        if not own:
            continue
        # The driver, a bond and a daemon tell of the same event.
        if event.at_s is not None:
            if own[0] in last_s and event.at_s - last_s[own[0]] < _SAME_S:
                continue
            last_s[own[0]] = event.at_s
        downs[own[0]] = downs.get(own[0], 0) + 1
    found = Judged()
    for name, count in downs.items():
        found.see(name, f"went down {_times(count)}", "< 3 within 12 h", ok=count < 3)
    if not found.signals:
        found.see("kernel log", "no interface went down within 12 h")
    return found


def _times(count: int) -> str:
    """``once``, ``5 times``."""
    return "once" if count == 1 else f"{count} times"


def _is_start(host: Host, at_s: float | None) -> bool:
    """Whether a line is of the start of the host, or too old."""
    if at_s is None:
        return False
    return at_s < _START_S or bool(host.uptime_s and host.uptime_s - at_s > _RECENT_S)


HISTORY = HostCheck(
    "link-history",
    "interfaces that went down again and again",
    _history,
    "each flap interrupts connections: collectives time out",
    (
        reset("clean and reseat the cable or the transceiver"),
        service("replace the cable, then the transceiver, then the port"),
    ),
    "gpud: 3 returns within 12 hours are flapping; kernel log",
    certainty="likely",
)
