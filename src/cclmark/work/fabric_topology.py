"""Topologies from texts and files, and their levels; nothing here requires numpy.

A topology is ``levels`` of groups, each of devices that are numbered one after the other: a node
joined by NVLink, a leaf switch, a pod. ``family`` decides how levels are joined, see ``graph.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.files import read_regular
from cclmark.base.printable import plain
from cclmark.work.accelerators import GBIT, LATENCY_S, MOST_DEVICES, NODE_LATENCY_S
from cclmark.work.counts import AtLeastOne, NotNegative, Positive
from cclmark.work.thresholds import meant

NVLINK, RAIL, FAT_TREE, DRAGONFLY, TORUS = "nvlink", "rail", "fat-tree", "dragonfly", "torus"
LEVELS, GRAPH = "levels", "graph"
EXAMPLES = {
    NVLINK: "nvlink:72",
    RAIL: "rail:64x8",
    FAT_TREE: "fat-tree:512x8,oversub=2",
    DRAGONFLY: "dragonfly:9x8x4x4",
    TORUS: "torus:16x16x16",
}
# Defaults. NVLink: H100 SXM, 450 GB/s in one direction (NVIDIA's datasheet); interface: ConnectX-7;
# dragonfly: Slingshot (De Sensi et al., arXiv 2008.08886); torus: 50 GB/s, TPU v4
# (arXiv 2304.01433); switches: 64 ports, as Quantum-2 and Tomahawk 5 at 800 Gb/s.
_NVLINK_GBIT, _NIC_GBIT, _SLINGSHOT_GBIT, _TORUS_GBIT = 3600.0, 400.0, 200.0, 400.0
_PORTS = 64
# Of two more switches on the way: assumed, 0.5 µs for each with its cables.
_HOPS_LATENCY_S = 1e-6
_MOST_BYTES = 64 << 20
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)


class FabricLevel(msgspec.Struct, frozen=True):
    """Groups of ``devices`` devices each, such as nodes or leaf switches.

    ``bps``: what the links of a device into this level carry in one direction, in bytes/s.
    ``latency_s``: of a transfer whose ends first share a group of this level. ``oversubscription``:
    the rates of all devices of a lower group over what its links into this level carry.
    ``links``: how many equal links a lower group has there, among which routes choose; from the
    third level on, below that each device has its own.
    """

    name: str
    devices: AtLeastOne
    bps: Positive
    latency_s: NotNegative
    oversubscription: Positive = 1.0
    links: AtLeastOne = 1

    @property
    def shared_bps(self) -> float:
        """The rate of a device if all of a lower group send into this level at once."""
        return self.bps / self.oversubscription


class GraphLink(msgspec.Struct, frozen=True):
    """A cable with the same rate in both directions. ``ends``: names of devices or switches."""

    ends: tuple[str, str]
    bps: Positive
    latency_s: NotNegative


class Topology(msgspec.Struct, frozen=True, omit_defaults=True):
    """A network. ``text``: as the user wrote it. ``levels``: from the node to all devices.

    ``shape``: dragonfly: groups, routers of a group, nodes of a router, devices of a node; torus:
    the dimensions. ``peer_bps``: dragonfly: of a link between two routers, and between two groups.
    ``device_names`` and ``cables``: of an explicit graph.
    """

    text: str
    family: str
    levels: tuple[FabricLevel, ...]
    shape: tuple[int, ...] = ()
    peer_bps: tuple[float, ...] = ()
    device_names: tuple[str, ...] = ()
    cables: tuple[GraphLink, ...] = ()

    @property
    def devices(self) -> int:
        """The number of devices."""
        return self.levels[-1].devices

    @property
    def per_node(self) -> int:
        """The devices of a node, or of an NVLink domain; 1 where each is by itself."""
        return 1 if self.family in (TORUS, GRAPH) else self.levels[0].devices

    def level_of(self, devices: int) -> FabricLevel:
        """The level that so many neighbouring devices reach: the smallest that holds all of them.

        Raises UsageError for more devices than there are.
        """
        for level in self.levels:
            if devices <= level.devices:
                return level
        raise UsageError(f"{devices:,} devices are more than the {self.devices:,} of {self.text}")


def parse_topology(text: str) -> Topology:
    """Reads ``fat-tree:512x8,oversub=2``, or a JSON file (``./fabric.json``). Raises UsageError."""
    family, _, rest = text.strip().partition(":")
    family = family.lower()
    if family not in EXAMPLES:
        if "/" in text or text.strip().endswith(".json"):
            return _of_file(Path(text.strip()))
        raise UsageError(
            f"{plain(text)}: unknown topology{meant(family, EXAMPLES)} Write "
            f"{', '.join(EXAMPLES.values())}, or the path of a JSON file"
        )
    try:
        shape, options = _spec(rest, family)
        return _checked(_READERS[family](text.strip(), shape, options))
    except UsageError as error:
        raise UsageError(f"{plain(text)}: {error}") from None


def _spec(rest: str, family: str) -> tuple[tuple[int, ...], dict[str, float]]:
    numbers, *parts = rest.split(",")
    read = numbers.lower().split("x")
    if not all(one.isascii() and one.isdecimal() and 0 < int(one) <= 10**9 for one in read):
        raise UsageError(f"write numbers of devices from 1 on, for example {EXAMPLES[family]}")
    options: dict[str, float] = {}
    for part in parts:
        name, _, value = (word.strip().lower() for word in part.partition("="))
        if name not in _OPTIONS[family]:
            raise UsageError(
                f"{part.strip()!r}: choose from {', '.join(_OPTIONS[family])}, for example "
                f"{EXAMPLES[family]}"
            )
        if name in options:
            raise UsageError(f"{name} is given twice")
        if not _NUMBER.fullmatch(value) or not float(value):
            raise UsageError(f"{part.strip()!r}: {name} is a number above 0")
        if name in _WHOLE and not float(value).is_integer():
            raise UsageError(f"{part.strip()!r}: {name} is a whole number")
        options[name] = float(value)
    return tuple(map(int, read)), options


def _node(devices: int, options: Mapping[str, float]) -> FabricLevel:
    latency_s = options.get("node-latency", NODE_LATENCY_S * 1e6) * 1e-6
    return FabricLevel("node", devices, options.get("nvlink", _NVLINK_GBIT) * GBIT, latency_s)


def _dimensions(shape: tuple[int, ...], count: int, words: str) -> tuple[int, ...]:
    if len(shape) != count:
        raise UsageError(f"write {words}: there are {len(shape)} numbers")
    return shape


def _nvlink(text: str, shape: tuple[int, ...], options: Mapping[str, float]) -> Topology:
    (devices,) = _dimensions(shape, 1, "nvlink:DEVICES")
    return Topology(text, NVLINK, (_node(devices, options),))


def _tree(text: str, shape: tuple[int, ...], options: Mapping[str, float]) -> Topology:
    """Leaf switches below spines; a third level of pods where one spine has too few ports.

    rail: device i of each node of a block is on leaf switch i of that block, and each rail has its
    own spines.
    """
    is_rail = text.lower().startswith(RAIL)
    family = RAIL if is_rail else FAT_TREE
    nodes, per_node = _dimensions(shape, 2, f"{family}:NODESxGPUS")
    below = _PORTS // 2 if is_rail else max(1, _PORTS // 2 // per_node)
    leaf = int(options.get("leaf", _largest_divisor(nodes, below)))
    _divides(leaf, nodes, "leaf", "nodes")
    nic, oversub = options.get("nic", _NIC_GBIT), options.get("oversub", 1.0)
    latency_s = options.get("latency", LATENCY_S * 1e6) * 1e-6
    levels = [_node(per_node, options), FabricLevel("leaf", leaf * per_node, nic * GBIT, latency_s)]
    blocks = nodes // leaf
    usual_pod = nodes if blocks <= _PORTS else leaf * _largest_divisor(blocks, _PORTS // 2)
    pod = int(options.get("pod", usual_pod))
    _divides(leaf, pod, "leaf", "pod")
    _divides(pod, nodes, "pod", "nodes")
    uplinks = leaf * (1 if is_rail else per_node) * nic / oversub / options.get("uplink", nic)
    for name, members in (("spine", pod), ("core", nodes)):
        if members * per_node > levels[-1].devices:
            links = max(1, round(uplinks * (levels[-1].devices // (leaf * per_node))))
            latency_s += _HOPS_LATENCY_S
            levels.append(
                FabricLevel(name, members * per_node, nic * GBIT, latency_s, oversub, links)
            )
    return Topology(text, family, tuple(levels))


def _largest_divisor(whole: int, most: int) -> int:
    return max(one for one in range(1, most + 1) if whole % one == 0)


def _divides(part: int, whole: int, name: str, noun: str) -> None:
    if part > whole or whole % part:
        raise UsageError(
            f"{name}={part} does not divide {whole} {noun}: choose a divisor, so that all groups "
            "are alike"
        )


def _dragonfly(text: str, shape: tuple[int, ...], options: Mapping[str, float]) -> Topology:
    """Groups whose routers are all joined, and which are all joined (Kim et al., ISCA 2008).

    By default, a router has as many links to other groups as devices, as in that paper.
    """
    if len(shape) == 3:
        shape = (*shape, 1)
    groups, routers, nodes, per_node = _dimensions(
        shape, 4, "dragonfly:GROUPSxROUTERSxNODESxGPUS, nodes of a router and GPUs of a node"
    )
    nic, local, between = (
        options.get(name, _SLINGSHOT_GBIT) * GBIT for name in ("nic", "local", "global")
    )
    usual_links = max(1, round(routers * nodes * per_node / max(1, groups - 1)))
    links = int(options.get("links", usual_links))
    latency_s = options.get("latency", LATENCY_S * 1e6) * 1e-6
    of_router = nodes * per_node
    levels = [_node(per_node, options), FabricLevel("router", of_router, nic, latency_s)]
    if routers > 1:
        over = of_router * nic / (local * (routers - 1))
        levels.append(
            FabricLevel("group", of_router * routers, nic, latency_s + _HOPS_LATENCY_S, over)
        )
    if groups > 1:
        over = of_router * routers * nic / (between * links * (groups - 1))
        devices = of_router * routers * groups
        latency_s += 2 * _HOPS_LATENCY_S
        levels.append(FabricLevel("global", devices, nic, latency_s, over, links))
    return Topology(text, DRAGONFLY, tuple(levels), shape, (local, between * links))


def _torus(text: str, shape: tuple[int, ...], options: Mapping[str, float]) -> Topology:
    """Each device has two links in each dimension; routes go one dimension after the other."""
    if len(shape) > 4:
        raise UsageError("a torus has at most 4 dimensions")
    bps = options.get("link", _TORUS_GBIT) * GBIT
    latency_s = options.get("latency", NODE_LATENCY_S * 1e6) * 1e-6
    levels = tuple(
        FabricLevel(
            "xyzw"[: place + 1], prod(shape[: place + 1]), bps * min(2, size - 1 or 1), latency_s
        )
        for place, size in enumerate(shape)
    )
    return Topology(text, TORUS, levels, shape)


_OPTIONS = {
    NVLINK: ("nvlink", "node-latency"),
    RAIL: ("nvlink", "nic", "leaf", "pod", "oversub", "uplink", "latency", "node-latency"),
    FAT_TREE: ("nvlink", "nic", "leaf", "pod", "oversub", "uplink", "latency", "node-latency"),
    DRAGONFLY: ("nvlink", "nic", "local", "global", "links", "latency", "node-latency"),
    TORUS: ("link", "latency"),
}
_WHOLE = ("leaf", "pod", "links")
_READERS = {
    NVLINK: _nvlink,
    RAIL: _tree,
    FAT_TREE: _tree,
    DRAGONFLY: _dragonfly,
    TORUS: _torus,
}


class _FileLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    devices: AtLeastOne
    gbit: Positive
    latency_us: NotNegative = 0.0
    oversubscription: Positive = 1.0
    links: AtLeastOne = 1
    within: str = ""


class _FileLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ends: tuple[str, str]
    gbit: Positive
    latency_us: NotNegative = 1.0


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either levels, the first of which is the node, or devices, switches and links."""

    levels: list[_FileLevel] = []
    devices: list[str] = []
    switches: list[str] = []
    links: list[_FileLink] = []


def _of_file(path: Path) -> Topology:
    where = plain(str(path))
    try:
        content: Any = msgspec.json.decode(read_regular(path, _MOST_BYTES), type=_File)
    except OSError as error:
        raise UsageError(f"{where}: cannot read the file: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{where}: {plain(str(error))}: write levels, {_LEVELS_EXAMPLE}, or devices, switches "
            f"and links, {_GRAPH_EXAMPLE}"
        ) from None
    try:
        if bool(content.levels) == bool(content.devices):
            raise UsageError(
                f"write either levels, {_LEVELS_EXAMPLE}, or devices, switches and links, "
                f"{_GRAPH_EXAMPLE}"
            )
        if content.levels:
            return _checked(Topology(str(path), LEVELS, _file_levels(content.levels)))
        return _checked(_file_graph(str(path), content))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


_LEVELS_EXAMPLE = '{"levels": [{"name": "node", "devices": 8, "gbit": 3600, "latency_us": 3.4}, …]}'
_GRAPH_EXAMPLE = '{"devices": ["a", "b"], "switches": ["s"], "links": [{"ends": ["a", "s"], …}]}'


def _file_levels(found: Sequence[_FileLevel]) -> tuple[FabricLevel, ...]:
    """The levels from the node up: as they are written, or by what each is within."""
    by_name = {one.name: one for one in found}
    if len(by_name) < len(found):
        raise UsageError("two levels have the same name")
    if any(one.within for one in found):
        for one in found:
            seen, at = [one.name], one.within
            while at:
                if at not in by_name:
                    raise UsageError(f"level {seen[-1]} is within {at}, which is no level")
                if at in seen:
                    raise UsageError(
                        f"levels are cyclic: {' within '.join([*seen, at])}: one level has to "
                        "contain all devices"
                    )
                seen.append(at)
                at = by_name[at].within
            if len(seen) == len(found):
                found = [by_name[name] for name in seen]
                break
        else:
            raise UsageError("levels are no chain: each but the largest is within the next larger")
    return tuple(
        FabricLevel(
            *(one.name, one.devices, one.gbit * GBIT, one.latency_us * 1e-6),
            *(one.oversubscription, one.links),
        )
        for one in found
    )


def _file_graph(text: str, content: _File) -> Topology:
    names = [*content.devices, *content.switches]
    known = {name: name for name in names}
    if len(known) < len(names):
        raise UsageError("two devices or switches have the same name")
    rates = dict.fromkeys(content.devices, 0.0)
    seen: set[frozenset[str]] = set()
    for link in content.links:
        for end in link.ends:
            if end not in known:
                raise UsageError(f"a link ends at {end}, which is no device and no switch")
            if end in rates:
                rates[end] += link.gbit * GBIT
        pair = frozenset(link.ends)
        if len(pair) == 1 or pair in seen:
            raise UsageError(
                f"the link {'-'.join(link.ends)} is listed twice or ends where it begins: add the "
                "rates of parallel links up"
            )
        seen.add(pair)
        ends = [_root(known, end) for end in link.ends]
        known[ends[0]] = ends[1]
    parts = {_root(known, name) for name in content.devices}
    if len(parts) > 1:
        apart = [
            next(one for one in content.devices if _root(known, one) == part) for part in parts
        ]
        raise UsageError(
            f"the topology is disconnected: no links join {' and '.join(sorted(apart)[:2])}"
        )
    latency_s = max((one.latency_us for one in content.links), default=0.0) * 1e-6
    level = FabricLevel("fabric", len(rates), min(rates.values()) or 1.0, 2 * latency_s)
    cables = (GraphLink(one.ends, one.gbit * GBIT, one.latency_us * 1e-6) for one in content.links)
    return Topology(text, GRAPH, (level,), (), (), tuple(content.devices), tuple(cables))


def _root(known: dict[str, str], name: str) -> str:
    while known[name] != name:
        known[name] = known[known[name]]
        name = known[name]
    return name


def _checked(topology: Topology) -> Topology:
    """The topology. Raises UsageError if groups do not contain whole ones, or for too many."""
    for level in topology.levels:
        if topology.family == LEVELS and not _NAME.fullmatch(level.name):
            raise UsageError(f"level {plain(level.name)!r}: write a name of small letters")
    for lower, level in pairwise(topology.levels):
        if level.devices % lower.devices or level.devices < lower.devices:
            raise UsageError(
                f"counts are inconsistent: a {level.name} of {level.devices} devices does not "
                f"consist of whole groups of {lower.devices} ({lower.name}): choose a multiple"
            )
    if not 1 < topology.devices <= MOST_DEVICES:
        raise UsageError(
            f"{topology.devices:,} devices: choose at "
            f"{'least 2' if topology.devices < 2 else f'most {MOST_DEVICES:,}'}, for example "
            f"{EXAMPLES[FAT_TREE]}"
        )
    return topology
