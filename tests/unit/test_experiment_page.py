"""Pages of experiments, of bisections and of tuning."""

from pathlib import Path

import msgspec
import pytest

from cclmark.analysis.paired import noise_floor
from cclmark.document.exporters import exporter_of
from cclmark.document.naming import NamedRun
from cclmark.document.paint import ansi, unpainted
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import View
from cclmark.kinds.experiment.figures import experiment_of
from cclmark.kinds.experiment.kind import KIND
from cclmark.kinds.experiment.plan import PROOF, SEARCH, Trial
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.plan.cases import Case
from cclmark.plan.variants import CONTROL, DEFAULT, Assignment, Variant
from cclmark.report.overview import insights
from cclmark.report.run_page import page_of
from cclmark.results.journal import Journal
from cclmark.results.schema import Explanation, Footer, Summary

HEADER = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl").header
CASES = [
    Case("all_reduce", "nccl", 4, "float32", size, size // 4, False, reduction="sum")
    for size in (1024, 65536)
]
RULES = Variant(
    (
        Assignment("OMPI_MCA_coll_tuned_use_dynamic_rules", "true"),
        Assignment(
            "OMPI_MCA_coll_tuned_dynamic_rules_filename",
            "/home/user/tuned/candidates/deployment-0/coll_tuned.rules",
        ),
    )
)


def numbered(value):
    return Variant((Assignment("NCCL_MAX_CTAS", str(value)),))


def page(times_s, **settings):
    """The page of trials."""
    return page_of([NamedRun("", journal_of(times_s, **settings), ReferenceNotes())])


def journal_of(times_s, *, stage="", conclusion=(), ran=None):
    """A journal of trials. ``times_s``: for each variant its times by case, a list by round."""
    results = []
    for variant, by_case in times_s.items():
        for case, own in zip(CASES, by_case, strict=True):
            for number, time_s in enumerate(own):
                summary = Summary("host", *[time_s] * 5, 0.01, 9, 1.0, 1.0)
                trial = Trial(variant, number, case, stage)
                explanation = None
                if number == 0 and ran is not None:
                    explanation = Explanation(len(results), source="log", kernel=ran[variant])
                results.append(
                    TrialResult(
                        len(results),
                        trial,
                        "ok",
                        duration_s=0.1,
                        summary=summary,
                        explanation=explanation,
                    )
                )
    header = msgspec.structs.replace(HEADER, planned_cases=len(results))
    footer = Footer("", 0, 1.0, conclusion=list(conclusion))
    return Journal(header, results, footer=footer)


def text_of(journal, format="table", *, paint=unpainted, columns=None):
    exporter = exporter_of(KIND, format, View(journal, paint, columns))
    added = map(exporter.add, journal.results)
    return "".join([exporter.begin(journal.header), *added, exporter.end(journal.footer)])


QUIET = {
    DEFAULT: ([1.0, 1.0, 1.0], [1.0, 1.01, 0.99]),
    CONTROL: ([1.0, 1.001, 1.0], [1.01, 1.0, 1.0]),
}


def heat_of(found):
    return next(one for section in found.sections for one in section.charts)


def test_only_certain_differences_have_a_colour_in_percent():
    noisy = ([0.5, 0.501, 0.5], [0.05, 8.0, 0.1])
    heat = heat_of(page({**QUIET, numbered(8): noisy}))
    assert heat.unit == "% faster"
    assert heat.rows == ["default µs", "noise", "NCCL_MAX_CTAS=8"]
    assert heat.texts[0] == ["1000000", "1000000"]
    assert heat.values[2][0] == pytest.approx(100, abs=1)
    assert heat.values[2][1] == 0.0
    assert heat.texts[2][0] == "1.999"


def test_cells_on_a_terminal_have_the_colours_of_their_speed_ups_and_wrong_ones_are_red():
    fast, slow, wrong = (numbered(value) for value in (1, 2, 3))
    times = {fast: ([0.5, 0.501, 0.5], QUIET[DEFAULT][1]), slow: ([2.0] * 3, [1.2] * 3)}
    journal = journal_of({**QUIET, **times, wrong: QUIET[DEFAULT]})
    for one in journal.results:
        if one.trial.variant == wrong:
            one.status = "wrong"
    lines = text_of(journal, paint=ansi).splitlines()
    rows = {
        one: next(line for line in lines if line.strip().startswith(f"{one.describe()} "))
        for one in (fast, slow, wrong)
    }
    assert ansi("1.999".rjust(9), "heat6") in rows[fast]
    assert ansi("1.000".rjust(9), "dim") in rows[fast]
    assert ansi("0.500".rjust(9), "heat1") in rows[slow]
    assert rows[wrong].count(ansi("WRONG".rjust(9), "red")) == 2
    (said,) = [line for line in lines if "wrong data with NCCL_MAX_CTAS=3" in line]
    assert said.endswith(" (all_reduce 1 KiB, all_reduce 64 KiB)\x1b[0m")


def test_columns_that_do_not_fit_into_the_terminal_follow_below():
    journal = journal_of({**QUIET, numbered(8): QUIET[DEFAULT]})
    lines = text_of(journal, columns=30).splitlines()
    heads = [line.split() for line in lines if line.strip() in ("1 KiB", "64 KiB")]
    assert heads == [["1", "KiB"], ["64", "KiB"]]
    assert len([line for line in lines if line.strip().startswith("default µs")]) == 2


def looks(found):
    return [one for _, of in found.insights for one in of if one.severity == "look"]


NOISY = {DEFAULT: ([1.0, 1.0, 1.0], [1.0, 2.0, 1.0]), CONTROL: ([1.0, 1.0, 1.0], [9.0, 1.0, 1.0])}


def test_sizes_at_which_nothing_could_be_decided_are_reported_with_advice():
    (look,) = looks(page({**NOISY, numbered(8): ([0.9, 0.9, 0.9], [0.5, 1.0, 0.5])}))
    assert look.sentence.startswith("Too noisy: the default differs from itself by up to ±")
    assert "(all_reduce 64 KiB)" in look.sentence
    assert "--rounds" in look.advice


def test_noise_is_reported_for_all_sizes_and_the_worst_is_named_first():
    """Also for a size at which a variant exceeds it: that only decides about this variant."""
    fast = ([0.9, 0.9, 0.9], [1e-4, 1.1e-4, 1e-4])
    (look,) = looks(page({**NOISY, numbered(8): fast}))
    assert "(all_reduce 64 KiB): smaller differences of these sizes" in look.sentence
    both = {
        DEFAULT: ([1.0, 1.5, 1.0], NOISY[DEFAULT][1]),
        CONTROL: ([1.0, 1.0, 1.4], NOISY[CONTROL][1]),
    }
    journal = journal_of({**both, numbered(8): fast})
    experiment = experiment_of(journal.of(TrialResult), "throughput")
    worst = max(noise_floor(one) for one in experiment.controls.values())
    (look,) = looks(page({**both, numbered(8): fast}))
    assert f"up to ±{worst * 100:.1f} % (all_reduce 64 KiB, all_reduce 1 KiB)" in look.sentence
    assert looks(page({**QUIET, numbered(8): QUIET[DEFAULT]})) == []
    assert looks(page(NOISY)) == [], "there is nothing to decide"


def named(name, value):
    return Variant((Assignment(name, value),))


def test_an_unknown_setting_counts_only_beyond_the_noise_of_the_default():
    """A difference of 38 % and a mean are none where the default differs by more from itself."""
    noisy = ([0.7, 0.75, 0.7], [0.7, 0.9, 0.7])
    unknown, known = named("SOME_NAME", "1"), numbered(8)
    defaults = {
        DEFAULT: ([1.0, 1.5, 1.0], NOISY[DEFAULT][1]),
        CONTROL: ([1.0, 1.0, 1.4], NOISY[CONTROL][1]),
    }
    journal = journal_of({**defaults, unknown: noisy, known: noisy})
    experiment = experiment_of(journal.of(TrialResult), "throughput")
    for case in CASES:
        assert experiment.compared[unknown, case].effect == "within noise"
        assert experiment.compared[known, case].is_ranked
    assert experiment.overall(known) is not None
    assert experiment.overall(unknown) is None
    text = text_of(journal)
    (row,) = [line for line in text.splitlines() if line.strip().startswith("SOME_NAME=1  ")]
    assert row.split() == ["SOME_NAME=1", "noise", "noise"]
    assert (
        "SOME_NAME=1: noise: SOME_NAME is unknown to cclmark, and no difference exceeds the noise "
        "of the default against itself (all_reduce 1 KiB, all_reduce 64 KiB)"
    ) in text


def test_an_unknown_setting_that_is_faster_is_named_as_unknown():
    unknown = named("SOME_NAME", "1")
    journal = journal_of({**QUIET, unknown: ([0.5, 0.501, 0.5], [0.5, 0.501, 0.5])})
    text = text_of(journal)
    assert text.count("; SOME_NAME is unknown to cclmark") == 2


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_text_formats_report_that_nothing_could_be_decided(format):
    journal = journal_of({**NOISY, numbered(8): ([0.9, 0.9, 0.9], [0.5, 1.0, 0.5])})
    lines = text_of(journal, format).splitlines()
    place = next(place for place, line in enumerate(lines) if "too noisy: the default" in line)
    assert lines[place + 1].strip(" -").startswith("end other work on the machine")


def test_values_of_a_bisection_are_in_order_and_its_result_is_shown():
    lines = ["", "NCCL_MAX_CTAS: share", "  NCCL_MAX_CTAS=8 is the smallest value that keeps 99 %"]
    times = {numbered(value): ([1.0] * 3, [1.0] * 3) for value in (32, 8, 16)}
    found = page({**QUIET, **times}, conclusion=lines)
    assert heat_of(found).rows[2:] == [f"NCCL_MAX_CTAS={value}" for value in (8, 16, 32)]
    result = next(one for one in found.sections if one.title == "Result of the search")
    assert result.listing == "\n".join(lines[1:])
    assert found.sections.index(result) == 0
    assert found.lead[0].endswith("NCCL_MAX_CTAS=8 is the smallest value that keeps 99 %.")
    assert "of 3 variants" in found.lead[0]


def test_the_page_of_tune_names_its_work_and_no_directory():
    lines = ["", "all_reduce", "  geometric mean of the speed-ups over all sizes: 1.200"]
    fast = ([0.8, 0.8, 0.8], [0.9, 0.9, 0.9])
    found = page({**QUIET, RULES: fast}, stage=PROOF, conclusion=lines)
    assert found.title.startswith("tuning of all_reduce on ")
    assert found.lead[0].endswith(" Geometric mean of the speed-ups over all sizes: 1.200.")
    assert heat_of(found).rows[2:] == [
        "OMPI_MCA_coll_tuned_use_dynamic_rules=true "
        "OMPI_MCA_coll_tuned_dynamic_rules_filename=deployment-0/coll_tuned.rules"
    ]
    assert "/home/user" not in " ".join(str(one) for _, of in found.insights for one in of)


def test_an_interrupted_search_has_a_page():
    found = page({**QUIET, RULES: ([1.0] * 3, [1.0] * 3)}, stage=SEARCH)
    assert found.title.startswith("tuning of all_reduce")
    assert not any(one.title == "Result of the search" for one in found.sections)


def test_what_ran_is_a_table_of_variants_and_sizes():
    ran = {DEFAULT: "ring", CONTROL: "ring", numbered(8): "tree"}
    found = page({**QUIET, numbered(8): QUIET[DEFAULT]}, ran=ran)
    section = next(one for one in found.sections if one.title == "What ran")
    (table,) = section.tables
    assert list(table.head) == ["variant", "1 KiB", "64 KiB"]
    assert [list(row) for row in table.rows] == [
        ["default", "ring", "ring"],
        ["NCCL_MAX_CTAS=8", "tree", "tree"],
    ]


def test_variant_and_round_are_the_first_columns():
    assert list(page(QUIET).rows.columns[:2]) == ["variant", "round"]


def test_the_gain_of_the_fastest_variant_is_data():
    journal = journal_of({**QUIET, numbered(8): ([0.5, 0.501, 0.5], [0.5, 0.501, 0.5])})
    found = [one for one in insights(NamedRun("", journal)) if one.id == "faster-variant"]
    assert len(found) == 2
    for one in found:
        assert one.gain.unit == "times as fast"
        assert 1.9 < one.gain.low <= one.gain.value <= one.gain.high < 2.1
        assert f"{one.gain.value:.3f} ({one.gain.low:.3f} to {one.gain.high:.3f})" in one.sentence
    assert found[1].gain.at.endswith("64 KiB")
