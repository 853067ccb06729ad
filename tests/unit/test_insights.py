"""The sentences on top of a report: right, in order of gravity, and none without a reason."""

from pathlib import Path

import msgspec
import pytest

from cclmark.report.insights import headline, insights, measured_words
from cclmark.results.journal import Journal, read_journal
from cclmark.results.schema import Finding, Footer, Verification

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "h200x4"
COLLECTIVES = read_journal(RESULTS / "report" / "collectives.jsonl")
COPIES = read_journal(RESULTS / "report" / "p2p.jsonl")
PAIRS = read_journal(RESULTS / "report" / "pairs.jsonl")
replace = msgspec.structs.replace


def changed(journal, at, **changes):
    """The journal with its result number ``at`` changed."""
    results = list(journal.results)
    results[at] = replace(results[at], **changes)
    return Journal(journal.header, results, footer=journal.footer)


def texts(journal, kind):
    return [one.text for one in insights(journal) if one.kind == kind]


def place_of(operation, size_bytes):
    return next(
        number
        for number, one in enumerate(COLLECTIVES.results)
        if (one.case.operation, one.case.size_bytes) == (operation, size_bytes)
    )


def test_what_was_measured_is_said_in_a_sentence():
    assert measured_words(COPIES) == "240 copies between devices on 4 × NVIDIA H200 of h200-host."
    assert "with nccl 2.28.9." in measured_words(COLLECTIVES)
    assert "834 cases between single pairs of devices" in measured_words(PAIRS)


def test_the_figure_to_remember():
    text = headline(COLLECTIVES)
    assert text == (
        "all_reduce reaches 346.1 GB/s bus bandwidth at 512 MiB, 77% of the 450 GB/s link limit; "
        "8 B take 7.88 µs."
    )
    assert "The fastest copy between two devices runs at 396.1 GB/s (CE, write, 88%" in headline(
        COPIES
    )
    assert headline(Journal(COPIES.header)) == ""


def test_of_a_good_machine_nothing_stands_out():
    for journal in (COLLECTIVES, COPIES):
        assert texts(journal, "bad") == []
        assert texts(journal, "look") == []
        assert "Nothing stands out that would need a look." in texts(journal, "good")
        assert "Every output was checked in full; none was wrong." in texts(journal, "good")


def test_wrong_data_comes_first():
    wrong = Verification(wrong=3, findings=[Finding(1, 3, 0, "1", "2")])
    journal = changed(COLLECTIVES, 5, status="wrong", verification=wrong)
    first = insights(journal)[0]
    assert first.kind == "bad"
    assert first.text.startswith("Wrong data in 1 case: all_reduce")
    assert "Do not use" in first.advice
    assert not any("none was wrong" in one.text for one in insights(journal))


def test_unchecked_data_is_no_right_data():
    results = [replace(one, verification=None) for one in COLLECTIVES.results]
    journal = Journal(COLLECTIVES.header, results, footer=COLLECTIVES.footer)
    assert any("No output was checked" in text for text in texts(journal, "look"))


def test_a_dip_of_the_bandwidth_is_named_with_its_size():
    at = place_of("all_reduce", 128 << 20)
    summary = COLLECTIVES.results[at].summary
    slow = replace(summary, busbw_bytes_per_s=summary.busbw_bytes_per_s / 2)
    (text,) = texts(changed(COLLECTIVES, at, summary=slow), "look")
    assert "bus bandwidth falls to" in text
    assert "at 128 MiB, after" in text


def test_a_slow_rank_is_named_with_its_device():
    results = [
        replace(one, summary=replace(one.summary, slowest_rank=2))
        if one.case.operation == "all_gather"
        else one
        for one in COLLECTIVES.results
    ]
    journal = Journal(COLLECTIVES.header, results, footer=COLLECTIVES.footer)
    (text,) = texts(journal, "look")
    assert text.startswith("all_gather: rank 2 (cuda:2 of h200-host) is slower")


def test_bandwidth_far_below_the_links_is_worth_a_look():
    journal = read_journal(RESULTS / "runs" / "ctas8.jsonl")
    assert texts(journal, "look") == [
        "Less than 60% of the 450 GB/s link limit even with large messages: all_reduce 42%."
    ]


def test_a_slow_copy_is_named_with_both_devices():
    first = COPIES.transfers[0]
    slow = replace(
        first.summary,
        bytes_per_s=first.summary.bytes_per_s / 3,
        flow_bytes_per_s=[first.summary.bytes_per_s / 3],
    )
    journal = Journal(
        COPIES.header,
        transfers=[replace(first, summary=slow), *COPIES.transfers[1:]],
        footer=COPIES.footer,
    )
    (text,) = texts(journal, "look")
    assert text.startswith("Copies from DEV0 to DEV1: 132.01 GB/s, where pairs linked by NV18")


def test_small_messages_of_pairs_are_not_blamed_on_links():
    """Their times have the two levels that a processor's launches have."""
    assert texts(PAIRS, "look") == []
    (note, *_) = [one for one in insights(PAIRS) if "usually need" in one.text]
    assert note.kind == "note"
    assert "processors that launch" in note.advice


@pytest.mark.parametrize(
    ("footer", "kind", "words"),
    [
        (None, "look", "the run did not end by itself"),
        (Footer("x", 130, 1.0, "interrupted by SIGINT"), "look", "interrupted by SIGINT"),
        (Footer("x", 4, 1.0, "rank 2 died\n  stack"), "bad", "rank 2 died."),
    ],
)
def test_a_run_that_ended_early_says_why(footer, kind, words):
    journal = Journal(COLLECTIVES.header, COLLECTIVES.results[:10], footer=footer)
    found = [text for text in texts(journal, kind) if "ended early" in text]
    assert len(found) == 1
    assert words in found[0]
    assert "stack" not in found[0]
    assert "after 10 of" in found[0]


def test_what_hung_is_bad_and_what_was_skipped_is_worth_knowing():
    journal = changed(COLLECTIVES, 0, status="timeout", summary=None, reason="rank 1 hung\nlong")
    assert "1 case timeout: rank 1 hung." in texts(journal, "bad")
    journal = changed(COLLECTIVES, 0, status="skipped", summary=None, reason="no fp8")
    assert "1 case skipped: no fp8." in texts(journal, "note")
