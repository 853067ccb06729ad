"""What is said of a case besides its figures, and whether a run is sound."""

from msgspec.structs import replace

from cclmark.document import remarks, soundness
from cclmark.document.blocks import Finding
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    DeviceTime,
    Footer,
    Imported,
    Verification,
    WrongOutput,
)
from cclmark.kinds.registry import read_journal
from goldens import require_stated
from places import TESTS
from reports import finding_lines

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
OK = replace(SAMPLE.results[0], converged=True, device=None, device_reason="")
WRONG = WrongOutput(1, 3, 5, "2", "7")
END = Footer("", 0, 0.0)
DIED = Footer("", 4, 0.0, message="rank 1 died\nits report")
OTHER_TOOL = Imported("x", "")


def header(*, planned=0, imported=None, **settings):
    changed = replace(SAMPLE.header.settings, **{"cycles": 1, **settings})
    return replace(
        SAMPLE.header, planned_cases=planned, settings=changed, notices=[], imported=imported
    )


def journal(*results, footer=END, of=None, **fields):
    return Journal(of or header(), [*results], footer=footer, **fields)


def with_status(status, reason=""):
    return replace(OK, status=status, reason=reason, summary=None, verification=None)


def of_case(result=OK, **changes):
    return replace(result, case=replace(result.case, **changes))


def with_summary(result=OK, **changes):
    return replace(result, summary=replace(result.summary, **changes))


def wrong(verification=None, **changes):
    return replace(OK, status="wrong", verification=verification, **changes)


UNCHECKED = replace(OK, verification=None)
SKIPPED = with_status("skipped")


PLANNED_2 = header(planned=2)
JOURNALS = {
    "complete": journal(OK, of=header(planned=1)),
    "unknown plan": journal(OK),
    "no end": journal(OK, footer=None),
    "incomplete": journal(OK, of=PLANNED_2),
    "incomplete, with an error": journal(OK, of=PLANNED_2, footer=DIED),
    "interrupted": journal(OK, of=PLANNED_2, footer=replace(DIED, exit_code=130)),
    "of another tool": journal(OK, footer=DIED, of=header(imported=OTHER_TOOL)),
    "damaged, with a notice": journal(
        OK, of=replace(header(), notices=["a"]), damaged_lines="3, 5"
    ),
    "of a newer version": journal(OK, unknown_words=["a", "b", "a", "c", "d"]),
}


def test_what_a_journal_lacks_and_an_early_end_are_stated():
    found = {}
    for name, one in JOURNALS.items():
        early = [*soundness.of_completeness(one, [])]
        without_end = [*soundness.of_completeness(one, [], with_end=False)]
        assert without_end == [own for own in early if own.id != "ended-early"]
        found[name] = [*remarks.lacking(one), *remarks.left_out(one), *finding_lines(early)]
    require_stated("words/completeness.txt", found)


FAILED = with_status("failed")
FOUR_WRONG = [
    of_case(wrong(Verification(size, [WRONG])), size_bytes=size) for size in (4, 8, 16, 32)
]
#: Of data: the results, the header, and the options.
DATA = {
    "all checked": ([OK, OK], None, {}),
    "one skipped": ([OK, SKIPPED], None, {}),
    "one failed": ([OK, FAILED], None, {}),
    "incomplete": ([OK, OK], header(planned=3), {}),
    "one unchecked": ([OK, UNCHECKED], None, {"unverifiable": "; x"}),
    "none": ([FAILED], None, {}),
    "-c 0": ([UNCHECKED], header(check=0), {}),
    "unchecked": ([UNCHECKED], header(check=1), {}),
    "unchecked by another tool": ([UNCHECKED], header(check=0, imported=OTHER_TOOL), {}),
    "wrong": ([OK, *FOUR_WRONG], None, {}),
    "wrong, without elements": (FOUR_WRONG, None, {"with_elements": False}),
    "wrong on request": (FOUR_WRONG[:1], header(inject=["x"]), {}),
}


def test_data_is_good_only_if_every_output_was_checked():
    require_stated(
        "words/data.txt",
        {
            name: finding_lines(soundness.of_data(journal(*results, of=of), results, **options))
            for name, (results, of, options) in DATA.items()
        },
    )
    assert soundness.wrong_elements([("a", None), ("b", Verification(0))]) == ()
    known = [Finding("wrong-data", "bad", "x")]
    assert soundness.or_unlocated(known, FOUR_WRONG) == known
    assert len(soundness.or_unlocated([], [OK, *FOUR_WRONG])) == 4


def test_checks_are_good_if_none_is_missing():
    assert soundness.of_checked([OK, SKIPPED], "fine").severity == "good"
    one = soundness.of_checked([OK, UNCHECKED], "fine")
    assert (one.severity, one.sentence[-26:]) == ("note", "were checked: 1 of 2 were not"[-26:])


def test_results_without_figures_are_counted_with_the_usual_reason():
    failed = [with_status("failed", f"{why}\nreport") for why in ("b", "a", "a")]
    found = [*soundness.of_statuses([OK, *failed, SKIPPED])]
    assert [(one.id, one.severity, one.sentence, bool(one.advice)) for one in found] == [
        ("failed-cases", "bad", "3 cases failed: a (2 of them)", True),
        ("skipped-cases", "note", "1 case skipped: skipped", False),
    ]


def judged(*found, of=None, **options):
    options = {"compared": True, "lacking": "no limit", **options}
    return [
        f"{one.id}: {one.sentence}"
        for one in soundness.nothing_wrong(of or journal(OK), found, **options)
    ]


def test_nothing_needs_a_look_only_without_findings_and_unknown_figures():
    found = {
        "not compared": judged(compared=False),
        "some not compared": judged(unjudged=["a", "b", "c", "d"]),
        "failed": judged(of=journal(FAILED)),
        "incomplete": judged(of=journal(OK, of=header(planned=5))),
        "cut": judged(of=Journal(header(planned=5), [OK])),
        "damaged": judged(of=journal(OK, damaged_lines="2")),
    }
    for severity in ("bad", "look", "unknown", "note", "good"):
        found[f"finding: {severity}"] = judged(Finding("notice", severity, "x"))
    require_stated("words/nothing-found.txt", found)


def noise(*results, traces=(), **settings):
    of = header(**{"precision": 0.02, "iterations": None, **settings})
    return [*soundness.of_noise(journal(*results, of=of, traces=[*traces]))]


def spread(half_width, share=0.01):
    return with_summary(half_width=half_width, spread=share)


QUIET, UNSURE, LOUD = spread(0.01), spread(0.06), spread(0.031, 0.3)
SURER, LATE = spread(0.01, 0.2), replace(QUIET, converged=False)
TRACED = {"traces": [object()]}
NOISE = {
    "quiet": ([QUIET, QUIET], {}),
    "one of two": ([QUIET, UNSURE], {}),
    "at the limit": ([QUIET, spread(0.05, 0.0)], {}),
    "one very": ([QUIET, QUIET, spread(0.51)], {}),
    "one at the limit of very": ([QUIET, QUIET, spread(0.5)], {}),
    "traced": ([UNSURE], TRACED),
    "one loud": ([QUIET, LOUD], {}),
    "two loud": ([LOUD, SURER], {}),
    "loud, at the limit": ([spread(0.05, 0.3), SURER], {}),
    "late": ([LATE], {}),
    "late by the device": ([replace(QUIET, device=DeviceTime(None, QUIET.summary, False))], {}),
    "late, traced": ([LATE], TRACED),
    "late, of so many iterations": ([LATE], {"iterations": 5}),
    "late, by another tool": ([LATE], {"imported": OTHER_TOOL}),
}


def test_uncertain_medians_noisy_samples_and_precision_that_was_not_reached():
    found = {name: finding_lines(noise(*own, **of)) for name, (own, of) in NOISE.items()}
    require_stated("words/noise.txt", found)


def test_outliers_are_stated_with_their_number_length_and_when_they_came():
    times = {"max_s": 3e-6, "p99_s": 3e-6, "time_s": 1e-6}
    for span, when in (
        ((0.0, 0.03), " at the beginning"),
        ((0.4, 0.44), " together, 40% into the measurement"),
        (None, ""),
    ):
        one = with_summary(outliers=2, samples=100, outlier_span=span, **times)
        (found,) = soundness.of_tails(journal(QUIET, one))
        assert found.id == "outlying-samples"
        assert f": 2 of 100{when}, p99 3.00 µs, the longest 3 × the median" in found.sentence
    assert [*soundness.of_tails(journal(with_summary(one, samples=201)))] == []
