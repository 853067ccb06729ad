"""Recorded hosts for tests: complete healthy ones, which a test changes in one place."""

import json
from dataclasses import dataclass, field

from cclmark_fleet.hosts.checks import IDS
from cclmark_fleet.hosts.host import Host
from cclmark_fleet.hosts.recorded_host import FORMAT, VERSION, RecordedProbe, parse_recorded

PCI = "/sys/bus/pci/devices"
IB = "/sys/class/infiniband"
NET = "/sys/class/net"


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


def _pci(host, parts, vendor, kind, width="16", speed="32.0 GT/s PCIe", node=0, **files):
    """A device at the end of a path of addresses, and each bridge that is not there yet."""
    for depth, address in enumerate(parts):
        path = "/sys/devices/pci0000:00/" + "/".join(parts[: depth + 1])
        if f"{PCI}/{address}" in host.resolve:
            continue
        host.resolve[f"{PCI}/{address}"] = path
        is_last = depth == len(parts) - 1
        own = {
            "class": kind if is_last else "0x060400",
            "vendor": vendor if is_last else "0x1000",
            "device": files.get("device", "0x2330") if is_last else "0xc030",
            "numa_node": str(node),
            "current_link_width": width,
            "max_link_width": width,
            "current_link_speed": speed,
            "max_link_speed": speed,
            "aer_dev_fatal": "DLP 0\nTOTAL_ERR_FATAL 0",
            "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 0",
            "aer_dev_correctable": "RxErr 3\nTOTAL_ERR_COR 3",
        }
        for name, value in own.items():
            host.read[f"{PCI}/{address}/{name}"] = f"{value}\n"


def base():
    """A host without accelerators and RDMA: two NUMA nodes, bare metal."""
    host = Recording()
    host.read |= {
        "/sys/class/dmi/id/sys_vendor": "Supermicro\n",
        "/sys/class/dmi/id/product_name": "SYS-821GE\n",
        "/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme sse2 constant_tsc\n",
        "/proc/1/cgroup": "0::/init.scope\n",
        "/proc/self/cgroup": "0::/user.slice\n",
        "/proc/self/status": "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-63\n",
        "/proc/self/limits": (
            "Limit                     Soft Limit           Hard Limit           Units\n"
            "Max open files            1024                 1048576              files\n"
            "Max locked memory         unlimited            unlimited            bytes\n"
        ),
        "/proc/meminfo": "MemTotal:       2113463172 kB\n",
        "/proc/uptime": "864000.00 1000.00\n",
        "/proc/sys/kernel/osrelease": "5.15.0-113-generic\n",
        "/proc/sys/kernel/numa_balancing": "0\n",
        "/proc/pressure/cpu": "some avg10=0.51 avg60=0.40 avg300=0.30 total=1\n",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "0\n",
        "/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
        "/sys/fs/cgroup/user.slice/cpu.stat": "usage_usec 9\nnr_throttled 4\nthrottled_usec 900\n",
        "/sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
        "/sys/fs/cgroup/user.slice/memory.events": "low 0\nmax 3\noom 0\noom_kill 0\n",
        "/sys/devices/system/edac/mc/mc0/ce_count": "2\n",
        "/sys/devices/system/edac/mc/mc0/ue_count": "0\n",
        "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "7\n",
        "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "7\n",
        f"{NET}/eno1/operstate": "up\n",
        f"{NET}/eno1/carrier_changes": "2\n",
        f"{NET}/eno1/mtu": "1500\n",
        f"{NET}/eno1/duplex": "full\n",
        f"{NET}/eno1/statistics/rx_crc_errors": "0\n",
        f"{NET}/lo/operstate": "unknown\n",
        "/proc/net/bonding/bond0": (
            "Bonding Mode: 802.3ad\nMII Status: up\n\nSlave Interface: eno1\nMII Status: up\n"
            "\nSlave Interface: eno2\nMII Status: up\n"
        ),
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2.23.4": "",
    }
    host.resolve[f"{NET}/eno1/device"] = "/sys/devices/pci0000:00/0000:04:00.0"
    for node in (0, 1):
        root = f"/sys/devices/system/node/node{node}"
        host.read[f"{root}/cpulist"] = f"{node * 32}-{node * 32 + 31}\n"
        host.read[f"{root}/meminfo"] = f"Node {node} MemTotal:       1056731586 kB\n"
    for number in range(2):
        root = f"/sys/devices/system/cpu/cpu{number}/cpufreq"
        host.read |= {
            f"{root}/scaling_governor": "performance\n",
            f"{root}/scaling_driver": "intel_pstate\n",
            f"{root}/energy_performance_preference": "performance\n",
            f"{root}/cpuinfo_max_freq": "3800000\n",
            f"{root}/scaling_max_freq": "3800000\n",
            f"{root}/base_frequency": "2100000\n",
        }
    host.space = {
        "/dev/shm": f"{1 << 40} {1 << 39}",
        "/tmp": f"{1 << 40} {1 << 39}",
        "/": f"{1 << 40} {1 << 39}",
    }
    host.run["dmesg"] = "[    1.000000] mlx5_core 0000:1a:00.0: firmware version: 28.41.1000\n"
    return host


SMI_GPU = """GPU {address}
    Product Name                          : {name}
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Serial Number                         : 1653923001234
    GPU UUID                              : GPU-0aa00000-0000-4000-8000-00000000000{number}
    VBIOS Version                         : 96.00.99.00.01
    GPU Recovery Action                   : None
    GPU Reset Status
        Reset Required                    : No
        Drain and Reset Recommended       : No
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
            Link Width
                Max                       : 16x
                Current                   : 16x
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
    BAR1 Memory Usage
        Total                             : 131072 MiB
        Used                              : 1 MiB
    Compute Mode                          : Default
    Utilization
        Gpu                               : 97 %
        Memory                            : 0 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 3
            SRAM Uncorrectable Parity     : 5
            DRAM Correctable              : 12
            DRAM Uncorrectable            : 9
            SRAM Threshold Exceeded       : No
    Retired Pages
        Single Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 1
        Pending                           : No
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 34 C
        GPU T.Limit Temp                  : 51 C
        Memory Current Temp               : 42 C
        GPU Slowdown Temp                 : 89 C
        Memory Max Operating Temp         : 95 C
    GPU Power Readings
        Average Power Draw                : 111.20 W
        Current Power Limit               : 700.00 W
        Default Power Limit               : 700.00 W
        Min Power Limit                   : 200.00 W
    Clocks
        Graphics                          : 345 MHz
    Applications Clocks
        Graphics                          : 1980 MHz
        Memory                            : 2619 MHz
    Default Applications Clocks
        Graphics                          : 1980 MHz
        Memory                            : 2619 MHz
    Fabric
        State                             : {state}
        Status                            : {status}
        Health
            Bandwidth                     : {bandwidth}
            Route Unhealthy               : False
"""


def smi_text(addresses, name="NVIDIA H100 80GB HBM3", fabric=("Completed", "Success", "Full")):
    """What nvidia-smi -q prints of these GPUs."""
    state, status, bandwidth = fabric
    head = (
        "\n==============NVSMI LOG==============\n\n"
        "Timestamp                                 : Sun Nov 29 09:00:00 2026\n"
        "Driver Version                            : 550.127.05\n"
        "CUDA Version                              : 12.4\n\n"
        f"Attached GPUs                             : {len(addresses)}\n"
    )
    gpus = [
        SMI_GPU.format(
            address=f"0000{address.upper()}",
            number=number,
            name=name,
            state=state,
            status=status,
            bandwidth=bandwidth,
        )
        for number, address in enumerate(addresses)
    ]
    return head + "\n".join(gpus)


def _nvidia(host, addresses, name, links=18, rate=26.562, **smi):
    host.run["nvidia-smi -q"] = smi_text(addresses, name, **smi)
    numbers = range(len(addresses))
    heads = [f"GPU {number}: {name} (UUID: GPU-0aa0000{number})" for number in numbers]
    lines, errors = [], []
    for head in heads:
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
    host.read |= {
        "/proc/driver/nvidia/version": (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.127.05  Tue Oct  8 2024\n"
        ),
        "/proc/driver/nvidia/params": "NvLinkDisable: 0\nEnablePCIERelaxedOrderingMode: 0\n",
        "/sys/module/nvidia_peermem/version": "550.127.05\n",
        "/sys/module/pcie_aspm/parameters/policy": "[default] performance powersave\n",
    }
    host.packages = "nvidia_nccl_cu12-2.23.4.dist-info"


def _port(host, name, pci, layer="InfiniBand", netdev=""):
    root = f"{IB}/{name}"
    host.resolve[f"{root}/device"] = host.resolve[f"{PCI}/{pci}"]
    rate = "400 Gb/sec (4X NDR)"
    host.read |= {
        f"{root}/hca_type": "MT4129\n",
        f"{root}/board_id": "MT_0000000838\n",
        f"{root}/fw_ver": "28.41.1000\n",
        f"{root}/ports/1/state": "4: ACTIVE\n",
        f"{root}/ports/1/phys_state": "5: LinkUp\n",
        f"{root}/ports/1/rate": f"{rate}\n",
        f"{root}/ports/1/link_layer": f"{layer}\n",
        # Of a healthy host: absolute values say nothing.
        f"{root}/ports/1/counters/port_xmit_wait": "2489603687\n",
        f"{root}/ports/1/counters/port_rcv_errors": "14\n",
        f"{root}/ports/1/counters/excessive_buffer_overrun_errors": "15\n",
        f"{root}/ports/1/counters/link_downed": "1\n",
        f"{root}/ports/1/counters/symbol_error": "0\n",
        f"{root}/ports/1/hw_counters/out_of_sequence": "120\n",
        f"{root}/ports/1/hw_counters/np_cnp_sent": "98765\n",
        f"/dev/infiniband/uverbs{name[-1]}": "",
    }
    host.run.setdefault("ibv_devinfo", "")
    host.run["ibv_devinfo"] += (
        f"hca_id:\t{name}\n\ttransport:\t\t\tInfiniBand (0)\n\t\tport:\t1\n"
        "\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n"
        f"\t\t\tactive_mtu:\t\t4096 (5)\n\t\t\tlink_layer:\t\t{layer}\n"
    )
    if netdev:
        host.read |= {
            f"{root}/device/net/{netdev}/mtu": "9000\n",
            f"{NET}/{netdev}/mtu": "9000\n",
            f"{NET}/{netdev}/operstate": "up\n",
            f"{NET}/{netdev}/carrier_changes": "3\n",
            f"{root}/ports/1/gids/0": "fe80:0000:0000:0000:a288:c2ff:fe00:0001\n",
            f"{root}/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a00:0101\n",
            f"{root}/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
            f"{root}/ports/1/gid_attrs/types/3": "RoCE v2\n",
            f"{root}/tc/1/traffic_class": "Global tclass=106\n",
            f"{NET}/{netdev}/ecn/roce_np/enable/3": "1\n",
            f"{NET}/{netdev}/ecn/roce_rp/enable/3": "1\n",
        }
        host.resolve[f"{NET}/{netdev}/device"] = host.resolve[f"{PCI}/{pci}"]
        host.run[f"dcb pfc show dev {netdev}"] = (
            "pfc-cap 8 macsec-bypass off delay 0\n"
            "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n"
        )
        host.run[f"ethtool -S {netdev}"] = (
            "NIC statistics:\n     rx_packets: 12\n     [0]: rx_bytes: 9\n"
            "     rx_prio3_pause: 132000000\n     rx_prio3_pause_duration: 98765432\n"
            "     rx_global_pause_duration: 0\n     outbound_pci_stalled_wr_events: 0\n"
        )


def h100(layer="InfiniBand"):
    """Eight H100 with NVSwitches, eight network devices, four PCIe switches."""
    host = base()
    gpus, ports = [], []
    for switch in range(4):
        node = switch // 2
        root = [f"0000:{switch}0:01.0", f"0000:{switch}1:00.0"]
        for place in range(2):
            number = 2 * switch + place
            gpu = f"0000:{switch}{3 + 2 * place}:00.0"
            nic = f"0000:{switch}{4 + 2 * place}:00.0"
            down = f"0000:{switch}2:0{place}.0"
            _pci(host, [*root, down, gpu], "0x10de", "0x030200", node=node)
            down = f"0000:{switch}2:0{place + 2}.0"
            _pci(host, [*root, down, nic], "0x15b3", "0x020700", node=node, device="0x1021")
            gpus.append(gpu)
            ports.append((f"mlx5_{number}", nic))
            for address in (gpu, nic):
                group = f"/sys/kernel/iommu_groups/{10 + switch}"
                host.resolve[f"{PCI}/{address}/iommu_group"] = group
                host.read[f"{group}/type"] = "identity\n"
    _pci(host, ["0000:b3:00.0"], "0x10de", "0x068000", width="2", device="0x22a3")
    _nvidia(host, gpus, "NVIDIA H100 80GB HBM3")
    for name, nic in ports:
        _port(host, name, nic, layer, f"rocep{name[-1]}" if layer == "Ethernet" else "")
    host.run |= {
        "systemctl is-active nvidia-fabricmanager": "active\n",
        "nv-fabricmanager --version": "Fabric Manager version is : 550.127.05\n",
        "lspci -D -vvv": "".join(
            f"{one} 3D controller\n\tCapabilities: <access denied>\n\n"
            for one in host.resolve
            if one.startswith(PCI) and one.count("/") == 5
        ).replace(f"{PCI}/", ""),
    }
    host.read["/usr/lib/x86_64-linux-gnu/libibverbs.so.1"] = ""
    return host


def lspci_as_root(host, acs="ReqRedir- CmpltRedir- UpstreamFwd-", ordering="+", payload=256):
    """The registers of all devices, as root reads them."""
    text = ""
    for path in host.resolve:
        if path.startswith(f"{PCI}/") and path.count("/") == 5:
            address = path.rpartition("/")[2]
            text += (
                f"{address} Bridge\n"
                "\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0\n"
                "\t\tDevCtl:\tCorrErr+ NonFatalErr+\n"
                f"\t\t\tRlxdOrd{ordering} ExtTag+ PhantFunc- AuxPwr- NoSnoop+\n"
                f"\t\t\tMaxPayload {payload} bytes, MaxReadReq 512 bytes\n"
                "\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)\n"
                f"\t\tACSCtl:\tSrcValid+ TransBlk- {acs} EgressCtrl- DirectTrans-\n"
                "\t\tATSCtl:\tEnable+, Smallest Translation Unit: 00\n\n"
            )
    host.run["lspci -D -vvv"] = text
    return host


def roce():
    """The same with RoCE."""
    return h100("Ethernet")


def machine():
    """A virtual machine with four H100 and four network devices on a flat bus."""
    host = base()
    host.set("/sys/class/dmi/id/product_name", "Virtual Machine\n")
    gpus = [f"000{number}:00:00.0" for number in range(4)]
    for gpu in gpus:
        _pci(host, [gpu], "0x10de", "0x030200", node=-1)
    _nvidia(host, gpus, "NVIDIA H100 80GB HBM3")
    for number in range(4):
        nic = f"010{number}:00:00.0"
        _pci(host, [nic], "0x15b3", "0x020700", node=-1, device="0x101e")
        _port(host, f"mlx5_{number}", nic)
    host.read["/usr/lib/x86_64-linux-gnu/libibverbs.so.1"] = ""
    host.environment["NCCL_TOPO_FILE"] = "/opt/microsoft/ndv5-topo.xml"
    host.read["/opt/microsoft/ndv5-topo.xml"] = "<system/>"
    return lspci_as_root(host)


def a10():
    """Two A10 on PCIe, without RDMA and NVLink; idle."""
    host = base()
    gpus = ["0000:17:00.0", "0000:65:00.0"]
    for number, gpu in enumerate(gpus):
        root = f"0000:{number}6:01.0"
        _pci(host, [root, gpu], "0x10de", "0x030200", speed="16.0 GT/s PCIe", node=number)
    _nvidia(host, gpus, "NVIDIA A10", fabric=("N/A", "N/A", "N/A"))
    host.run["nvidia-smi nvlink -s"] = ""
    host.run["nvidia-smi nvlink -e"] = ""
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
        _pci(host, [f"0000:{number}0:01.0", gpu], "0x1002", "0x120000", node=number // 4)
        host.read[f"{PCI}/{gpu}/ras/umc_err_count"] = "ue: 0\nce: 4\n"
        host.read[f"{PCI}/{gpu}/power_dpm_force_performance_level"] = "auto\n"
        host.read[f"{PCI}/{gpu}/xgmi_error"] = "0\n"
        host.run.setdefault("amd-smi metric", "")
        host.run["amd-smi metric"] += AMD_METRIC.format(number=number)
        host.read[f"{PCI}/{gpu}/current_compute_partition"] = "SPX\n"
        host.read[f"{PCI}/{gpu}/ras/gpu_vram_bad_pages"] = "0x00000001 : 0x00001000 : R\n"
        sensors = f"{PCI}/{gpu}/hwmon/hwmon4"
        host.read[f"{sensors}/power1_cap"] = host.read[f"{sensors}/power1_cap_default"] = (
            "750000000"
        )
        host.read |= {f"{sensors}/temp2_input": "61000\n", f"{sensors}/temp2_crit": "100000\n"}
        host.read[f"{sensors}/temp2_label"] = "junction\n"
        node = f"/sys/class/kfd/kfd/topology/nodes/{number + 2}"
        host.read[f"{node}/properties"] = "cpu_cores_count 0\nsimd_count 1216\n"
        for link in range(7):
            host.read[f"{node}/io_links/{link}/properties"] = "type 11\nversion_major 0\n"
    return host


AMD_METRIC = """GPU: {number}
    USAGE:
        GFX_ACTIVITY: 99 %
    ECC:
        TOTAL_CORRECTABLE_COUNT: 4
        TOTAL_UNCORRECTABLE_COUNT: 0
    THROTTLE:
        PROCHOT_VIOLATION_STATUS: NOT ACTIVE
        PPT_VIOLATION_STATUS: ACTIVE
        SOCKET_THERMAL_VIOLATION_STATUS: NOT ACTIVE
        HBM_THERMAL_VIOLATION_STATUS: NOT ACTIVE
"""


def ascend():
    """Eight Ascend 910."""
    host = base()
    rows = ""
    for number in range(8):
        _pci(
            host,
            [f"0000:{number}0:01.0", f"0000:{number}5:00.0"],
            "0x19e5",
            "0x120000",
            speed="16.0 GT/s PCIe",
            node=number // 4,
        )
        rows += f"| {number}     910B3               | OK            | 92.1        48   0 / 0 |\n"
        host.run[f"hccn_tool -i {number} -link -g"] = "link status: UP\n"
    host.run["npu-smi info"] = f"+-----+\n| NPU   Name | Health |\n{rows}+-----+\n"
    return host


HEALTHY = {
    "h100": h100,
    "roce": roce,
    "root": lambda: lspci_as_root(h100()),
    "machine": machine,
    "a10": a10,
    "container": container,
    "amd": amd,
    "ascend": ascend,
    "processors": base,
}
