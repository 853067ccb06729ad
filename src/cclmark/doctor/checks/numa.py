"""Places of devices, network devices and processors beside each other."""

from __future__ import annotations

from collections import Counter

from cclmark.doctor.check import HostCheck, Judged, NotApplicableError, reboot, service, setting
from cclmark.doctor.host import AMD, Host, PciDevice

_TOPOLOGY_FILE = "/var/run/nvidia-topologyd/virtualTopology.xml"


def _nodes(host: Host) -> Judged:
    if host.is_virtual:
        raise NotApplicableError("a virtual machine: see topology-file")
    if len(host.numa_nodes) < 2:
        raise NotApplicableError("one NUMA node")
    found = Judged()
    for one in host.communicating:
        found.see(one.address, f"NUMA node {one.numa_node}", "≥ 0", ok=one.numa_node >= 0)
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
    ports = {port.pci for port in host.active_ports}
    networks = [one for one in host.rdma_pci if one.address in ports]
    if not host.gpus or not networks:
        raise NotApplicableError("no accelerator beside an RDMA device")

    def place(one: PciDevice) -> str:
        return host.switch_of(one) or (one.path[0] if one.path else one.address)

    gpus = Counter(map(place, host.gpus))
    near = Counter(map(place, networks))
    # Some hosts have fewer network devices by design; one that is missing among many is a fault.
    full = sum(near[switch] >= number for switch, number in gpus.items())
    is_usual = 4 * full >= 3 * len(gpus)
    found = Judged()
    for switch, number in gpus.items():
        text = f"{near[switch]} active network devices for {number} accelerators"
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
    "PCI paths in sysfs: three of four switches have a network device for each accelerator",
    grade="look",
)


def _topology_file(host: Host) -> Judged:
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
    path = host.probe.environment.get("NCCL_TOPO_FILE", _TOPOLOGY_FILE)
    exists = host.probe.exists(path)
    found.see(path, "exists" if exists else "missing", "exists", ok=exists)
    return found


TOPOLOGY_FILE = HostCheck(
    "topology-file",
    "NCCL's topology file in virtual machines",
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
            f"{size >> 20} GiB",
            f"≥ {max(sizes.values()) >> 21} GiB",
            ok=2 * size >= max(sizes.values()),
        )
    return found


MEMORY = HostCheck(
    "numa-memory",
    "equal memory of NUMA nodes",
    _memory,
    "buffers of a node without memory are on another one, behind the link between processors",
    (service("check the memory modules of the node; one that failed is disabled"),),
    "own limit: half of the largest node",
    grade="look",
    certainty="likely",
)


def _balancing(host: Host) -> Judged:
    host.gpus_of(AMD, "AMD GPU")
    found = Judged()
    value = host.probe.text("/proc/sys/kernel/numa_balancing")
    if value:
        found.see("kernel.numa_balancing", value, "0", ok=value == "0")
    return found


BALANCING = HostCheck(
    "numa-balancing",
    "NUMA balancing of the kernel",
    _balancing,
    "pages that move make times vary: RCCL itself warns of it",
    (setting("sysctl kernel.numa_balancing=0"),),
    "RCCL's warning at start; AMD's tuning guides",
    grade="look",
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
        f"≥ {limit}, one for each accelerator",
        ok=len(own) >= limit,
    )
    nodes = {one.numa_node for one in host.gpus}
    if len(host.numa_nodes) > 1 and len(nodes) == 1 and min(nodes) >= 0:
        near = host.node_processors(min(nodes))
        found.see(
            "this process",
            f"{len(own & near)} processors of NUMA node {min(nodes)}",
            "≥ 1",
            ok=bool(own & near) or not near,
        )
    return found


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
