"""Findings about copies: computed once, the same in the terminal, in Markdown and on the page."""

import html

import pytest
from msgspec.structs import replace

from cclmark.analysis.outliers import TIMES_MEAN_LITTLE
from cclmark.document.deviations import relative
from cclmark.document.document_text import document_of
from cclmark.document.exporters import exporter_of
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import View
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Verification, WrongOutput
from cclmark.kinds.p2p.document import document_of_transfers
from cclmark.kinds.p2p.figures import deviation_text, outliers_of
from cclmark.kinds.p2p.formats import TransferPccl
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.references.reference_store import shipped_references
from cclmark.report.exports import replayed
from cclmark.report.run_page import page_of
from cclmark.work.items import P2P
from cclmark.work.transfers import Transfer
from places import H200X4
from reports import exported, insights_on

COPIES = read_journal(H200X4 / "p2p.jsonl")
PAIRS = read_journal(H200X4 / "report" / "pairs.jsonl")
CROWDED = f"4 ranks share 2 processors: {TIMES_MEAN_LITTLE}"


def table_of(journal, format="table"):
    return "".join(replayed(journal, format, references=shipped_references))


def formats(journal):
    """The run in every format that people read."""
    run = NamedRun("", journal, ReferenceNotes(shipped_references))
    (page,) = [group for _, group in page_of([run]).insights]
    sentences = "\n".join(one.sentence for one in page)
    return [table_of(journal), html.unescape(table_of(journal, "markdown")), sentences]


def with_first(**changes):
    """The run with changes of its first copy."""
    first, *others = COPIES.transfers
    return Journal(COPIES.header, results=[replace(first, **changes), *others])


def slowed():
    """The first copy at a third of its bandwidth."""
    whole = COPIES.transfers[0].summary
    rate = whole.bytes_per_s / 3
    slow = {"time_s": whole.time_s * 3, "bytes_per_s": rate, "flow_bytes_per_s": [rate]}
    return with_first(summary=replace(whole, **slow))


def test_connections_show_processors_and_numa_nodes_of_devices():
    places = [("0-47", 0), ("0-47", 0), ("48-95", -1), ("", 1)]
    devices = [
        replace(device, near=near, numa_node=node)
        for device, (near, node) in zip(COPIES.header.devices, places, strict=True)
    ]
    text = table_of(Journal(replace(COPIES.header, devices=devices), COPIES.transfers))
    lines = text.partition("  Connections\n")[2].partition("P2P connectivity")[0].splitlines()
    assert [line.strip() for line in lines if line.startswith("  near ")] == [
        "near DEV0, DEV1: processors 0-47 of NUMA node 0",
        "near DEV2: processors 48-95",
    ]


@pytest.mark.parametrize("journal", [COPIES, slowed()], ids=["healthy", "one slow pair"])
def test_every_format_has_the_same_findings(journal):
    found = outliers_of(journal.transfers, journal.header).far
    assert found
    for text in formats(journal):
        for one in found:
            assert deviation_text(one, ["DEV0", "DEV1", "DEV2", "DEV3"]) in text
        assert "no pair stands out" not in text
        assert (
            "120 of 120 copies checked, 0 wrong; 24 latencies of loads and stores have no output "
            "to check"
        ) in text
        assert "normal" in text
        assert ("low: 33% of the reference" in text) == (journal is not COPIES)


@pytest.mark.parametrize(
    ("value", "usual", "lower_is_better", "text"),
    [
        (12.4, 13.28, True, "7% lower, better"),
        (400.0, 200.0, False, "100% higher, better"),
        # A link that moves data is not 100% slower.
        (0.9941, 200.0, False, "a factor of 201 lower, worse"),
        (0.0, 200.0, False, "100% lower, worse"),
    ],
)
def test_a_deviation_says_which_way_is_good(value, usual, lower_is_better, text):
    assert relative(value, usual, lower_is_better=lower_is_better) == text


def test_no_pair_stands_out_where_times_say_little():
    journal = slowed()
    crowded = replace(journal.header, notices=[CROWDED])
    assert outliers_of(journal.transfers, crowded).far == []
    for text in formats(Journal(crowded, results=journal.transfers)):
        assert "stands out" not in text
        assert "Pairs that stand out" not in text
    injected = replace(crowded.settings, inject=["delay:pair=0-1,ms=1"])
    assert outliers_of(journal.transfers, replace(crowded, settings=injected)).far


@pytest.mark.parametrize("journal", [COPIES, PAIRS], ids=["p2p", "pairs"])
def test_what_cannot_be_judged_is_not_good(journal):
    """Neither on shared processors, nor without anything to compare with."""
    crowded = Journal(replace(journal.header, notices=[CROWDED]), journal.results)
    found = {one.sentence: one.severity for one in insights_on(crowded)}
    assert found["Ranks share processors: these figures cannot be judged."] == "unknown"
    few = [one for one in journal.results if pair_of(one.item) == (0, 1)]
    found |= {one.sentence: one.severity for one in insights_on(Journal(journal.header, few))}
    (lacking,) = [text for text in found if "to compare these figures with" in text]
    assert lacking.startswith("There is no reference and no group of 4 or more pairs linked in ")
    assert found[lacking] == "unknown"
    assert "Nothing needs a look." not in found


def pair_of(item):
    return item.flows[0] if isinstance(item, Transfer) else item.pair


def limited(runtime, limit_bytes_per_s):
    """The run with another limit of the links, on devices of ``runtime``."""
    limits = [replace(one, limit_bytes_per_s=limit_bytes_per_s) for one in COPIES.header.relations]
    devices = [replace(one, runtime=runtime) for one in COPIES.header.devices]
    return replace(COPIES.header, devices=devices, relations=limits)


@pytest.mark.parametrize(
    ("runtime", "reason"),
    [("host", "caches of the processors are copied faster"), ("cuda", "too few for these pairs")],
)
@pytest.mark.parametrize("form", ["table", "markdown", "pccl", "page"])
def test_shares_above_the_limit_are_counted_and_explained(form, runtime, reason):
    def text_of(limit_bytes_per_s, shares):
        header = limited(runtime, limit_bytes_per_s)
        journal = Journal(header, COPIES.results)
        if form == "page":
            return str(page_of([NamedRun("", journal)]).sections)
        exporter = exporter_of(KINDS[P2P], form, View(Journal(header), details=shares))
        text = exported(exporter, journal)
        if not isinstance(exporter, TransferPccl):
            return text
        assert "exceed" not in text, "programs parse it"
        return "\n".join(exporter.notices())

    for limit, above in ((1e9, True), (1e13, False)):
        text = text_of(limit, shares=True)
        assert (reason in text) == above
        assert ("shares of the link limit exceed 100 %, up to " in text) == above
    assert ("exceed 100 %" in text_of(1e9, shares=False)) == (form == "page")


def test_connections_are_in_the_head_and_a_matrix_follows_its_last_result():
    exporter = exporter_of(KINDS[P2P], "table")
    head = exporter.begin(COPIES.header)
    assert "link limit of a pair, one direction: 450 GB/s" in head
    assert head.count("DEV3      NV18      NV18      NV18         X") == 1
    assert head.count("DEV3         1         1         1         0") == 1
    texts = [exporter.add(one) for one in COPIES.transfers[:25]]
    titles = [text.split("[")[0].strip() for text in texts if text]
    assert titles == [f"Unidirectional bandwidth, {way}, CE, 512 MiB" for way in ("write", "read")]
    assert [*map(bool, texts)].index(True) == 12
    assert "Connections" not in exporter.end(None)


def test_wrong_copies_have_no_figure_and_their_elements_below():
    found = Verification(2, [WrongOutput(0, 2, 7, "0x3", "0x4")])
    journal = with_first(status="wrong", verification=found)
    document = document_of(document_of_transfers, NamedRun("", journal))
    heat = document.blocks[0]
    assert (heat.texts[0][1], heat.values[0][1], [*heat.wrong]) == ("WRONG", None, [(0, 1)])
    assert [*heat.reasons] == ["DEV0 → DEV1: 2 wrong, first element 7 is 0x4, not 0x3"]
    assert document.findings[0].sentence.startswith("wrong data in 1 case: unidirectional write CE")
    assert document.is_wrong
    assert document.outcome.startswith("120 of 120 copies checked, 1 wrong")
