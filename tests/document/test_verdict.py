"""The verdict: the answer, what is most notable, and the next command."""

from cclmark.document.blocks import Evidence, Finding
from cclmark.document.document_text import TextLines
from cclmark.document.report_kind import View
from cclmark.document.verdict import verdict_on
from goldens import require_stated

CHECKED = Finding("data-checked", "good", "every output was checked in full; none was wrong")
NORMAL = Finding("normal-peaks", "good", "peaks are normal: all_reduce 99% of the reference")
WRONG = Finding(
    "wrong-data", "bad", "wrong data in 1 case: all_reduce", advice="Use `cclmark p2p`."
)
EARLY = Finding("ended-early", "bad", "early")
MEMORY = Evidence.of("library_device_bytes", 1 << 30)
INCOMPLETE = Finding("slow-size", "look", "odd", advice="See `cclmark compare`.")

#: The findings of runs, in no order.
FINDINGS = {
    "normal": [CHECKED, NORMAL],
    "below reference": [NORMAL, Finding("below-reference", "look", "slow")],
    "below link limit": [NORMAL, Finding("below-link-limit", "look", "far")],
    "perhaps below reference": [NORMAL, Finding("below-reference", "unknown", "maybe")],
    "early and wrong": [EARLY, WRONG],
    "wrong": [WRONG],
    "wrong beside normal peaks": [WRONG, NORMAL],
    "early": [EARLY, NORMAL],
    "overlap": [Finding("overlap-of-largest", "note", "2.0")],
    "unknown overlap": [Finding("overlap-of-largest", "unknown", "?")],
    "no drift": [Finding("drift", "good", "none")],
    "drift": [Finding("drift", "look", "slower")],
    "gain": [Finding("proven-gain", "good", "1.2"), NORMAL],
    "no gain": [Finding("no-gain", "note", "0", subject="all_reduce")],
    "memory": [
        Finding("memory-of-library", "note", "free"),
        Finding("memory-of-library", "note", "nccl takes 1 GiB", evidence=(MEMORY,)),
    ],
    "interrupted": [NORMAL, Finding("ended-early", "look", "interrupted")],
    "unchecked data": [NORMAL, Finding("data-not-checked", "look", "no output was checked")],
    "late rank": [Finding("late-rank", "look", "rank 3 comes late"), NORMAL, CHECKED],
    "incomplete command": [INCOMPLETE, NORMAL],
    "only checked": [CHECKED],
    "shared processors": [Finding("shared-processors", "unknown", "ranks share processors")],
    # A note on a pair is about sizes that say nothing of links.
    "slow pair": [Finding("slow-pair", "note", "8 B take longer")],
    "nothing": [],
}


def test_the_answer_what_is_notable_and_the_next_command():
    """Whatever the order of findings; what is the answer is not notable once more."""
    found = {}
    for name, own in FINDINGS.items():
        headline = "all_reduce of 1 KiB takes 1 µs."
        one = verdict_on(own, headline)
        assert verdict_on([*reversed(own)], headline).answer == one.answer
        found[name] = [
            f"{one.severity}, {one.word}: {one.answer}",
            f"notable: {one.outstanding}",
            f"command: {one.command}",
        ]
    found["nothing, without a headline"] = verdict_on([], "").answer
    for name in ("normal", "nothing", "interrupted"):
        one = verdict_on(FINDINGS[name])
        for options in (
            {},
            {"on_page": True},
            {"can_rerun": False},
            {"can_rerun": False, "on_page": True},
        ):
            found[f"rows: {name}, {options}"] = [*map(": ".join, one.rows("a.jsonl", **options))]
    require_stated("words/verdicts.txt", found)


def test_long_lines_are_shortened_and_folded():
    found = verdict_on([Finding("late-rank", "look", "rank 3 comes late " * 40)])
    assert len(found.outstanding) < 250
    assert found.outstanding.endswith(" …")
    lines = TextLines(View(columns=60)).verdict(found, found.rows())
    assert all(len(line) <= 60 for text in lines for line in text.split("\n"))
