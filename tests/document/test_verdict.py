"""The verdict: the answer, what is most notable, and the next command."""

import pytest

from cclmark.document.blocks import Evidence, Finding
from cclmark.document.document_text import TextLines
from cclmark.document.report_kind import View
from cclmark.document.verdict import verdict_on

CHECKED = Finding("data-checked", "good", "every output was checked in full; none was wrong")
NORMAL = Finding("normal-peaks", "good", "peaks are normal: all_reduce 99% of the reference")
WRONG = Finding(
    "wrong-data", "bad", "wrong data in 1 case: all_reduce", advice="Use `cclmark p2p`."
)


def answer_to(*findings, headline=""):
    found = verdict_on(findings, headline)
    return found.word, found.answer, found.severity


@pytest.mark.parametrize(
    ("findings", "word", "answer", "severity"),
    [
        ([CHECKED, NORMAL], "normal", "all_reduce 99% of the reference", "good"),
        ([NORMAL, Finding("below-reference", "look", "slow")], "not normal", "slow", "look"),
        ([NORMAL, Finding("below-link-limit", "look", "far")], "to check", "far", "look"),
        (
            [NORMAL, Finding("below-reference", "unknown", "maybe")],
            "not judged",
            "maybe",
            "unknown",
        ),
        ([Finding("ended-early", "bad", "early"), WRONG], "wrong", WRONG.sentence, "bad"),
        ([Finding("ended-early", "bad", "early"), NORMAL], "failed", "early", "bad"),
        ([Finding("overlap-of-largest", "note", "2.0")], "result", "2.0", "note"),
        ([Finding("overlap-of-largest", "unknown", "?")], "inconclusive", "?", "unknown"),
        ([Finding("drift", "good", "none")], "steady", "none", "good"),
        ([Finding("drift", "look", "slower")], "drift", "slower", "look"),
        ([Finding("proven-gain", "good", "1.2"), NORMAL], "gain", "1.2", "good"),
        (
            [Finding("no-gain", "note", "0", subject="all_reduce")],
            "no gain",
            "all_reduce: 0",
            "note",
        ),
        (
            [
                Finding("memory-of-library", "note", "free"),
                Finding(
                    "memory-of-library",
                    "note",
                    "nccl takes 1 GiB",
                    evidence=(Evidence.of("library_device_bytes", 1 << 30),),
                ),
            ],
            *("result", "nccl takes 1 GiB", "note"),
        ),
    ],
)
def test_the_answer(findings, word, answer, severity):
    assert answer_to(*findings) == (word, answer, severity)
    assert answer_to(*reversed(findings)) == (word, answer, severity)


def test_an_unknown_figure_is_not_normal():
    said = answer_to(CHECKED, headline="all_reduce of 1 KiB takes 1 µs.")
    assert said == (
        *("not judged", "all_reduce of 1 KiB takes 1 µs (nothing in this run judges it)"),
        "unknown",
    )
    assert answer_to()[:2] == ("not judged", "this run (nothing in this run judges it)")


def test_the_reason_why_figures_are_not_judged():
    shared = Finding("shared-processors", "unknown", "ranks share processors")
    found = verdict_on([shared], "1 GB/s.")
    assert found.answer == "1 GB/s (ranks share processors)"
    # A note on a pair is about sizes that say nothing of links.
    assert (
        verdict_on([Finding("slow-pair", "note", "8 B take longer")], "1 GB/s.").word
        == "not judged"
    )


def test_a_run_that_ended_early_is_normal_so_far():
    found = verdict_on([NORMAL, Finding("ended-early", "look", "interrupted")])
    assert (found.word, found.outstanding) == ("normal so far", "interrupted")
    assert dict(found.rows("a.jsonl"))["next"].startswith("the same command with --resume a.jsonl")
    assert dict(found.rows("a.jsonl", can_rerun=False))["next"].startswith("cclmark report a.jsonl")


def test_figures_of_unchecked_data_are_no_verdict_on_the_data():
    unchecked = Finding("data-not-checked", "look", "no output was checked")
    found = verdict_on([NORMAL, unchecked])
    assert found.word == "normal figures of unchecked data"
    assert found.outstanding == "no output was checked"


def test_what_is_notable():
    late = Finding("late-rank", "look", "rank 3 comes late")
    assert verdict_on([late, NORMAL, CHECKED]).outstanding == "rank 3 comes late"
    assert verdict_on([NORMAL, CHECKED]).outstanding == f"nothing; {CHECKED.sentence}"
    assert verdict_on([NORMAL]).outstanding == "nothing"
    # What is the answer is not notable once more.
    assert verdict_on([WRONG]).outstanding == "nothing"


def test_the_next_command():
    assert verdict_on([WRONG, NORMAL]).command == "cclmark p2p"
    incomplete = Finding("slow-size", "look", "odd", advice="See `cclmark compare`.")
    assert verdict_on([incomplete, NORMAL]).command == "cclmark report JOURNAL"
    normal, unknown = verdict_on([NORMAL]), verdict_on([])
    assert dict(normal.rows("a.jsonl"))["next"].startswith("cclmark report a.jsonl  (")
    assert dict(normal.rows("a.jsonl", on_page=True))["next"].startswith("cclmark rerun a.jsonl")
    assert dict(unknown.rows("a.jsonl"))["next"].startswith("cclmark rerun a.jsonl")
    imported = dict(unknown.rows("a.jsonl", can_rerun=False))
    assert imported["next"].startswith("cclmark report a.jsonl")
    on_page = dict(unknown.rows("a.jsonl", can_rerun=False, on_page=True))
    assert on_page["next"].startswith("cclmark compare EARLIER a.jsonl")


def test_long_lines_are_shortened_and_folded():
    long = Finding("late-rank", "look", "rank 3 comes late " * 40)
    found = verdict_on([long])
    assert len(found.outstanding) < 250
    assert found.outstanding.endswith(" …")
    lines = TextLines(View(columns=60)).verdict(found, found.rows())
    assert all(len(line) <= 60 for text in lines for line in text.split("\n"))
