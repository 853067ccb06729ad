"""Peaks beside what is expected of a kind of link."""

import dataclasses

import msgspec
import pytest

from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.schema import HostDescription, Link, NetworkInterface
from cclmark.kinds.registry import read_journal
from cclmark.references.reference_store import shipped_references
from places import TESTS
from reports import COLLECTIVES, insights_on

replace = msgspec.structs.replace
OFF = {"NCCL_NVLS_ENABLE": "0"}


def findings(ranks, busbw_bytes_per_s):
    """On a large message between so many ranks that are linked."""
    journal = read_journal(TESTS / "journals" / "collective.jsonl")
    devices, link = journal.header.devices[:ranks], Link(0, "nvlink", 18, 25e9)
    journal.header = replace(journal.header, devices=devices, links=[link])
    first = journal.cases[0]
    case = replace(first.case, ranks=ranks, size_bytes=1 << 28, count=1 << 26)
    summary = replace(first.summary, busbw_bytes_per_s=busbw_bytes_per_s)
    journal.results = [replace(first, case=case, summary=summary, samples=None, device=None)]
    return {one.id: one.sentence for one in insights_on(journal)}


def test_links_judge_two_ranks_and_not_one_which_communicates_nothing():
    above, below = "above-link-limit", "below-link-limit"
    for busbw_bytes_per_s in (0.0, 8e14):
        found = findings(1, busbw_bytes_per_s)
        assert not found.keys() & {above, below}
        assert "One rank communicates nothing" in found["nothing-to-compare-with"]
    assert above in findings(2, 8e14)
    assert below in findings(2, 1e9)


def nvlinks(version: str) -> list[Link]:
    return [
        link
        for rank in range(4)
        for link in (Link(rank, "NVLink", 18, 25e9, version), Link(rank, "PCIe", 16, 4e9, "5"))
    ]


def said(links, environment=(), hosts=1, ccl="nccl", largest=1 << 30) -> list[str]:
    machine = HostDescription(COLLECTIVES.header.machine, "", {})
    several = [machine] * (hosts if hosts > 1 else 0)
    header = replace(COLLECTIVES.header, links=links, environment=dict(environment), hosts=several)
    results = [
        replace(one, case=replace(one.case, ccl=ccl))
        for one in COLLECTIVES.cases
        if one.case.size_bytes <= largest
    ]
    return expected_in(dataclasses.replace(COLLECTIVES, header=header, results=results))


def expected_in(journal) -> list[str]:
    found = insights_on(journal, ReferenceNotes(shipped_references))
    return [one.sentence for one in found if one.id == "expected-of-links"]


def test_without_multicast_one_figure_is_expected_and_else_both() -> None:
    [sentence] = said(nvlinks("4"), OFF)
    assert "of the 370 GB/s expected within a host, NVLink 4 (NVIDIA, GTC 2024" in sentence
    assert "SHARP" not in sentence and sentence.startswith("all_reduce peaks at ")
    [sentence] = said(nvlinks("4"))
    assert "370 GB/s expected within a host, NVLink 4, " in sentence
    assert "480 GB/s expected within a host, NVLink 4 with SHARP" in sentence


@pytest.mark.parametrize(
    ("links", "rate"),
    [
        (nvlinks("3"), 232),
        ([*nvlinks("4")[:-2], Link(3, "NVLink", 12, 25e9, "3")], 232),
        ([Link(rank, "PCIe", 16, 2e9, "4") for rank in range(4)], 24),
    ],
)
def test_the_oldest_link_counts(links, rate) -> None:
    assert f"of the {rate} GB/s expected within a host" in said(links, OFF)[0]


@pytest.mark.parametrize(
    "case",
    [
        *({"links": []}, {"links": nvlinks("9")}, {"links": nvlinks("4"), "hosts": 2}),
        *({"links": nvlinks("4"), "ccl": "mpi"}, {"links": nvlinks("4"), "largest": 32 << 20}),
        {"links": [Link(0, "NVLink", 18, 25e9, "4"), Link(1, "PCIe", 16, 4e9, "5")]},
    ],
    ids=["none", "unknown", "hosts", "library", "small", "mixed"],
)
def test_nothing_is_expected_without_the_conditions(case) -> None:
    assert said(**case) == []


def ports(kind: str, count: int, gbits: float, state: str = "ACTIVE") -> list[NetworkInterface]:
    return [
        NetworkInterface(f"{kind}{number}", kind, rate_bits_per_s=gbits * 1e9, state=state)
        for number in range(count)
    ]


def between(*hosts: list[NetworkInterface], device: str = "NVIDIA H100 80GB HBM3", per_host=1):
    """What is said of a run on ``hosts`` with these ports and ``per_host`` devices each."""
    header = COLLECTIVES.header
    machines = [
        HostDescription(replace(header.machine, hostname=str(number), interfaces=own), "", {})
        for number, own in enumerate(hosts)
    ]
    devices = [
        replace(header.devices[0], rank=rank, name=device, host=str(rank // per_host))
        for rank in range(per_host * len(hosts))
    ]
    header = replace(header, hosts=machines, devices=devices, links=[], environment={})
    return expected_in(dataclasses.replace(COLLECTIVES, header=header))


H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("network", "per_host", "device", "says"),
    [
        (ports("Ethernet", 1, 100, "up"), 2, "x", "10 GB/s expected between hosts, 100 Gbit/s"),
        (ports("InfiniBand", 1, 400), 2, "x", "48 GB/s expected between hosts, 400 Gbit/s RDMA"),
        (ports("RoCE", 1, 200), 1, "x", "24 GB/s expected between hosts, 200 Gbit/s RDMA"),
        (
            [*ports("InfiniBand", 8, 400), *ports("Ethernet", 2, 100, "up")],
            *(8, H100, "380 GB/s expected between hosts, DGX H100"),
        ),
        (ports("InfiniBand", 10, 200), 8, "NVIDIA A100-SXM4-80GB", "192 GB/s expected"),
    ],
)
def test_between_hosts_the_network_counts(network, per_host, device, says) -> None:
    [sentence] = between(network, network, device=device, per_host=per_host)
    assert says in sentence


def test_the_slowest_host_counts() -> None:
    [sentence] = between(ports("RoCE", 1, 400), ports("RoCE", 1, 200))
    assert "24 GB/s expected" in sentence


@pytest.mark.parametrize(
    ("first", "second", "device"),
    [
        (ports("InfiniBand", 8, 400), None, "AMD Instinct MI300X"),
        (ports("InfiniBand", 4, 400), None, H100),  # few ports
        (ports("InfiniBand", 8, 400), ports("InfiniBand", 1, 400), H100),
        (ports("Ethernet", 2, 100, "up"), None, "x"),  # two ports
        (ports("RoCE", 1, 400, "DOWN"), None, "x"),
        ([*ports("RoCE", 4, 400), *ports("RoCE", 4, 100)], ports("RoCE", 8, 400), "x"),
    ],
)
def test_nothing_is_expected_of_an_unknown_network(first, second, device) -> None:
    assert between(first, second or first, device=device, per_host=8) == []
