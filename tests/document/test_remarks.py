"""What is said of a case besides its figures, and whether a run is sound."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from cclmark.analysis.findings import findings
from cclmark.document.blocks import Finding
from cclmark.document.placement_rows import PlacementRow, RowCollector
from cclmark.document.remarks import (
    all_launches_in_words,
    closing,
    conclusion_lines,
    convergence_text,
    ending,
    ending_line,
    half_peak_text,
    lacking,
    left_out,
    outcome_of_cases,
    planned_results,
    problems,
    reason_text,
    series,
    without_figures_text,
)
from cclmark.document.soundness import (
    advice_on_wrong_data,
    nothing_wrong,
    of_checked,
    of_completeness,
    of_data,
    of_noise,
    of_statuses,
    of_tails,
    of_what_ran,
    or_unlocated,
    wrong_elements,
)
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    DeviceTime,
    Explanation,
    Footer,
    Imported,
    Verification,
    WrongOutput,
)
from cclmark.kinds.registry import read_journal
from places import TESTS

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
OK = replace(SAMPLE.results[0], converged=True, device=None, device_reason="")
WRONG = WrongOutput(1, 3, 5, "2", "7")
END = Footer("", 0, 0.0)
DIED = Footer("", 4, 0.0, message="rank 1 died\nits report")


def header(*, planned=0, **settings):
    changed = replace(SAMPLE.header.settings, **{"cycles": 1, **settings})
    return replace(
        SAMPLE.header, planned_cases=planned, settings=changed, notices=[], imported=None
    )


def journal(*results, footer=END, of=None, **fields):
    return Journal(of or header(), [*results], footer=footer, **fields)


def with_status(status, reason=""):
    return replace(OK, status=status, reason=reason, summary=None, verification=None)


def of_case(result=OK, **changes):
    return replace(result, case=replace(result.case, **changes))


def with_summary(result=OK, **changes):
    return replace(result, summary=replace(result.summary, **changes))


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (OK, []),
        (with_status("skipped"), ["skipped"]),
        (with_status("skipped", "no memory"), ["skipped: no memory"]),
        (replace(OK, status="wrong", verification=Verification(5)), ["wrong: 5 elements"]),
        (replace(OK, status="wrong", verification=None, reason="late"), ["wrong: late"]),
        (
            replace(OK, status="wrong", verification=Verification(3, [WRONG])),
            ["wrong: rank 1: 3 elements, first at index 5: expected 2, got 7"],
        ),
    ],
)
def test_the_problem_of_a_case(result, said):
    assert problems(result) == said


def test_a_reason_is_that_of_the_result_or_its_first_wrong_element():
    assert reason_text(OK) == ""
    assert reason_text(with_status("failed", "why")) == "why"
    wrong = replace(OK, verification=Verification(3, [WRONG]))
    assert reason_text(wrong).startswith("rank 1: 3 elements")
    assert reason_text(replace(wrong, reason="why")) == "why"
    assert reason_text(replace(OK, verification=Verification(3))) == ""


@pytest.mark.parametrize(
    ("planned", "check", "results", "said"),
    [
        (0, 1, [], ""),
        (2, 1, [], "0 of 2 cases measured, 0 checked"),
        (2, 1, [OK], "1 of 2 cases measured, 1 checked, 0 wrong"),
        (1, 1, [OK], "1 of 1 cases checked, 0 wrong"),
        (1, 0, [replace(OK, verification=None)], "1 case, not checked (-c 0)"),
        (1, 1, [replace(OK, verification=None)], "0 of 1 cases checked"),
        (1, 0, [OK], "1 of 1 cases checked, 0 wrong"),
        (
            2,
            1,
            [replace(OK, status="wrong", verification=None), with_status("timeout")],
            "1 of 2 cases checked, 1 wrong, 1 timeout",
        ),
    ],
)
def test_the_outcome_counts_cases(planned, check, results, said):
    assert outcome_of_cases(header(planned=planned, check=check), results) == said


def test_the_outcome_of_another_tool_names_no_option():
    of = replace(header(check=0), imported=Imported("x", ""))
    assert outcome_of_cases(of, [replace(OK, verification=None)]) == "1 case, not checked"
    assert without_figures_text([OK, *[with_status("died")] * 2, with_status("error")]) == (
        ", 2 died, 1 error"
    )
    assert planned_results(None) == 0
    assert planned_results(header(planned=3, cycles=2)) == 6


@pytest.mark.parametrize(
    ("footer", "whole", "line", "close"),
    [
        (None, *["the end of the run is missing"] * 3),
        (END, "", "", ""),
        (Footer("", 4, 0.0), *["exit code 4"] * 3),
        (DIED, "rank 1 died", "rank 1 died", "exit code 4: rank 1 died"),
        (Footer("", 0, 0.0, message="done"), *["done"] * 3),
    ],
)
def test_an_ending_is_stated_with_its_code_or_message(footer, whole, line, close):
    assert ending(footer).startswith(whole)
    assert bool(ending(footer)) == bool(whole)
    assert ending_line(footer) == line
    assert closing(footer).startswith(close)
    assert bool(closing(footer)) == bool(close)


def test_a_conclusion_has_no_empty_lines_around_it():
    assert conclusion_lines(None) == []
    assert conclusion_lines(Footer("", 0, 0.0, conclusion=["", "a", "", "b", ""])) == ["a", "", "b"]


@pytest.mark.parametrize(
    ("of", "lacks"),
    [
        (journal(OK, of=header(planned=1)), []),
        (journal(OK, of=header(planned=1), footer=DIED), []),
        (journal(OK), []),
        (journal(OK, footer=None), ["the end of the run is missing"]),
        (journal(OK, of=header(planned=2)), ["1 of 2 results are there"]),
        (
            journal(OK, of=header(planned=2), footer=DIED),
            ["the run ended early: rank 1 died", "1 of 2 results are there"],
        ),
        (journal(OK, damaged_lines="3, 5"), ["damaged lines are left out: 3, 5"]),
    ],
)
def test_what_a_journal_lacks_is_stated(of, lacks):
    assert lacking(of) == lacks


def test_unknown_words_of_a_newer_version_are_named_up_to_a_limit():
    (text,) = left_out(journal(OK, unknown_words=["a", "b", "a", "c", "d"]))
    assert "left out: 5 (a, b, c); a newer cclmark may read them" in text


def launches(operation="all_reduce", *, device=True, reason=""):
    small = of_case(operation=operation, size_bytes=8)
    large = of_case(small, size_bytes=4096)
    time = DeviceTime(None, small.summary) if device else None
    found = findings([small])[0]
    return SimpleNamespace(
        name=operation,
        operation=operation,
        latency=replace(small, device=time),
        launch_bound=replace(large, device_reason=reason),
        **{"cycles": found.cycles},
    )


def test_launches_are_described_with_the_costs():
    cost = "a call costs 12.30 µs, the device needs 12.30 µs"
    begin = "launches determine the time"
    assert all_launches_in_words([launches()]) == f"{begin} up to 4 KiB: at 8 B {cost}"
    assert all_launches_in_words([launches("barrier")]) == f"{begin}: {cost}"
    bare, why = launches(device=False), launches(device=False, reason="no events")
    assert all_launches_in_words([bare]) == f"{begin} up to 4 KiB"
    assert all_launches_in_words([why]) == f"{begin} up to 4 KiB; device times unknown: no events"
    none = SimpleNamespace(**{**vars(bare), "launch_bound": None})
    assert all_launches_in_words([none]) == ""
    assert all_launches_in_words([none, bare]).startswith("all_reduce: launches")
    assert all_launches_in_words([bare, launches("barrier")]).count("; barrier: ") == 1


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (OK, ""),
        (replace(with_summary(half_width=None), converged=False), " (not converged)"),
        (replace(with_summary(half_width=0.031), converged=False), " (not converged, ±3.1 %)"),
        (
            replace(OK, device=DeviceTime(None, replace(OK.summary, half_width=0.25), False)),
            " (device time not converged, ±25.0 %)",
        ),
    ],
)
def test_a_figure_says_that_it_did_not_converge(result, text):
    assert convergence_text(result) == text


def test_a_half_peak_is_stated_below_the_peak():
    for half, text in ((None, ""), (1024, ""), (512, ", half of it from 512 B on")):
        found = SimpleNamespace(half_peak_bytes=half, peak=of_case(size_bytes=1024))
        assert half_peak_text(found) == text


def test_a_series_has_the_placement_that_is_shown():
    rooted = of_case(operation="reduce", root=1, ranks=1, in_place=True)
    assert series(PlacementRow(None, rooted)) == "reduce float32 sum root 1 in-place, nccl, 1 rank"
    barrier = of_case(operation="barrier", reduction=None)
    assert series(PlacementRow(barrier, None)) == f"barrier, nccl, {barrier.case.ranks} ranks"
    failed = with_status("failed")
    assert "out-of-place" in series(PlacementRow(failed, None))
    assert "in-place" in series(PlacementRow(failed, of_case(in_place=True)))


OUT, IN = of_case(in_place=False), of_case(in_place=True)
NEXT = [of_case(one, size_bytes=2048, count=512) for one in (OUT, IN)]


@pytest.mark.parametrize(
    ("results", "single", "rows"),
    [
        ([OUT, IN], False, [(True, True)]),
        ([IN, OUT], False, [(True, True)]),
        ([OUT, *NEXT], False, [(True, False), (True, False), (False, True)]),
        ([OUT, replace(IN, cycle=1)], False, [(True, False), (False, True)]),
        ([OUT, IN], True, [(True, False), (False, True)]),
        ([of_case(OUT, operation="barrier")] * 2, False, [(True, False)] * 2),
        ([OUT], False, [(True, False)]),
        ([OUT, IN, *NEXT], False, [(True, True)] * 2),
        (
            [OUT, of_case(IN, ccl="shm"), of_case(OUT, ccl="shm")],
            False,
            [(True, False), (True, True)],
        ),
    ],
)
def test_placements_of_a_case_share_a_row(results, single, rows):
    collector = RowCollector(single=single)
    found = [row for one in results for row in collector.add(one)] + collector.finish()
    places = [(row.out_of_place is not None, row.in_place is not None) for row in found]
    assert places == rows
    assert sum(len(row.results) for row in found) == len(results)
    assert collector.finish() == []


# Data.


def data(*results, of=None, **options):
    return [*of_data(journal(*results, of=of), results, **options)]


def test_data_is_good_only_if_every_output_was_checked():
    (good,) = data(OK, OK)
    assert (good.id, good.severity) == ("data-checked", "good")
    assert good.sentence == "every output was checked in full; none was wrong"
    (skipped,) = data(OK, with_status("skipped"))
    assert skipped.severity == "good"
    for rest, of in ((with_status("failed"), None), (OK, header(planned=3))):
        (one,) = data(OK, rest, of=of)
        assert (one.severity, one.sentence[:21]) == ("note", "every measured output")
    (part,) = data(OK, replace(OK, verification=None), unverifiable="; x")
    assert part.sentence == "1 of 2 outputs were checked in full; none was wrong; x"
    assert data(with_status("failed")) == []


@pytest.mark.parametrize(
    ("of", "advice"),
    [
        (header(check=0), "Leave out -c 0."),
        (header(check=1), ""),
        (replace(header(check=0), imported=Imported("x", "")), ""),
    ],
)
def test_unchecked_data_needs_a_look(of, advice):
    (one,) = data(replace(OK, verification=None), of=of)
    assert (one.id, one.severity, one.advice) == ("data-not-checked", "look", advice)


def test_wrong_data_names_its_first_elements():
    wrong = [
        replace(of_case(size_bytes=size), status="wrong", verification=Verification(size, [WRONG]))
        for size in (4, 8, 16, 32)
    ]
    (one,) = data(OK, *wrong)
    assert one.sentence.startswith("wrong data in 4 cases: all_reduce 4 B")
    assert "(wrong: rank 1: 3 elements" in one.sentence
    assert one.sentence.endswith("and 1 more")
    assert [(figure.value, figure.limit) for figure in one.evidence] == [(4, 0), (8, 0), (16, 0)]
    (bare,) = data(*wrong, with_elements=False)
    assert "rank" not in bare.sentence
    assert wrong_elements([("a", None), ("b", Verification(0))]) == ()
    assert advice_on_wrong_data(header(inject=["x"])) == "The fault was injected by --inject."
    assert "cclmark p2p" in advice_on_wrong_data(header())
    known = [Finding("wrong-data", "bad", "x")]
    assert or_unlocated(known, wrong) == known
    assert len(or_unlocated([], [OK, *wrong])) == 4


def test_checks_are_good_if_none_is_missing():
    unchecked = replace(OK, verification=None)
    assert of_checked([OK, with_status("skipped")], "fine").severity == "good"
    one = of_checked([OK, unchecked], "fine")
    assert (one.severity, one.sentence[-26:]) == ("note", "were checked: 1 of 2 were not"[-26:])


def test_results_without_figures_are_counted_with_the_usual_reason():
    failed = [with_status("failed", f"{why}\nreport") for why in ("b", "a", "a")]
    skipped = with_status("skipped")
    found = [*of_statuses([OK, *failed, skipped])]
    assert [(one.id, one.severity, one.sentence) for one in found] == [
        ("failed-cases", "bad", "3 cases failed: a (2 of them)"),
        ("skipped-cases", "note", "1 case skipped: skipped"),
    ]
    assert [bool(one.advice) for one in found] == [True, False]


@pytest.mark.parametrize(
    ("of", "severity", "sentence"),
    [
        (journal(OK), "", ""),
        (journal(OK, footer=DIED), "bad", "the run ended early: rank 1 died"),
        (journal(OK, footer=DIED, of=header(planned=1)), "", ""),
        (journal(OK, footer=None, of=header(planned=1)), "look", "the run ended early: the end"),
        (
            journal(OK, footer=replace(DIED, exit_code=130), of=header(planned=2)),
            "look",
            "the run ended early after 1 of 2 cases: rank 1 died",
        ),
        (
            journal(OK, footer=DIED, of=replace(header(), imported=Imported("x", ""))),
            "bad",
            "the journal ended early: rank 1 died",
        ),
    ],
)
def test_an_early_end_is_a_finding(of, severity, sentence):
    found = [*of_completeness(of, [])]
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert all(one.sentence.startswith(sentence) for one in found)
    assert [*of_completeness(of, [], with_end=False)] == []


def test_notices_and_left_out_lines_are_findings():
    of = journal(OK, of=replace(header(), notices=["a"]), damaged_lines="2")
    found = [(one.id, one.severity) for one in of_completeness(of, [])]
    assert found == [("figures-left-out", "look"), ("notice", "note")]


def judged(found=(), *results, of=None, **options):
    options = {"compared": True, "lacking": "no limit", **options}
    return nothing_wrong(journal(*(results or [OK]), of=of), found, **options)


@pytest.mark.parametrize(
    ("severity", "is_judged"), [("bad", 0), ("look", 0), ("unknown", 0), ("note", 1), ("good", 1)]
)
def test_nothing_needs_a_look_only_without_findings(severity, is_judged):
    assert len(judged([Finding("notice", severity, "x")])) == is_judged


def test_figures_that_could_not_be_compared_are_unknown():
    assert [one.id for one in judged()] == ["nothing-found"]
    assert judged((), with_status("failed")) == []
    assert judged(of=header(planned=5)) == judged()
    cut = Journal(header(planned=5), [OK])
    assert nothing_wrong(cut, [], compared=True, lacking="") == []
    damaged = journal(OK, damaged_lines="2")
    assert nothing_wrong(damaged, [], compared=True, lacking="") == []
    (none,) = judged(compared=False)
    assert none.sentence == "there is no limit to compare these figures with"
    (some,) = judged(unjudged=["a", "b", "c", "d"])
    assert some.sentence == "there is no limit to compare those of a, b, c and 1 more with"


def explained(reason, source="unknown", size=8):
    explanation = Explanation(0, source, reason=reason)
    return replace(of_case(size_bytes=size), explanation=explanation)


def test_reasons_of_explanations_name_their_cases():
    known = explained("by a variable", "log")
    found = [*of_what_ran(journal(OK, explained("", "log"), known, known, explained("no log")))]
    assert [(one.id, one.severity) for one in found] == [
        *(("choice-of-library", "note"), ("unknown-choice", "unknown")),
    ]
    assert found[0].sentence.startswith("by a variable: all_reduce 8 B")
    assert found[1].sentence == "what ran is unknown in 1 case: no log"
    assert len([*of_what_ran(journal(*map(explained, "abc")))]) == 3
    (many,) = of_what_ran(journal(*map(explained, "abcda")))
    assert many.sentence.startswith("what ran is unknown in 5 cases, for 4 reasons")
    assert many.sentence.endswith("for example: a")


def noise(*results, traces=(), of=None):
    return [
        *of_noise(
            journal(*results, of=of or header(precision=0.02, iterations=None), traces=[*traces])
        )
    ]


QUIET = with_summary(half_width=0.01, spread=0.01)
UNSURE = with_summary(half_width=0.06, spread=0.01)


def test_medians_are_uncertain_if_most_are_or_one_very():
    assert noise(QUIET, QUIET) == []
    assert noise(QUIET, UNSURE) == []
    assert noise(QUIET, with_summary(half_width=0.05, spread=0.0)) == []
    (most,) = noise(QUIET, UNSURE, with_summary(half_width=0.07, spread=0.01))
    assert (most.id, most.severity) == ("uncertain-medians", "look")
    assert most.sentence.startswith("the medians of 2 cases of 3 are known to no better than ±5 %")
    assert most.sentence.endswith(": ±7 %")
    assert [(one.name, one.value, one.limit) for one in most.evidence] == [
        ("half_width", 0.07, 0.05)
    ]
    (worst,) = noise(QUIET, QUIET, with_summary(half_width=0.51, spread=0.01))
    assert "1 case of 3" in worst.sentence
    assert noise(QUIET, QUIET, with_summary(half_width=0.5, spread=0.01)) == []
    assert (
        "no better than ±10 %"
        in noise(with_summary(half_width=0.2), of=header(precision=0.1))[0].sentence
    )
    assert "--max-time" in most.advice
    assert "trace" in noise(UNSURE, traces=[object()])[0].advice


@pytest.mark.parametrize(
    ("span", "when"),
    [
        ((0.0, 0.03), " at the beginning"),
        ((0.4, 0.44), " together, 40% into the measurement"),
        ((0.0, 0.99), " throughout the measurement"),
        (None, ""),
    ],
)
def test_outliers_are_stated_with_their_number_length_and_when_they_came(span, when):
    times = {"max_s": 3e-6, "p99_s": 3e-6, "time_s": 1e-6}
    one = with_summary(outliers=2, samples=100, outlier_span=span, **times)
    (found,) = of_tails(journal(QUIET, one, of=header()))
    assert found.id == "outlying-samples"
    assert f": 2 of 100{when}, p99 3.00 µs, the longest 3 × the median" in found.sentence
    few = replace(one, summary=replace(one.summary, samples=201))
    assert [*of_tails(journal(few, of=header()))] == []


def test_noisy_samples_are_stated_with_how_well_the_median_is_known():
    loud = with_summary(half_width=0.031, spread=0.3)
    (one,) = noise(QUIET, loud)
    assert (one.id, one.severity) == ("varying-samples", "note")
    assert one.sentence.startswith(
        "the middle half of the samples is wider than 10 % of the median in 1 case of 2, most in "
    )
    assert one.sentence.endswith("(30%); its median is known to ±3.1 %")
    (two,) = noise(loud, with_summary(half_width=0.01, spread=0.2))
    assert " in 2 cases of 2, " in two.sentence
    assert two.sentence.endswith("; their medians are known to ±3.1 % or better")
    (far,) = noise(*[QUIET] * 3, with_summary(half_width=0.06, spread=0.2), loud)
    assert far.sentence.endswith("; the worst of their medians is known to ±6 %")
    surer = with_summary(half_width=0.01, spread=0.2)
    (edge,) = noise(with_summary(half_width=0.05, spread=0.3), surer)
    assert edge.sentence.endswith("; their medians are known to ±5 % or better")
    (unknown,) = noise(loud, with_summary(half_width=None, spread=0.2))
    assert unknown.sentence.endswith("(30%)")
    (both,) = noise(with_summary(half_width=0.2, spread=0.3))
    assert both.id == "uncertain-medians"
    assert [figure.name for figure in both.evidence] == ["half_width", "spread"]
    assert both.sentence.endswith("(30%)")


def test_medians_without_the_requested_precision_are_named():
    late = replace(QUIET, converged=False)
    (one,) = noise(late)
    assert one.id == "not-converged"
    assert one.sentence.startswith("1 case did not get to ±2 % of the median within --max-time")
    assert one.advice == "--max-time gives it longer."
    (many,) = noise(*[late] * 4)
    assert many.sentence.endswith(" and 1 more")
    assert many.advice == "--max-time gives them longer."
    assert len(many.evidence) == 3
    device = replace(QUIET, device=DeviceTime(None, QUIET.summary, False))
    assert "(device time)" in noise(device)[0].sentence
    assert noise(late, traces=[object()]) == []
    assert noise(late, of=header(iterations=5)) == []
    assert noise(late, of=replace(header(), imported=Imported("x", ""))) == []
