"""What checks know of a host: its devices, links, limits and logs, read when first asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cclmark.work.binding import parse_processors
from cclmark_fleet.hosts.check import ROOT, CannotTellError, NotApplicableError
from cclmark_fleet.hosts.host_probe import JOB_VARIABLES, MISSING, Probe, Reading, whole
from cclmark_fleet.hosts.shipped_data import MachineClass, machine_class
from cclmark_fleet.hosts.tool_texts import (
    KernelEvent,
    LspciDevice,
    PortText,
    SmiSection,
    parse_counters,
    parse_kernel_log,
    parse_link_errors,
    parse_lspci,
    parse_ports,
    parse_rdma_links,
    parse_smi,
    parse_smi_counters,
)

PCI = "/sys/bus/pci/devices"
RDMA = "/sys/class/infiniband"
NET = "/sys/class/net"
NVIDIA, AMD, ASCEND, MELLANOX = "10de", "1002", "19e5", "15b3"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_CAP_IPC_LOCK = 14
#: Variables that name the accelerators of a process.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
_VIRTUAL = re.compile(
    r"QEMU|KVM|VMware|VirtualBox|Virtual Machine|OpenStack|Google Compute|HVM domU|Xen|Bochs|"
    r"Cloud Hypervisor|Firecracker|Parallels|bhyve"
)
_CONTAINERS = re.compile(r"docker|kubepods|containerd|libpod|lxc|crio")
_AMAZON = "Amazon EC2"
_DAY_S = 24 * 3600
_CGROUPS = "/sys/fs/cgroup"
#: The commands that checks ask for, of which a live probe starts those of installed programs.
COMMANDS = (
    *("nvidia-smi -q", "nvidia-smi nvlink -s", "nvidia-smi topo -p2p r", "ibv_devinfo"),
    *("dmesg", "lspci -D -vvv", "amd-smi metric"),
)


@dataclass(frozen=True)
class PciDevice:
    """A device and its link. Speeds in GT/s; None where sysfs does not report them.

    ``path``: the addresses of the bridges above it, the outermost first.
    """

    address: str
    vendor: str
    device: str
    kind: str
    width: int | None
    max_width: int | None
    speed: float | None
    max_speed: float | None
    numa_node: int
    path: tuple[str, ...]

    @property
    def is_bridge(self) -> bool:
        """Whether other devices are below it."""
        return self.kind.startswith("0604")


@dataclass(frozen=True)
class RdmaPort:
    """A port of an RDMA device; empty texts are unknown. ``pci``: the device's address.

    ``board``: what devices of one type share. ``netdevs``: the device's network interfaces.
    """

    device: str
    port: str
    state: str
    physical: str
    rate: str
    layer: str
    pci: str
    board: str
    netdevs: tuple[str, ...]

    @property
    def name(self) -> str:
        """``mlx5_0``, with the number of another port than the first."""
        return self.device if self.port == "1" else f"{self.device}:{self.port}"

    @property
    def is_active(self) -> bool:
        """Whether it carries data."""
        return "ACTIVE" in self.state.upper()

    @property
    def is_ethernet(self) -> bool:
        """Whether it is RoCE, by its link layer."""
        return self.layer.lower() == "ethernet"

    @property
    def is_efa(self) -> bool:
        """Whether it is Amazon's Elastic Fabric Adapter."""
        return self.device.startswith(("efa", "rdmap"))

    @property
    def gbit(self) -> float:
        """The rate in Gb/s, 0 if unknown."""
        found = re.match(r"([\d.]{1,8})", self.rate)
        return float(found[1]) if found and found[1].count(".") < 2 else 0.0


@dataclass
class Counters:
    """Counters at two moments, by place and name. ``interval_s``: between them."""

    first: Mapping[tuple[str, str], int] = field(default_factory=dict)
    later: Mapping[tuple[str, str], int] = field(default_factory=dict)
    interval_s: float = 0.0

    def grown(self) -> Iterator[tuple[str, str, int]]:
        """Place, name and growth of each; counters that were reset in between are left out."""
        for key, value in self.first.items():
            if (after := self.later.get(key)) is not None and after >= value:
                yield (*key, after - value)


class Host:
    """A host through its probe. ``checks``: the ids that a recording knows, None for all."""

    def __init__(self, probe: Probe, checks: Collection[str] | None = None) -> None:
        self.probe = probe
        self._checks = checks
        self.counters = Counters()

    def knows(self, check: str) -> bool:
        """Whether what the check needs was asked for when the host was recorded."""
        return self._checks is None or check in self._checks

    # ── The machine ──────────────────────────────────────────────────────────────────────────

    @cached_property
    def is_virtual(self) -> bool:
        """Whether it is a virtual machine."""
        texts = [self.probe.text(f"/sys/class/dmi/id/{name}") for name in _OF_DMI]
        if any(_VIRTUAL.search(text) for text in texts):
            return True
        if any(_AMAZON in text for text in texts):
            return "metal" not in " ".join(texts)
        found = re.search(r"^flags\s*:.*", self.probe.text("/proc/cpuinfo"), re.MULTILINE)
        return bool(found and re.search(r"\bhypervisor\b", found[0]))

    @cached_property
    def container(self) -> str:
        """The kind of container that this process is in; empty for none."""
        if self.probe.environment.get("KUBERNETES_SERVICE_HOST"):
            return "pod"
        for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
            if self.probe.exists(path):
                return name
        found = _CONTAINERS.search(self.probe.text("/proc/1/cgroup"))
        return found[0] if found else self.probe.environment.get("container", "")

    @property
    def is_in_job(self) -> bool:
        """Whether a scheduler started this process, which may hide devices of other jobs."""
        return any(name in self.probe.environment for name in JOB_VARIABLES)

    @property
    def visible_devices(self) -> int:
        """The number of accelerators that this process may use."""
        for name in VISIBLE:
            if words := [word for word in self.probe.environment.get(name, "").split(",") if word]:
                return len(words)
        return len(self._smi) - 1 if self.has_smi else len(self.gpus)

    def has_capability(self, number: int) -> bool:
        """Whether this process has a capability of the kernel."""
        found = re.search(r"^CapEff:\s*([0-9a-f]{1,16})", self._status, re.MULTILINE)
        return bool(found and int(found[1], 16) >> number & 1)

    @property
    def may_lock_memory(self) -> bool:
        """Whether limits of locked memory do not apply."""
        return self.has_capability(_CAP_IPC_LOCK)

    @cached_property
    def _status(self) -> str:
        return self.probe.text("/proc/self/status")

    @cached_property
    def own_processors(self) -> set[int]:
        """The processors that this process may use; empty if unknown."""
        found = re.search(r"^Cpus_allowed_list:\s*(\S+)", self._status, re.MULTILINE)
        try:
            own = parse_processors(found[1]) if found else set()
        except ValueError:
            return set()
        for path in self.cgroups[:1]:
            own = own & (self.probe.processors(f"{path}/cpuset.cpus.effective") or own)
        return own

    @cached_property
    def own_memory_nodes(self) -> set[int]:
        """The NUMA nodes whose memory this process may use; empty if unknown."""
        found = re.search(r"^Mems_allowed_list:\s*(\S+)", self._status, re.MULTILINE)
        try:
            own = parse_processors(found[1]) if found else set()
        except ValueError:
            return set()
        for path in self.cgroups[:1]:
            own = own & (self.probe.processors(f"{path}/cpuset.mems.effective") or own)
        return own

    @cached_property
    def numa_nodes(self) -> list[int]:
        """The NUMA nodes that have processors."""
        found = []
        for name in self.probe.entries("/sys/devices/system/node"):
            number = whole(name.removeprefix("node")) if name.startswith("node") else None
            if number is not None and self.node_processors(number):
                found.append(number)
        return found

    def node_processors(self, node: int) -> set[int]:
        """The processors of a NUMA node."""
        return self.probe.processors(f"/sys/devices/system/node/node{node}/cpulist")

    @cached_property
    def cgroups(self) -> list[str]:
        """The directories of this process's cgroup (version 2) and of those above it.

        A container sees its own as the root. Empty without any.
        """
        found = re.search(r"^0::(/\S*)", self.probe.text("/proc/self/cgroup"), re.MULTILINE)
        own = _upwards(_CGROUPS, found[1] if found else "/")
        return [path for path in own if self.probe.exists(f"{path}/cpu.stat")]

    def cgroups_v1(self, controller: str) -> list[str]:
        """The same of a controller of version 1: ``cpu`` or ``memory``."""
        for line in self.probe.text("/proc/self/cgroup").splitlines():
            _, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            if controller in names.split(","):
                for mount in dict.fromkeys((names, controller, "cpu,cpuacct", "cpuacct,cpu")):
                    if controller in mount.split(","):
                        own = _upwards(f"{_CGROUPS}/{mount}", path)
                        if found := [one for one in own if self.probe.entries(one)]:
                            return found
        return []

    # ── PCI ──────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def pci(self) -> dict[str, PciDevice]:
        """Bridges, accelerators and network devices by address."""
        found: dict[str, PciDevice] = {}
        for address in self.probe.entries(PCI):
            if not _ADDRESS.fullmatch(address):
                continue
            kind = self.probe.text(f"{PCI}/{address}/class").removeprefix("0x")
            if kind[:2] in ("03", "12", "02") or kind[:4] in ("0604", "0680"):
                found[address] = self._pci_device(address, kind)
        return found

    def _pci_device(self, address: str, kind: str) -> PciDevice:
        text = {name: self.probe.text(f"{PCI}/{address}/{name}") for name in _OF_PCI}
        parts = self.probe.resolved(f"{PCI}/{address}").split("/")
        node = whole(text["numa_node"])
        return PciDevice(
            *(address, text["vendor"].removeprefix("0x"), text["device"].removeprefix("0x"), kind),
            *(_width(text["current_link_width"]), _width(text["max_link_width"])),
            *(_speed(text["current_link_speed"]), _speed(text["max_link_speed"])),
            -1 if node is None else node,
            tuple(part for part in parts if _ADDRESS.fullmatch(part) and part != address),
        )

    @cached_property
    def gpus(self) -> list[PciDevice]:
        """The accelerators on the bus: NVIDIA's, AMD's and Huawei's."""
        return [
            one
            for one in self.pci.values()
            if one.vendor in (NVIDIA, AMD, ASCEND)
            and one.kind[:4] in ("0300", "0302", "0380", "1200")
        ]

    def gpus_of(self, vendor: str, name: str) -> list[PciDevice]:
        """The accelerators of a vendor. Raises NotApplicableError without any."""
        found = [one for one in self.gpus if one.vendor == vendor]
        if not found:
            raise NotApplicableError(f"no {name} on the PCI bus")
        return found

    @property
    def gpus_of_amd(self) -> list[PciDevice]:
        """AMD's accelerators."""
        return [one for one in self.gpus if one.vendor == AMD]

    @cached_property
    def rdma_pci(self) -> list[PciDevice]:
        """The network devices with RDMA, each once."""
        addresses = dict.fromkeys(one.pci for one in self.ports)
        return [self.pci[one] for one in addresses if one in self.pci]

    @property
    def communicating(self) -> list[PciDevice]:
        """Accelerators and network devices with RDMA. Raises NotApplicableError without any."""
        if found := [*self.gpus, *self.rdma_pci]:
            return found
        raise NotApplicableError("no accelerator and no RDMA device on the PCI bus")

    def switch_of(self, one: PciDevice) -> str:
        """The outermost PCIe switch above a device; empty if it is below a root port."""
        return one.path[1] if len(one.path) > 2 else ""

    @cached_property
    def lspci(self) -> dict[str, LspciDevice]:
        """The registers of devices, as far as they are readable."""
        return parse_lspci(self.probe.run("lspci", "-D", "-vvv").text)

    def register(self, address: str, name: str) -> str:
        """A register of PCI Express. Raises CannotTellError if it cannot be read."""
        found = self.lspci.get(address)
        if found is None:
            raise CannotTellError("lspci is not installed", "lspci (pciutils), as root")
        if found.is_denied:
            raise CannotTellError("PCI registers require root", ROOT)
        return found.registers.get(name, "")

    # ── NVIDIA ───────────────────────────────────────────────────────────────────────────────

    @cached_property
    def smi_reading(self) -> Reading:
        """The answer of nvidia-smi -q."""
        return self.probe.run("nvidia-smi", "-q")

    @cached_property
    def _smi(self) -> dict[str, SmiSection]:
        return parse_smi(self.smi_reading.text)

    @property
    def driver(self) -> str:
        """The version of NVIDIA's driver; empty if unknown."""
        text = self.probe.text("/proc/driver/nvidia/version")
        found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", text)
        return found[1] if found else self._smi[""].at("Driver Version")

    @property
    def smi(self) -> dict[str, SmiSection]:
        """The GPUs that nvidia-smi lists, by address.

        Raises NotApplicableError without GPUs, CannotTellError if nvidia-smi does not list any.
        """
        found = {address: own for address, own in self._smi.items() if address}
        if found:
            return found
        self.gpus_of(NVIDIA, "NVIDIA GPU")
        reading = self.smi_reading
        if reading.error == MISSING:
            raise CannotTellError("nvidia-smi is not installed", "nvidia-smi")
        raise CannotTellError(f"nvidia-smi: {_first_line(reading)}", "a working nvidia-smi")

    @property
    def has_smi(self) -> bool:
        """Whether nvidia-smi lists GPUs."""
        return len(self._smi) > 1

    @property
    def machine(self) -> MachineClass | None:
        """The class of the machine by its GPU; None for others."""
        return machine_class(self.gpu_names[0]) if self.gpu_names else None

    @property
    def gpu_names(self) -> list[str]:
        """The products of NVIDIA's GPUs that nvidia-smi lists."""
        names = (own.at("Product Name") for address, own in self._smi.items() if address)
        return [name for name in names if name]

    def of_gpus(self, *names: str) -> Iterator[tuple[str, str]]:
        """The value at a path in nvidia-smi -q of each GPU that has it; see ``smi``."""
        for address, own in self.smi.items():
            if value := own.at(*names):
                yield address, value

    # ── The network ──────────────────────────────────────────────────────────────────────────

    @cached_property
    def ports(self) -> list[RdmaPort]:
        """The ports of RDMA devices: of sysfs, else as far as tools list them."""
        found = []
        devices = self.probe.entries(RDMA)
        if not devices:
            return self._ports_of_tools
        for device in devices:
            root = f"{RDMA}/{device}"
            pci = self.probe.resolved(f"{root}/device").rpartition("/")[2]
            kind = self.probe.text(f"{root}/hca_type")
            board = self.probe.text(f"{root}/board_id")
            netdevs = tuple(self.probe.entries(f"{root}/device/net"))
            for port in self.probe.entries(f"{root}/ports"):
                state, physical, rate, layer = (
                    self.probe.text(f"{root}/ports/{port}/{name}")
                    for name in ("state", "phys_state", "rate", "link_layer")
                )
                found.append(
                    RdmaPort(
                        *(device, port, state, physical, rate, layer),
                        *(pci, f"{kind} {board}", netdevs),
                    )
                )
        return found

    @property
    def _ports_of_tools(self) -> list[RdmaPort]:
        """The ports that ibstat or rdma lists, without PCI addresses."""
        for words, parse in ((("ibstat",), parse_ports), (("rdma", "link"), parse_rdma_links)):
            if found := parse(self.probe.run(*words).text):
                return [
                    RdmaPort(
                        one.device,
                        one.port,
                        one.state,
                        one.physical.replace("LINK_UP", "LinkUp"),
                        rate=f"{one.rate} Gb/sec" if one.rate else "",
                        layer=one.layer,
                        pci="",
                        board="",
                        netdevs=(),
                    )
                    for one in found
                ]
        return []

    @property
    def rdma_ports(self) -> list[RdmaPort]:
        """The ports of RDMA devices. Raises NotApplicableError without any."""
        if not self.ports:
            raise NotApplicableError("no RDMA device")
        return self.ports

    @property
    def active_ports(self) -> list[RdmaPort]:
        """Those that carry data. Raises NotApplicableError without any."""
        found = [one for one in self.rdma_ports if one.is_active]
        if not found:
            raise NotApplicableError("no active port of an RDMA device")
        return found

    @property
    def roce_ports(self) -> list[RdmaPort]:
        """The active ports with Ethernet. Raises NotApplicableError without any."""
        found = [one for one in self.active_ports if one.is_ethernet]
        if not found:
            raise NotApplicableError("no active RoCE port")
        return found

    @cached_property
    def verbs(self) -> dict[tuple[str, str], PortText]:
        """What ibv_devinfo says of ports, by device and port."""
        ports = parse_ports(self.probe.run("ibv_devinfo").text)
        return {(one.device, one.port): one for one in ports}

    @cached_property
    def netdevs(self) -> list[str]:
        """The network interfaces of devices."""
        names = self.probe.entries(NET)
        return [one for one in names if self.probe.exists(f"{NET}/{one}/device")]

    @property
    def netdevs_up(self) -> list[str]:
        """Those that are up. Raises NotApplicableError without any."""
        found = [one for one in self.netdevs if self.probe.text(f"{NET}/{one}/operstate") == "up"]
        if not found:
            raise NotApplicableError("no network device is up")
        return found

    # ── Logs ─────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def kernel_log(self) -> list[KernelEvent]:
        """The lines of the kernel's log that concern devices. Raises CannotTellError."""
        for words in (("dmesg",), _JOURNAL):
            found = self.probe.run(*words)
            if not found.error and found.code == 0:
                return parse_kernel_log(found.text)
        raise CannotTellError(
            "the kernel's log is not readable", f"{ROOT}, or the group systemd-journal"
        )

    @cached_property
    def recent_kernel_log(self) -> list[KernelEvent]:
        """The lines of the last day, and those without a time. Raises CannotTellError."""
        now_s = self.uptime_s
        return [
            one
            for one in self.kernel_log
            if one.at_s is None or not now_s or now_s - one.at_s < _DAY_S
        ]

    @property
    def uptime_s(self) -> float:
        """The seconds since boot, 0 if unknown."""
        words = self.probe.text("/proc/uptime").split()
        try:
            return float(words[0]) if words else 0.0
        except ValueError:
            return 0.0

    # ── Counters ─────────────────────────────────────────────────────────────────────────────

    def count(self) -> dict[tuple[str, str], int]:
        """Reads all counters at the probe's moment, by place and name."""
        found: dict[tuple[str, str], int] = {}
        for where, path, names in self._counter_files:
            for name in names:
                if (counter := self.probe.number(f"{path}/{name}")) is not None:
                    found[where, name] = counter
        for where, path in self._keyed_files:
            for line in self.probe.text(path).splitlines():
                name, _, value = line.rpartition(" ")
                if (number := whole(value)) is not None:
                    found[where, f"{path.rpartition('/')[2]}/{name.strip()}"] = number
        for name in self._watched_netdevs:
            counters = parse_counters(self.probe.run("ethtool", "-S", name).text)
            found |= {(name, key): value for key, value in counters.items()}
        for number in range(min(sum(one.vendor == ASCEND for one in self.gpus), 16)):
            text = self.probe.run("hccn_tool", "-i", str(number), "-stat", "-g").text
            found |= {
                (f"NPU {number}", name): value for name, value in parse_counters(text).items()
            }
        if self.has_smi:
            found |= parse_link_errors(self.probe.run("nvidia-smi", "nvlink", "-e").text)
            gpus = parse_smi(self.probe.run("nvidia-smi", "-q").text)
            found |= parse_smi_counters({name: own for name, own in gpus.items() if name})
        return found

    def take_counters(self, interval_s: float) -> Callable[[], None]:
        """Reads counters; returns what reads them again when ``interval_s`` have passed."""
        began_s = time.monotonic()
        first = self.count()

        def again() -> None:
            self.probe.wait(interval_s, began_s)
            self.counters = Counters(first, self.count(), self.probe.interval_s)

        return again

    @cached_property
    def _watched_netdevs(self) -> list[str]:
        return sorted({one for port in self.ports if port.is_active for one in port.netdevs})

    @cached_property
    def _counter_files(self) -> list[tuple[str, str, Sequence[str]]]:
        """Place, directory and names of files that hold one number each."""
        found: list[tuple[str, str, Sequence[str]]] = []
        for port in self.ports:
            for folder in ("counters", "hw_counters"):
                path = f"{RDMA}/{port.device}/ports/{port.port}/{folder}"
                found.append((port.name, path, self.probe.entries(path)))
        for name in self.netdevs:
            found.append((name, f"{NET}/{name}", ("carrier_changes", "carrier_down_count")))
            found.append((name, f"{NET}/{name}/statistics", _STATISTICS))
        for name in self.probe.entries("/sys/devices/system/edac/mc"):
            if name.startswith("mc"):
                path = f"/sys/devices/system/edac/mc/{name}"
                found.append((name, path, ("ce_count", "ue_count")))
        first = {0, *(min(self.node_processors(node)) for node in self.numa_nodes)}
        for number in sorted(first):
            path = f"/sys/devices/system/cpu/cpu{number}/thermal_throttle"
            names = ("package_throttle_count", "core_throttle_count")
            found.append((f"processor {number}", path, names))
        for one in self.gpus_of_amd:
            found.append((one.address, f"{PCI}/{one.address}", ("pcie_replay_count",)))
        for path in self.cgroups_v1("memory"):
            where = f"cgroup {path.removeprefix(_CGROUPS)}"
            found.append((where, path, ("memory.failcnt",)))
        return found

    @cached_property
    def _keyed_files(self) -> list[tuple[str, str]]:
        """Place and path of files with a name and a number in each line."""
        names = ("cpu.stat", "memory.events")
        places = [(path, name) for path in self.cgroups for name in names]
        places += [(path, "cpu.stat") for path in self.cgroups_v1("cpu")]
        found = [
            (f"cgroup {path.removeprefix(_CGROUPS) or '/'}", f"{path}/{name}")
            for path, name in places
        ]
        for one in self.gpus_of_amd:
            root = f"{PCI}/{one.address}/ras"
            for name in self.probe.entries(root):
                if name.endswith("_err_count"):
                    found.append((one.address, f"{root}/{name}"))
        for one in [*self.gpus, *self.rdma_pci]:
            for address in (one.address, *one.path):
                for name in ("aer_dev_fatal", "aer_dev_nonfatal", "aer_dev_correctable"):
                    found.append((address, f"{PCI}/{address}/{name}"))
        return [*dict.fromkeys(found)]


_OF_DMI = ("sys_vendor", "product_name", "chassis_asset_tag")
_OF_PCI = (
    *("vendor", "device", "numa_node", "current_link_width", "max_link_width"),
    *("current_link_speed", "max_link_speed"),
)
_STATISTICS = (
    *("rx_crc_errors", "rx_frame_errors", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors"),
    *("rx_length_errors", "rx_dropped", "tx_carrier_errors", "tx_fifo_errors", "tx_dropped"),
    *("tx_aborted_errors", "collisions"),
)
_JOURNAL = ("journalctl", "-k", "-b", "-o", "short-monotonic", "--no-hostname", "-q")


_SETTINGS = ("/etc/nccl.conf", "/etc/rccl.conf")


def settings_of(host: Host) -> dict[str, tuple[str, str]]:
    """The value of each variable and where it is set; the environment overrides files."""
    found: dict[str, tuple[str, str]] = {}
    environment = host.probe.environment
    # Either the file that is named, or the one of the user; its values come before /etc.
    home = environment.get("HOME", "").rstrip("/")
    own = environment.get("NCCL_CONF_FILE", "") or f"{home}/.nccl.conf"
    for path in (*_SETTINGS, *([own] if own.startswith("/") else [])):
        for line in host.probe.text(path).splitlines():
            name, separator, value = line.partition("=")
            if separator and re.fullmatch(r"[A-Z][A-Z0-9_]{1,60}", name.strip()):
                found[name.strip()] = value.strip(), path
    for name, value in environment.items():
        found[name] = value.strip(), "environment"
    return found


def amount(count: int, noun: str) -> str:
    """``1 GPU``, ``8 GPUs``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _upwards(root: str, path: str) -> list[str]:
    """The directory ``path`` below ``root``, and each above it up to ``root``."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return ["/".join((root, *parts[:depth])) for depth in range(len(parts), -1, -1)]


def _width(text: str) -> int | None:
    """The lanes of a link; None where a bridge reports none or all bits set."""
    found = whole(text)
    return found if found is not None and 0 < found <= 32 else None


def _speed(text: str) -> float | None:
    """The GT/s of ``32.0 GT/s PCIe``; None for ``Unknown``."""
    found = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", text)
    return float(found[1]) if found else None


def _first_line(reading: Reading) -> str:
    if reading.error:
        return reading.error
    lines = [line.strip() for line in reading.text.splitlines() if line.strip()]
    return lines[0][:160] if lines else f"no output, exit code {reading.code}"
