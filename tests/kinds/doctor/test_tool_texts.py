"""Outputs of tools as published: what is read from them, and that no damage raises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark_fleet.hosts.checks import CHECKS
from cclmark_fleet.hosts.examination import examine
from cclmark_fleet.hosts.tool_texts import (
    limited_of,
    parse_counters,
    parse_kernel_log,
    parse_link_errors,
    parse_lspci,
    parse_nvlinks,
    parse_ports,
    parse_rdma_links,
    parse_smi,
    parse_smi_counters,
    parse_topology,
    pci_address,
    sxids_of,
    xids_of,
)
from recorded_hosts import HEALTHY

# Short quotes of outputs in issues and test data of superbench, gpud, NCCL and others.
LSPCI = """0000:17:00.0 3D controller: NVIDIA
\tCapabilities: [78] Express (v2) Endpoint, MSI 00
\t\tDevCtl:\tCorrErr- NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+
\t\tLnkCap:\tPort #12, Speed 8GT/s, Width x1, ASPM not supported
\t\tLnkSta:\tSpeed 5GT/s (downgraded), Width x1 (ok)

16:00.0 PCI bridge: Broadcom
\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
65:00.0 PCI bridge: Broadcom
\t\tACSCtl: SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl-
66:00.0 Infiniband controller: Mellanox
\tCapabilities: <access denied>
"""
KERNEL = """[   12.345678] mlx5_core 0000:9c:00.0: 252.056 Gb/s available PCIe bandwidth, limited \
by 32.0 GT/s PCIe x8 link at 0000:97:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)
[13.5] kernel: NVRM: Xid (PCI:0000:0f:00): 94, pid=1234, name=python, Contained
[14.5] NVRM: Xid (PCI:0000:13:00 GPU-I:05): 95, pid='<unknown>', Uncontained: LTC TAG
[15.5] NVRM: Xid (PCI:0000:13:00 GPU-I:05 GPU-CI:00): 64, pid='<unknown>', Row Remapper
NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot \
Required)
nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 egress non-posted PRIV error
systemd-networkd[5398]: ib6: lost carrier
"""
TOPOLOGIES = {
    "newer": (
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0     X      NV12    PXB     48-63,176-191   3               N/A\n"
        "GPU1    NV12     X      SYS     0-15    0-1             N/A\n"
        "NIC0    PXB     SYS      X\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
    ),
    "older": (
        "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity\n"
        "GPU0\t X \tNV12\tPXB\tSYS\t0-63\nGPU1\tNV12\t X \tSYS\tPXB\t0-63\n"
        "mlx5_0\tPXB\tSYS\t X \tSYS\t\nmlx5_1\tSYS\tPXB\tSYS\t X \t\n"
    ),
    "coloured": (
        "\t\x1b[4mGPU0\tGPU1\t\x1b[0m\n GPU0\tX\tOK\t\n GPU1\tCNS\tX\t\n\nLegend:\n  X    = Self\n"
    ),
}
SMI = """==============NVSMI LOG==============

Driver Version                            : 550.127.05

Attached GPUs                             : 1
GPU 00000000:17:00.0
    Product Name                          : NVIDIA A10
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
                Device Current            : 1
            Link Width
                Max                       : 16x
                Current                   : 16x
    Clocks Event Reasons
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Active
    Remapped Rows
        Pending                           : No
        Remapping Failure Occurred        : No
    Fabric
        State                             : N/A
        Health
            Bandwidth                     : N/A
        Drain and Reset Recommended       : No
    GPU Recovery Action                   : None
"""
NVLINK = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)
\t Link 0: 25 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-2)
NVML: Unable to retrieve NVLink information as all links are inactive
"""
ERRORS = "GPU 0: H100 (UUID: G)\n\t Link 0: Replay Errors: 3\n\t Link 0: CRC Errors: 0\n"
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 200
\t\tLink layer: Ethernet
ibpanic: [1323906] main: stat of IB device 'mlx5_8' failed: No such file or directory
"""
DEVINFO = """hca_id:\tmlx5_0
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tactive_mtu:\t\t4096 (5)
\t\t\tlink_layer:\t\tEthernet
hca_id:\tmlx5_1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_DOWN (1)
\t\t\tactive_mtu:\t\t1024 (3)
"""
RDMA_LINKS = """link mlx5_0/1 state DOWN physical_state DISABLED netdev ens7f0np0
link mlx5_0/1: state ACTIVE physical_state LINK_UP netdev ens21f0
8/1: mlx5_bond_0/1: state ACTIVE physical_state LINK_UP netdev reth0
link mlx5_4/1 subnet_prefix fe80:0000:0000:0000 lid 13 sm_lid 49 lmc 0 state ACTIVE
"""
ETHTOOL = """NIC statistics:
     rx_pci_signal_integrity: 1
     tx_pci_signal_integrity: 1471
     outbound_pci_stalled_wr: 0
     [0]: rx_bytes: 9
"""


def test_registers_of_lspci():
    found = parse_lspci(LSPCI)
    assert "Width x1 (ok)" in found["0000:17:00.0"].registers["LnkSta"]
    assert "RlxdOrd+" in found["0000:17:00.0"].registers["DevCtl"]
    assert "ReqRedir+" in found["0000:16:00.0"].registers["ACSCtl"]
    assert [one.is_denied for one in found.values()] == [False, False, False, True]


def test_lines_of_the_kernel():
    events = parse_kernel_log(KERNEL)
    (limited,) = limited_of(events)
    assert (limited.address, limited.gbit, limited.bridge) == (
        "0000:9c:00.0",
        252.056,
        "0000:97:01.0",
    )
    xids = [(one.at_s, one.address, one.code, one.recovery) for one in xids_of(events)]
    assert xids == [
        (13.5, "0000:0f:00.0", 94, ""),
        (14.5, "0000:13:00.0", 95, ""),
        (15.5, "0000:13:00.0", 64, ""),
        (None, "0000:01:00.0", 154, "0x2"),
    ]
    assert [one.code for one in sxids_of(events)] == [12028]


@pytest.mark.parametrize("form", TOPOLOGIES)
def test_matrices(form):
    found = parse_topology(TOPOLOGIES[form])
    expected = {"newer": "NV12", "older": "NV12", "coloured": "CNS"}[form]
    assert found["GPU1", "GPU0"] == expected
    assert not any(one[0] == one[1] for one in found)
    assert ("GPU0", "NIC0" if form == "newer" else "mlx5_1") in found or form == "coloured"


def test_a_matrix_with_many_columns():
    names = [f"NIC{number}" for number in range(34)]
    rows = [f"{one}\t" + "\t".join("X" if one == it else "SYS" for it in names) for one in names]
    assert len(parse_topology("\n".join(["\t" + "\t".join(names), *rows]))) == 34 * 33


def test_levels_of_nvidia_smi():
    found = parse_smi(SMI)
    assert found[""].at("Driver Version") == "550.127.05"
    gpu = found["0000:17:00.0"]
    info = gpu.parts["PCI"].parts["GPU Link Info"]
    assert info.at("PCIe Generation", "Max") == "4"
    assert info.at("PCIe Generation", "Current") == "1"
    assert info.at("Link Width", "Current") == "16x"
    reasons = gpu.part("Clocks Event Reasons")
    assert reasons.at("HW Slowdown") == "Active"
    # The reasons of the slowdown are below it, without a level of their own in some versions.
    below = reasons.parts.get("HW Slowdown", reasons)
    assert below.get("HW Power Brake Slowdown") == "Active"
    assert gpu.at("Fabric", "State") == ""
    assert gpu.at("GPU Recovery Action") == "None"


COUNTED = """
GPU 00000000:0F:00.0
    PCI
        Replays Since Reset               : 5210
        Replay Number Rollovers           : N/A
    Clocks Event Reasons
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Not Active
    Clocks Event Reasons Counters
        HW Thermal Slowdown               : 8100000 us
        Sync Boost                        : N/A
"""


def test_what_grows_in_nvidia_smi():
    found = parse_smi_counters({name: own for name, own in parse_smi(COUNTED).items() if name})
    assert found == {
        ("0000:0f:00.0", "Replays Since Reset"): 5210,
        ("0000:0f:00.0", "time/HW Thermal Slowdown"): 8_100_000,
        ("0000:0f:00.0", "active/HW Slowdown"): 1,
        ("0000:0f:00.0", "active/HW Thermal Slowdown"): 0,
    }


def test_links():
    found = parse_nvlinks(NVLINK)
    assert [(one.gpu, one.link, one.rate_gbps) for one in found] == [(0, 0, 25.0), (0, 1, 0.0)]
    assert parse_link_errors(ERRORS)["GPU 0 link 0", "Replay Errors"] == 3


def test_ports():
    (port,) = parse_ports(IBSTAT)
    assert (port.device, port.state, port.rate, port.layer) == (
        "mlx5_0",
        "Active",
        "200",
        "Ethernet",
    )
    first, other = parse_ports(DEVINFO)
    assert (first.active_mtu, other.active_mtu, other.state) == (
        "4096 (5)",
        "1024 (3)",
        "PORT_DOWN (1)",
    )
    states = [(one.device, one.state) for one in parse_rdma_links(RDMA_LINKS)]
    assert states == [
        *(("mlx5_0", "DOWN"), ("mlx5_0", "ACTIVE")),
        *(("mlx5_bond_0", "ACTIVE"), ("mlx5_4", "ACTIVE")),
    ]


def test_counters_of_ethtool():
    assert parse_counters(ETHTOOL)["[0]: rx_bytes"] == 9
    assert parse_counters(ETHTOOL)["tx_pci_signal_integrity"] == 1471


def test_counters_of_hccn_tool():
    text = "packet statistics:\nmac_tx_mac_pause_num:0\nroce_new_pkt_rty_num:5\n"
    assert parse_counters(text) == {"mac_tx_mac_pause_num": 0, "roce_new_pkt_rty_num": 5}


def test_addresses():
    texts = ("00000000:1B:00.0", "0000:1b:00.0", "1b:00.0")
    assert {pci_address(text) for text in texts} == {"0000:1b:00.0"}


PARSERS = {
    parse_lspci: LSPCI,
    parse_topology: TOPOLOGIES["newer"],
    parse_smi: SMI,
    lambda text: parse_smi_counters(parse_smi(text)): SMI + COUNTED,
    parse_nvlinks: NVLINK,
    parse_link_errors: ERRORS,
    parse_ports: IBSTAT + DEVINFO,
    parse_rdma_links: RDMA_LINKS,
    parse_counters: ETHTOOL,
    lambda text: [*limited_of(parse_kernel_log(text)), *xids_of(parse_kernel_log(text))]: KERNEL,
}


@st.composite
def damaged(draw, text):
    """A text with parts that are cut, repeated, or replaced by any characters."""
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(0, len(text)))
        last = draw(st.integers(first, min(len(text), first + 60)))
        by = draw(
            st.one_of(
                st.just(""),
                st.text(max_size=12),
                st.sampled_from(
                    ["\0", "N/A", "99999999999999999999", "\x1b[31m", "Unbekannt", ": "]
                ),
                st.just(text[first:last] * 2),
            )
        )
        text = text[:first] + by + text[last:]
    return text


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damage_raises(data):
    parser = data.draw(st.sampled_from([*PARSERS]))
    parser(data.draw(damaged(PARSERS[parser])))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_check_ends_in_a_state_on_damaged_hosts(data):
    """A file or an output is damaged, or missing, or cannot be read."""
    host = HEALTHY[data.draw(st.sampled_from([*HEALTHY]))]()
    answers = data.draw(st.sampled_from([one for one in (host.read, host.run) if one]))
    for _ in range(3):
        subject = data.draw(st.sampled_from([*answers]))
        if isinstance(answers[subject], str):
            errors = [{"error": "permission denied"}, {"error": "no answer"}, "", "\udcff\0\x1b[2J"]
            changed = data.draw(st.one_of(st.sampled_from(errors), damaged(answers[subject])))
            if isinstance(changed, str):
                changed = changed.encode(errors="replace").decode()
            answers[subject] = changed
    found = examine(host.host(), CHECKS, 0.0).outcomes
    assert len(found) == len(CHECKS)
    assert {one.state for one in found} <= {"pass", "fail", "unknown", "absent"}
