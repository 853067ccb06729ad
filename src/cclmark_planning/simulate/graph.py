"""A topology as a graph of links with capacities, and the routes of flows on it.

A link has one direction. Links of one kind are a ``LinkSection``; equal parallel links among which
routes choose (the uplinks of a leaf switch) are its planes. ``even`` routing divides each flow over
all of them, as packet spraying does, so the slowest holds all up; ``hash`` gives a flow one of
them, as ECMP does; ``adaptive`` fills all of them. Both but ``hash`` treat planes as one link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.work.fabric_topology import DRAGONFLY, GRAPH, RAIL, TORUS, Topology

EVEN, HASH, ADAPTIVE = ROUTINGS = ("even", "hash", "adaptive")
#: More are not simulated: the memory of flows grows with them.
MOST_DEVICES = 65_536
#: Ranks of an alltoall up to which every flow is routed by itself.
MOST_ROUTED = 1024
_MOST_PATHS = 16  # of equal length, over which a flow of an explicit graph is divided
_MOST_ENDS = 20_000  # of routes of an explicit graph, each of which takes about 0.1 ms or more
_CHUNK = 1 << 20  # of flows that are routed at once
_HOP_LATENCY_S = 0.5e-6  # of a router of a torus or between those of a dragonfly: assumed
_PLANE = re.compile(r"(.*)\.(\d{1,6})", re.ASCII)


@dataclass(frozen=True)
class Impairments:
    """What a fabric lacks. ``slow``: factors of the rates of links by name; ``broken``: links.

    ``background``: shares of all links into a level that other traffic takes.
    """

    slow: Mapping[str, float] = field(default_factory=dict)
    broken: Sequence[str] = ()
    background: Mapping[str, float] = field(default_factory=dict)


class Efficiency(NamedTuple):
    """The shares of line rates that transfers achieve, within nodes and between them."""

    node: float = 1.0
    between: float = 1.0


_WHOLE, _NONE = Efficiency(), Impairments()


class Routes(NamedTuple):
    """Of flows. ``links``: [flows, columns], -1 for none; ``weights``: the share of the flow on
    each, None for all of it; ``latency_s``: of each flow."""

    links: Any
    weights: Any
    latency_s: Any


@dataclass
class LinkSection:
    """Links of one kind. ``bps``: [links, planes]; ``level``: into which they lead.

    ``ends``: the names of both ends of a link; the reverse link has them the other way round.
    ``has_halves``: whether the second half of the links are the reverse ones of the first half.
    """

    label: str
    level: str
    bps: Any
    latency_s: float
    ends: Callable[[int], tuple[str, str]]
    first: int = 0
    is_merged: bool = True
    has_halves: bool = True

    def name(self, link: int) -> str:
        """The name of a link, by its number in the section."""
        planes = 1 if self.is_merged else self.bps.shape[1]
        plane = f".{link % planes}" if planes > 1 else ""
        return f"{'-'.join(self.ends(link // planes))}{plane}"

    def impair(self, name: str, factor: float) -> bool:
        """Slows the links of a cable down, or those of one plane. Returns whether it is here."""
        row_name, plane = name, -1
        if found := _PLANE.fullmatch(name):
            row_name, plane = found[1], int(found[2])
        if plane >= self.bps.shape[1]:
            return False
        rows = self._rows.get(row_name) or self._rows.get("-".join(row_name.split("-")[::-1]))
        for row in rows or ():
            self.bps[row, slice(None) if plane < 0 else plane] *= factor
        return bool(rows)

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        """The links in both directions, by the name of the cable in one of them."""
        found: dict[str, list[int]] = {}
        for row in range(len(self.bps)):
            one, other = self.ends(row)
            found.setdefault(f"{one}-{other}", found.get(f"{other}-{one}", [])).append(row)
        return found


def _star(lower: str, upper: str, count: int) -> Callable[[int], tuple[str, str]]:
    """Ends of ``count`` links upwards, then of as many downwards."""

    def ends(row: int) -> tuple[str, str]:
        name = f"{lower}{row % count}"
        return (name, upper) if row < count else (upper, name)

    return ends


class Fabric:
    """Links, and routes between devices. ``capacity_bps``, ``latency_s``: of links by number."""

    #: Latency of each flow beyond that of its links.
    base_latency_s = 0.0

    def __init__(self, topology: Topology, routing: str, sections: Sequence[LinkSection]) -> None:
        self.topology, self.routing = topology, routing
        self.devices, self.per_node = topology.devices, topology.per_node
        self.sections = [one for one in sections if len(one.bps)]

    def _finish(self, impairments: Impairments) -> None:
        """Applies impairments and numbers the links. Raises UsageError for unknown names."""
        changes = [*impairments.slow.items(), *((name, 0.0) for name in impairments.broken)]
        for name, factor in changes:
            if not sum(section.impair(name, factor) for section in self.sections):
                raise UsageError(f"{plain(name)}: no such link. Links are {self._examples()}")
        for level, share in impairments.background.items():
            known = [section for section in self.sections if section.level == level]
            if not known:
                names = dict.fromkeys(section.level for section in self.sections)
                raise UsageError(f"{plain(level)}: no such level: choose from {', '.join(names)}")
            for section in known:
                section.bps *= 1 - share
        first, capacities, latencies = 0, [], []
        for section in self.sections:
            section.first = first
            section.is_merged = section.is_merged and self.routing != HASH
            bps = section.bps
            if section.is_merged:
                used = (bps > 0).sum(axis=1)
                slowest = np.where(bps > 0, bps, np.inf).min(axis=1)
                even = np.where(used > 0, used * np.where(used > 0, slowest, 0.0), 0.0)
                bps = bps.sum(axis=1) if self.routing == ADAPTIVE else even
            capacities.append(bps.ravel())
            latencies.append(np.full(bps.size, section.latency_s))
            first += bps.size
        self.capacity_bps = np.concatenate(capacities)
        self.latency_s = np.concatenate(latencies)

    def _examples(self) -> str:
        return ", ".join(section.name(0) for section in self.sections) + ", …"

    def section_of(self, link: int) -> LinkSection:
        """The section of a link."""
        return next(one for one in reversed(self.sections) if one.first <= link)

    def link_name(self, link: int) -> str:
        """The name of a link: its ends in the direction of its data."""
        section = self.section_of(link)
        return section.name(link - section.first)

    def check(self, links: Any) -> None:
        """Raises UsageError if a link is broken."""
        cut = links[self.capacity_bps[links] <= 0]
        if len(cut):
            raise UsageError(
                f"{self.link_name(int(cut[0]))} is broken, and the routes of "
                f"{self.topology.family} have no way around it: give it a low rate with "
                "--slow-link, or leave its devices out"
            )

    def _routes(self, links: Any, weights: Any = None) -> Routes:
        """The routes with their latencies. Raises UsageError if a link is broken."""
        used = links >= 0
        self.check(links[used])
        latency_s = np.where(used, self.latency_s[links], 0.0)
        if weights is not None:
            latency_s *= weights
        return Routes(links, weights, latency_s.sum(axis=1) + self.base_latency_s)

    def routes(self, sources: Any, targets: Any) -> Routes:
        """The routes of flows between devices, given as arrays of their numbers."""
        raise NotImplementedError

    def loads(self, routes: Routes, load: Any) -> Any:
        """The sum of ``load`` of each flow over its links, for all links."""
        links = routes.links
        every = np.broadcast_to(np.asarray(load, float)[:, None], links.shape)
        if routes.weights is not None:
            every = every * routes.weights
        used = links >= 0
        return np.bincount(links[used], every[used], minlength=len(self.capacity_bps))

    def exchange_loads(self, groups: Any) -> tuple[Any, float]:
        """The flows of each link if all ranks of a group send to each other, and the longest
        latency. ``groups``: [ranks, groups].

        Flows are counted by switches, which is exact, or routed one by one where that is not
        possible. Raises UsageError if they are too many for it.
        """
        counted = self._counted_exchange(groups)
        if counted is not None:
            return counted
        if len(groups) > MOST_ROUTED:
            raise UsageError(
                f"an alltoall of {len(groups):,} ranks on {self.topology.family} with --routing "
                f"{self.routing}, or with broken links of devices, has too many different routes: "
                f"choose at most {MOST_ROUTED:,} ranks, or a low rate with --slow-link"
            )
        return self.routed_exchange(groups)

    def routed_exchange(self, groups: Any) -> tuple[Any, float]:
        """The same, flow by flow."""
        total, latency_s = np.zeros(len(self.capacity_bps)), 0.0
        for members in groups.T:
            for sources, targets in all_pairs(members):
                routes = self.routes(sources, targets)
                total += self.loads(routes, np.ones(len(sources)))
                latency_s = max(latency_s, float(routes.latency_s.max()))
        return total, latency_s

    def _counted_exchange(self, groups: Any) -> tuple[Any, float] | None:
        return None

    def leaving_bps(self) -> Iterator[tuple[str, Any, Any]]:
        """For each way to divide the devices into groups that have links to others: its name, the
        number of the group of each device, and the capacity that leaves each group, in bytes/s."""
        raise NotImplementedError


def all_pairs(members: Any) -> Iterator[tuple[Any, Any]]:
    """Chunks of all ordered pairs of different members."""
    count = len(members)
    rows = max(1, _CHUNK // count)
    for first in range(0, count, rows):
        own = members[first : first + rows]
        sources, targets = np.repeat(own, count), np.tile(members, len(own))
        kept = sources != targets
        yield sources[kept], targets[kept]


class SwitchedFabric(Fabric):
    """Nodes joined by NVLink; devices with an interface to a leaf switch or router each.

    Where the NVLink of a device is broken, its node sends by interfaces; where an interface is, the
    next device of the node sends and receives in its place. On rails, data go by NVLink to the
    device of the target's rail first (PXN).
    """

    def __init__(
        self, topology: Topology, routing: str, efficiency: Efficiency, impairments: Impairments
    ) -> None:
        count, levels = topology.devices, topology.levels
        node = levels[0]
        has_node = node.devices > 1
        sections = [
            LinkSection(
                "gpu-node",
                node.name,
                np.full((2 * count * has_node, 1), node.bps * efficiency.node),
                node.latency_s / 2,
                _star("gpu", node.name, count),
            )
        ]
        if len(levels) > 1:
            leaf = levels[1]
            sections.append(
                LinkSection(
                    f"gpu-{leaf.name}",
                    leaf.name,
                    np.full((2 * count, 1), leaf.bps * efficiency.between),
                    leaf.latency_s / 2,
                    _star("gpu", leaf.name, count),
                )
            )
        self.rails = node.devices if topology.family == RAIL else 1
        super().__init__(topology, routing, [*sections, *self._core(topology, efficiency)])
        self._finish(impairments)
        self._node = self.sections[0] if has_node else None
        self._leaf = self.sections[has_node] if len(levels) > 1 else None

    def _core(self, topology: Topology, efficiency: Efficiency) -> Iterator[LinkSection]:
        for lower, level in pairwise(topology.levels[1:]):
            groups = topology.devices // lower.devices * self.rails
            total = lower.devices / self.rails * level.shared_bps * efficiency.between
            yield LinkSection(
                f"{lower.name}-{level.name}",
                level.name,
                np.full((2 * groups, level.links), total / level.links),
                max(0.0, level.latency_s - lower.latency_s) / 2,
                _star(lower.name, level.name, groups),
            )

    def _group(self, devices: Any, level: int) -> Any:
        size = self.topology.levels[level].devices
        return devices // size * self.rails + (devices % self.rails if self.rails > 1 else 0)

    def _is_up(self, section: LinkSection | None, devices: Any) -> Any:
        """Whether the links of devices into their node or leaf are not broken."""
        if section is None:
            return np.zeros(len(devices), bool)
        return (section.bps[devices, 0] > 0) & (section.bps[self.devices + devices, 0] > 0)

    def _interfaces(self, sources: Any, targets: Any) -> tuple[Any, Any]:
        """The devices whose interfaces send and receive the flows between nodes."""
        size = self.per_node
        node_of, own = sources // size * size, targets // size * size
        if self.rails > 1:
            rail = targets % size
            for _ in range(size):
                is_bad = ~(self._is_up(self._leaf, node_of + rail))
                is_bad |= ~self._is_up(self._leaf, own + rail)
                rail = np.where(is_bad, (rail + 1) % size, rail)
            return node_of + rail, own + rail
        senders, receivers = sources, targets
        for _ in range(size - 1):
            is_up = self._is_up(self._leaf, senders)
            senders = np.where(is_up, senders, node_of + (senders + 1) % size)
            is_up = self._is_up(self._leaf, receivers)
            receivers = np.where(is_up, receivers, own + (receivers + 1) % size)
        return senders, receivers

    def _pair(self, section: LinkSection | None, one: Any, other: Any, used: Any) -> list[Any]:
        """The columns of flows over both links of a star: up from one device, down to another."""
        if section is None:
            return []
        columns = (section.first + one, section.first + self.devices + other)
        return [np.where(used, column, -1) for column in columns]

    def routes(self, sources: Any, targets: Any) -> Routes:
        """See Fabric."""
        joined = sources // self.per_node == targets // self.per_node
        if self._leaf is None:  # a broken link has no way around it
            columns = self._pair(self._node, sources, targets, joined)
            return self._routes(np.stack(columns, axis=1).astype(np.int32))
        joined &= self._is_up(self._node, sources) & self._is_up(self._node, targets)
        columns = self._pair(self._node, sources, targets, joined)
        far = ~joined
        senders, receivers = self._interfaces(sources, targets)
        if self._node is not None:
            for one, other in ((sources, senders), (receivers, targets)):
                if (used := far & (one != other)).any():
                    columns += self._pair(self._node, one, other, used)
        columns += self._pair(self._leaf, senders, receivers, far)
        core, weights = self._core_columns(senders, receivers, far)
        links = np.stack([*columns, *core], axis=1).astype(np.int32)
        if weights is None:
            return self._routes(links)
        whole = np.ones((len(links), len(columns)))
        return self._routes(links, np.concatenate([whole, weights], axis=1))

    def _core_columns(self, senders: Any, receivers: Any, far: Any) -> tuple[list[Any], Any]:
        """The columns of flows between leaf switches, and the share of the flows on each."""
        columns: list[Any] = []
        plane, below = None, 1
        for number, section in enumerate(self.sections[1 + (self._node is not None) :], start=1):
            one, other = self._group(senders, number), self._group(receivers, number)
            half = len(section.bps) // 2
            used = far & (one != other)
            if section.is_merged:
                places = one, half + other
            else:
                links = section.bps.shape[1]
                mixed = _mixed(senders, receivers, number)
                # Uplinks of a pod continue the plane by which a flow came.
                part = max(1, links // below)
                plane = mixed % links if plane is None else (plane * part + mixed % part) % links
                for _ in range(links):
                    is_up = (section.bps[one, plane] > 0) & (section.bps[half + other, plane] > 0)
                    if is_up.all():
                        break
                    plane = np.where(is_up, plane, (plane + 1) % links)
                places = one * links + plane, (half + other) * links + plane
                below = links
            columns += [np.where(used, section.first + place, -1) for place in places]
        return columns, None

    def _counted_exchange(self, groups: Any) -> tuple[Any, float] | None:
        """Counts flows by leaf switches; those of a node are routed one by one."""
        is_whole = self.routing != HASH and all(
            section is None or (section.bps > 0).all() for section in (self._node, self._leaf)
        )
        if not is_whole:
            return None
        size, count, (ranks, number) = self.per_node, self.devices, groups.shape
        present = np.zeros((number, count))  # [groups, devices], as all below
        present[np.arange(number)[:, None], groups.T] = 1
        total = np.zeros(len(self.capacity_bps))
        devices = np.arange(count)
        for shift in range(1, size):
            targets = devices // size * size + (devices + shift) % size
            flows = (present * present[:, targets]).sum(axis=0)
            used = flows > 0
            total += self.loads(self.routes(devices[used], targets[used]), flows[used])
        others = groups[1:].ravel()
        routes = self.routes(np.tile(groups[0], ranks - 1), others)
        latency_s = float(routes.latency_s.max())
        if self._leaf is None:
            return total, latency_s
        leaf = self._leaf.first
        in_node = np.repeat(present.reshape(number, -1, size).sum(axis=2), size, axis=1)
        received = (present * (ranks - in_node)).sum(axis=0)
        total[leaf + count : leaf + 2 * count] += received
        if self.rails > 1:
            # Members of its rail on other nodes, for each device.
            of_rail = present.reshape(number, -1, size).sum(axis=1)
            far = np.tile(of_rail, count // size) - present
            total[leaf : leaf + count] += (in_node * far).sum(axis=0)
            if self._node is not None:
                first = self._node.first
                of_node = np.repeat(far.reshape(number, -1, size).sum(axis=2), size, axis=1)
                total[first : first + count] += (present * (of_node - far)).sum(axis=0)
                total[first + count : first + 2 * count] += ((in_node - present) * far).sum(axis=0)
        else:
            total[leaf : leaf + count] += received
        # Between leaf switches: from all members of a block to those of the other block and rail.
        block = self.topology.levels[1].devices
        of_block = present.reshape(number, -1, block)
        blocks = np.arange(count // block)
        for rail in range(self.rails):
            flows = of_block.sum(axis=2).T @ of_block[:, :, rail :: self.rails].sum(axis=2)
            for one, other in all_pairs(blocks):
                far_pairs = flows[one, other] > 0
                ends = blocks[one] * block + rail, blocks[other] * block + rail
                core, weights = self._core_columns(*ends, far_pairs)
                for place, links in enumerate(core):
                    load = flows[one, other] * (1.0 if weights is None else weights[:, place])
                    used = links >= 0
                    total += np.bincount(links[used], load[used], minlength=len(total))
        self.check(np.flatnonzero(total))
        return total, latency_s

    def node_links(self, members: Any) -> tuple[Any, Any]:
        """The links of members into their node, and from it. Raises UsageError without nodes."""
        if self._node is None:
            raise UsageError("NVLS requires nodes of several devices that NVLink joins")
        links = self._node.first + members
        return links, links + self.devices

    def reduced_links(self, members: Any) -> Any:
        """The links over which the data of members, one of each node, rise to a common switch, each
        link once, and those back. Raises UsageError where switches form no tree."""
        if self._leaf is None or self.topology.family == DRAGONFLY or self.routing == HASH:
            raise UsageError(
                "in-network reduction requires leaf switches that spines join in a tree, and "
                "--routing even or adaptive"
            )
        first = self._leaf.first + members
        found = [first, first + self.devices]
        for number, section in enumerate(self.sections[1 + (self._node is not None) :], start=1):
            groups = np.unique(self._group(members, number))
            if len(groups) > 1:
                up = section.first + groups
                found += [up, up + len(section.bps) // 2]
        return np.concatenate(found)

    def leaving_bps(self) -> Iterator[tuple[str, Any, Any]]:
        """See Fabric."""
        count = self.devices
        devices = np.arange(count)
        totals = np.zeros(count)
        for section in (self._node, self._leaf):
            if section is not None:
                totals += section.bps[:count, 0]
        yield "gpu", devices, totals
        if self._leaf is not None:
            of_node = self._leaf.bps[:count, 0].reshape(-1, self.per_node).sum(axis=1)
            yield self.topology.levels[0].name, devices // self.per_node, of_node
        if self.topology.family != DRAGONFLY:
            for lower, section in zip(
                self.topology.levels[1:],
                self.sections[1 + (self._node is not None) :],
                strict=False,
            ):
                bps = section.bps[: len(section.bps) // 2].sum(axis=1)
                groups = devices // lower.devices
                yield lower.name, groups, bps.reshape(-1, self.rails).sum(axis=1)


class _Dragonfly(SwitchedFabric):
    """Routers of a group are all joined, and so are groups; routes are minimal.

    The links between two groups end at different routers. Each flow takes all of them in equal
    shares (``even``) or one (``hash``).
    """

    def __init__(
        self, topology: Topology, routing: str, efficiency: Efficiency, impairments: Impairments
    ) -> None:
        if routing == ADAPTIVE:
            raise UsageError(
                "--routing adaptive takes detours on a dragonfly, which are not modelled: choose "
                "even or hash"
            )
        super().__init__(topology, routing, efficiency, impairments)

    def _core(self, topology: Topology, efficiency: Efficiency) -> Iterator[LinkSection]:
        groups, routers, _, _ = topology.shape
        local, between = (bps * efficiency.between for bps in topology.peer_bps)
        links = topology.levels[-1].links if groups > 1 else 1

        def local_ends(row: int) -> tuple[str, str]:
            one, place = divmod(row, routers)
            return f"router{one}", f"router{one // routers * routers + place}"

        def group_ends(row: int) -> tuple[str, str]:
            return f"group{row // groups}", f"group{row % groups}"

        rows = groups * routers * routers if routers > 1 else 0
        bps = np.full((rows, 1), local)
        section = LinkSection("router-router", "group", bps, _HOP_LATENCY_S * 2, local_ends)
        section.has_halves = False
        yield section
        rows = groups * groups if groups > 1 else 0
        bps = np.full((rows, links), between / links)
        section = LinkSection("group-group", "global", bps, _HOP_LATENCY_S * 2, group_ends)
        section.is_merged = section.has_halves = False
        yield section

    def _core_columns(self, senders: Any, receivers: Any, far: Any) -> tuple[list[Any], Any]:
        groups, routers, _, _ = self.topology.shape
        one, other = (
            devices // self.topology.levels[1].devices for devices in (senders, receivers)
        )
        by_label = {section.label: section for section in self.sections}
        local, joint = by_label.get("router-router"), by_label.get("group-group")
        from_group, to_group = one // routers, other // routers
        same = from_group == to_group

        def hop(begin: Any, end: Any, used: Any) -> Any:
            if local is None:
                return np.full(len(begin), -1)
            links = local.first + begin * routers + end % routers
            return np.where(used & (begin != end), links, -1)

        columns = [hop(one, other, far & same)]
        weights = [np.ones(len(one))]
        if joint is not None:
            links = joint.bps.shape[1]
            row = from_group * groups + to_group
            is_up = joint.bps[row] > 0
            shares = is_up / np.maximum(1, is_up.sum(axis=1))[:, None]
            chosen = _mixed(senders, receivers, 1) % links
            apart = far & ~same
            for plane in range(links):
                share = shares[:, plane]
                if self.routing == HASH:
                    share = (chosen == plane) * 1.0
                used = apart & (share > 0)
                gates = [
                    begin * routers + ((end - (end > begin)) * links + plane) % routers
                    for begin, end in ((from_group, to_group), (to_group, from_group))
                ]
                columns += [
                    hop(one, gates[0], used),
                    np.where(used, joint.first + row * links + plane, -1),
                    hop(gates[1], other, used),
                ]
                weights += [share] * 3
        return columns, np.stack(weights, axis=1)


class _Torus(Fabric):
    """Each device has a link to both neighbours in each dimension, and passes data on.

    Routes go by one dimension after the other, each the shorter way round; halfway round, from even
    places forwards and from odd ones backwards. ``routing`` makes no difference.
    """

    base_latency_s = 0.0

    def __init__(
        self, topology: Topology, routing: str, efficiency: Efficiency, impairments: Impairments
    ) -> None:
        self.shape = topology.shape
        self._strides = [
            int(np.prod(topology.shape[:place])) for place in range(len(topology.shape))
        ]
        sections = []
        for dimension, (size, level) in enumerate(
            zip(topology.shape, topology.levels, strict=True)
        ):
            rows = 2 * topology.devices if size > 1 else 0
            bps = level.bps / min(2, size - 1 or 1) * efficiency.between
            sections.append(
                LinkSection(
                    "xyzw"[dimension],
                    level.name,
                    np.full((rows, 1), bps),
                    _HOP_LATENCY_S,
                    self._ends(dimension),
                )
            )
        super().__init__(topology, routing, sections)
        self.base_latency_s = topology.levels[0].latency_s
        self._finish(impairments)

    def _ends(self, dimension: int) -> Callable[[int], tuple[str, str]]:
        """Of the links forwards of all devices, then of those backwards."""

        def ends(row: int) -> tuple[str, str]:
            device = row % self.topology.devices
            size, stride = self.shape[dimension], self._strides[dimension]
            place = device // stride % size
            to = (place + (1 if row < self.topology.devices else -1)) % size
            return f"gpu{device}", f"gpu{device + (to - place) * stride}"

        return ends

    def _ways(self, size: int) -> Any:
        """The hops forwards from each place to each, negative for backwards."""
        begin, end = np.arange(size)[:, None], np.arange(size)[None, :]
        forwards = (end - begin) % size
        is_forwards = (2 * forwards < size) | ((2 * forwards == size) & (begin % 2 == 0))
        return np.where(is_forwards, forwards, forwards - size)

    def _used(self) -> Iterator[tuple[int, int, int, LinkSection]]:
        """The dimensions with links: the number, size and stride of each, and its section."""
        used = (place for place, size in enumerate(self.shape) if size > 1)
        for place, section in zip(used, self.sections, strict=True):
            yield place, self.shape[place], self._strides[place], section

    def routes(self, sources: Any, targets: Any) -> Routes:
        """See Fabric."""
        columns = []
        at = np.asarray(sources)
        for _, size, stride, section in self._used():
            ways = self._ways(size)[at // stride % size, targets // stride % size]
            step = np.sign(ways)
            for hop in range(int(np.abs(ways).max(initial=0))):
                moves = np.abs(ways) > hop
                links = section.first + np.where(step > 0, 0, self.devices) + at
                columns.append(np.where(moves, links, -1))
                place = at // stride % size
                to = (place + step) % size
                at = np.where(moves, at + (to - place) * stride, at)
        return self._routes(np.stack(columns, axis=1).astype(np.int32))

    def leaving_bps(self) -> Iterator[tuple[str, Any, Any]]:
        """See Fabric. Besides single devices, both halves of each dimension."""
        devices = np.arange(self.devices)
        yield "gpu", devices, self.capacity_bps.reshape(-1, self.devices).sum(axis=0)
        for dimension, size, stride, section in self._used():
            places = devices // stride % size
            half = (places >= size // 2).astype(int)
            bps = np.zeros(2)
            for offset, step in ((0, 1), (self.devices, -1)):
                to = devices + ((places + step) % size - places) * stride
                rates = self.capacity_bps[section.first + offset + devices]
                bps += np.bincount(half, np.where(half == half[to], 0.0, rates), minlength=2)
            yield f"half of {'xyzw'[dimension]}", half, bps

    def _counted_exchange(self, groups: Any) -> tuple[Any, float]:
        """Counts flows by lines of the torus, one dimension after the other."""
        present = np.zeros(self.devices)
        present[groups[:, 0]] = 1  # one group: nodes have one device
        # The first dimension changes fastest: axes are reversed.
        grid = present.reshape(self.shape[::-1])
        total = np.zeros(len(self.capacity_bps))
        hops = 0
        for place, size, _, section in self._used():
            axis = len(self.shape) - 1 - place
            before = tuple(range(axis + 1, len(self.shape)))  # dimensions that are done
            after = tuple(range(axis))
            sent = grid.sum(axis=before).reshape(-1, size)  # [further places, from]
            got = grid.sum(axis=after).reshape(size, -1)  # [to, earlier places]
            ways = self._ways(size)
            hops += int(np.abs(ways).max())
            for direction, offset in ((1, 0), (-1, self.devices)):
                covers = np.zeros((size, size, size))  # [from, to, link]
                for begin in range(size):
                    for end in range(size):
                        count = max(0, direction * int(ways[begin, end]))
                        for hop in range(count):
                            covers[begin, end, (begin + direction * hop) % size] = 1
                load = np.einsum("rs,dl,sdk->rkl", sent, got, covers, optimize=True).ravel()
                first = section.first + offset
                total[first : first + self.devices] += load
        return total, hops * _HOP_LATENCY_S + self.base_latency_s


class _Graph(Fabric):
    """Devices, switches and cables of a file; shortest routes by latency, then hops.

    A flow takes all of up to 16 equal routes in equal shares, or one of them (``hash``).
    """

    def __init__(
        self, topology: Topology, routing: str, efficiency: Efficiency, impairments: Impairments
    ) -> None:
        if routing == ADAPTIVE:
            raise UsageError("--routing adaptive is not modelled for graphs: choose even or hash")
        cables = topology.cables
        bps = np.array([one.bps * efficiency.between for one in cables] * 2)[:, None]
        names = [one.ends for one in cables]

        def ends(row: int) -> tuple[str, str]:
            one, other = names[row % len(names)]
            return (one, other) if row < len(names) else (other, one)

        super().__init__(topology, routing, [LinkSection("link", "fabric", bps, 0.0, ends)])
        self._finish(impairments)
        self.latency_s = np.array([one.latency_s for one in cables] * 2)
        import networkx as nx  # which other topologies do not need

        self._graph: Any = nx.DiGraph()
        self._graph.add_nodes_from(topology.device_names)
        for row, capacity in enumerate(self.capacity_bps):
            if capacity > 0:
                # Hops decide among routes of the same latency.
                self._graph.add_edge(*ends(row), row=row, cost=self.latency_s[row] + 1e-12)
        self._names = {*topology.device_names}
        self._cache: dict[tuple[str, str], list[list[int]]] = {}

    def _paths(self, one: str, other: str) -> list[list[int]]:
        """The links of the shortest routes. Raises UsageError without any, or for too many ends."""
        if (one, other) not in self._cache:
            own, far = [*self._graph.successors(one)], [*self._graph.predecessors(other)]
            if len(self._cache) >= _MOST_ENDS:
                raise UsageError(
                    f"the flows have more than {_MOST_ENDS:,} pairs of switches: write the "
                    "topology as levels, or simulate fewer ranks"
                )
            if len(own) == len(far) == 1 and own[0] != other and one in self._names:
                # All devices of a switch share the routes between switches.
                first, last = self._graph.edges[one, own[0]], self._graph.edges[far[0], other]
                middle = self._paths(own[0], far[0]) if own != far else [[]]
                return [[first["row"], *path, last["row"]] for path in middle]
            import networkx as nx

            try:
                found = nx.all_shortest_paths(self._graph, one, other, weight="cost")
                paths = [*islice(found, _MOST_PATHS)]
            except nx.NetworkXNoPath:
                raise UsageError(
                    f"no route from {plain(one)} to {plain(other)} without the broken links"
                ) from None
            self._cache[one, other] = [
                [self._graph.edges[pair]["row"] for pair in pairwise(path)] for path in paths
            ]
        return self._cache[one, other]

    def routes(self, sources: Any, targets: Any) -> Routes:
        """See Fabric."""
        names = self.topology.device_names
        mixed = _mixed(np.asarray(sources), np.asarray(targets), 1)
        rows, shares = [], []
        for source, target, number in zip(
            sources.tolist(), targets.tolist(), mixed.tolist(), strict=True
        ):
            paths = self._paths(names[source], names[target])
            if self.routing == HASH:
                paths = [paths[number % len(paths)]]
            rows.append([link for path in paths for link in path])
            shares.append([1 / len(paths) for path in paths for _ in path])
        longest = max(map(len, rows), default=0)
        links = np.full((len(rows), longest), -1, np.int32)
        weights = np.zeros((len(rows), longest))
        for number, (row, share) in enumerate(zip(rows, shares, strict=True)):
            links[number, : len(row)] = row
            weights[number, : len(row)] = share
        return self._routes(links, weights)

    def leaving_bps(self) -> Iterator[tuple[str, Any, Any]]:
        """See Fabric."""
        places = {name: place for place, name in enumerate(self.topology.device_names)}
        totals = np.zeros(self.devices)
        for one, _, row in self._graph.edges(data="row"):
            if one in places:
                totals[places[one]] += self.capacity_bps[row]
        yield "device", np.arange(self.devices), totals


def _mixed(one: Any, other: Any, salt: int) -> Any:
    """A hash of pairs of devices, not negative (the finalizer of MurmurHash3)."""
    word = np.asarray(one, np.uint64) << np.uint64(32) | np.asarray(other, np.uint64)
    word = word + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word = (word ^ (word >> np.uint64(33))) * np.uint64(factor)
    return ((word ^ (word >> np.uint64(33))) >> np.uint64(1)).astype(np.int64)


def fabric_of(
    topology: Topology,
    routing: str = EVEN,
    efficiency: Efficiency = _WHOLE,
    impairments: Impairments = _NONE,
) -> Fabric:
    """The graph of a topology. Raises UsageError for what it cannot have, or too many devices."""
    if topology.devices > MOST_DEVICES:
        raise UsageError(
            f"{topology.text}: {topology.devices:,} devices are more than {MOST_DEVICES:,}: "
            "simulate a part of them, for example a pod, or torus:32x32x16"
        )
    kinds: Mapping[str, type[Any]] = {DRAGONFLY: _Dragonfly, TORUS: _Torus, GRAPH: _Graph}
    found: Fabric = kinds.get(topology.family, SwitchedFabric)(
        topology, routing, efficiency, impairments
    )
    return found
