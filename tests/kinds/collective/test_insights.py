"""The sentences on top of a report: right, in order of gravity, and none without a reason."""

import dataclasses

import msgspec
import pytest

from cclmark.analysis.outliers import TIMES_MEAN_LITTLE
from cclmark.document.blocks import Finding
from cclmark.document.insight_words import sentence
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Explanation, Footer, Imported, Trace, Verification, WrongOutput
from cclmark.kinds.registry import read_journal
from cclmark.references.reference_store import shipped_references
from cclmark.report.overview import measured_words, of_methods, together
from cclmark.report.run_page import page_of
from places import REPOSITORY
from reports import headline_of, insights_on

RESULTS = REPOSITORY / "benchmarks" / "results" / "h200x4"
COLLECTIVES = read_journal(RESULTS / "report" / "collectives.jsonl")
COPIES = read_journal(RESULTS / "report" / "p2p.jsonl")
PAIRS = read_journal(RESULTS / "report" / "pairs.jsonl")
replace = msgspec.structs.replace


def changed(journal, at, **changes):
    """The journal with its result number ``at`` changed."""
    results = list(journal.results)
    results[at] = replace(results[at], **changes)
    return Journal(journal.header, results, footer=journal.footer)


def texts(journal, kind, notes=None):
    return [one.sentence for one in insights_on(journal, notes) if one.severity == kind]


def shipped():
    """The references that commands use."""
    return ReferenceNotes(shipped_references)


def slowed_copies(rate=1e9, header=COPIES.header):
    """The copies with another rate of the first one."""
    first = COPIES.transfers[0]
    slow = replace(first.summary, bytes_per_s=rate, flow_bytes_per_s=[rate])
    results = [replace(first, summary=slow), *COPIES.transfers[1:]]
    return Journal(header, results=results, footer=COPIES.footer)


def with_links(of_pairs, **other):
    """The copies with one link changed. ``of_pairs``: of both directions of DEV0 and DEV1."""
    slow = {(0, 1), (1, 0)}
    relations = [
        replace(one, **(of_pairs if (one.first, one.second) in slow else other))
        for one in COPIES.header.relations
    ]
    return replace(COPIES.header, relations=relations)


def with_rates(rate):
    """The copies between DEV0 and DEV1 at another rate."""
    slow = {(0, 1), (1, 0)}
    return [
        replace(one, summary=replace(one.summary, flow_bytes_per_s=[rate]))
        if one.transfer.scope == "pairs" and one.transfer.flows[0] in slow and one.summary
        else one
        for one in COPIES.transfers
    ]


def place_of(operation, size_bytes):
    return next(
        number
        for number, one in enumerate(COLLECTIVES.results)
        if (one.case.operation, one.case.size_bytes) == (operation, size_bytes)
    )


def test_what_was_measured_is_said_in_a_sentence():
    assert (
        measured_words(COPIES)
        == "216 copies and 24 latencies between devices on 4 × NVIDIA H200 of h200-host."
    )
    assert "with nccl 2.28.9." in measured_words(COLLECTIVES)
    assert "834 cases between single pairs of devices" in measured_words(PAIRS)


def test_the_figure_to_remember():
    text = headline_of(COLLECTIVES)
    assert text == (
        "all_reduce reaches 346.1 GB/s bus bandwidth at 512 MiB, 77% of the 450 GB/s link limit, "
        "half of it from 8 MiB on; 8 B take 7.88 µs."
    )
    assert headline_of(COPIES) == (
        "The fastest copies between two devices (CE, write, 512 MiB) run at 395.9 to 396.1 GB/s, "
        "88% of the 450 GB/s limit."
    )
    assert headline_of(PAIRS).startswith("all_reduce between two devices: 285.0 GB/s at 128 MiB")
    assert headline_of(Journal(COPIES.header)) == ""


def test_of_a_good_machine_nothing_stands_out():
    for journal in (COLLECTIVES, COPIES):
        assert texts(journal, "bad") == []
        assert texts(journal, "look", shipped()) == []
        assert "Nothing needs a look." in texts(journal, "good", shipped())
        assert any(
            text.startswith("Every output was checked in full; none was wrong")
            for text in texts(journal, "good")
        )


def test_wrong_data_comes_first():
    wrong = Verification(wrong=3, findings=[WrongOutput(1, 3, 0, "1", "2")])
    journal = changed(COLLECTIVES, 5, status="wrong", verification=wrong)
    first = insights_on(journal)[0]
    assert first.severity == "bad"
    assert first.sentence.startswith("Wrong data in 1 case: all_reduce")
    assert "Do not use" in first.advice
    assert not any("none was wrong" in one.sentence for one in insights_on(journal))


def test_unchecked_data_is_no_right_data():
    results = [replace(one, verification=None) for one in COLLECTIVES.results]
    journal = Journal(COLLECTIVES.header, results, footer=COLLECTIVES.footer)
    assert any("No output was checked" in text for text in texts(journal, "look"))


def test_a_dip_of_the_bandwidth_is_named_with_its_size():
    at = place_of("all_reduce", 128 << 20)
    summary = COLLECTIVES.results[at].summary
    slow = replace(summary, busbw_bytes_per_s=summary.busbw_bytes_per_s / 2)
    (text,) = texts(changed(COLLECTIVES, at, summary=slow), "look", shipped())
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
    (text,) = texts(journal, "look", shipped())
    assert text.startswith("all_gather: rank 2 (cuda:2 of h200-host) is slower")


def test_bandwidth_far_below_the_links_is_worth_a_look():
    journal = read_journal(RESULTS / "runs" / "ctas8.jsonl")
    found = texts(journal, "look", shipped())
    assert (
        "Less than 60% of the 450 GB/s link limit even with large messages: all_reduce 42%."
    ) in found


def test_a_slow_copy_is_named_with_both_devices():
    (text,) = texts(slowed_copies(COPIES.transfers[0].summary.bytes_per_s / 3), "look")
    assert text.startswith("DEV0 → DEV1: 132.01 GB/s, usual for NV18 395.96 GB/s")


def test_small_messages_of_pairs_are_not_blamed_on_links():
    """Their times have the two levels that a processor's launches have."""
    assert texts(PAIRS, "look") == []
    slow = [
        replace(one, summary=replace(one.summary, time_s=1e-4))
        if one.case.pair == (0, 1) and one.case.size_bytes == 8
        else one
        for one in PAIRS.results
    ]
    journal = Journal(PAIRS.header, slow, footer=PAIRS.footer)
    # Advice once, which asks for nothing: beside it stands that nothing needs a look.
    first, *others = [one for one in insights_on(journal) if "usual for" in one.sentence]
    assert {one.severity for one in (first, *others)} == {"note"}
    assert first.sentence.startswith("DEV1 → DEV0: 100.00 µs, usual for NV18 ")
    assert "processors that launch" in first.advice
    assert "measure" not in first.advice
    assert others
    assert {one.advice for one in others} == {""}
    assert "Nothing needs a look." in texts(journal, "good")


@pytest.mark.parametrize(
    ("footer", "kind", "words"),
    [
        (None, "look", "the end of the run is missing"),
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


def test_blocks_that_were_swept_are_no_slow_pairs():
    journal = read_journal(RESULTS / "p2p_blocks.jsonl")
    span = headline_of(journal).split(" run at ")[1].split(" GB/s")[0]
    ends = [float(end) for end in span.split(" to ")]
    assert ends[0] > 0.9 * ends[-1]


def test_wrong_data_is_no_peak():
    at = place_of("all_reduce", 512 << 20)
    wrong = Verification(wrong=1, findings=[WrongOutput(3, 1, 7, "1", "2")])
    summary = replace(COLLECTIVES.results[at].summary, busbw_bytes_per_s=9e11)
    journal = changed(COLLECTIVES, at, status="wrong", verification=wrong, summary=summary)
    assert "900" not in headline_of(journal)
    assert (
        "rank 3: 1 element, first at index 7: expected 1, got 2" in insights_on(journal)[0].sentence
    )


def test_what_was_put_in_on_purpose_is_said():
    header = replace(
        COPIES.header, settings=replace(COPIES.header.settings, inject=["delay:pair=0-1"])
    )
    journal = slowed_copies(header=header)
    assert "with injected faults (--inject delay:pair=0-1)" in measured_words(journal)
    (look,) = [one for one in insights_on(journal) if one.sentence.startswith("DEV")]
    assert look.advice == "The cause may be the fault injected by --inject."


def test_a_host_is_not_told_to_swap_cables():
    devices = [replace(device, runtime="host") for device in COPIES.header.devices]
    journal = slowed_copies(header=replace(COPIES.header, devices=devices))
    assert not any("cable" in one.advice or "nvidia" in one.advice for one in insights_on(journal))


def test_nothing_stands_out_only_where_something_was_measured():
    hung = [replace(one, status="timeout", summary=None) for one in PAIRS.results]
    assert texts(Journal(PAIRS.header, hung), "good") == []
    hung = [replace(one, status="timeout", summary=None) for one in COPIES.transfers]
    assert texts(Journal(COPIES.header, results=hung), "good") == []
    one_pair = [one for one in PAIRS.results if one.case.pair == (0, 1)]
    assert not any(
        "stands out among" in text for text in texts(Journal(PAIRS.header, one_pair), "good")
    )


def test_without_a_limit_or_a_reference_nothing_is_called_in_order():
    header = replace(COLLECTIVES.header, links=[], relations=[])
    quiet = [
        one
        for one in COLLECTIVES.results
        if one.summary.cv < 0.1 and one.case.operation != "sendrecv"  # which has a kink
    ]
    journal = Journal(header, quiet, footer=COLLECTIVES.footer)
    assert "There is no link limit and no reference to compare these figures with." in texts(
        journal, "unknown"
    )
    crowded = replace(COLLECTIVES.header, notices=[f"4 ranks share 2: {TIMES_MEAN_LITTLE}"])
    found = insights_on(Journal(crowded, quiet, footer=COLLECTIVES.footer), shipped())
    assert "Ranks share processors: these figures cannot be judged." in [
        one.sentence for one in found
    ]
    assert "Nothing needs a look." not in [one.sentence for one in found]


def test_noisy_curves_have_no_dips_and_most_noise_is_worth_a_look():
    noisy = [
        replace(
            one,
            summary=replace(
                one.summary,
                cv=0.5,
                half_width=0.06 + place / 1e4,
                busbw_bytes_per_s=one.summary.busbw_bytes_per_s / (1 + place % 2),
            ),
        )
        for place, one in enumerate(COLLECTIVES.results)
    ]
    found = texts(Journal(COLLECTIVES.header, noisy, footer=COLLECTIVES.footer), "look")
    assert [text for text in found if "falls to" in text] == []
    (text,) = [text for text in found if "medians" in text]
    assert text.startswith(
        f"The medians of 257 cases of 257 are known to no better than ±5 % (95 %), the worst that "
        f"of {COLLECTIVES.results[-1].case.describe()}: ±8.6 %; 257 cases of 257 vary by more than "
    )


def test_advice_about_a_trace_is_possible():
    """The command has no option for the time for which it measures."""
    one = COLLECTIVES.results[0]
    unsure = replace(one, converged=False, summary=replace(one.summary, cv=0.5, half_width=0.5))
    journal = Journal(COLLECTIVES.header, [unsure], footer=COLLECTIVES.footer)
    assert any("--max-time" in one.advice for one in insights_on(journal))
    journal.traces.append(Trace("t.pftrace", "perfetto", 1))
    found = insights_on(journal)
    assert not any("--max-time" in one.sentence + one.advice for one in found)
    (advice,) = [one.advice for one in found if "medians" in one.sentence]
    assert advice.endswith("measure the case with its own command for a better median.")


def test_samples_that_scatter_are_no_reason_to_look_where_medians_are_known():
    """A single sample that is far makes the coefficient of variation large, and no median."""
    noisy = [replace(one, summary=replace(one.summary, cv=0.5)) for one in COLLECTIVES.results]
    journal = Journal(COLLECTIVES.header, noisy, footer=COLLECTIVES.footer)
    assert texts(journal, "look") == []
    (note,) = [one for one in insights_on(journal) if "from sample to sample" in one.sentence]
    assert note.severity == "note"
    assert "; their medians are known to ±2.7 % or better; 1 case did not get" in note.sentence
    assert "not its own" not in note.advice
    # Of few samples nobody knows how far the median is off.
    few = [replace(one, summary=replace(one.summary, half_width=None)) for one in noisy]
    journal = Journal(COLLECTIVES.header, few, footer=COLLECTIVES.footer)
    (note,) = [one for one in insights_on(journal) if "from sample to sample" in one.sentence]
    assert "are known" not in note.sentence


LIBRARIES = read_journal(RESULTS / "libraries.jsonl")


def test_each_librarys_own_peak_is_judged_however_small_the_message_it_was_at():
    low = [text for text in texts(LIBRARIES, "look") if text.startswith("Less than")]
    assert low == [
        "Less than 60% of the 450 GB/s link limit even with large messages: all_reduce · mpi 0.4% "
        "and all_reduce · bridge 52% (2 islands, direct peer copies)."
    ]


def test_how_much_longer_a_library_takes_than_the_fastest():
    both = read_journal(RESULTS / "report" / "nccl_and_torch.jsonl")
    expected = "all_reduce: 8 B take 11.10 µs by nccl, 4.4 times as long by torch:nccl."
    assert expected in texts(both, "note")
    (text,) = [text for text in texts(LIBRARIES, "note") if " times as long by" in text]
    assert text == (
        "all_reduce: 8 B take 9.54 µs by flagcx, 5.05 times as long by torch:nccl, 2.6 times by "
        "mpi and 2.2 times by bridge; 128 MiB take 613.62 µs by flagcx, 353 times as long by mpi "
        "and 1.41 times by bridge."
    )
    alone = [one for one in both.results if one.case.ccl == "nccl"]
    assert not any("as long by" in text for text in texts(Journal(both.header, alone), "note"))


def test_small_messages_are_told_by_their_time_alone():
    small = [one for one in COLLECTIVES.results if one.case.size_bytes <= 512]
    assert headline_of(Journal(COLLECTIVES.header, small)) == "all_reduce of 8 B takes 7.88 µs."


@pytest.mark.parametrize(
    ("header", "rate", "words"),
    [
        (
            with_links({"kind": "SYS", "limit_bytes_per_s": 0.0}),
            2e8,
            "395.9 to 396.1 GB/s over NV18, 88% of the 450 GB/s limit; 0.2 GB/s over SYS.",
        ),
        # The links are unknown, and the pairs have little in common.
        (replace(COPIES.header, relations=[]), 2e8, "395.9 GB/s (the median of 12 pairs)."),
        # The limit is that of the fastest pair, not of the first one.
        (
            with_links({"limit_bytes_per_s": 225e9}),
            2e11,
            "200.0 to 396.1 GB/s, the fastest 88% of its limit.",
        ),
        (
            with_links({"limit_bytes_per_s": 225e9}, limit_bytes_per_s=0.0),
            2e11,
            "200.0 to 396.1 GB/s.",
        ),
    ],
)
def test_the_fastest_copies_by_kind_and_limit_of_their_links(header, rate, words):
    assert headline_of(Journal(header, results=with_rates(rate))) == (
        f"The fastest copies between two devices (CE, write, 512 MiB) run at {words}"
    )


def test_what_several_runs_say_alike_is_said_once():
    same, other = (
        Finding("data-not-checked", "look", "No output was checked.", advice="-c 1"),
        Finding("notice", "note", "Odd."),
    )
    assert together([("", [same, other])]) == [("", [same, other])]
    assert together([("a", [same]), ("b", [same, other])]) == [
        ("", [replace_text(same, "Both runs: No output was checked.")]),
        ("b", [other]),
    ]
    names = [f"run{number}" for number in range(11)]
    found = [(name, [same] if number < 8 else [other]) for number, name in enumerate(names)]
    groups = dict(together(found))
    assert list(groups) == [""]
    assert [one.sentence for one in groups[""]] == [
        "8 of 11 runs (run0, run1, run2 and 5 more): No output was checked.",
        "3 of 11 runs (run8, run9 and run10): Odd.",
    ]


def with_settings(journal, **changes):
    settings = replace(journal.header.settings, **changes)
    return Journal(replace(journal.header, settings=settings), journal.results)


def test_runs_that_were_measured_differently_are_named():
    by_host = with_settings(COLLECTIVES, barrier="library", clock="host")
    names = ("a", "b", "c", "pairs", "copies")
    runs = [*zip(names, (COLLECTIVES, by_host, by_host, PAIRS, COPIES), strict=True)]
    found = of_methods(runs)
    assert [(one.severity, one.sentence) for one in found] == [
        (
            "look",
            "Measured differently from a (there): b and c (here). --barrier: own there, library "
            "here; --clock: auto there, host here.",
        )
    ]
    assert of_methods([runs[0], runs[0], *runs[3:]]) == []
    page = page_of([NamedRun(name, journal) for name, journal in runs[:2]])
    assert found[0].advice in [one.advice for _, group in page.insights for one in group]


def test_what_another_tool_does_not_tell_is_no_difference():
    origin = Imported("nccl-tests", "text", ranks=4, figure="a mean")
    header = replace(with_settings(COLLECTIVES, clock="host").header, imported=origin)
    other = Journal(header, COLLECTIVES.results)
    assert of_methods([("a", COLLECTIVES), ("b", other)]) == []


def test_a_page_of_several_runs_says_once_what_nobody_checked():
    unchecked = [read_journal(RESULTS / "runs" / f"default-{n}.jsonl") for n in (1, 2, 3)]
    page = page_of([NamedRun(f"run{n}", journal) for n, journal in enumerate(unchecked)])
    found = [
        one.sentence for _, group in page.insights for one in group if "checked" in one.sentence
    ]
    assert len(found) == 1
    assert found[0].startswith("All 3 runs: No output was checked")


def test_the_footnote_of_another_librarys_reference_says_so():
    page = page_of([NamedRun("", LIBRARIES, ReferenceNotes(shipped_references))])
    notes = [note for note in page.peaks.notes if note.startswith("Reference of all_reduce · mpi")]
    assert len(notes) == 1
    assert "NCCL 2.28.9, multicast off; differs: NCCL there, MPI here" in notes[0]


def replace_text(insight, text):
    return dataclasses.replace(insight, sentence=text)


def test_more_than_links_carry_is_worth_a_look():
    at = place_of("all_reduce", 512 << 20)
    summary = replace(COLLECTIVES.results[at].summary, busbw_bytes_per_s=9e11)
    found = texts(changed(COLLECTIVES, at, summary=summary), "look")
    assert any("More than the 450 GB/s link limit: all_reduce 200%" in text for text in found)


def test_far_above_a_reference_is_not_normal_and_small_messages_are_not_judged():
    notes = ReferenceNotes(shipped_references)
    many = [
        replace(
            one,
            summary=replace(
                one.summary,
                busbw_bytes_per_s=one.summary.busbw_bytes_per_s * 1.2,
                time_s=one.summary.time_s / 1.2,
            ),
        )
        for one in COLLECTIVES.results
        if one.case.operation == "all_reduce"
    ]
    found = insights_on(Journal(COLLECTIVES.header, many), notes)
    assert [one.severity for one in found if " is high: " in one.sentence] == ["look"]
    small = [one for one in many if one.case.size_bytes <= 128]
    found = insights_on(Journal(COLLECTIVES.header, small), notes)
    assert not any("normal" in one.sentence or "is high" in one.sentence for one in found)


def test_several_hosts_have_devices_with_their_names():
    devices = [
        replace(device, host=f"h{rank // 2}", index=rank % 2)
        for rank, device in enumerate(COPIES.header.devices)
    ]
    journal = slowed_copies(header=replace(COPIES.header, devices=devices))
    assert any("HOST0:DEV0 → HOST0:DEV1" in one.sentence for one in insights_on(journal))


def test_notices_of_the_run_reach_the_summary():
    header = replace(COLLECTIVES.header, notices=["4 ranks share 2 processors"])
    assert "4 ranks share 2 processors." in texts(Journal(header, COLLECTIVES.results), "note")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("another run is active", "Another run is active."),
        ("nccl is old.", "nccl is old."),
        ("host:0 is slow", "host:0 is slow."),
        ("NCCL_PROTO=LL is set", "NCCL_PROTO=LL is set."),
    ],
)
def test_findings_are_sentences(text, found):
    assert sentence(text) == found


def test_many_reasons_for_not_knowing_what_ran_are_one_finding():
    results = [
        replace(one, explanation=Explanation(one.index, reason=f"reason {one.index % 5}"))
        for one in COLLECTIVES.results
    ]
    found = [
        text
        for text in texts(Journal(COLLECTIVES.header, results), "unknown")
        if "What ran" in text
    ]
    assert len(found) == 1
    assert "for 5 reasons" in found[0]
    assert "for example: reason" in found[0]


def test_one_unknown_median_is_worth_a_look():
    results = [replace(one) for one in COLLECTIVES.results]
    unknown = replace(results[0].summary, half_width=10.0, cv=0.5)
    results[0] = replace(results[0], converged=False, summary=unknown)
    # One finding has all that is to be said about noise, with one advice.
    (found,) = [
        one
        for one in insights_on(Journal(COLLECTIVES.header, results))
        if any(word in one.sentence for word in ("medians", "sample to sample", "--max-time"))
    ]
    assert found.severity == "look"
    case = results[0].case.describe()
    assert f"(95 %), the worst that of {case}: > ±100 %; " in found.sentence
    assert "2 cases did not get to ±2 % of the median within --max-time 1 s" in found.sentence
    assert found.advice.count("--max-time") == 1


def test_skipped_cases_are_neither_unchecked_nor_unsure():
    skipped = [
        replace(one, status="skipped", summary=None, verification=None, converged=False)
        for one in COLLECTIVES.results
    ]
    found = [
        one.sentence
        for one in insights_on(Journal(COLLECTIVES.header, skipped, footer=COLLECTIVES.footer))
    ]
    assert not any("No output was checked" in text or "did not get to" in text for text in found)
