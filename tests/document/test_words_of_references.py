"""Verdicts of references and of steps, in words."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cclmark.analysis.ratio import RatioEstimate
from cclmark.analysis.steps import StepFigures, StepRun
from cclmark.document import reference_notes, step_words
from cclmark.document.deviations import link_advice
from cclmark.document.finding_rules import evidence_of_share, evidence_of_speed_up, gain_of
from cclmark.document.insight_words import device_words, of_all_ranks, on_host_alone
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceDescription
from cclmark.kinds.registry import read_journal
from goldens import require_stated
from places import TESTS
from samples import header_of, usual_settings

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")


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


def test_marks_are_given_once_for_each_reference():
    notes = reference_notes.ReferenceNotes()
    first, second = (SimpleNamespace(name_and_differences=name, share=1.0) for name in "xy")
    cells = [notes.cell(one) for one in (first, second, first, None)]
    assert cells == ["100.0% a", "100.0% b", "100.0% a", "-"]
    assert notes.legend() == ["a: x", "b: y"]
    for summary, status in ((None, "ok"), (SAMPLE.results[0].summary, "wrong")):
        result = SimpleNamespace(summary=summary, status=status)
        assert notes.match(result, SAMPLE.header) is None
        assert notes.match_transfer(result, SAMPLE.header) is None


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


def journal(*runtimes, inject=()):
    devices = [
        DeviceDescription(rank, "h", runtime, 7, "", 0) for rank, runtime in enumerate(runtimes)
    ]
    header = header_of(usual_settings(inject=[*inject]))
    header.devices = devices
    return Journal(header, SAMPLE.results[:1])


def test_advice_on_links_depends_on_the_devices():
    assert on_host_alone(journal("host", "host"))
    assert not on_host_alone(journal("host", "cuda"))
    assert not on_host_alone(journal())
    assert "NUMA node" in link_advice(journal("host"))
    assert "cclmark p2p" in link_advice(journal("cuda"))
    assert "injected by --inject" in link_advice(journal("host", inject=["x"]))
    assert device_words(journal("host", "cuda"), 1) == " (cuda:7 of h)"
    assert device_words(journal("host", ""), 1) == ""
    assert device_words(journal("host"), 1) == ""
    pairs = read_journal(TESTS / "journals" / "pairs.jsonl").results
    assert of_all_ranks(Journal(SAMPLE.header, [SAMPLE.results[0], *pairs])) == SAMPLE.results[:1]


# Steps.


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
