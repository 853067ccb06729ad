"""The processors of this host: their NUMA nodes and cores, and those near a PCI device."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from cclmark.base.errors import UsageError
from cclmark.work.binding import parse_processors
from cclmark.work.sizes import parse_size

_SYSTEM = Path("/sys")
_LAST_LEVEL = 3


def largest_cache_bytes(system: Path = _SYSTEM) -> int:
    """Returns the total size of the last-level caches of all processors, 0 if unknown."""
    shared: dict[str, int] = {}
    for cache in system.glob("devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        with suppress(OSError, ValueError, UsageError):
            if int(kernel_text(cache / "level")) >= _LAST_LEVEL:
                size = parse_size(kernel_text(cache / "size"))
                shared[kernel_text(cache / "shared_cpu_list")] = size
    return sum(shared.values())


def numa_nodes(system: Path = _SYSTEM) -> dict[int, set[int]]:
    """Returns the processors of each NUMA node that has some, by node. ``system``: sysfs's path."""
    nodes = {}
    for path in system.glob("devices/system/node/node[0-9]*/cpulist"):
        with suppress(OSError, ValueError):
            nodes[int(path.parent.name.removeprefix("node"))] = _list_in(path)
    return {number: nodes[number] for number in sorted(nodes) if nodes[number]}


def device_numa_node(pci_bus_id: str, system: Path = _SYSTEM) -> int:
    """The NUMA node that a PCI device is attached to, -1 when the system does not report it."""
    try:
        return int(kernel_text(pci_directory(pci_bus_id, system) / "numa_node"))
    except (OSError, ValueError):
        return -1


def processors_near(pci_bus_id: str, system: Path = _SYSTEM) -> set[int]:
    """The processors near a PCI device, empty when the system does not report them."""
    try:
        return _list_in(pci_directory(pci_bus_id, system) / "local_cpulist")
    except (OSError, ValueError):
        return set()


def processors_of_node_of(pci_bus_id: str, system: Path = _SYSTEM) -> set[int]:
    """The processors of the NUMA node of a PCI device, empty when the node is unknown.

    For a node without processors (memory of the device itself), those that sysfs lists as local. A
    device whose node is not reported belongs to the only node, if there is just one.
    """
    nodes = numa_nodes(system)
    node = device_numa_node(pci_bus_id, system)
    if node >= 0:
        return nodes.get(node) or processors_near(pci_bus_id, system)
    return next(iter(nodes.values())) if len(nodes) == 1 else set()


def share_of_nodes(
    nodes: Mapping[int, Collection[int]], allowed: Collection[int], place: int, number: int
) -> set[int]:
    """The processors of one NUMA node for rank ``place`` of ``number`` that may use ``allowed``.

    Each rank gets a separate node if there are enough; otherwise nodes get consecutive ranks in
    proportion to their allowed processors, so that no node has more ranks than processors if there
    are enough processors in total. Empty if no node has an allowed processor.
    """
    shares = [set(allowed).intersection(nodes[node]) for node in sorted(nodes)]
    usable = [own for own in shares if own]
    places = usable if number <= len(usable) else [own for own in usable for _ in own]
    return places[place * len(places) // number] if places else set()


def far_processors(pci_bus_id: str, system: Path = _SYSTEM) -> set[int]:
    """Returns the processors outside a PCI device's NUMA node, empty when there are none."""
    near = processors_near(pci_bus_id, system)
    if not near:
        return set()
    return {one for own in numa_nodes(system).values() for one in own} - near


def spread_over_cores(processors: Iterable[int], system: Path = _SYSTEM) -> list[int]:
    """Orders ``processors`` for assignment to ranks: one of every core, then the next ones.

    Two ranks on one core share its units and its cache, which disturbs their times.
    """
    allowed = set(processors)
    order = []
    for processor in sorted(allowed):
        path = system / f"devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
        siblings: set[int] = set()
        with suppress(OSError, ValueError):
            siblings = _list_in(path) & allowed
        order.append((sum(one < processor for one in siblings), processor))
    return [processor for _, processor in sorted(order)]


def pci_directory(pci_bus_id: str, system: Path = _SYSTEM) -> Path:
    """The directory of a PCI device in sysfs."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    return system / "bus/pci/devices" / f"{domain[-4:].rjust(4, '0')}:{rest}"


def _list_in(path: Path) -> set[int]:
    return parse_processors(kernel_text(path))


def kernel_text(path: Path) -> str:
    """Returns the content of a kernel file, which may contain names of arbitrary bytes."""
    return path.read_text(encoding="utf-8", errors="replace")
