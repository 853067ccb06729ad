"""Recorded hosts for tests: complete healthy ones, which a test changes in one place.

Their files and the outputs of their tools are in ``tests/host_texts``.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import toml

from cclmark_fleet.hosts.checks import IDS
from cclmark_fleet.hosts.host import Host
from cclmark_fleet.hosts.recorded_host import FORMAT, VERSION, RecordedProbe, parse_recorded

PCI = "/sys/bus/pci/devices"
IB = "/sys/class/infiniband"
NET = "/sys/class/net"
_TEXTS = Path(__file__).parent / "host_texts"
_FILES = toml.decode((_TEXTS / "healthy.toml").read_text())
_SMI, _AMD_SMI = ((_TEXTS / f"{name}.txt").read_text() for name in ("nvidia_smi", "amd_smi"))
_BRIDGE, _NVIDIA, _MELLANOX, _AMD, _HUAWEI = "0x1000", "0x10de", "0x15b3", "0x1002", "0x19e5"
_H100, _GEN4 = "NVIDIA H100 80GB HBM3", "16.0 GT/s PCIe"


@dataclass
class Recording:
    """The answers of a host. ``later``: files and commands that differ at the second moment."""

    read: dict = field(default_factory=dict)
    resolve: dict = field(default_factory=dict)
    run: dict = field(default_factory=dict)
    space: dict = field(default_factory=dict)
    later: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    packages: str = ""
    measured: str = ""
    clock: str = "synchronised=1 maximum_error_us=900"
    interval_s: float = 10.0

    def set(self, path, value):
        """Replaces the content of a file; None removes it."""
        self.read.pop(path, None)
        if value is not None:
            self.read[path] = value
        return self

    def remove(self, prefix):
        """Removes files, links and directories that begin with ``prefix``."""
        for answers in (self.read, self.resolve):
            for path in [path for path in answers if path.startswith(prefix)]:
                del answers[path]
        return self

    def edit(self, command, old, new, count=-1):
        """Changes the output of a command."""
        assert old in self.run[command], (old, self.run[command][:300])
        self.run[command] = self.run[command].replace(old, new, count)
        return self

    def grow(self, path, value):
        """A file has another value when it is read again."""
        self.later.setdefault("read", {})[path] = value
        return self

    def listed(self):
        """The names in each directory above files and links."""
        found = {}
        for path in [*self.read, *self.resolve]:
            parts = path.split("/")
            for depth in range(2, len(parts)):
                found.setdefault("/".join(parts[:depth]), {})[parts[depth]] = None
        return {folder: "\n".join(names) for folder, names in found.items()}

    def document(self):
        """The recording as its file has it."""
        packages = {"packages": {"": self.packages}} if self.packages else {}
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": "host-1",
            "checks": [*IDS],
            "answers": {
                "read": self.read,
                "list": self.listed(),
                "resolve": self.resolve,
                "run": self.run,
                "space": self.space,
                "clock": {"": self.clock},
                **packages,
                **({"measure": {"both-directions": self.measured}} if self.measured else {}),
            },
            "later": self.later,
            "environment": self.environment,
            "interval_s": self.interval_s,
        }

    def content(self):
        """The bytes of its file."""
        return json.dumps(self.document()).encode()

    def host(self):
        """The host, through the file."""
        recorded = parse_recorded(self.content())
        return Host(RecordedProbe(recorded), recorded.checks)


def _filled(table, **names):
    """The files of a table, with names in place of those in braces."""
    return {path.format(**names): text.format(**names) for path, text in _FILES[table].items()}


def _pci(host, parts, vendor, kind, width="16", speed="32.0 GT/s PCIe", node=0, device="0x2330"):
    """A device at the end of a path of addresses, and each bridge that is not there yet."""
    for depth, address in enumerate(parts, 1):
        if f"{PCI}/{address}" in host.resolve:
            continue
        host.resolve[f"{PCI}/{address}"] = "/".join(("/sys/devices/pci0000:00", *parts[:depth]))
        own = (kind, vendor, device) if depth == len(parts) else ("0x060400", _BRIDGE, "0xc030")
        files = dict(zip(("class", "vendor", "device"), own, strict=True)) | {"numa_node": node}
        for end in ("current", "max"):
            files |= {f"{end}_link_width": width, f"{end}_link_speed": speed}
        for name, value in files.items():
            host.read[f"{PCI}/{address}/{name}"] = f"{value}\n"
        host.read |= {f"{PCI}/{address}/{name}": text for name, text in _FILES["device"].items()}


def base():
    """A host without accelerators and RDMA: two NUMA nodes, bare metal."""
    host = Recording(read=dict(_FILES["processors"]))
    host.resolve[f"{NET}/eno1/device"] = "/sys/devices/pci0000:00/0000:04:00.0"
    for node in (0, 1):
        root = f"/sys/devices/system/node/node{node}"
        host.read[f"{root}/cpulist"] = f"{node * 32}-{node * 32 + 31}\n"
        host.read[f"{root}/meminfo"] = f"Node {node} MemTotal:       1056731586 kB\n"
        root = f"/sys/devices/system/cpu/cpu{node}/cpufreq"
        host.read |= {f"{root}/{name}": text for name, text in _FILES["processor"].items()}
    host.space = dict.fromkeys(("/dev/shm", "/tmp", "/"), f"{1 << 40} {1 << 39}")
    host.run["dmesg"] = "[    1.000000] mlx5_core 0000:1a:00.0: firmware version: 28.41.1000\n"
    return host


def smi_text(addresses, name=_H100, fabric=("Completed", "Success", "Full")):
    """What nvidia-smi -q prints of these GPUs."""
    state, status, bandwidth = fabric
    head = (
        "\n==============NVSMI LOG==============\n\n"
        "Timestamp                                 : Sun Nov 29 09:00:00 2026\n"
        "Driver Version                            : 550.127.05\n"
        "CUDA Version                              : 12.4\n\n"
        f"Attached GPUs                             : {len(addresses)}\n"
    )
    names = {"name": name, "state": state, "status": status, "bandwidth": bandwidth}
    gpus = enumerate(f"0000{address.upper()}" for address in addresses)
    return head + "\n".join(_SMI.format(address=one, number=at, **names) for at, one in gpus)


def _nvidia(host, addresses, name, links=18, rate=26.562, **smi):
    host.run["nvidia-smi -q"] = smi_text(addresses, name, **smi)
    numbers = range(len(addresses))
    lines, errors = [], []
    for number in numbers:
        head = f"GPU {number}: {name} (UUID: GPU-0aa0000{number})"
        lines += [head, *(f"\t Link {link}: {rate} GB/s" for link in range(links))]
        errors.append(head)
        for link in range(links):
            for counter in ("Replay Errors", "Recovery Errors", "CRC Errors"):
                errors.append(f"\t Link {link}: {counter}: 0")
    host.run["nvidia-smi nvlink -s"] = "\n".join(lines) + "\n"
    host.run["nvidia-smi nvlink -e"] = "\n".join(errors) + "\n"
    head = "\t" + "\t".join(f"GPU{number}" for number in numbers)
    rows = [
        f"GPU{one}\t" + "\t".join("X" if one == other else "OK" for other in numbers)
        for one in numbers
    ]
    host.run["nvidia-smi topo -p2p r"] = "\n".join([head, *rows]) + "\n\nLegend:\n  X = Self\n"
    host.read |= _FILES["nvidia"]
    host.packages = "nvidia_nccl_cu12-2.28.9.dist-info"


def _port(host, name, pci, layer="InfiniBand", netdev=""):
    host.resolve[f"{IB}/{name}/device"] = host.resolve[f"{PCI}/{pci}"]
    host.read |= _filled("port", port=f"{IB}/{name}", layer=layer)
    host.read[f"/dev/infiniband/uverbs{name[-1]}"] = ""
    verbs = _FILES["texts"]["verbs"].format(name=name, layer=layer)
    host.run["ibv_devinfo"] = host.run.get("ibv_devinfo", "") + verbs
    if netdev:
        host.read |= _filled("roce", port=f"{IB}/{name}", netdev=netdev)
        host.resolve[f"{NET}/{netdev}/device"] = host.resolve[f"{PCI}/{pci}"]
        host.run[f"dcb pfc show dev {netdev}"] = _FILES["texts"]["pfc"]
        host.run[f"ethtool -S {netdev}"] = _FILES["texts"]["ethtool"]


def h100(layer="InfiniBand"):
    """Eight H100 with NVSwitches, eight network devices, four PCIe switches."""
    host = base()
    gpus, nics = [], []
    for number in range(8):
        switch, place = divmod(number, 2)
        root, node = [f"0000:{switch}0:01.0", f"0000:{switch}1:00.0"], switch // 2
        gpu, nic = (f"0000:{switch}{start + 2 * place}:00.0" for start in (3, 4))
        below = [*root, f"0000:{switch}2:0{place}.0", gpu]
        _pci(host, below, _NVIDIA, "0x030200", node=node)
        below = [*root, f"0000:{switch}2:0{place + 2}.0", nic]
        _pci(host, below, _MELLANOX, "0x020700", node=node, device="0x1021")
        gpus.append(gpu)
        nics.append(nic)
        group = f"/sys/kernel/iommu_groups/{10 + switch}"
        host.resolve |= {f"{PCI}/{address}/iommu_group": group for address in (gpu, nic)}
        host.read[f"{group}/type"] = "identity\n"
    _pci(host, ["0000:b3:00.0"], _NVIDIA, "0x068000", width="2", device="0x22a3")
    _nvidia(host, gpus, _H100)
    for number, nic in enumerate(nics):
        _port(host, f"mlx5_{number}", nic, layer, f"rocep{number}" if layer == "Ethernet" else "")
    denied = (f"{one} 3D controller\n\tCapabilities: <access denied>\n\n" for one in _on_bus(host))
    host.run |= {
        "systemctl is-active nvidia-fabricmanager": "active\n",
        "nv-fabricmanager --version": "Fabric Manager version is : 550.127.05\n",
        "lspci -D -vvv": "".join(denied),
    }
    host.read["/usr/lib/x86_64-linux-gnu/libibverbs.so.1"] = ""
    return host


def _on_bus(host):
    """The addresses of all devices."""
    paths = (path for path in host.resolve if path.startswith(f"{PCI}/") and path.count("/") == 5)
    return [path.rpartition("/")[2] for path in paths]


def lspci_as_root(host):
    """The registers of all devices, as root reads them."""
    names = {"acs": "ReqRedir- CmpltRedir- UpstreamFwd-", "ordering": "+", "payload": 256}
    text = _FILES["texts"]["lspci"]
    host.run["lspci -D -vvv"] = "".join(text.format(address=one, **names) for one in _on_bus(host))
    return host


def roce():
    """The same with RoCE."""
    return h100("Ethernet")


def machine(device="mlx5_"):
    """A virtual machine with four H100 and four network devices on a flat bus."""
    host = base().set("/sys/class/dmi/id/product_name", "Virtual Machine\n")
    gpus = [f"000{number}:00:00.0" for number in range(4)]
    for gpu in gpus:
        _pci(host, [gpu], _NVIDIA, "0x030200", node=-1)
    _nvidia(host, gpus, _H100)
    for number in range(4):
        nic = f"010{number}:00:00.0"
        _pci(host, [nic], _MELLANOX, "0x020700", node=-1, device="0x101e")
        _port(host, f"{device}{number}", nic)
    host.read["/usr/lib/x86_64-linux-gnu/libibverbs.so.1"] = ""
    host.environment["NCCL_TOPO_FILE"] = "/opt/microsoft/ndv5-topo.xml"
    host.read["/opt/microsoft/ndv5-topo.xml"] = "<system/>"
    return lspci_as_root(host)


def efa():
    """The same with Amazon's EFA, and the plug-in of NCCL for it."""
    host = machine("rdmap")
    for place in ("/opt/amazon/ofi-nccl/lib/libnccl-net.so", "/opt/amazon/efa/lib/libfabric.so.1"):
        host.read[place] = ""
    return host


def a10():
    """Two A10 on PCIe, without RDMA and NVLink; idle."""
    host = base()
    gpus = ["0000:17:00.0", "0000:65:00.0"]
    for number, gpu in enumerate(gpus):
        _pci(host, [f"0000:{number}6:01.0", gpu], _NVIDIA, "0x030200", speed=_GEN4, node=number)
    _nvidia(host, gpus, "NVIDIA A10", fabric=("N/A", "N/A", "N/A"))
    host.run |= {"nvidia-smi nvlink -s": "", "nvidia-smi nvlink -e": ""}
    return host


def container():
    """A plain container without devices."""
    host = base().remove("/proc/net/bonding")
    host.read["/.dockerenv"] = ""
    host.run = {"dmesg": {"text": "dmesg: read kernel buffer failed", "code": 1}}
    return host


def amd():
    """Eight MI300X."""
    host = base()
    for number in range(8):
        gpu = f"0000:{number}5:00.0"
        _pci(host, [f"0000:{number}0:01.0", gpu], _AMD, "0x120000", node=number // 4)
        host.read |= _filled("amd", gpu=f"{PCI}/{gpu}", node=number + 2)
    host.run["amd-smi metric"] = "".join(_AMD_SMI.format(number=number) for number in range(8))
    return host


def ascend():
    """Eight Ascend 910."""
    host = base()
    rows = ""
    for number in range(8):
        parts = [f"0000:{number}0:01.0", f"0000:{number}5:00.0"]
        _pci(host, parts, _HUAWEI, "0x120000", speed=_GEN4, node=number // 4)
        rows += f"| {number}     910B3               | OK            | 92.1        48   0 / 0 |\n"
        host.run[f"hccn_tool -i {number} -link -g"] = "link status: UP\n"
    host.run["npu-smi info"] = f"+-----+\n| NPU   Name | Health |\n{rows}+-----+\n"
    return host


HEALTHY = {
    "h100": h100,
    "roce": roce,
    "root": lambda: lspci_as_root(h100()),
    "machine": machine,
    "efa": efa,
    "a10": a10,
    "container": container,
    "amd": amd,
    "ascend": ascend,
    "processors": base,
}
