"""Peaks beside what is expected of a kind of link."""

import dataclasses

import msgspec

from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.schema import HostDescription, Link, NetworkInterface
from cclmark.kinds.registry import read_journal
from cclmark.references.reference_store import shipped_references
from goldens import require_stated
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
FOUR, FIRST_OLDER = nvlinks("4"), [*nvlinks("4")[:-2], Link(3, "NVLink", 12, 25e9, "3")]
EIGHT = ports("InfiniBand", 8, 400)
#: Runs between hosts: the ports of each, and other conditions.
NETWORKS = {
    **{"a port": (ports("Ethernet", 1, 100, "up"),) * 2, "RoCE": (ports("RoCE", 1, 200),) * 2},
    "DGX H100": ([*EIGHT, *ports("Ethernet", 2, 100, "up")],) * 2,
    "DGX A100": (ports("InfiniBand", 10, 200),) * 2,
    "the slowest host counts": (ports("RoCE", 1, 400), ports("RoCE", 1, 200)),
    "another device": (EIGHT, EIGHT),
    "few ports": (ports("InfiniBand", 4, 400),) * 2,
    "hosts that differ": (EIGHT, ports("InfiniBand", 1, 400)),
    "two ports": (ports("Ethernet", 2, 100, "up"),) * 2,
    "down": (ports("RoCE", 1, 400, "DOWN"),) * 2,
    "ports that differ": (
        *([*ports("RoCE", 4, 400), *ports("RoCE", 4, 100)], ports("RoCE", 8, 400)),
    ),
}
DEVICES = {"DGX A100": "NVIDIA A100-SXM4-80GB", "another device": "AMD Instinct MI300X"}
EXPECTED = {
    # Without multicast one figure is expected, and else both.
    **{"without multicast": said(FOUR, OFF), "with multicast": said(FOUR)},
    # The oldest link counts.
    **{"NVLink 3": said(nvlinks("3"), OFF), "NVLink 3 and 4": said(FIRST_OLDER, OFF)},
    "PCIe": said([Link(rank, "PCIe", 16, 2e9, "4") for rank in range(4)], OFF),
    # Nothing is expected without the conditions.
    **{"no links": said([]), "unknown": said(nvlinks("9")), "hosts": said(FOUR, hosts=2)},
    **{"library": said(FOUR, ccl="mpi"), "small": said(FOUR, largest=32 << 20)},
    "mixed": said([Link(0, "NVLink", 18, 25e9, "4"), Link(1, "PCIe", 16, 4e9, "5")]),
    **{
        name: between(*hosts, device=DEVICES.get(name, H100), per_host=8)
        for name, hosts in NETWORKS.items()
    },
}


def test_what_is_expected_of_links():
    require_stated("texts/expected-of-links.txt", EXPECTED)
