"""Numbers, intervals, lists and lines as texts have them, and words on references and steps."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cclmark.analysis.ratio import RatioEstimate
from cclmark.analysis.steps import StepFigures, StepRun
from cclmark.document import insight_words, reference_notes, step_words, text
from cclmark.document.blocks import Evidence, Finding, Gain
from cclmark.document.columns import Column, cell_text
from cclmark.document.finding_rules import evidence_of_share, evidence_of_speed_up, gain_of
from cclmark.document.reference_notes import _mark, share_text
from goldens import require_stated

WORDS = {
    text.us_text: {
        **{None: "-", 0.9994e-6: "0.999", 1e-6: "1.00", 999.99e-6: "999.99", 1e-3: "1000.0"},
        **{1.0005e-3: "1000.5", 0.9999: "999900.0", 1.0: "1000000", 2.5: "2500000"},
    },
    text.figure: {
        **{0: "0.00", 1: "1.00", 0.99951: "1.00", 0.5: "0.500", 12.345: "12.35", -2: "-2.00"},
    },
    text.half_width_text: {None: "-", 0.031: "3.1", 0.1234: "12.3", 1.0: "100.0", 1.001: ">100"},
    text.precision_text: {
        **{0.031: "±3.1 %", 0.1234: "±12.3 %", 1.0: "±100.0 %", 1.001: "> ±100 %"},
    },
    text.clock_text: {
        **{7: "0:07", 59.9: "0:59", 754: "12:34", 3600: "1:00:00", 3723: "1:02:03"},
    },
    text.token: {" a  b ": "a_b", " ": "-"},
    text.ranks_text: {(3,): "rank 3", (7, 0, 1): "ranks 0-1,7"},
    insight_words.listed: {
        **{(): "", ("a",): "a", ("a", "b"): "a and b", ("a", "b", "c"): "a, b and c"},
    },
    insight_words.capitalised: {
        **{"nothing needs a look": "Nothing needs a look", "drift: none": "Drift: none"},
        **{name: name for name in ("all_reduce, shm", "nccl: late", "mpi is slow", "2 of 3")},
    },
    insight_words.ended: {"a": "a.", "a.": "a.", "a!": "a!", "a?": "a?"},
    insight_words.rate_words: {None: "?"},
    insight_words.first_line: {"a\nb\nc": "a"},
    share_text: {1.006: "101%", 9.99: "999%", 10.0: ">999%"},
    _mark: {0: "a", 25: "z", 26: "aa", 27: "ab", 52: "ba", 26 * 27: "aaa"},
}


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.__name__)
def test_a_value_in_words(words):
    assert {value: words(value) for value in WORDS[words]} == WORDS[words]


def test_findings_are_sentences_that_name_what_they_apply_to_once():
    one = Finding("notice", "note", "it is so", "64 KiB", "do this", is_outcome=True)
    in_sentences = insight_words.in_sentences
    assert in_sentences(one) == Finding("notice", "note", "64 KiB: it is so.", "", "Do this.")
    assert in_sentences(Finding("notice", "note", "so")).sentence == "So."
    figures = [(Evidence.of("spread", place / 10),) for place in range(5)]
    remarks = [("late", name, figures[place]) for place, name in enumerate("abcde")]
    (all_of_them,) = insight_words.limits_of([*remarks, ("late", "a", figures[0])])
    assert all_of_them.sentence == "late: a, b, c, d and e"
    assert [one.value for one in all_of_them.evidence] == pytest.approx([0, 0.1, 0.2])
    (few,) = insight_words.limits_of(remarks, 2)
    assert few.sentence == "late: a, b and 3 more"
    both = insight_words.limits_of([("x", "a", ()), ("y", "a", ())])
    assert [one.sentence for one in both] == ["x: a", "y: a"]


def test_a_gain_is_one_only_with_its_whole_interval():
    assert Gain.of(1.2, 1.0, 1.4) is None
    assert Gain.of(1.2, 1.01, 1.4, "x") == Gain(1.2, "times as fast", "x", 1.01, 1.4)


def test_evidence_is_compared_in_its_unit():
    for limit, comparison in ((1e-6, ">"), (2e-6, "="), (3e-6, "<"), (None, "")):
        one = Evidence.of("time_us", 2e-6, "here", limit)
        assert (one.value, one.unit, one.at) == (pytest.approx(2), "µs", "here")
        assert one.comparison == comparison
        assert one.limit == (limit and pytest.approx(limit * 1e6))
    for name, unit, value in (
        *(("busbw_gbps", "GB/s", 2e-9), ("of_cases_percent", "%", 200), ("half_width", "share", 2)),
        *(("size_bytes", "bytes", 2), ("step_ms", "ms", 2000), ("loss_difference", "", 2)),
    ):
        one = Evidence.of(name, 2.0)
        assert (one.unit, one.value) == (unit, pytest.approx(value)), name


def match(share, *, by_pair=False, **changes):
    subject = SimpleNamespace(by_pair=by_pair)
    fields = {
        **{"share": share, "judged": True, "name": "4 × H200", "figure": "354 GB/s"},
        **{"time_s": 2e-6, "reference": SimpleNamespace(subject=subject), "size": "1 GiB"},
        **{"alike": True, "differences": (), "small": False, "by_device": False},
    }
    return SimpleNamespace(**fields | changes)


@pytest.mark.parametrize(
    ("share", "verdict", "limit"),
    [(0.89, "low", 90), (0.9, "normal", None), (1.1, "normal", None), (1.11, "high", 110)],
)
def test_a_figure_is_normal_within_a_tenth_of_its_reference(share, verdict, limit):
    assert reference_notes.verdict_of(match(share)) == verdict
    assert reference_notes.verdict_of(match(share, judged=False)) == ""
    assert reference_notes.verdict_of(None) == ""
    one = evidence_of_share(match(share), "here")
    assert (one.name, one.at) == ("of_reference_percent", "here")
    assert one.limit == (limit and pytest.approx(limit))


MATCHES = {
    "none": None,
    "unlike": match(1.0, alike=False),
    "low": match(0.5),
    "by pair": match(1.0, by_pair=True),
    "between sizes": match(1.0, size="between 1 and 2"),
    "not judged": match(1.0, judged=False, differences=("a", "b")),
    "small": match(1.0, judged=False, small=True),
    "small, by the device": match(1.0, small=True, by_device=True),
}


def test_verdicts_name_their_reference_and_latencies_are_plausible_or_slow():
    found = {name: reference_notes.verdict_text(one) for name, one in MATCHES.items()}
    latency = {"time_s": 5e-6, "ratio": 2.5, "match": match(0.4), "most": 3.0}
    for slow in (True, False):
        for by_device in (True, False):
            verdict = SimpleNamespace(slow=slow, by_device=by_device, **latency)
            words = reference_notes.latency_text(verdict, 8)
            found[f"latency: {slow=}, {by_device=}"] = words
    require_stated("words/references.txt", found)


def test_a_gain_needs_rounds_and_a_whole_interval():
    faster = RatioEstimate(-0.2, 0.01, None, 0.0, runs=3)
    gain = gain_of(faster, "here")
    assert gain.low < gain.value < gain.high
    assert gain_of(replace(faster, runs=2), "here") is None
    assert gain_of(replace(faster, runs=2), "here", rounds=2) is not None
    assert gain_of(None, "here") is None
    assert gain_of(replace(faster, difference=0.0), "here") is None
    evidence = [one.value for one in evidence_of_speed_up(faster, "here")]
    assert [gain.value, gain.low, gain.high] == pytest.approx(evidence)


PARTS = {"compute_s": 0.004, "exposed_s": 0.003, "idle_s": 0.003}
FIGURES = StepFigures(steps=3, step_s=0.01, interval_s=(0.009, 0.011), **PARTS)


def run(figures=FIGURES, **changes):
    return replace(StepRun("", "model", "nccl", 2, "ok", figures), **changes)


UNKNOWN = StepFigures(reason="the profile lists no steps")
ROWS = {
    "usual": run(),
    "variant": run(variant="x", ranks=0),
    "failed": run(StepFigures(), status="failed"),
    "without figures": run(StepFigures()),
    "failed, with figures": run(status="failed"),
}


def test_steps_are_in_milliseconds_with_their_interval_and_notes_name_runs():
    notes = step_words.notes_of_steps
    unknown = run(UNKNOWN)
    found = {f"row: {name}": step_words.steps_row("a", one) for name, one in ROWS.items()}
    found |= {
        "time": [step_words.ms_text(one) for one in (None, 0.0123456)],
        "interval": step_words.interval_text(0.01, (0.009, 0.011)),
        "no interval": step_words.interval_text(0.01, None),
        "no time": step_words.interval_text(None, (0.1, 0.2)),
        "parts": step_words.part_texts(FIGURES),
        "program": step_words.program_row(FIGURES),
        "program without figures": step_words.program_row(StepFigures()),
        "note on the only run": notes([("a", unknown)]),
        "note on one of two": notes([("a", unknown), ("b", run())]),
        "note on both": notes([("a", unknown), ("b", replace(unknown, variant="with all"))]),
    }
    for step_s in (0.01, 0.0095, 0.009, 0.0112):
        figures = replace(FIGURES, step_s=step_s, profiled_s=0.01)
        found[f"parts of {step_s} s"] = step_words.step_notes(figures)
    found["parts with a reason"] = step_words.step_notes(replace(figures, reason="why"))
    require_stated("words/step-words.txt", found)


def test_cells_have_the_units_of_their_columns():
    kinds = {"size_bytes": "int", "calls": "int", "time_us": "float"}
    size, calls, time = (Column(name, kind, "A help.") for name, kind in kinds.items())
    cells = ((4096, size), (4096, calls), (1.5, time), (None, time), (0, calls))
    assert [cell_text(*own) for own in cells] == ["4 KiB", "4096", "1.50", "-", "0"]
    assert [one.title for one in (size, calls, time)] == ["size bytes", "calls", "time µs"]
