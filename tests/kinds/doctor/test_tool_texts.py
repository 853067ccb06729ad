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
    sxids_of,
    xids_of,
)
from goldens import outline, require_golden
from recorded_hosts import HEALTHY

TEXTS = toml.decode(Path(__file__).with_name("tool_texts.toml").read_text())


def levels(section):
    return section | {name: levels(part) for name, part in section.parts.items()}


def sections(text):
    return {name or "head": levels(one) for name, one in parse_smi(text).items()}


def counted(text):
    return parse_smi_counters({name: one for name, one in parse_smi(text).items() if name})


def events(text):
    found = parse_kernel_log(text)
    return {"limited": [*limited_of(found)], "Xid": [*xids_of(found)], "SXid": [*sxids_of(found)]}


PARSERS = {
    parse_lspci: ["lspci"],
    parse_topology: ["newer", "older", "coloured"],
    sections: ["smi"],
    counted: ["counted"],
    parse_nvlinks: ["nvlink"],
    parse_link_errors: ["errors"],
    parse_ports: ["ibstat", "devinfo"],
    parse_rdma_links: ["rdma_links"],
    parse_counters: ["ethtool", "hccn_tool"],
    events: ["kernel"],
}
OUTPUTS = [(parser, name) for parser, names in PARSERS.items() for name in names]


def test_what_is_read_of_outputs():
    found = {name: parser(TEXTS[name]) for parser, name in OUTPUTS}
    require_golden("texts/doctor-outputs.txt", outline(found))


def test_levels_that_are_not_available():
    (gpu,) = (one for name, one in parse_smi(TEXTS["smi"]).items() if name)
    assert gpu.at("PCI", "GPU Link Info", "Link Width", "Current") == "16x"
    assert gpu.at("Fabric", "State") == gpu.at("Fabric", "nothing") == ""
    assert gpu.part("Clocks Throttle Reasons", "Clocks Event Reasons")["HW Slowdown"] == "Active"


def test_a_matrix_with_many_columns():
    names = [f"NIC{number}" for number in range(34)]
    rows = [f"{one}\t" + "\t".join("X" if one == it else "SYS" for it in names) for one in names]
    assert len(parse_topology("\n".join(["\t" + "\t".join(names), *rows]))) == 34 * 33


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
    parser, name = data.draw(st.sampled_from(OUTPUTS))
    parser(data.draw(damaged(TEXTS[name])))


@pytest.mark.simulated
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
