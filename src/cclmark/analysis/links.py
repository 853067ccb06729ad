"""The links of a machine: their limit, and whether a library uses paths worse than they allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from cclmark.base.grouping import abridged
from cclmark.explain.paths import FLAGCX_SINGLE, INFINIBAND, PEER_ACCESS, Route
from cclmark.journal.schema import Header, HostDescription, Link, Paths, Relation


def link_limit(links: Sequence[Link], hosts: Sequence[HostDescription] = ()) -> float | None:
    """Bytes per second that every device can send over its NVLinks, or its PCIe slot without them.

    The result is the smallest of all devices: a collective is as fast as its slowest member. None
    if the machine does not report it, and for several ``hosts``, whose network is unknown.
    """
    if len(hosts) > 1:
        return None
    limits = []
    for device in {link.device for link in links}:
        own = [link for link in links if link.device == device]
        fast = [link for link in own if link.kind == "NVLink"] or own
        limits.append(sum(link.count * link.rate_bytes_per_s for link in fast))
    smallest = min(limits, default=0.0)
    return smallest if smallest > 0 else None


def link_kind(links: Sequence[Link], hosts: Sequence[HostDescription] = ()) -> str:
    """The kind of link between all devices of a host, as ``NVLink 4``; the oldest of them.

    Empty for several ``hosts``, and where the machine does not report links of every device alike.
    """
    devices = {link.device for link in links}
    fast = [link for link in links if link.kind == "NVLink"]
    own = fast or [link for link in links if link.kind == "PCIe"]
    versions = {link.version for link in own}
    if len(hosts) > 1 or not own or devices != {link.device for link in own} or "" in versions:
        return ""
    return f"{own[0].kind} {min(versions)}"


def network_kind(header: Header) -> str:
    """The kind of network between the hosts of a run, as ``RDMA 400 Gbit/s``; its slowest host's.

    ``8 × RDMA 400 Gbit/s`` if every one of eight devices of a host can have its own port. Empty for
    one host, and where hosts report several kinds of ports: it is unknown which of them work.
    """
    found: set[tuple[float, str, int]] = set()
    for host in header.hosts:
        working = [one for one in host.machine.interfaces if one.state.lower() in _WORKING]
        ports = [one for one in working if one.kind in ("InfiniBand", "RoCE")]
        kind = "RDMA" if ports else "Ethernet"
        ports = ports or [one for one in working if one.kind == "Ethernet"]
        rates = {one.rate_bits_per_s for one in ports if one.rate_bits_per_s > 0}
        devices = len(header.devices) // len(header.hosts)
        count = min(len(ports), devices)
        if len(rates) != 1 or 1 < count < devices or (count > 1 and kind == "Ethernet"):
            return ""
        found.add((rates.pop(), kind, count))
    if len(header.hosts) < 2 or len({(kind, count) for _, kind, count in found}) != 1:
        return ""
    rate, kind, count = min(found)
    return f"{f'{count} × ' if count > 1 else ''}{kind} {rate / 1e9:.0f} Gbit/s"


_WORKING = ("active", "up")
_MOST_PAIRS = 4  # named in a warning
_NVLINKS = re.compile(r"NV([0-9]{1,3})")
# The values of NCCL_P2P_LEVEL from the nearest, by name and number: a device beyond is not
# accessed directly.
_LEVELS = {"LOC": 0, "NVL": 1, "PIX": 2, "PXB": 3, "PHB": 4, "SYS": 5}
Pair = tuple[int, int]


def path_warnings(header: Header, paths: Paths) -> list[str]:
    """Returns a sentence for each kind of path that is worse than the topology permits."""
    hosts = {device.rank: device.host for device in header.devices}
    relations = {(one.first, one.second): one for one in header.relations}
    ways = _ways(paths.routes)
    known = {pair: way for pair, way in ways.items() if pair[0] in hosts and pair[1] in hosts}
    local = {pair: way for pair, way in known.items() if hosts[pair[0]] == hosts[pair[1]]}
    remote = {pair: way for pair, way in known.items() if pair not in local}
    settings = {**header.environment, **paths.parameters}
    found = _beside_links(local, relations, settings)
    found += _between_hosts(remote, paths, settings)
    if all(device.runtime != "host" for device in header.devices):
        found += _through_host(local, header)
    if settings.get("FLAGCX_USE_HOST_COMM") == "1":
        found.append("FlagCX communicates through host memory: FLAGCX_USE_HOST_COMM=1 is set")
    elif paths.parameters.get(FLAGCX_SINGLE) == "yes":
        found.append(
            "FlagCX communicates through host memory in most operations, because one kind of "
            "device has only one rank: use two or more devices of each kind"
        )
    return found


def _ways(routes: Iterable[Route]) -> dict[Pair, set[str]]:
    """The transports of each pair of ranks, the lower rank first."""
    ways: dict[Pair, set[str]] = {}
    for route in routes:
        pair = (min(route.first, route.second), max(route.first, route.second))
        ways.setdefault(pair, set()).add(route.transport)
    return ways


def _beside_links(
    local: Mapping[Pair, set[str]],
    relations: Mapping[Pair, Relation],
    settings: Mapping[str, str],
) -> list[str]:
    """Pairs of one host whose data do not use the direct connection of their devices."""
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair, transports in sorted(local.items()):
        relation = relations.get(pair)
        if any(transport.startswith("P2P/indirect") for transport in transports):
            key = ("through the memory of another device", _link_of(relation), "")
            groups.setdefault(key, []).append(pair)
            continue
        if any(transport.startswith("P2P") for transport in transports):
            continue
        network = [transport for transport in transports if transport.startswith("NET/")]
        shared = [transport for transport in transports if transport.startswith("SHM")]
        if not network and not shared:
            continue
        how = f"through the network ({network[0]})" if network else "through host memory"
        link = _link_of(relation)
        if not link and not network:
            continue  # the library's normal choice between distant devices
        cause = _cause(relation, settings, network=bool(network))
        groups.setdefault((how, link, cause), []).append(pair)
    return [
        f"{_named(pairs)} communicate {how}{_although(link)}{cause}"
        for (how, link, cause), pairs in groups.items()
    ]


def _although(link: str) -> str:
    return f" although {link}" if link else " although they are on one host"


def _link_of(relation: Relation | None) -> str:
    """The direct connection of two devices that libraries use by default; empty if none."""
    if relation is None:
        return ""
    if found := _NVLINKS.fullmatch(relation.kind):
        number = int(found[1])
        return f"{number} NVLink{'s' * (number > 1)} connect{'s' * (number == 1)} them"
    if relation.kind in ("PIX", "PXB"):
        return f"only PCIe bridges are between them ({relation.kind})"
    return ""


def _cause(relation: Relation | None, settings: Mapping[str, str], *, network: bool) -> str:
    """Why a direct connection is not used."""
    found = []
    if settings.get("NCCL_P2P_DISABLE", "0") not in ("0", ""):
        found.append("NCCL_P2P_DISABLE")
    level = settings.get("NCCL_P2P_LEVEL", "")
    if level and relation is not None and _excludes(level, relation):
        found.append("NCCL_P2P_LEVEL")
    if network and settings.get("NCCL_SHM_DISABLE", "0") not in ("0", ""):
        found.append("NCCL_SHM_DISABLE")
    if found:
        verb = "are" if len(found) > 1 else "is"
        return f": {' and '.join(f'{name}={settings[name]}' for name in found)} {verb} set"
    if access := settings.get(PEER_ACCESS):
        return f": {access}"
    if relation is not None and relation.hops not in (None, 1):
        return ": the driver reports no peer access between them"
    return ": the library's log contains no reason"


def _excludes(level: str, relation: Relation) -> bool:
    """Whether NCCL_P2P_LEVEL keeps NCCL from accessing the memory of such a device."""
    if level.upper() in _LEVELS:
        most = _LEVELS[level.upper()]
    elif level.isascii() and level.isdecimal():
        most = int(level[:3])
    else:
        return False
    kind = "NVL" if _NVLINKS.fullmatch(relation.kind) else relation.kind
    return _LEVELS.get(kind, 0) > most


def _between_hosts(
    remote: Mapping[Pair, set[str]], paths: Paths, settings: Mapping[str, str]
) -> list[str]:
    """Pairs of different hosts whose data take a slower way than their network devices offer."""
    found = []
    by_socket = [
        pair
        for pair, ways in sorted(remote.items())
        if all(way.split("/")[:2] == ["NET", "Socket"] for way in ways)
    ]
    if by_socket and paths.network_devices:
        devices = ", ".join(paths.network_devices[:_MOST_PAIRS])
        if settings.get("NCCL_IB_DISABLE", "0") not in ("0", ""):
            cause = f": NCCL_IB_DISABLE={settings['NCCL_IB_DISABLE']} is set"
        elif paths.parameters.get(INFINIBAND) == "none":
            cause = ": the library found none that it can use (see ibv_devinfo)"
        else:
            cause = ""
        found.append(
            f"{_named(by_socket)} communicate by TCP sockets although the hosts have InfiniBand "
            f"or RoCE devices ({devices}){cause}"
        )
    staged = [
        pair
        for pair, ways in sorted(remote.items())
        if any(way.startswith("NET/IB") and "GDRDMA" not in way for way in ways)
    ]
    if staged:
        level = settings.get("NCCL_NET_GDR_LEVEL", "")
        cause = (
            f"NCCL_NET_GDR_LEVEL={level} is set"
            if level
            else "check that the module nvidia_peermem is loaded or DMA-BUF is available"
        )
        found.append(
            f"data of {_named(staged)} pass through host memory before the network, without "
            f"GPUDirect RDMA: {cause}"
        )
    return found


def _through_host(local: Mapping[Pair, set[str]], header: Header) -> list[str]:
    """Pairs of devices that bridge connects by host memory."""
    pairs = [pair for pair, ways in sorted(local.items()) if ways == {"host memory"}]
    if not pairs:
        return []
    cause = (
        "--through-host is set"
        if header.settings.through_host
        else "their devices cannot read each other's memory"
    )
    return [f"{_named(pairs)} communicate through host memory: {cause}"]


def _named(pairs: list[Pair]) -> str:
    if len(pairs) == 1:
        return f"ranks {pairs[0][0]} and {pairs[0][1]}"
    names = [f"{first}–{second}" for first, second in pairs]
    return f"ranks {abridged(names, _MOST_PAIRS, noun='more pairs')}"
