"""Nodes, racks and switches of the devices of a fleet, and the level at which two devices meet."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from functools import cached_property

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.fabric_topology import RAIL, Topology

NODE, BEYOND = "node", "fabric"
_NUMBER = re.compile(r"\d+", re.ASCII)


class Grouping(msgspec.Struct, frozen=True):
    """Groups of devices above the node, such as racks. ``of``: the group of each device."""

    name: str
    of: tuple[int, ...]
    names: tuple[str, ...]


class FleetShape(msgspec.Struct, frozen=True, dict=True):
    """Devices by number. ``node_of``: the node of each; ``groupings``: from small to large."""

    node_of: tuple[int, ...]
    node_names: tuple[str, ...]
    groupings: tuple[Grouping, ...] = ()

    @property
    def devices(self) -> int:
        """The number of devices."""
        return len(self.node_of)

    @cached_property
    def members(self) -> list[list[int]]:
        """The devices of each node."""
        found: list[list[int]] = [[] for _ in self.node_names]
        for device, node in enumerate(self.node_of):
            found[node].append(device)
        return found

    @cached_property
    def place_of(self) -> list[int]:
        """The number of each device within its node, which is that of its NIC or rail."""
        places = [0] * self.devices
        for own in self.members:
            for place, device in enumerate(own):
                places[device] = place
        return places

    @property
    def level_names(self) -> list[str]:
        """The levels at which pairs meet: within a node, within the groups, and beyond them."""
        return [NODE, *(one.name for one in self.groupings), BEYOND]

    def level(self, first: int, second: int) -> int:
        """The smallest level that contains both devices, as an index of ``level_names``."""
        keys = [self.node_of, *(one.of for one in self.groupings)]
        return next((at for at, of in enumerate(keys) if of[first] == of[second]), len(keys))

    def device_name(self, device: int) -> str:
        """``node7:3`` for device 3 of node 7, ``node7`` where nodes have one device."""
        node = self.node_of[device]
        alone = len(self.members[node]) == 1
        return self.node_names[node] + ("" if alone else f":{self.place_of[device]}")


def shape_of_hosts(
    host_of: Sequence[int], names: Sequence[str], topology: Topology | None = None
) -> FleetShape:
    """The shape of devices on hosts with ``names``; racks by ``topology``, else by the names.

    Names as ``rack3-node07``, with two numbers or more, place nodes in groups of the same name
    before the last number, if there are several groups and most have several nodes. Raises
    UsageError for a topology that does not fit.
    """
    if topology is None:
        return FleetShape(tuple(host_of), tuple(names), _by_names(host_of, names))
    if topology.devices != len(host_of):
        raise UsageError(
            f"--topology {topology.text} has {topology.devices:,} devices, but there are "
            f"{len(host_of):,}: describe the devices of this run, in the order of the ranks"
        )
    nodes = [device // topology.per_node for device in range(topology.devices)]
    if len(set(zip(nodes, host_of, strict=True))) != len(set(nodes)):
        raise UsageError(
            f"--topology {topology.text} has {topology.per_node} devices in each node, but ranks "
            "of several hosts are in one of its nodes: the nodes are hosts or parts of one"
        )
    own = [names[host_of[node * topology.per_node]] for node in range(len(set(nodes)))]
    if len(set(own)) < len(own):  # several nodes of the topology on a host
        own = [f"{name}/{node}" for node, name in enumerate(own)]
    return shape_of_topology(topology, own)


def shape_of_topology(topology: Topology, names: Sequence[str] = ()) -> FleetShape:
    """The shape of a topology. ``names``: of its nodes, by default node0, node1, …"""
    size = topology.per_node
    nodes = tuple(device // size for device in range(topology.devices))
    count = nodes[-1] + 1
    groupings = []
    for level in topology.levels:
        if not size < level.devices < topology.devices and topology.family != RAIL:
            continue
        if level.devices <= size:
            continue
        block = [device // level.devices for device in range(topology.devices)]
        if topology.family == RAIL:  # each rail has its own switches
            keys: Sequence[Hashable] = [(one, device % size) for device, one in enumerate(block)]
        else:
            keys = block
        grouping = _grouping(level.name, keys)
        if len(grouping.names) > 1:
            groupings.append(grouping)
    return FleetShape(
        nodes, tuple(names) or tuple(f"node{n}" for n in range(count)), tuple(groupings)
    )


def _grouping(name: str, keys: Sequence[Hashable]) -> Grouping:
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return Grouping(
        name, tuple(numbers[key] for key in keys), tuple(f"{name}{n}" for n in numbers.values())
    )


def _by_names(host_of: Sequence[int], names: Sequence[str]) -> tuple[Grouping, ...]:
    prefixes = []
    for name in names:
        host = name.partition(".")[0]
        numbers = list(_NUMBER.finditer(host))
        prefixes.append(host[: numbers[-1].start()].rstrip("-_") if len(numbers) > 1 else "")
    found = dict.fromkeys(prefixes)
    if "" in found or not 1 < len(found) <= len(names) // 2:
        return ()
    numbers_of = {prefix: number for number, prefix in enumerate(found)}
    of = tuple(numbers_of[prefixes[host]] for host in host_of)
    return (Grouping("rack", of, tuple(found)),)
