"""Peaks beside what is expected of a kind of link."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.schema import HostDescription, Link
from cclmark.references.reference_store import shipped_references
from reports import COLLECTIVES, insights_on

replace = msgspec.structs.replace
OFF = {"NCCL_NVLS_ENABLE": "0"}


def nvlinks(version: str) -> list[Link]:
    return [
        link
        for rank in range(4)
        for link in (Link(rank, "NVLink", 18, 25e9, version), Link(rank, "PCIe", 16, 4e9, "5"))
    ]


def said(links, environment=(), hosts=1, ccl="nccl", largest=1 << 30) -> list[str]:
    machine = HostDescription(COLLECTIVES.header.machine, "", {})
    header = replace(
        COLLECTIVES.header,
        links=links,
        environment=dict(environment),
        hosts=[machine] * (hosts if hosts > 1 else 0),
    )
    results = [
        replace(one, case=replace(one.case, ccl=ccl))
        for one in COLLECTIVES.cases
        if one.case.size_bytes <= largest
    ]
    journal = dataclasses.replace(COLLECTIVES, header=header, results=results)
    found = insights_on(journal, ReferenceNotes(shipped_references))
    return [one.sentence for one in found if one.id == "expected-of-links"]


def test_without_multicast_one_figure_is_expected() -> None:
    [sentence] = said(nvlinks("4"), OFF)
    assert "of the 370 GB/s expected within a host, NVLink 4 (NVIDIA, GTC 2024" in sentence
    assert "SHARP" not in sentence and sentence.startswith("all_reduce peaks at ")


def test_where_multicast_is_unknown_both_are() -> None:
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
        {"links": []},
        {"links": nvlinks("9")},
        {"links": nvlinks("4"), "hosts": 2},
        {"links": nvlinks("4"), "ccl": "mpi"},
        {"links": nvlinks("4"), "largest": 32 << 20},
        {"links": [Link(0, "NVLink", 18, 25e9, "4"), Link(1, "PCIe", 16, 4e9, "5")]},
    ],
    ids=["none", "unknown", "hosts", "library", "small", "mixed"],
)
def test_nothing_is_expected_without_the_conditions(case) -> None:
    assert said(**case) == []
