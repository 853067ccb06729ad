"""Runs of one rank, which communicates nothing."""

import pytest
from msgspec.structs import replace

from cclmark.journal.schema import Link
from cclmark.kinds.registry import read_journal
from places import TESTS
from reports import insights_on

LIMITED = ("above-link-limit", "below-link-limit")


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


@pytest.mark.parametrize("busbw_bytes_per_s", [0.0, 8e14])
def test_links_do_not_judge_one_rank(busbw_bytes_per_s):
    found = findings(1, busbw_bytes_per_s)
    assert not found.keys() & {*LIMITED}
    assert "One rank communicates nothing" in found["nothing-to-compare-with"]


@pytest.mark.parametrize(("busbw_bytes_per_s", "rule"), [(8e14, LIMITED[0]), (1e9, LIMITED[1])])
def test_links_judge_two_ranks(busbw_bytes_per_s, rule):
    assert rule in findings(2, busbw_bytes_per_s)
