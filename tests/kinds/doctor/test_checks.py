"""Every check on recorded hosts: it fails with a fault, passes without, and never raises."""

import json
import re
from pathlib import Path

import pytest

from cclmark_fleet.hosts.check import CheckOutcome
from cclmark_fleet.hosts.checks import CHECKS, IDS
from cclmark_fleet.hosts.examination import examine
from cclmark_fleet.hosts.host import Host
from cclmark_fleet.hosts.host_probe import _lines_of
from cclmark_fleet.hosts.recorded_host import RecordedProbe, read_recorded
from cclmark_fleet.hosts.shipped_data import table
from recorded_hosts import (
    HEALTHY,
    IB,
    NET,
    PCI,
    a10,
    amd,
    ascend,
    base,
    container,
    h100,
    lspci_as_root,
    machine,
    roce,
    smi_text,
)

GPU, NIC = "0000:03:00.0", "0000:04:00.0"  # of the first switch


def files(factory, *pairs):
    """A host with other files: path, content, path, content."""
    host = factory()
    for path, value in zip(pairs[::2], pairs[1::2], strict=True):
        host.set(path, value)
    return host


def smi(old, new, factory=h100, count=1):
    return factory().edit("nvidia-smi -q", old, new, count)


def dmesg(line, factory=h100):
    host = factory()
    host.run["dmesg"] += f"{line}\n"
    return host


def grown(factory, *pairs):
    """A host on which files have other values at the second moment."""
    host = factory()
    for path, value in zip(pairs[::2], pairs[1::2], strict=True):
        host.grow(path, value)
    return host


def later(factory, command, old, new):
    """A host on which a command prints something else at the second moment."""
    host = factory()
    assert old in host.run[command]
    host.later.setdefault("run", {})[command] = host.run[command].replace(old, new)
    return host


def with_variables(factory=h100, **variables):
    host = factory()
    host.environment |= variables
    return host


def moved(host, *numbers, node=1):
    """A host of which network devices are below root ports. ``node``: None keeps theirs."""
    for number in numbers or (0,):
        nic = _nic(number)
        for path in (f"{PCI}/{nic}", f"{IB}/mlx5_{number}/device"):
            host.resolve[path] = f"/sys/devices/pci0000:00/0000:f0:0{number}.0/{nic}"
        if node is not None:
            host.set(f"{PCI}/{nic}/numa_node", f"{node}")
    return host


def _nic(number):
    """The address of a network device of h100()."""
    return f"0000:{number // 2}{4 + 2 * (number % 2)}:00.0"


def listed(*names):
    host = h100()
    for name in names:
        host.read[name] = ""
    return host


def run(host, command, output, code=0):
    host.run[command] = output if not code else {"text": output, "code": code}
    return host


def _unread(value):
    """A host of which the driver reads no value of the second GPU."""
    host = h100()
    first, second, *others = host.run["nvidia-smi -q"].split("\nGPU 0000")[1:]
    head = host.run["nvidia-smi -q"].split("\nGPU 0000")[0]
    second = re.sub(r" : (?!N/A).+", f" : {value}", second)
    return run(host, "nvidia-smi -q", "\nGPU 0000".join([head, first, second, *others]))


def space(path, total, free, factory=h100):
    host = factory()
    host.space[path] = f"{total} {free}"
    return host


def switch_port(host):
    """A switch whose link to the root port has lost half of its lanes."""
    return host.set(f"{PCI}/0000:01:00.0/current_link_width", "8")


AMD_GPU = f"{PCI}/0000:05:00.0"
HOT = "THERMAL_VIOLATION_STATUS"
AT = "[863000.100000] "  # 17 minutes ago
COUNTERS = f"{IB}/mlx5_0/ports/1/counters"
HARDWARE = f"{IB}/mlx5_0/ports/1/hw_counters"
MIB = 1 << 20
XID = "[863000.100000] NVRM: Xid (PCI:0000:03:00): "
LIMITED = (
    "[    9.000000] mlx5_core 0000:04:00.0: 252.056 Gb/s available PCIe bandwidth, limited by "
    "32.0 GT/s PCIe x8 link at 0000:02:02.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"
)
BOND = "/proc/net/bonding/bond0"

STALLED = "outbound_pci_stalled_wr"
NETWORK_LINES = (
    "mlx5_core 0000:04:00.0: poll_health:800:(pid 0): Fatal error 3 detected",
    "mlx5_core 0000:04:00.0: poll_health:800: device's health compromised - reached miss count",
    "mlx5_core 0000:04:00.0: mlx5_pcie_event:301:(pid 9): Detected insufficient power on the "
    "PCIe slot (27W).",
    "mlx5_core 0000:04:00.0: Port module event[error]: module 0, Cable error, High Temperature",
    "mlx5_core 0000:04:00.0: cmd_exec_timeout:1: CREATE_MKEY(0x200) timeout. Will cause a leak of "
    "a command resource",
    "NETDEV WATCHDOG: eno1 (i40e): transmit queue 3 timed out",
    "bnxt_en 0000:04:00.0 eno1: Error (timeout: 5000015) msg {0x23 0x7a} len:0",
    "ice 0000:04:00.0: A parity error was detected in the device",
    "ena 0000:00:05.0 eth0: Keep alive watchdog timeout.",
)

#: For each check, hosts on which it fails.
FAULTS = {
    "gpu-driver": [
        lambda: run(
            h100(),
            "nvidia-smi -q",
            "Failed to initialize NVML: Driver/library version "
            "mismatch\nNVML library version: 550.144\n",
            18,
        ),
        lambda: h100().remove("/proc/driver/nvidia"),
        lambda: _unread("Unknown Error"),
        lambda: _unread("[GPU requires reset]"),
    ],
    "gpu-count": [
        lambda: run(h100(), "nvidia-smi -q", smi_text([GPU])),
        lambda: files(h100, f"{PCI}/{GPU}/revision", "0xff\n"),
    ],
    "gpu-recovery": [
        lambda: smi("Recovery Action                   : None", "Recovery Action : Reboot"),
        lambda: smi("Reset Recommended       : No", "Reset Recommended       : Yes"),
    ],
    "gpu-xid": [
        lambda: dmesg(f"{XID}79, pid='<unknown>', GPU has fallen off the bus."),
        lambda: dmesg(
            f"{XID}154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
        ),
        lambda: dmesg(f"{XID}48, pid=1, DBE", machine),
        lambda: dmesg(
            f"{XID.replace(')', ' GPU-I:05)')}95, pid=1, Uncontained: LTC TAG (0x2,0x0)."
        ),
        lambda: dmesg(f"{XID}145, RLW_RXPIPE Fatal XC0\n{XID}145, RLW_RXPIPE Nonfatal XC0"),
    ],
    "gpu-log": [
        lambda: dmesg(f"{AT}NVRM: GPU 0000:03:00.0: RmInitAdapter failed! (0x62:0x65:1860)"),
        lambda: dmesg(f"{AT}amdgpu 0000:05:00.0: amdgpu: ring sdma0 timeout, signaled seq=3", amd),
    ],
    "gpu-ecc-errors": [
        lambda: smi("DRAM Uncorrectable            : 0", "DRAM Uncorrectable            : 2"),
        lambda: smi("SRAM Threshold Exceeded       : No", "SRAM Threshold Exceeded : Yes"),
    ],
    "gpu-remapped-rows": [
        lambda: smi(
            "    Retired Pages\n", "        Channel Repair Pending : Yes\n    Retired Pages\n"
        ),
        lambda: smi("Pending                           : No", "Pending : Yes"),
        lambda: smi("Failure Occurred        : No", "Failure Occurred        : Yes"),
        lambda: smi("Uncorrectable Error               : 1", "Uncorrectable Error : 513"),
        lambda: smi(
            "    Temperature\n",
            "        Bank Remap Availability Histogram\n            None : 2 bank(s)\n"
            "    Temperature\n",
        ),
    ],
    "gpu-ecc-mode": [
        lambda: smi(
            "Current                           : Enabled\n        Pending                  "
            "         : Enabled",
            "Current : Disabled\n        Pending : Disabled",
        ),
    ],
    "gpu-clocks": [
        lambda: smi("HW Thermal Slowdown           : Not Active", "HW Thermal Slowdown : Active"),
        lambda: smi(
            "SW Thermal Slowdown               : Not Active", "SW Thermal Slowdown : Active"
        ),
        lambda: smi("Clocks Event Reasons", "Clocks Throttle Reasons").edit(
            "nvidia-smi -q", "HW Slowdown                       : Not", "HW Slowdown : ", 1
        ),
    ],
    "gpu-temperature": [
        lambda: smi("GPU Current Temp                  : 34 C", "GPU Current Temp : 91 C"),
        lambda: smi("GPU T.Limit Temp                  : 51 C", "GPU T.Limit Temp : 1 C"),
    ],
    "gpu-slowdown": [
        lambda: _slowed(h100(), "HW Thermal Slowdown", 8_100_000),
        lambda: later(
            h100,
            "nvidia-smi -q",
            "HW Power Brake Slowdown       : Not Active",
            "HW Power Brake Slowdown       : Active",
        ),
    ],
    "gpu-locked-clocks": [lambda: _clocked(h100(), 1200)],
    "gpu-firmware": [
        lambda: smi("96.00.99.00.01", "96.00.61.00.01"),
        lambda: smi(": 131072 MiB", ": 256 MiB"),
    ],
    "gpu-power": [
        lambda: smi(
            "    Clocks\n",
            "    Module Power Readings\n        Current Power Limit : 900.00 W\n"
            "        Default Power Limit : 1200.00 W\n    Clocks\n",
        ),
        lambda: smi(
            "Current Power Limit               : 700.00 W", "Current Power Limit : 500.00 W"
        ),
    ],
    "gpu-application-clocks": [
        lambda: smi("Graphics                          : 1980", "Graphics : 1200"),
    ],
    "gpu-persistence": [
        lambda: smi(
            "Persistence Mode                      : Enabled", "Persistence Mode : Disabled"
        ),
    ],
    "gpu-compute-mode": [lambda: smi(": Default\n", ": Prohibited\n")],
    "gpu-mig": [lambda: smi("Current                           : Disabled", "Current : Enabled")],
    "gpu-driver-parameters": [
        lambda: files(h100, "/proc/driver/nvidia/params", "NvLinkDisable: 1\n"),
    ],
    "gpu-peer-access": [
        lambda: h100().edit("nvidia-smi topo -p2p r", "OK", "CNS", 1),
        lambda: a10().edit("nvidia-smi topo -p2p r", "OK", "DR", 1),
    ],
    "nvlink-down": [
        lambda: h100().edit("nvidia-smi nvlink -s", "Link 3: 26.562 GB/s", "Link 3: <inactive>", 1),
        lambda: run(
            h100(),
            "nvidia-smi nvlink -s",
            "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
            "NVML: Unable to retrieve NVLink information as all links are inactive\n",
        ),
    ],
    "nvlink-rate": [
        lambda: h100().edit("nvidia-smi nvlink -s", "Link 3: 26.562", "Link 3: 13.281", 1),
    ],
    "nvlink-errors": [
        lambda: later(
            h100, "nvidia-smi nvlink -e", "Link 3: Replay Errors: 0", "Link 3: Replay Errors: 400"
        ),
        lambda: later(
            h100, "nvidia-smi nvlink -e", "Link 3: Recovery Errors: 0", "Link 3: Recovery Errors: 1"
        ),
    ],
    "nvlink-fabric": [
        lambda: smi("Route Unhealthy               : False", "Incorrect Configuration : SysGUID"),
        lambda: smi("State                             : Completed", "State : In Progress"),
        lambda: smi("Bandwidth                     : Full", "Bandwidth : Degraded"),
        lambda: smi("Status                            : Success", "Status : Unknown Error"),
    ],
    "fabric-manager": [
        lambda: run(h100(), "systemctl is-active nvidia-fabricmanager", "inactive\n", 3),
        lambda: run(h100(), "nv-fabricmanager --version", "Fabric Manager version is : 535.1.05\n"),
    ],
    "nvswitch-errors": [
        lambda: files(h100, f"{PCI}/0000:b3:00.0/revision", "0xff\n"),
        lambda: dmesg(
            "[863000.1] nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM "
            "Fault Up\n[863000.2] nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Severity 1 "
            "Engine instance 30 Sub-engine instance 00"
        ),
    ],
    "amd-ras": [
        lambda: files(amd, f"{AMD_GPU}/ras/gpu_vram_bad_pages", "0x1 : 0x1000 : P\n"),
        lambda: files(amd, f"{PCI}/0000:05:00.0/ras/umc_err_count", "ue: 1\nce: 4\n"),
    ],
    "amd-xgmi": [
        lambda: files(amd, f"{AMD_GPU}/xgmi_error", "1\n"),
        lambda: amd().remove("/sys/class/kfd/kfd/topology/nodes/4/io_links/2"),
    ],
    "amd-performance": [
        lambda: files(amd, f"{PCI}/0000:05:00.0/power_dpm_force_performance_level", "low\n"),
    ],
    "amd-sensors": [
        lambda: files(amd, f"{AMD_GPU}/hwmon/hwmon4/power1_cap", "500000000\n"),
        lambda: files(amd, f"{AMD_GPU}/hwmon/hwmon4/temp2_input", "99000\n"),
        lambda: files(amd, f"{AMD_GPU}/current_compute_partition", "CPX\n"),
    ],
    "amd-throttling": [
        lambda: amd().edit("amd-smi metric", "THERMAL_VIOLATION_STATUS: NOT ", f"{HOT}: ", 1),
        lambda: amd().edit("amd-smi metric", "UNCORRECTABLE_COUNT: 0", "UNCORRECTABLE_COUNT: 2", 1),
    ],
    "npu-health": [
        lambda: ascend().edit("npu-smi info", "| OK            |", "| Alarm         |", 1),
    ],
    "npu-links": [
        lambda: run(ascend(), "hccn_tool -i 3 -link -g", "link status: DOWN\n"),
        lambda: run(ascend(), "hccn_tool -i 3 -net_health -g", "net health status: Unreachable\n"),
    ],
    "pcie-width": [
        lambda: smi("Current                   : 16x", "Current : 8x", machine),
        lambda: files(h100, f"{PCI}/{GPU}/current_link_width", "8\n"),
        lambda: files(machine, f"{PCI}/0100:00:00.0/current_link_width", "8\n"),
    ],
    "pcie-slot": [
        lambda: files(
            h100,
            *(f"{PCI}/0000:02:00.0/max_link_speed", "16.0 GT/s PCIe\n"),
            *(f"{PCI}/0000:02:00.0/current_link_speed", "16.0 GT/s PCIe\n"),
            *(f"{PCI}/{GPU}/current_link_speed", "16.0 GT/s PCIe\n"),
        ),
        lambda: files(
            h100, f"{PCI}/{NIC}/current_link_width", "8", f"{PCI}/{NIC}/max_link_width", "8"
        ),
    ],
    "pcie-speed": [
        lambda: files(
            amd,
            *(f"{AMD_GPU}/gpu_busy_percent", "99\n"),
            *(f"{AMD_GPU}/current_link_speed", "2.5 GT/s PCIe\n"),
        ),
        lambda: files(h100, f"{PCI}/{NIC}/current_link_speed", "16.0 GT/s PCIe\n"),
        lambda: files(h100, f"{PCI}/{GPU}/current_link_speed", "16.0 GT/s PCIe\n"),
        lambda: files(h100, f"{PCI}/{GPU}/current_link_speed", "16.0 GT/s PCIe\n").edit(
            "nvidia-smi -q", "Gpu  ", "GPU  "
        ),
    ],
    "pcie-bridges": [
        lambda: files(h100, f"{PCI}/0000:01:00.0/current_link_speed", "8.0 GT/s PCIe\n"),
        lambda: switch_port(h100()),
    ],
    "pcie-bandwidth": [
        lambda: files(h100, f"{PCI}/{NIC}/current_link_width", "8\n"),
        lambda: switch_port(h100()),
    ],
    "pcie-limited": [lambda: dmesg(LIMITED)],
    "pcie-payload": [lambda: lspci_as_root(h100(), payload=128)],
    "pcie-relaxed-ordering": [lambda: lspci_as_root(h100(), ordering="-")],
    "pcie-power-saving": [
        lambda: files(
            h100,
            "/sys/module/pcie_aspm/parameters/policy",
            "default performance [powersave] powersupersave\n",
        ),
    ],
    "pcie-errors": [
        lambda: later(_with_replays, "nvidia-smi -q", "Since Reset : 1\n", "Since Reset : 5210\n"),
        lambda: grown(
            lambda: files(amd, f"{PCI}/0000:05:00.0/pcie_replay_count", "3\n"),
            f"{PCI}/0000:05:00.0/pcie_replay_count",
            "9000\n",
        ),
        lambda: grown(h100, f"{PCI}/{GPU}/aer_dev_fatal", "TOTAL_ERR_FATAL 1"),
        lambda: grown(h100, f"{PCI}/{NIC}/aer_dev_correctable", "TOTAL_ERR_COR 900"),
    ],
    "pcie-log": [
        lambda: dmesg(
            f"{AT}pcieport 0000:02:00.0: AER: Uncorrected (Fatal) error received: 0000:03:00.0"
        ),
        lambda: dmesg(
            "\n".join([f"{AT}pcieport 0000:02:00.0: AER: Corrected error received: {GPU}"] * 40)
        ),
        lambda: dmesg(
            f"{AT}DMAR: [DMA Read NO_PASID] Request device [03:00.0] fault addr 0x7f000000 "
            "[fault reason 0x06] PTE Read access is not set"
        ),
        lambda: dmesg(
            f"{AT}nvidia {GPU}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0x8]"
        ),
    ],
    "pcie-stalls": [
        lambda: _with_gauge(roce(), 64),
        lambda: later(roce, "ethtool -S rocep0", "stalled_wr_events: 0", "stalled_wr_events: 6"),
    ],
    "acs": [
        lambda: lspci_as_root(h100(), "ReqRedir+ CmpltRedir+ UpstreamFwd+"),
        lambda: _apart(h100()),
    ],
    "ats": [
        lambda: machine().edit("lspci -D -vvv", "ATSCtl:\tEnable+", "ATSCtl:\tEnable-"),
    ],
    "iommu": [
        lambda: files(h100, "/sys/kernel/iommu_groups/10/type", "DMA-FQ\n"),
        lambda: files(
            lambda: h100().remove("/sys/kernel/iommu_groups"), "/proc/cmdline", "intel_iommu=on\n"
        ),
    ],
    "numa-devices": [
        lambda: files(h100, f"{PCI}/{GPU}/numa_node", "-1\n"),
        lambda: files(h100, f"{PCI}/{GPU}/numa_node", "1\n"),
    ],
    "gpu-network": [
        lambda: moved(h100()),
        lambda: moved(h100(), *range(8)),
        lambda: moved(h100(), *range(4)),
        lambda: moved(h100(), 0, 1, 4, 5, node=None),
    ],
    "topology-file": [
        lambda: machine().set("/opt/microsoft/ndv5-topo.xml", None),
        lambda: with_variables(NCCL_TOPO_FILE="/etc/nccl/none.xml"),
        lambda: files(h100, "/etc/nccl.conf", "NCCL_TOPO_FILE=/etc/nccl/none.xml\n"),
    ],
    "numa-memory": [
        lambda: files(
            h100,
            "/proc/self/status",
            "CapEff:\t0\nCpus_allowed_list:\t0-63\nMems_allowed_list:\t0\n",
        ),
        lambda: files(
            base, "/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 5000000 kB"
        ),
    ],
    "numa-balancing": [lambda: files(amd, "/proc/sys/kernel/numa_balancing", "1\n")],
    "processors": [
        lambda: files(h100, "/sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-1\n"),
        lambda: files(a10, "/proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t32-35\n"),
        lambda: files(
            h100, "/proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-1\n"
        ),
    ],
    "rdma-state": [
        lambda: files(h100, f"{IB}/mlx5_3/ports/1/phys_state", "6: LinkErrorRecovery\n"),
        lambda: _all_down(h100()),
        lambda: files(
            h100,
            f"{IB}/mlx5_3/ports/1/state",
            "1: DOWN\n",
            f"{IB}/mlx5_3/ports/1/phys_state",
            "2: Polling\n",
        ),
        lambda: files(h100, f"{IB}/mlx5_3/ports/1/state", "2: INIT\n"),
    ],
    "rdma-rate": [lambda: files(h100, f"{IB}/mlx5_3/ports/1/rate", "200 Gb/sec (4X HDR)\n")],
    "rdma-width": [lambda: files(h100, f"{IB}/mlx5_3/ports/1/rate", "100 Gb/sec (1X NDR)\n")],
    "rdma-mtu": [
        lambda: roce().edit("ibv_devinfo", "active_mtu:\t\t4096 (5)", "active_mtu:\t\t1024 (3)", 1),
        lambda: run(files(roce, f"{NET}/rocep0/mtu", "1500\n"), "ibv_devinfo", ""),
    ],
    "roce-gid": [
        lambda: _link_local(roce(), 6),
        lambda: with_variables(roce, NCCL_IB_GID_INDEX="0"),
        lambda: files(
            roce, f"{IB}/mlx5_0/ports/1/gids/3", "0000:0000:0000:0000:0000:0000:0000:0000"
        ),
    ],
    "roce-pfc": [
        lambda: _without_pfc(roce()),
        lambda: run(_without_pfc(roce()), "ethtool -a rocep0", "RX:\t\ton\nTX:\t\ton\n"),
    ],
    "roce-traffic-class": [
        lambda: with_variables(roce, NCCL_IB_TC="64"),
        lambda: files(roce, f"{IB}/mlx5_0/tc/1/traffic_class", "Global tclass=0\n"),
    ],
    "roce-ecn": [lambda: files(roce, f"{NET}/rocep0/ecn/roce_rp/enable/3", "0\n")],
    "rdma-errors": [
        lambda: _more(roce(), "rx_out_of_buffer", 10, 900_010),
        lambda: grown(
            lambda: files(roce, f"{HARDWARE}/rx_icrc_encapsulated", "0\n"),
            f"{HARDWARE}/rx_icrc_encapsulated",
            "500\n",
        ),
        lambda: _more(roce(), "rx_prio3_discards", 10, 90010),
        lambda: _more(roce(), "rx_roce_discards", 10, 90010),
        lambda: _more(roce(), "tx_errors_phy", 10, 710),
        lambda: grown(h100, f"{COUNTERS}/link_downed", "2\n"),
        lambda: grown(h100, f"{COUNTERS}/symbol_error", "4000\n"),
    ],
    "rdma-retransmissions": [
        lambda: grown(roce, f"{IB}/mlx5_0/ports/1/hw_counters/out_of_sequence", "99120\n"),
    ],
    "congestion": [
        lambda: grown(h100, f"{COUNTERS}/port_xmit_wait", "14489603687\n"),
        lambda: grown(roce, f"{IB}/mlx5_0/ports/1/hw_counters/np_cnp_sent", "9098765\n"),
    ],
    "pause-frames": [
        lambda: _more(roce(), "rx_pfc_ena_frames_pri3", 5, 400_005),
        lambda: _more_of_npu(ascend(), "mac_rx_pfc_pkt_num", 9_000_000),
        lambda: later(
            roce,
            "ethtool -S rocep0",
            "prio3_pause_duration: 98765432",
            "prio3_pause_duration: 101765432",
        ),
    ],
    "global-pause": [
        lambda: _more(roce(), "rx_pause_frames", 5, 900_005),
        lambda: later(
            roce,
            "ethtool -S rocep0",
            "rx_global_pause_duration: 0",
            "rx_global_pause_duration: 2170000",
        ),
    ],
    "port-flaps": [lambda: grown(base, f"{NET}/eno1/carrier_changes", "4\n")],
    "link-history": [
        lambda: dmesg(_flaps("i40e 0000:04:00.0 eno1: NIC Link is Down")),
        lambda: dmesg(_flaps("bnxt_en 0000:04:00.0 eno1: NIC Link is Down")),
        lambda: dmesg(_flaps("bond0: (slave eno1): link status definitely down, disabling slave")),
        lambda: dmesg(_flaps("mlx5_core 0000:04:00.0 ib9: Link down")),
        lambda: dmesg(_flaps("NetworkManager[9]: device (eno1): carrier: link disconnected")),
        lambda: dmesg(
            "\n".join(f"[86300{one}.0] mlx5_core 0000:04:00.0 eno1: Link down" for one in range(3))
        ),
        lambda: dmesg("\n".join(["systemd-networkd[5398]: eno1: lost carrier"] * 3)),
    ],
    "network-log": [lambda line=line: dmesg(f"{AT}{line}") for line in NETWORK_LINES],
    "net-errors": [
        lambda: grown(
            lambda: files(base, f"{NET}/eno1/statistics/rx_missed_errors", "4\n"),
            f"{NET}/eno1/statistics/rx_missed_errors",
            "90004\n",
        ),
        lambda: grown(base, f"{NET}/eno1/statistics/rx_crc_errors", "30\n"),
    ],
    "net-duplex": [lambda: files(base, f"{NET}/eno1/duplex", "half\n")],
    "net-bonds": [
        lambda: files(
            base,
            BOND,
            "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\n\n802.3ad info\n"
            "Partner Mac Address: 00:00:00:00:00:00\n\nSlave Interface: eno1\nMII Status: up\n"
            "Speed: 25000 Mbps\n",
        ),
        lambda: files(
            base,
            BOND,
            "Slave Interface: none\n\nSlave Interface: eno1\nMII Status: up\nSpeed: 25000 Mbps\n"
            "\nSlave Interface: eno2\nMII Status: up\nSpeed: 10000 Mbps\n",
        ),
        lambda: files(
            base,
            BOND,
            "Bonding Mode: 802.3ad\nMII Status: up\n\nSlave Interface: eno1\n"
            "MII Status: up\n\nSlave Interface: eno2\nMII Status: down\n",
        ),
    ],
    "rendezvous-interface": [
        lambda: with_variables(
            lambda: files(base, f"{NET}/docker0/operstate", "up\n"), NCCL_SOCKET_IFNAME="docker0"
        ),
        lambda: with_variables(base, NCCL_SOCKET_IFNAME="eth9"),
        lambda: with_variables(base, GLOO_SOCKET_IFNAME="lo"),
        lambda: with_variables(NCCL_SOCKET_IFNAME="^en,docker,ib"),
        lambda: files(h100, "/etc/nccl.conf", "NCCL_SOCKET_IFNAME=^=eno1\n"),
    ],
    "gpudirect-rdma": [
        lambda: h100().remove("/sys/module/nvidia_peermem"),
        lambda: _open_driver(with_variables(NCCL_DMABUF_ENABLE="0")),
    ],
    "peermem-errors": [
        lambda: dmesg(
            "[    9.0] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)"
        ),
    ],
    "gdrcopy": [lambda: listed("/sys/module/gdrdrv/version")],
    "rdma-devices": [
        lambda: run(h100(), "ibv_devinfo", "Failed to open device\n", 255),
        lambda: h100().remove("/dev/infiniband"),
        lambda: h100().remove("/usr/lib/x86_64-linux-gnu/libibverbs"),
    ],
    "rdma-driver": [lambda: h100().remove(f"{IB}/mlx5_3")],
    "rdma-firmware": [lambda: files(h100, f"{IB}/mlx5_3/fw_ver", "28.36.1010\n")],
    "network-plugin": [
        lambda: with_variables(
            lambda: listed("/sys/class/cxi/cxi0/device", "/usr/lib64/libnccl-net.so"),
            NCCL_NET_PLUGIN="none",
        ),
        lambda: listed("/sys/class/cxi/cxi0/device/properties/nic_addr"),
    ],
    "rdma-selection": [
        lambda: with_variables(NCCL_IB_HCA="mlx5_0"),
        lambda: with_variables(UCX_NET_DEVICES="mlx5_9:1"),
        lambda: with_variables(UCX_NET_DEVICES="mlx5_0:2"),
        lambda: with_variables(NCCL_IB_HCA="mlx4_0"),
        lambda: with_variables(NCCL_IB_HCA=",".join(f"mlx5_{one}:2" for one in range(8))),
        lambda: with_variables(NCCL_IB_HCA="=mlx5_0:1,mlx5_1:2"),
        lambda: with_variables(NCCL_IB_HCA="=mlx5_0,mlx5_9"),
    ],
    "memlock": [
        lambda: files(
            h100,
            "/proc/self/limits",
            "Max locked memory         8388608              8388608              bytes\n",
        ),
    ],
    "open-files": [
        lambda: files(
            base,
            "/proc/self/limits",
            "Max open files            1024                 4096                 files\n",
        ),
    ],
    "shm-size": [
        lambda: space("/dev/shm", 64 * MIB, 64 * MIB, container),
        lambda: space("/dev/shm", 512 * MIB, 512 * MIB),
    ],
    "shm-free": [lambda: space("/dev/shm", 8192 * MIB, 100 * MIB)],
    "cpu-quota": [
        lambda: files(h100, "/sys/fs/cgroup/user.slice/cpu.max", "400000 100000\n"),
        lambda: files(
            h100,
            *("/proc/self/cgroup", "0::/kubepods.slice/pod1/c1\n"),
            *("/sys/fs/cgroup/kubepods.slice/pod1/c1/cpu.max", "max 100000\n"),
            *("/sys/fs/cgroup/kubepods.slice/pod1/c1/cpu.stat", "nr_throttled 0\n"),
            *("/sys/fs/cgroup/kubepods.slice/pod1/cpu.max", "400000 100000\n"),
            *("/sys/fs/cgroup/kubepods.slice/pod1/cpu.stat", "nr_throttled 0\n"),
        ),
        lambda: files(
            h100,
            *("/proc/self/cgroup", "12:cpu,cpuacct:/docker/abc\n"),
            *("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "400000\n"),
            *("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n"),
        ),
    ],
    "cpu-throttling": [
        lambda: grown(
            lambda: files(
                base,
                *("/proc/self/cgroup", "4:cpu,cpuacct:/\n"),
                *("/sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_throttled 4\nthrottled_time 9\n"),
            ),
            "/sys/fs/cgroup/cpu,cpuacct/cpu.stat",
            "nr_throttled 90\nthrottled_time 4000000000\n",
        ),
        lambda: grown(
            base,
            "/sys/fs/cgroup/user.slice/cpu.stat",
            "usage_usec 9\nnr_throttled 90\nthrottled_usec 4000000\n",
        ),
    ],
    "huge-pages": [
        lambda: files(
            lambda: base().remove("/sys/kernel/mm/hugepages"),
            "/proc/meminfo",
            "MemTotal: 2113463172 kB\nHugePages_Free: 900000\nHugepagesize: 2048 kB\n",
        ),
        lambda: files(base, "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "800000\n"),
    ],
    "disk-space": [lambda: space("/tmp", 100 * MIB, 1 * MIB)],
    "memory-errors": [
        lambda: grown(base, "/sys/devices/system/edac/mc/mc0/ue_count", "1\n"),
        lambda: grown(base, "/sys/devices/system/edac/mc/mc0/ce_count", "500\n"),
    ],
    "memory-pressure": [
        lambda: grown(base, "/sys/fs/cgroup/user.slice/memory.events", "low 0\nmax 90\noom 0\n"),
    ],
    "memory-log": [
        lambda: dmesg(f"{AT}Out of memory: Killed process 12345 (python) total-vm:900000kB", base),
        lambda: dmesg(f"{AT}EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#1", base),
        lambda: dmesg(f"{AT}CPU12: Package temperature above threshold, cpu clock throttled", base),
    ],
    "cpu-governor": [
        lambda: files(base, "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "ondemand\n"),
        lambda: files(
            base,
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
            "powersave\n",
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_driver",
            "acpi-cpufreq\n",
        ),
    ],
    "cpu-clock": [
        lambda: files(base, "/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        lambda: files(base, "/sys/devices/system/cpu/cpufreq/boost", "0\n"),
        lambda: files(base, "/sys/devices/system/cpu/intel_pstate/max_perf_pct", "40\n"),
        lambda: files(base, "/sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "1200000\n"),
        lambda: files(base, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1200000\n"),
    ],
    "cpu-pressure": [
        lambda: files(
            base, "/proc/pressure/cpu", "some avg10=64.10 avg60=1.00 avg300=0.1 total=1\n"
        ),
    ],
    "cpu-heat": [
        lambda: grown(
            base, "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "90\n"
        ),
    ],
    "clock-source": [
        lambda: files(
            base, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"
        ),
    ],
    "clock-synchronised": [
        lambda: _unsynchronised(base(), "synchronised=1 maximum_error_us=4000000"),
        lambda: _unsynchronised(base()),
    ],
    "kernel-hangs": [
        lambda: dmesg(f"{AT}watchdog: Watchdog detected hard LOCKUP on cpu 7"),
        lambda: dmesg(f"{AT}watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python:12345]"),
        lambda: dmesg(f"{AT}rcu: INFO: rcu_sched self-detected stall on CPU"),
        lambda: dmesg(f"{AT}nfs: server fs1 not responding, still trying"),
        lambda: dmesg("[863999.0] INFO: task nvidia-smi:4242 blocked for more than 120 seconds."),
    ],
    "variable-transport": [
        lambda: with_variables(amd, NCCL_P2P_DISABLE="1"),
        lambda: with_variables(NCCL_PXN_DISABLE="1"),
        lambda: with_variables(UCX_TLS="rc,sm,self"),
        lambda: with_variables(UCX_TLS="self,dc_x"),
        lambda: with_variables(NCCL_P2P_DISABLE="1"),
        lambda: files(h100, "/etc/nccl.conf", "NCCL_IB_DISABLE=1\n"),
        lambda: files(
            lambda: with_variables(HOME="/home/user"),
            "/home/user/.nccl.conf",
            "NCCL_P2P_DISABLE=1\n",
        ),
        lambda: with_variables(NCCL_P2P_DISABLE="0x1"),
        lambda: with_variables(NCCL_P2P_DISABLE="01"),
        lambda: with_variables(amd, RCCL_ENABLE_INTRANET="1"),
    ],
    "variable-choice": [
        lambda: with_variables(NCCL_MAX_NCHANNELS="2"),
        lambda: with_variables(NCCL_IB_ADAPTIVE_ROUTING="0"),
    ],
    "variable-blocking": [lambda: with_variables(CUDA_LAUNCH_BLOCKING="1")],
    "variable-debug": [
        lambda: with_variables(NCCL_DEBUG="TRACE"),
        lambda: with_variables(UCX_LOG_LEVEL="debug"),
        lambda: with_variables(FI_LOG_LEVEL="Debug"),
        lambda: with_variables(amd, AMD_LOG_LEVEL="4"),
    ],
    "relaxed-ordering": [lambda: with_variables(NCCL_IB_PCI_RELAXED_ORDERING="0")],
    "variable-combinations": [
        lambda: with_variables(a10, NCCL_NET="IB"),
        lambda: with_variables(NCCL_NSOCKS_PERTHREAD="16", NCCL_SOCKET_NTHREADS="8"),
        lambda: with_variables(CUDA_VISIBLE_DEVICES="0,8"),
        lambda: with_variables(NCCL_COLLNET_ENABLE="1"),
        lambda: with_variables(NCCL_MIN_NCHANNELS="16", NCCL_MAX_NCHANNELS="8"),
        lambda: with_variables(CUDA_VISIBLE_DEVICES="0,0"),
    ],
    "plugins": [
        lambda: with_variables(NCCL_NET_PLUGIN="aws-ofi"),
        lambda: with_variables(NCCL_GRAPH_FILE="/tmp/graph.xml"),
    ],
    "nccl-version": [
        lambda version=version: listed(f"/usr/lib64/libnccl.so.{version}")
        for version in ("2.16.2", "2.11.4", "2.14.3", "2.18.1", "2.29.1")
    ],
    "nccl-versions": [
        lambda: listed("/usr/lib64/libnccl.so.2.12.12"),
        lambda: listed("/usr/lib64/libnccl.so.2.18.3"),
        lambda: with_variables(
            lambda: listed("/opt/old/libnccl.so.2.10.3"),
            LD_PRELOAD="/usr/lib/libx.so:/opt/old/libnccl.so.2.10.3",
        ),
    ],
    "both-directions": [lambda: _measured(h100(), 64.0)],
    "cuda-driver": [lambda: _with_packages(h100(), "nvidia_nccl_cu13-2.28.9.dist-info")],
}
#: Hosts on which checks pass that no healthy one has an object for.
PASSING = {
    "gpu-slowdown": lambda: _slowed(h100(), "HW Thermal Slowdown", 90),
    "gpu-locked-clocks": lambda: _clocked(h100(), 1900),
    "gdrcopy": lambda: listed("/sys/module/gdrdrv/version", "/dev/gdrdrv"),
    "network-plugin": lambda: listed(
        "/sys/class/cxi/cxi0/device/properties/nic_addr", "/usr/local/lib/libnccl-net.so"
    ),
    "rdma-selection": lambda: with_variables(NCCL_IB_HCA="mlx5_"),
    "plugins": lambda: with_variables(_with_plugin, NCCL_NET_PLUGIN="ofi"),
    "pcie-payload": lambda: lspci_as_root(h100()),
    "both-directions": lambda: _measured(h100(), 96.0),
    "container-ipc": lambda: files(h100, "/.dockerenv", ""),
}
#: Checks that judge nothing on a host alone, and why.
NEVER_FAILS = {
    "adaptive-routing": "the host does not show it",
    "container-ipc": "whether another container shares its memory is not visible",
}


def _measured(host, total):
    """``total``: GB/s of both directions; one alone has 48."""
    host.measured = (
        "measure,scope,from,to,total_gbps\nunidirectional,pairs,DEV0,DEV1,48.0\n"
        f"bidirectional,pairs,DEV0,DEV1,{total}\nbidirectional,pairs,DEV1,DEV0,{total}\n"
    )
    return host


def _with_plugin():
    return listed("/usr/local/lib/libnccl-net-ofi.so")


def _apart(host):
    host.resolve[f"{PCI}/{GPU}/iommu_group"] = "/sys/kernel/iommu_groups/77"
    return host


def _unsynchronised(host, clock="synchronised=0 maximum_error_us=16000000"):
    host.clock = clock
    return host


def _slowed(host, name, microseconds):
    """A GPU that is slowed down between the two moments."""
    counters = "    Clocks Event Reasons Counters\n        {} : {} us\n    Compute Mode "
    host.edit("nvidia-smi -q", "    Compute Mode ", counters.format(name, 7), 1)
    return later(lambda: host, "nvidia-smi -q", " : 7 us", f" : {7 + microseconds} us")


def _clocked(host, megahertz):
    """A busy GPU with a clock of 1,980 MHz at most."""
    host.edit("nvidia-smi -q", "Idle                              : Active", "Idle : Not Active")
    clocks = f"    Max Clocks\n        SM : 1980 MHz\n    Clocks\n        SM : {megahertz} MHz\n"
    return host.edit("nvidia-smi -q", "    Clocks\n", clocks, 1)


def _with_replays():
    """A GPU that reports replays of its link."""
    return smi(
        "        GPU Link Info\n", "        Replays Since Reset : 1\n        GPU Link Info\n"
    )


def _with_gauge(host, percent):
    return host.edit(
        "ethtool -S rocep0", "     rx_packets", f"     {STALLED}: {percent}\n     rx_packets"
    )


def _more(host, name, first, second):
    """A counter of ethtool that grows."""
    host.edit("ethtool -S rocep0", "     rx_packets", f"     {name}: {first}\n     rx_packets")
    return later(lambda: host, "ethtool -S rocep0", f"{name}: {first}\n", f"{name}: {second}\n")


def _more_of_npu(host, name, count):
    """A counter of an NPU's port that grows."""
    host.run["hccn_tool -i 3 -stat -g"] = f"packet statistics:\n{name}:5\n"
    return later(lambda: host, "hccn_tool -i 3 -stat -g", ":5\n", f":{count}\n")


def _all_down(host, was_up=True):
    for path in [*host.read]:
        if path.endswith("/ports/1/phys_state"):
            host.set(path, "2: Polling\n")
        elif path.endswith("/ports/1/state"):
            host.set(path, "1: DOWN\n")
        elif path.endswith("/link_downed") and not was_up:
            host.set(path, "0\n")
    return host


def _link_local(host, *numbers):
    """RoCE ports whose interfaces have no IP address."""
    for number in numbers:
        root = f"{IB}/mlx5_{number}/ports/1"
        host.set(f"{root}/gids/3", "fe80:0000:0000:0000:a288:c2ff:fe00:0001\n")
    return host


def _without_pfc(host):
    for number in range(8):
        host.edit(f"dcb pfc show dev rocep{number}", "3:on", "3:off")
    return host


def _open_driver(host):
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.127.05  Release Build\n"
    return host.remove("/sys/module/nvidia_peermem").set("/proc/driver/nvidia/version", text)


def _flaps(line, count=3, at=863000):
    return "\n".join(f"[{at + 5 * number}.5] {line}" for number in range(count))


def _with_packages(host, names):
    host.packages = names
    return host


def outcome(host, check):
    """What one check finds on a host."""
    (found,) = examine(host.host(), [one for one in CHECKS if one.id == check], 0.0).outcomes
    assert isinstance(found, CheckOutcome)
    return found


CASES = [(check, number) for check, own in FAULTS.items() for number in range(len(own))]


def test_every_check_has_a_failing_and_a_passing_host():
    assert {*FAULTS} | {*NEVER_FAILS} == {*IDS}
    passed = {check for factory in HEALTHY.values() for check in _passed(factory())}
    passed |= {
        check for check, factory in PASSING.items() if outcome(factory(), check).state == "pass"
    }
    assert {*IDS} - passed == {"adaptive-routing"}


def _passed(host):
    found = examine(host.host(), CHECKS, 0.0).outcomes
    return [one.check for one in found if one.state == "pass"]


@pytest.mark.parametrize(("check", "number"), CASES)
def test_a_fault_is_found(check, number):
    found = outcome(FAULTS[check][number](), check)
    assert found.state == "fail", (found.state, found.reason, found.signals)
    assert found.signals and all(not one.is_ok for one in found.signals)
    assert found.cost and found.source and found.remedies
    assert not found.cost.startswith("see ")
    steps = [one.step for one in found.remedies]
    ladder = ["setting", "reset", "reboot", "service"]
    assert steps == sorted(steps, key=ladder.index), steps


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_fails_on_a_healthy_host(name):
    found = examine(HEALTHY[name]().host(), CHECKS, 0.0).outcomes
    assert [one.check for one in found] == [*IDS]
    assert {one.check: one.signals for one in found if one.state == "fail"} == {}
    for one in found:
        if one.state in ("unknown", "absent"):
            assert one.reason
        else:
            assert one.signals


@pytest.mark.parametrize("check", FAULTS)
def test_a_fault_fails_little_else(check):
    """What a fault may also fail follows from it."""
    host = FAULTS[check][0]()
    failed = {
        one.check for one in examine(host.host(), CHECKS, 0.0).outcomes if one.state == "fail"
    }
    assert failed - {check} <= RELATED.get(check, set())


RELATED = {
    "gpu-count": {"nvlink-down", "pcie-bandwidth"},
    "pcie-width": {"pcie-bandwidth"},
    "pcie-slot": {"pcie-bandwidth"},
    "pcie-bridges": {"pcie-bandwidth"},
    "pcie-bandwidth": {"pcie-width"},
    "pcie-speed": {"pcie-bandwidth"},
    "rdma-state": {"gpu-network"},
    "rdma-width": {"rdma-rate"},
    "acs": set(),
    "nccl-versions": {"nccl-version"},
    "nccl-version": {"nccl-versions"},
    "cuda-driver": {"nccl-versions"},
}


def test_innocent_values_are_not_flagged():
    """Lifetime counters, defaults of drivers and caps that load explains."""
    host = smi("SW Power Cap                      : Not Active", "SW Power Cap : Active")
    host.edit("nvidia-smi -q", "DRAM Uncorrectable            : 9", "DRAM Uncorrectable : 99999")
    host.set(f"{COUNTERS}/link_downed", "4000000\n").set(f"{COUNTERS}/symbol_error", "4294967295\n")
    host.run["dmesg"] += f"{XID}31, pid=1, Ch 8, MMU Fault\n{XID}13, pid=1, Graphics Exception\n"
    failed = [
        one.check for one in examine(host.host(), CHECKS, 0.0).outcomes if one.state == "fail"
    ]
    assert failed == []


def test_a_counter_that_was_reset_is_not_judged():
    host = grown(h100, f"{COUNTERS}/link_downed", "0\n", f"{COUNTERS}/symbol_error", "")
    assert outcome(host, "rdma-errors").state == "pass"


def test_limits_of_times_have_a_unit():
    for check, limit in (
        ("pause-frames", "≤ 50,000 µs/s"),
        ("global-pause", "≤ 50,000 µs/s"),
        ("gpu-slowdown", "≤ 1% of the time"),
    ):
        assert limit in [outcome(one(), check).signals[0].limit for one in FAULTS[check]]
    found = outcome(FAULTS["cpu-throttling"][0](), "cpu-throttling").signals
    (time,) = [one for one in found if "throttled_time" in one.seen]
    assert "ns in 10 s" in time.seen and time.limit == "≤ 10,000,000 ns/s"


def test_one_event_is_no_rate():
    """One symbol error in a second is 3,600 an hour, and yet may be chance."""
    host = grown(h100, f"{COUNTERS}/symbol_error", "1\n")
    host.interval_s = 1.0
    assert outcome(host, "rdma-errors").state == "pass"


def test_idle_gpus_lower_their_speed_and_never_their_width():
    host = files(a10, f"{PCI}/0000:17:00.0/current_link_speed", "2.5 GT/s PCIe\n")
    host.edit("nvidia-smi -q", ": P0", ": P8").edit("nvidia-smi -q", ": 97 %", ": 0 %")
    found = outcome(host, "pcie-speed")
    assert (found.state, found.needs) == ("unknown", "cclmark doctor during a job")
    assert outcome(host, "pcie-width").state == "pass"


def test_few_network_devices_by_design_are_not_faults():
    """One card for all accelerators, fewer cards than switches, and slots at root ports."""
    for kept in ((0,), (0, 4)):
        host = h100()
        for number in {*range(8)} - {*kept}:
            host.remove(f"{IB}/mlx5_{number}").remove(f"{PCI}/{_nic(number)}")
        assert outcome(host, "gpu-network").state == "pass"
    assert outcome(moved(h100(), *range(8), node=None), "gpu-network").state == "pass"


def test_acs_stays_in_a_virtual_machine():
    assert outcome(machine(), "acs").state == "absent"
    assert outcome(h100(), "ats").state == "absent"


def test_a_usb_interface_and_two_lanes_by_design_are_not_faults():
    usb = files(h100, f"{NET}/eno1/duplex", "half\n")
    usb.resolve[f"{NET}/eno1"] = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/net/eno1"
    assert outcome(usb, "net-duplex").state != "fail"
    split = h100()
    for path in [one for one in split.read if one.endswith("/ports/1/rate")]:
        split.set(path, "200 Gb/sec (2X NDR)\n")
    assert outcome(split, "rdma-width").state == "pass"


def test_whether_ports_are_lost_or_without_a_cable_needs_another_host():
    """Ports without a link since the driver was loaded, as its counter shows, are no fault."""
    found = outcome(_all_down(h100(), was_up=False), "rdma-state")
    assert found.state == "unknown"


@pytest.mark.parametrize(
    "lines",
    [
        _flaps("mlx5_core 0000:04:00.0 eno1: Link down", 4, at=20),  # at the start of the host
        _flaps("veth12: Lost carrier", 9),
        _flaps("docker0: link is not ready", 9),
        _flaps("mlx5_core 0000:04:00.0 eno1: Link down", 2),
        "[   9.1] pcieport 0000:02:00.0: AER: Corrected error received: 0000:03:00.0",
        "\n".join(
            ["[863000.5] pcieport 0000:f0:01.0: AER: Corrected error received: 0000:f1:00.0"] * 40
        ),
        "[863000.5] nfs: server fs1 not responding, still trying\n[863009.5] nfs: server fs1 OK",
        "[  9000.5] Out of memory: Killed process 12345 (python)",
        "[863000.5] mlx5_core 0000:04:00.0: Port module event: module 0, Cable plugged",
        "[863000.5] mce: [Hardware Error]: Machine check events logged",
        "[863000.5] perf: interrupt took too long (2504 > 2500), lowering the rate",
        "[863000.5] traps: python[99] general protection fault ip:7f sp:7f error:0 in libc.so.6",
        "[863000.5] NVRM: Xid (PCI:0000:03:00): 31, pid=1, name=x, MMU Fault: GSP task timeout",
        "[863000.5] mlx5_core 0000:04:00.0: PCIe slot advertised sufficient power (75W).",
        "[863000.5] DMAR: Intel(R) Virtualization Technology for Directed I/O",
        "[863000.5] amdgpu 0000:05:00.0: amdgpu: 4 correctable hardware errors detected in umc",
        "[863000.5] EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
    ],
)
def test_lines_of_the_kernel_that_are_harmless(lines):
    for factory in (h100, amd):
        host = dmesg(lines, factory)
        failed = [
            one.check for one in examine(host.host(), CHECKS, 0.0).outcomes if one.state == "fail"
        ]
        assert failed == []


def test_a_file_system_that_answers_again_ends_its_own_line_alone():
    lines = (
        "[863000.5] nfs: server fs1 not responding, still trying\n"
        "[863001.5] nfs: server fs2 not responding, still trying\n[863009.5] nfs: server fs1 OK"
    )
    found = outcome(dmesg(lines), "kernel-hangs")
    assert [one.seen for one in found.signals] == ["nfs: server fs2 not responding, still trying"]


def test_a_live_probe_keeps_every_line_that_a_check_judges():
    keeps = _lines_of("dmesg")
    for check in ("kernel-hangs", "network-log", "pcie-log", "gpu-log", "memory-log", "gpu-xid"):
        for factory in FAULTS[check]:
            last = factory().run["dmesg"].splitlines()[-1]
            assert keeps.search(last), last
    for line in ("eno1: NIC Link is Down", "nfs: server fs1 OK", "eno1: Lost carrier"):
        assert keeps.search(line)


@pytest.mark.parametrize(
    ("first", "second", "state"), [(64, 64, "fail"), (64, 2, "pass"), (2, 64, "pass")]
)
def test_a_gauge_is_judged_at_both_moments(first, second, state):
    host = _with_gauge(roce(), first)
    text = host.run["ethtool -S rocep0"].replace(f"{STALLED}: {first}", f"{STALLED}: {second}")
    host.later.setdefault("run", {})["ethtool -S rocep0"] = text
    assert outcome(host, "pcie-stalls").state == state


@pytest.mark.parametrize("name", ["h200-machine", "h200x2-machine"])
def test_no_check_that_is_newer_fails_on_a_real_host(name):
    recorded = read_recorded(Path(__file__).with_name("hosts") / f"{name}.json.gz")
    host = Host(RecordedProbe(recorded))
    found = examine(host, CHECKS, 0.0).outcomes
    assert [one.check for one in found if one.state == "fail"] == []


def test_counters_that_were_read_once_tell_nothing():
    host = h100()
    host.interval_s = 0.0
    assert outcome(host, "rdma-errors").state == "unknown"


def test_ports_without_a_cable_are_not_faults():
    host = h100()
    for number in range(3):
        host.set(f"{IB}/mlx5_{number}/ports/1/state", "1: DOWN\n")
        host.set(f"{IB}/mlx5_{number}/ports/1/phys_state", "3: Disabled\n")
    assert outcome(host, "rdma-state").state == "pass"


@pytest.mark.parametrize(
    ("at_s", "kind", "severity", "state"),
    [
        (863000, "Non-fatal", 0, "pass"),
        (863000, "Nonfatal", 0, "pass"),
        (863000, "Fatal", 1, "fail"),
        (60, "Fatal", 1, "pass"),
    ],
)
def test_the_first_line_of_an_sxid_says_whether_it_is_fatal(at_s, kind, severity, state):
    """Lines with the severity and the data follow; those of the last day are judged."""
    head = "nvidia-nvswitch1: SXid (PCI:0000:b3:00.0): 22013,"
    texts = (
        f"{kind}, Link 36 Minion Link DLREQ interrupt",
        f"Severity {severity} Engine instance 36 Sub-engine instance 00",
        "Data {0x00000037, 0x00000037, 0x00000000}",
    )
    host = dmesg("\n".join(f"[{at_s}.{n}] {head} {text}" for n, text in enumerate(texts)))
    found = outcome(host, "nvswitch-errors")
    assert found.state == state
    if state == "fail":
        assert len(found.signals) == 1
    else:
        assert ("older: 22013" in found.signals[-1].seen) == (kind == "Fatal")


def test_xids_are_over_when_the_driver_reports_so():
    line = f"{XID}48, pid=1, DBE"
    ended = f"{XID}154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    assert outcome(dmesg(f"{line}\n{ended}"), "gpu-xid").state == "pass"
    old = "[  100.0] NVRM: Xid (PCI:0000:03:00): 48, pid=1, DBE"
    assert outcome(dmesg(old), "gpu-xid").state == "pass"


@pytest.mark.parametrize("value", ["Unknown Error", "[Unknown Error]", "ERR!"])
@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("DRAM Uncorrectable            : 0", "gpu-ecc-errors"),
        ("GPU Current Temp                  : 34 C", "gpu-temperature"),
        ("Current Power Limit               : 700.00 W", "gpu-power"),
        ("Remapping Failure Occurred        : No", "gpu-remapped-rows"),
        ("Persistence Mode                      : Enabled", "gpu-persistence"),
        ("GPU Recovery Action                   : None", "gpu-recovery"),
        ("State                             : Completed", "nvlink-fabric"),
    ],
)
def test_a_value_that_the_driver_fails_to_read_makes_no_check_pass(value, name, check):
    host = smi(name, f"{name.split(':')[0]}: {value}")
    found = outcome(host, check)
    assert found.state == "unknown"
    assert GPU in found.reason
    assert name.split(":")[0].strip() in found.reason
    assert outcome(host, "gpu-driver").state == "pass"


def test_a_gpu_of_which_no_value_is_read():
    host = _unread("ERR!")
    assert outcome(host, "gpu-driver").signals[0].where == "0000:05:00.0"
    for check in ("gpu-ecc-errors", "gpu-temperature", "gpu-power", "gpu-ecc-mode", "gpu-mig"):
        found = outcome(host, check)
        assert (found.state, found.reason[:12]) == ("unknown", "0000:05:00.0")


def test_a_gpu_of_which_a_part_is_read():
    """Its name and its modes are, three sections are not: the driver lost it."""
    parts = ("GPU Current Temp                  : 34 C", "DRAM Uncorrectable            : 0")
    host = h100()
    for name in (*parts, "Current Power Limit               : 700.00 W"):
        host.edit("nvidia-smi -q", name, f"{name.split(':')[0]}: Unknown Error", 1)
    assert outcome(host, "gpu-driver").signals[0].where == GPU
    assert outcome(host, "gpu-driver").remedies[0].step == "reset"
    assert outcome(host, "gpu-persistence").state == "pass"
    pending = "Pending                           : Enabled"
    host = smi(pending, "Pending : Unknown Error")
    assert outcome(host, "gpu-ecc-mode").state == "unknown"


def test_a_limit_of_links_is_the_one_that_is_applied():
    found = outcome(h100(), "nvlink-rate")
    assert found.signals[0].limit == "≥ 25.234 GB/s, 95 % of 26.562"
    host = smi("Bandwidth                     : Full", "Bandwidth : N/A")
    assert outcome(host, "nvlink-fabric").signals[0].seen == "Completed, Success"


def test_xids_that_ask_for_nothing_are_named_by_their_reason():
    old = ("79, GPU has fallen off the bus", "94, pid=1, Contained")
    lines = [f"[  100.0] NVRM: Xid (PCI:0000:03:00): {one}" for one in old]
    lines += [f"{XID}{one}" for one in ("31, pid=1", "63, Row Remapper", "144, SAW_MVB Nonfatal")]
    found = outcome(dmesg("\n".join(lines)), "gpu-xid")
    assert found.state == "pass"
    assert found.signals[0].seen == (
        "no Xid that asks for a reset or more; of programs: 31; without an action: 63, 144; older "
        "than a day: 79, 94"
    )


def test_the_last_xid_154_of_a_gpu_counts():
    lines = (
        f"{XID}154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        f"{XID}154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x1 (GPU Reset "
        "Required)",
    )
    found = outcome(dmesg("\n".join(lines)), "gpu-xid")
    assert "GPU Reset Required" in found.signals[0].seen.split(" to ")[1]
    assert [one.step for one in found.remedies] == ["reset", "reboot", "service"]


def test_the_text_of_xid_154_is_printed():
    found = outcome(FAULTS["gpu-xid"][1](), "gpu-xid")
    assert "(Node Reboot Required)" in found.signals[0].seen
    assert [one.step for one in found.remedies] == ["reboot", "service"]


def test_a_tool_that_hangs_or_is_missing_is_no_fault():
    for error in ("no answer within 20 s", "permission denied", "missing"):
        host = h100()
        host.run = {command: {"error": error} for command in host.run}
        found = examine(host.host(), CHECKS, 0.0).outcomes
        failed = {one.check for one in found if one.state == "fail"}
        assert failed == set(), (error, failed)
        assert next(one for one in found if one.check == "nvlink-down").state == "unknown"


def test_files_without_permission_and_a_partial_sysfs_fail_nothing():
    for keep in ("class", "vendor"):
        host = h100()
        host.read = {
            path: (value if path.endswith(keep) else {"error": "permission denied"})
            for path, value in host.read.items()
        }
        found = examine(host.host(), CHECKS, 0.0).outcomes
        assert {one.check for one in found if one.state == "fail"} <= {"gpu-driver"}


def test_outcomes_are_the_same_text_every_time():
    one, other = (
        json.dumps([str(it) for it in examine(h100().host(), CHECKS, 0.0).outcomes]) for _ in "ab"
    )
    assert one == other


def test_a_gpu_of_a_virtual_machine_is_not_missing():
    host = FAULTS["gpu-count"][0]()
    others = [one for one in host.host().gpus if one.address != GPU]
    for one in others:
        host.resolve[f"{PCI}/{one.address}/driver"] = "/sys/bus/pci/drivers/vfio-pci"
    assert outcome(host, "gpu-count").state == "pass"


def test_plug_ins_of_an_image_are_listed():
    found = outcome(listed("/usr/local/lib/libnccl-net.so"), "plugins")
    assert [one.seen for one in found.signals] == ["NCCL loads it unasked"]


@pytest.mark.parametrize("rule", table("xids"), ids=lambda rule: rule.code)
def test_every_xid_of_the_catalogue(rule):
    """A code that asks for a reset or more fails, others are of programs or for information."""
    found = outcome(dmesg(f"{XID}{rule.code}, pid=1, name=x, {rule.text}"), "gpu-xid")
    asks = rule.action.startswith(("RESET_GPU", "RESTART_BM", "RESTART_VM", "WORKFLOW_NV"))
    asks = asks or rule.action in ("WORKFLOW_XID_48", "CHECK_MECHANICALS", "UPDATE_SWFW")
    asks = asks or rule.code in (167, 168, 169, 171, 172)
    assert (found.state == "fail") == asks, rule
    if asks:
        assert f"Xid {rule.code}" in found.signals[0].seen
        assert rule.text[:40] in found.signals[0].seen


def test_the_catalogue_has_no_code_twice():
    codes = [rule.code for rule in table("xids")]
    assert len(codes) == len({*codes}) >= 60


def test_every_row_of_a_table_belongs_to_a_check_and_has_a_source():
    for name in ("counters", "variables", "kernel_lines"):
        assert {row.family for row in table(name)} <= {*IDS}
    for name in ("counters", "variables", "machines", "versions", "kernel_lines"):
        assert all(row.source for row in table(name))


@pytest.mark.parametrize("rule", table("variables"), ids=lambda rule: f"{rule.name}={rule.value}")
def test_no_variable_is_flagged_by_its_default(rule):
    """Empty values and 0 of switches are never flagged, but where 0 is what turns off."""
    assert not re.fullmatch(rule.value, "")
    for name in rule.name.split("|"):
        host = with_variables(h100, **{name: "usual-value"})
        if rule.value != ".+":
            assert outcome(host, rule.family).state == "pass"


def test_a_named_configuration_replaces_that_of_the_user():
    host = with_variables(HOME="/root", NCCL_CONF_FILE="/opt/nccl.conf")
    host.set("/root/.nccl.conf", "NCCL_P2P_DISABLE=1\n").set("/opt/nccl.conf", "NCCL_DEBUG=WARN\n")
    assert outcome(host, "variable-transport").state == "pass"
    host.environment.pop("NCCL_CONF_FILE")
    (found,) = outcome(host, "variable-transport").signals
    assert (found.where, found.seen) == ("/root/.nccl.conf", "NCCL_P2P_DISABLE=1")
    zero = with_variables(NCCL_P2P_DISABLE="0x0")
    assert outcome(zero, "variable-transport").state == "pass"


def test_settings_that_are_of_no_use_to_a_network_or_a_gpu_are_not_flagged():
    """An index of GIDs on InfiniBand, NVLS of GPUs that have none, link-local addresses alone."""
    assert outcome(with_variables(NCCL_IB_GID_INDEX="3"), "variable-combinations").state == "pass"
    off = with_variables(NCCL_NVLS_ENABLE="0")
    assert outcome(off, "variable-choice").state == "fail"
    off.edit("nvidia-smi -q", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB")
    assert outcome(off, "variable-choice").state == "pass"
    assert outcome(_link_local(roce(), *range(8)), "roce-gid").state == "pass"
    ordered = with_variables(roce, NCCL_IB_ADAPTIVE_ROUTING="0")
    assert outcome(ordered, "variable-choice").state == "pass"


def test_a_job_of_a_scheduler_has_a_part_of_the_host():
    """Its devices alone are listed, and it needs processors for these."""
    host = FAULTS["gpu-count"][0]()
    host.environment |= {"SLURM_JOB_ID": "17", "CUDA_VISIBLE_DEVICES": "0"}
    host.set("/proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-3\n")
    for check in ("gpu-count", "processors"):
        assert outcome(host, check).state == "pass"


@pytest.mark.parametrize("value", ["eno,ib,eth", "=eno1", "^docker,lo", "eno1"])
def test_interfaces_for_several_kinds_of_hosts(value):
    assert (
        outcome(with_variables(base, NCCL_SOCKET_IFNAME=value), "rendezvous-interface").state
        == "pass"
    )


def test_a_rank_needs_what_its_own_devices_need():
    """CUDA_VISIBLE_DEVICES names them."""
    near = "CapEff:\t0\nCpus_allowed_list:\t32-63\n"
    for device, state in (("1", "pass"), ("0", "fail"), ("0,1", "fail"), ("GPU-9", "pass")):
        host = files(a10, "/proc/self/status", near)
        host.environment["CUDA_VISIBLE_DEVICES"] = device
        assert outcome(host, "processors").state == state, device
    one = with_variables(CUDA_VISIBLE_DEVICES="0", NCCL_IB_HCA="mlx5_0")
    assert outcome(one, "rdma-selection").state == "pass"


@pytest.mark.parametrize("value", ["mlx5,bnxt", "mlx5:1", "^mlx5_0:2", "^mlx5_9"])
def test_devices_for_several_kinds_of_hosts(value):
    assert outcome(with_variables(NCCL_IB_HCA=value), "rdma-selection").state == "pass"


def test_a_port_may_be_named_by_its_number():
    value = ",".join(f"mlx5_{one}:1" for one in range(8))
    for text in (value, f"={value}"):
        assert outcome(with_variables(NCCL_IB_HCA=text), "rdma-selection").state == "pass"
    assert outcome(with_variables(UCX_NET_DEVICES="mlx5_0:1"), "rdma-selection").state == "pass"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("rdma link", "link mlx5_0/1 state {} physical_state LINK_UP netdev ens7f0np0\n"),
        ("ibstat", "CA 'mlx5_0'\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: LinkUp\n"),
    ],
)
def test_ports_without_sysfs(command, text):
    for state, expected in (("ACTIVE", "pass"), ("INIT", "fail")):
        host = run(h100().remove(IB), command, text.format(state))
        assert outcome(host, "rdma-state").state == expected
