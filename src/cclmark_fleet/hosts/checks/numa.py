"""Places of devices, network devices and processors beside each other."""

from __future__ import annotations

import re
from collections import Counter

from cclmark_fleet.hosts.check import (
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    service,
    setting,
)
from cclmark_fleet.hosts.host import AMD, VISIBLE, Host, PciDevice, amount, settings_of
from cclmark_fleet.hosts.host_probe import whole

_TOPOLOGY_FILE = "/var/run/nvidia-topologyd/virtualTopology.xml"


def _nodes(host: Host) -> Judged:
    if host.is_virtual:
        raise NotApplicableError("a virtual machine: see topology-file")
    if len(host.numa_nodes) < 2:
        raise NotApplicableError("one NUMA node")
    found = Judged()
    for one in host.communicating:
        above = [host.pci[name].numa_node for name in one.path if name in host.pci]
        known = [node for node in above if node >= 0]
        is_apart = bool(known) and one.numa_node not in known
        limit = f"{known[-1]}, as the bridge above it" if is_apart else "≥ 0"
        is_ok = one.numa_node >= 0 and not is_apart
        found.see(one.address, f"NUMA node {one.numa_node}", limit, ok=is_ok)
    return found


NODES = HostCheck(
    "numa-devices",
    "NUMA nodes of devices",
    _nodes,
    "ranks and buffers are placed at random: copies cross the link between processors",
    (
        setting("set NUMA (ACPI SRAT) in the BIOS, or bind by hand: cclmark --bind"),
        reboot("update the BIOS"),
    ),
    "numa_node in sysfs",
    grade="look",
)


def _near(host: Host) -> Judged:
    if host.is_virtual:
        raise NotApplicableError("a virtual machine: see topology-file")
    active = [host.pci[port.pci] for port in host.active_ports if port.pci in host.pci]
    kinds = {(one.vendor, one.device) for one in active}
    # Those without a link, too: where they are does not depend on it.
    networks = [one for one in host.pci.values() if (one.vendor, one.device) in kinds]
    if not host.gpus or not active:
        raise NotApplicableError("no accelerator beside an RDMA device")

    def place(one: PciDevice) -> str:
        return host.switch_of(one) or (one.path[0] if one.path else one.address)

    gpus = Counter(map(place, host.gpus))
    near = Counter(map(place, networks))
    # Some hosts have fewer network devices by design; one that is missing among many is a fault.
    full = sum(near[switch] >= number for switch, number in gpus.items())
    is_usual = 4 * full >= 3 * len(gpus)
    cards = {one.address.rpartition(".")[0] for one in networks}
    # There are enough for all switches, and some have one: the others should have one, too.
    is_shared = len(cards) >= len(gpus) and any(near[switch] for switch in gpus)
    nodes = {one.numa_node for one in networks}
    found = Judged()
    for switch, number in gpus.items():
        text = f"{amount(near[switch], 'network device')} for {amount(number, 'accelerator')}"
        own = {one.numa_node for one in host.gpus if place(one) == switch}
        # One card serves all by design; of several, one should be on the accelerator's node.
        is_far = len(cards) > 1 and not near[switch] and -1 not in nodes | own and not own & nodes
        if is_far:
            where = ", ".join(map(str, sorted(own)))
            text += f"; none on NUMA node {where} of the host's {len(networks)}"
            found.see(switch, text, "a network device on the same NUMA node", ok=False)
        elif is_shared and not near[switch]:
            found.see(switch, text, "≥ 1, as other switches", ok=False)
        else:
            limit = f"≥ {number}, as most switches"
            found.see(switch, text, limit, ok=near[switch] >= number or not is_usual)
    return found


NEAR = HostCheck(
    "gpu-network",
    "a network device near each accelerator",
    _near,
    "traffic of the accelerator crosses the processor; its rail is slower than the others",
    (
        reboot(
            "check that all network devices are on the bus: a missing one is the usual cause",
        ),
        service("plug the network device into the slot of the accelerator's switch"),
    ),
    "PCI paths in sysfs: three of four switches have a network device for each accelerator; each "
    "switch has one, if there are enough; several devices are not all on another NUMA node",
    grade="look",
)


def _topology_file(host: Host) -> Judged:
    path = settings_of(host).get("NCCL_TOPO_FILE", ("", ""))[0]
    if path and not host.probe.exists(path):
        found = Judged()
        found.see(f"NCCL_TOPO_FILE={path[:80]}", "missing", "exists", ok=False)
        return found
    if not host.is_virtual:
        raise NotApplicableError("no virtual machine")
    if len(host.gpus) < 4 or len(host.rdma_pci) < 2:
        raise NotApplicableError("fewer than 4 accelerators or 2 RDMA devices")
    if any(port.is_efa for port in host.ports):
        raise NotApplicableError("the plug-in for EFA has its own file")
    gpu_switches = {host.switch_of(one) for one in host.gpus} - {""}
    if gpu_switches & {host.switch_of(one) for one in host.rdma_pci}:
        raise NotApplicableError("the PCI bus shows the switches")
    found = Judged()
    path = path or _TOPOLOGY_FILE
    exists = host.probe.exists(path)
    found.see(path, "exists" if exists else "missing", "exists", ok=exists)
    return found


TOPOLOGY_FILE = HostCheck(
    "topology-file",
    "NCCL's topology file",
    _topology_file,
    "NCCL does not know which network device is near which GPU: all GPUs may use one",
    (
        setting(
            "set NCCL_TOPO_FILE to the file of the cloud, for example Azure's "
            "/opt/microsoft/ndv5-topo.xml",
        ),
    ),
    "documentation of NCCL_TOPO_FILE; Azure NHC checks it",
    certainty="likely",
)


def _memory(host: Host) -> Judged:
    nodes = host.numa_nodes
    if len(nodes) < 2:
        raise NotApplicableError("one NUMA node")
    sizes = {}
    for node in nodes:
        text = host.probe.text(f"/sys/devices/system/node/node{node}/meminfo")
        words = text.partition("MemTotal:")[2].split()
        if words and words[0].isdecimal() and len(words[0]) < 20:
            sizes[node] = int(words[0])
    found = Judged()
    for node, size in sizes.items():
        found.see(
            f"node {node}",
            f"{size / 2**20:.3g} GiB",
            f"≥ {max(sizes.values()) / 2**21:.3g} GiB",
            ok=2 * size >= max(sizes.values()),
        )
    own = host.own_memory_nodes
    if own and not host.is_in_job:
        for node, number in sorted(Counter(_nodes_of_visible(host)).items()):
            if node not in own:
                listed = ", ".join(map(str, sorted(own)))
                text = f"memory of node {listed} alone"
                limit = f"that of node {node}, too: it has {amount(number, 'accelerator')}"
                found.see("this process", text, limit, ok=False)
                found.remedies = [
                    setting("give it all nodes: numactl --membind, cpuset.mems of the container"),
                    *MEMORY.fix,
                ]
    return found


MEMORY = HostCheck(
    "numa-memory",
    "memory of NUMA nodes",
    _memory,
    "buffers of a node without memory are on another one, behind the link between processors",
    (service("check the memory modules of the node; one that failed is disabled"),),
    "own limit: half of the largest node; Mems_allowed_list of this process",
    grade="look",
    certainty="likely",
)


def _balancing(host: Host) -> Judged:
    is_grace = any(re.search(r"\bG[HB]\d00", name) for name in host.gpu_names)
    if not is_grace:
        host.gpus_of(AMD, "AMD GPU")
    found = Judged()
    value = host.probe.text("/proc/sys/kernel/numa_balancing")
    if value:
        found.see("kernel.numa_balancing", value, "0", ok=value == "0")
    if is_grace:
        found.source = "NVIDIA's Grace performance tuning guide"
    return found


BALANCING = HostCheck(
    "numa-balancing",
    "NUMA balancing of the kernel",
    _balancing,
    "pages that move make times vary: RCCL itself warns of it, NVIDIA's guide for Grace, too",
    (setting("sysctl kernel.numa_balancing=0"),),
    "RCCL's warning at start; AMD's tuning guides",
    grade="look",
)


def _reclaim(host: Host) -> Judged:
    _ = host.communicating  # not applicable without such devices
    if len(host.numa_nodes) < 2:
        raise NotApplicableError("one NUMA node")
    found = Judged()
    if value := host.probe.text("/proc/sys/vm/zone_reclaim_mode"):
        found.see("vm.zone_reclaim_mode", value, "0", ok=value == "0")
    return found


RECLAIM = HostCheck(
    "zone-reclaim",
    "reclaim of memory within a NUMA node",
    _reclaim,
    "threads free pages of their own node, although others have free memory: allocations wait",
    (setting("sysctl vm.zone_reclaim_mode=0, unless the site chose it for its programs"),),
    "documentation of the Linux kernel, vm.zone_reclaim_mode: 0 is the default and serves "
    "programs that read files",
    grade="look",
    certainty="possible",
)


def _affinity(host: Host) -> Judged:
    own = host.own_processors
    if not host.gpus or not own:
        raise NotApplicableError("no accelerator")
    found = Judged()
    limit = max(2, host.visible_devices)
    found.see(
        "this process",
        f"{len(own)} processors",
        f"≥ {limit}: one for each accelerator, at least 2",
        ok=len(own) >= limit,
    )
    if len(host.numa_nodes) > 1 and not host.is_in_job:
        for node, number in sorted(Counter(_nodes_of_visible(host)).items()):
            near = host.node_processors(node)
            text = f"{amount(len(own & near), 'processor')} of NUMA node {node}"
            least = f"≥ 1: it has {amount(number, 'accelerator')}"
            found.see("this process", text, least, ok=bool(own & near) or not near)
        if len(own) >= limit:
            found.grade, found.certainty = "look", "likely"
    return found


def _nodes_of_visible(host: Host) -> list[int]:
    """The known NUMA nodes of the accelerators that this process may use."""
    nodes = [one.numa_node for one in host.gpus]
    for name in VISIBLE:
        words = host.probe.environment.get(name, "").split(",")
        numbers = [whole(word) for word in words if word]
        if numbers:
            if any(one is None or not 0 <= one < len(nodes) for one in numbers):
                return []
            nodes = [nodes[one] for one in numbers if one is not None]
    return [node for node in nodes if node >= 0]


AFFINITY = HostCheck(
    "processors",
    "processors of this process",
    _affinity,
    "threads of ranks and of NCCL's proxies wait for each other",
    (
        setting(
            "give the job more processors: --cpus-per-task of Slurm, cpuset of the container",
        ),
        setting("bind ranks near their devices: cclmark --bind numa"),
    ),
    "own limit: one processor for each accelerator; NCCL runs a proxy thread for each",
)
