"""Outputs of tools as published: what is read from them, and that no damage raises.

The outputs are in ``tool_texts.toml``.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import toml

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

TEXTS = toml.decode(Path(__file__).with_name("tool_texts.toml").read_text())


def test_registers_of_lspci():
    found = parse_lspci(TEXTS["lspci"])
    assert "Width x1 (ok)" in found["0000:17:00.0"].registers["LnkSta"]
    assert "RlxdOrd+" in found["0000:17:00.0"].registers["DevCtl"]
    assert "ReqRedir+" in found["0000:16:00.0"].registers["ACSCtl"]
    assert [one.is_denied for one in found.values()] == [False, False, False, True]


def test_lines_of_the_kernel():
    events = parse_kernel_log(TEXTS["kernel"])
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


@pytest.mark.parametrize("form", TEXTS["topologies"])
def test_matrices(form):
    found = parse_topology(TEXTS["topologies"][form])
    expected = {"newer": "NV12", "older": "NV12", "coloured": "CNS"}[form]
    assert found["GPU1", "GPU0"] == expected
    assert not any(one[0] == one[1] for one in found)
    assert ("GPU0", "NIC0" if form == "newer" else "mlx5_1") in found or form == "coloured"


def test_a_matrix_with_many_columns():
    names = [f"NIC{number}" for number in range(34)]
    rows = [f"{one}\t" + "\t".join("X" if one == it else "SYS" for it in names) for one in names]
    assert len(parse_topology("\n".join(["\t" + "\t".join(names), *rows]))) == 34 * 33


def test_levels_of_nvidia_smi():
    found = parse_smi(TEXTS["smi"])
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


def test_what_grows_in_nvidia_smi():
    found = parse_smi_counters(
        {name: own for name, own in parse_smi(TEXTS["counted"]).items() if name}
    )
    assert found == {
        ("0000:0f:00.0", "Replays Since Reset"): 5210,
        ("0000:0f:00.0", "time/HW Thermal Slowdown"): 8_100_000,
        ("0000:0f:00.0", "active/HW Slowdown"): 1,
        ("0000:0f:00.0", "active/HW Thermal Slowdown"): 0,
    }


def test_links():
    found = parse_nvlinks(TEXTS["nvlink"])
    assert [(one.gpu, one.link, one.rate_gbps) for one in found] == [(0, 0, 25.0), (0, 1, 0.0)]
    assert parse_link_errors(TEXTS["errors"])["GPU 0 link 0", "Replay Errors"] == 3


def test_ports():
    (port,) = parse_ports(TEXTS["ibstat"])
    assert (port.device, port.state, port.rate, port.layer) == (
        "mlx5_0",
        "Active",
        "200",
        "Ethernet",
    )
    first, other = parse_ports(TEXTS["devinfo"])
    assert (first.active_mtu, other.active_mtu, other.state) == (
        "4096 (5)",
        "1024 (3)",
        "PORT_DOWN (1)",
    )
    states = [(one.device, one.state) for one in parse_rdma_links(TEXTS["rdma_links"])]
    assert states == [
        *(("mlx5_0", "DOWN"), ("mlx5_0", "ACTIVE")),
        *(("mlx5_bond_0", "ACTIVE"), ("mlx5_4", "ACTIVE")),
    ]


def test_counters_of_ethtool():
    assert parse_counters(TEXTS["ethtool"])["[0]: rx_bytes"] == 9
    assert parse_counters(TEXTS["ethtool"])["tx_pci_signal_integrity"] == 1471


def test_counters_of_hccn_tool():
    text = "packet statistics:\nmac_tx_mac_pause_num:0\nroce_new_pkt_rty_num:5\n"
    assert parse_counters(text) == {"mac_tx_mac_pause_num": 0, "roce_new_pkt_rty_num": 5}


def test_addresses():
    texts = ("00000000:1B:00.0", "0000:1b:00.0", "1b:00.0")
    assert {pci_address(text) for text in texts} == {"0000:1b:00.0"}


PARSERS = {
    parse_lspci: TEXTS["lspci"],
    parse_topology: TEXTS["topologies"]["newer"],
    parse_smi: TEXTS["smi"],
    lambda text: parse_smi_counters(parse_smi(text)): TEXTS["smi"] + TEXTS["counted"],
    parse_nvlinks: TEXTS["nvlink"],
    parse_link_errors: TEXTS["errors"],
    parse_ports: TEXTS["ibstat"] + TEXTS["devinfo"],
    parse_rdma_links: TEXTS["rdma_links"],
    parse_counters: TEXTS["ethtool"],
    lambda text: [*limited_of(parse_kernel_log(text)), *xids_of(parse_kernel_log(text))]: TEXTS[
        "kernel"
    ],
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
