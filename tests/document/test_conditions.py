"""What a run says about the conditions of its devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.analysis.device_conditions import ConditionFigures, DeviceConditions
from cclmark.document.blocks import Document, Finding, RunContent
from cclmark.document.conditions import with_conditions
from cclmark.journal.schema import Condition
from reports import COLLECTIVES

conditions = st.builds(
    Condition,
    rank=st.just(0),
    index=st.just(0),
    cycle=st.just(0),
    at_s=st.just(0.0),
    clock_hz=st.none() | st.floats(0, 1e10),
    temperature_c=st.none() | st.floats(-50, 150),
    reasons=st.lists(st.sampled_from(["power cap", "thermal slowdown"]), unique=True),
)


@given(st.lists(conditions))
def test_ranges_of_conditions(readings):
    seen = DeviceConditions()
    for reading in readings:
        seen.add(reading)
    clocks = [it.clock_hz for it in readings if it.clock_hz is not None]
    assert (seen.clock_hz.least, seen.clock_hz.most) == (
        min(clocks, default=None),
        max(clocks, default=None),
    )
    assert seen.readings == len(readings)
    assert seen.reasons["power cap"] == sum("power cap" in it.reasons for it in readings)
    assert seen.power_w.width == 0


def document_with(*conditions, runtime="cuda", whole=True):
    """The document of a run of collectives with these conditions."""
    devices = [replace(one, runtime=runtime) for one in COLLECTIVES.header.devices]
    header = replace(COLLECTIVES.header, devices=devices)
    seen = ConditionFigures()
    for one in conditions:
        seen.add(one)
    content = RunContent(
        header, COLLECTIVES.results, COLLECTIVES.footer, conditions=seen, is_whole=whole
    )
    good = Finding("data-checked", "good", "every output was checked")
    return with_conditions(Document("Collectives", "", findings=[good]), content)


def reading(share, rank=0, index=0, **traffic):
    return Condition(rank, index, 0, 1.7e9, busy_share=share, **traffic)


def test_a_table_with_what_is_known():
    (table,) = document_with(
        reading(0.5, clock_hz=1.98e9, nvlink_sent_bytes=2 * 10**9, nvlink_received_bytes=10**9),
        reading(0.97, clock_hz=1.755e9, nvlink_sent_bytes=10**9, nvlink_received_bytes=0),
        reading(1.0, rank=1, reasons=["power cap"]),
    ).closing
    assert table.head == ["device", "clock MHz", "busy %", "NVLink GB out/in", "limited by"]
    assert table.rows == [
        ["0", "1755–1980", "50–97", "3.0/1.0", ""],
        ["1", "", "100", "", "power cap 100%"],
    ]
    assert document_with().closing == ()
    assert document_with(reading(0.5), whole=False).closing == ()


@pytest.mark.parametrize(
    ("traffic", "said"),
    [
        ({}, "copies move the data, by copy engines, the host or a network adapter"),
        (
            {"pcie_sent_bytes": 10**9, "pcie_received_bytes": 5 * 10**8},
            "sent 1.0 GB over PCIe (checks included): copies move the data",
        ),
        (
            {"pcie_sent_bytes": 10**9, "nvlink_sent_bytes": 10**8, "nvlink_received_bytes": 10**9},
            "over NVLink and 1.0 GB over PCIe (checks included): the library moves data through",
        ),
        ({"pcie_sent_bytes": 10**9, "nvlink_sent_bytes": 2 * 10**8}, "copies move the data"),
        ({"pcie_sent_bytes": 1 << 27, "nvlink_sent_bytes": 0}, "copies move the data"),
        ({"nvlink_sent_bytes": 10**6}, "sent 0.0 GB over NVLink (checks included): copies move"),
    ],
)
def test_idle_devices(traffic, said):
    document = document_with(reading(0.02, **traffic), reading(0.099, rank=1))
    assert [one.id for one in document.findings] == ["idle-devices", "data-checked"]  # by severity
    first = document.findings[0]
    assert "in at most 10% of the time with nccl" in first.sentence
    assert said in first.sentence
    assert (first.evidence[0].value, first.evidence[0].limit) == (9.9, 10)


def test_devices_that_are_not_idle():
    for known in (
        [reading(0.02), reading(0.1, rank=1)],
        [reading(None)],
        [reading(0.02, index=10**6)],  # of an item without a result
    ):
        assert [one.id for one in document_with(*known).findings] == ["data-checked"]
    on_host = document_with(reading(0.02), runtime="host")
    assert [one.id for one in on_host.findings] == ["data-checked"]
