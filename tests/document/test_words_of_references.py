"""Verdicts of references and of steps, in words."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from msgspec.structs import replace as changed

from cclmark.analysis.ratio import RatioEstimate
from cclmark.analysis.steps import StepFigures, StepRun
from cclmark.document.deviations import link_advice
from cclmark.document.finding_rules import evidence_of_share, evidence_of_speed_up, gain_of
from cclmark.document.insight_words import device_words, first_line, of_all_ranks, on_host_alone
from cclmark.document.peaks import _some, _users
from cclmark.document.reference_notes import ReferenceNotes, latency_text, verdict_of, verdict_text
from cclmark.document.step_words import (
    interval_text,
    ms_text,
    part_texts,
    program_row,
    step_notes,
    steps_row,
)
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceDescription
from cclmark.kinds.registry import read_journal
from places import TESTS
from samples import header_of, usual_settings

ONE = read_journal(TESTS / "golden" / "sample.jsonl").results[0]


def match(share, *, judged=True, by_pair=False, **changes):
    fields = {"size": "1 GiB", "alike": True, "differences": (), "small": False, "by_device": False}
    return SimpleNamespace(
        share=share,
        judged=judged,
        name="4 × H200",
        figure="354 GB/s",
        time_s=2e-6,
        reference=SimpleNamespace(subject=SimpleNamespace(by_pair=by_pair)),
        **{**fields, **changes},
    )


@pytest.mark.parametrize(
    ("share", "verdict", "limit"),
    [(0.89, "low", 90), (0.9, "normal", None), (1.1, "normal", None), (1.11, "high", 110)],
)
def test_a_figure_is_normal_within_a_tenth_of_its_reference(share, verdict, limit):
    assert verdict_of(match(share)) == verdict
    assert verdict_of(match(share, judged=False)) == ""
    assert verdict_of(None) == ""
    one = evidence_of_share(match(share), "here")
    assert (one.name, one.at) == ("of_reference_percent", "here")
    assert one.limit == (limit and pytest.approx(limit))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, ""),
        (match(1.0, alike=False), ""),
        (match(0.5), "low: 50% of the reference, 354 GB/s at 1 GiB (4 × H200)"),
        (match(1.0, by_pair=True), "normal: 100% of the reference, 354 GB/s (4 × H200, 1 GiB)"),
        (match(1.0, size="between 1 and 2"), "354 GB/s between 1 and 2 (4 × H200)"),
        (
            match(1.0, judged=False, differences=("a", "b")),
            "for comparison: 100% of the reference, 354 GB/s at 1 GiB (4 × H200; differs: a; b)",
        ),
        (match(1.0, judged=False, small=True), "; not judged: smaller than 1 MiB)"),
        (match(1.0, small=True, by_device=True), "at 1 GiB (4 × H200)"),
    ],
)
def test_a_verdict_names_its_reference(found, text):
    assert verdict_text(found).endswith(text)
    assert bool(verdict_text(found)) == bool(text)


@pytest.mark.parametrize("slow", [True, False])
@pytest.mark.parametrize("by_device", [True, False])
def test_a_latency_is_plausible_or_slow(slow, by_device):
    verdict = SimpleNamespace(
        slow=slow, by_device=by_device, time_s=5e-6, ratio=2.5, match=match(0.4), most=3.0
    )
    text = latency_text(verdict, 8)
    assert text.startswith("latency slow: " if slow else "latency plausible: ")
    assert ("the device needs" in text) == by_device
    assert ("a call takes" in text) != by_device
    assert "5.00 µs at 8 B, 2.50 times the reference's 2.00 µs (4 × H200); up to 3 times" in text


def test_marks_are_given_once_for_each_reference():
    notes = ReferenceNotes()
    first, second = (SimpleNamespace(name_and_differences=name, share=1.0) for name in "xy")
    cells = [notes.cell(one) for one in (first, second, first, None)]
    assert cells == ["100.0% a", "100.0% b", "100.0% a", "-"]
    assert notes.legend() == ["a: x", "b: y"]
    header = header_of(usual_settings())
    summary = ONE.summary
    for result in (
        SimpleNamespace(summary=None, status="ok"),
        SimpleNamespace(summary=summary, status="wrong"),
    ):
        assert notes.match(result, header) is None
        assert notes.match_transfer(result, header) is None


def test_a_gain_needs_rounds_and_a_whole_interval():
    faster = RatioEstimate(-0.2, 0.01, None, 0.0, runs=3)
    gain = gain_of(faster, "here")
    assert gain.low < gain.value < gain.high
    assert gain_of(replace(faster, runs=2), "here") is None
    assert gain_of(replace(faster, runs=2), "here", rounds=2) is not None
    assert gain_of(None, "here") is None
    assert gain_of(replace(faster, difference=0.0), "here") is None
    value, least, most = evidence_of_speed_up(faster, "here")
    assert (gain.value, gain.low, gain.high) == pytest.approx(
        (value.value, least.value, most.value)
    )


# Machines.


def journal(*runtimes, inject=()):
    devices = [
        DeviceDescription(rank, "h", runtime, 7, "", 0) for rank, runtime in enumerate(runtimes)
    ]
    header = header_of(usual_settings(inject=[*inject]))
    header.devices = devices
    return Journal(header, [ONE])


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
    assert first_line("a\nb\nc") == "a"
    pair = replace_case(pair=(0, 1))
    assert of_all_ranks(Journal(journal().header, [ONE, pair])) == [ONE]


def replace_case(**changes):
    return changed(ONE, case=changed(ONE.case, **changes))


def test_operations_of_a_reference_name_their_runs():
    assert _users({"a": ["x"], "b": ["x"]}, 1) == "a, b"
    assert _users({"a": ["x", "y", "x"], "b": ["x"], "c": ["x", "y"]}, 2) == "a, c (x, y); b (x)"
    names = [str(one) for one in range(14)]
    assert _some(names[:12]).endswith("10, 11")
    assert _some(names).endswith("11 and 2 more")


# Steps.


FIGURES = StepFigures(
    steps=3, step_s=0.01, interval_s=(0.009, 0.011), compute_s=0.004, exposed_s=0.003, idle_s=0.003
)


def run(figures=FIGURES, **changes):
    return replace(StepRun("", "model", "nccl", 2, "ok", figures), **changes)


def test_steps_are_in_milliseconds_with_their_interval():
    assert [ms_text(one) for one in (None, 0.0123456)] == ["-", "12.35"]
    assert interval_text(0.01, (0.009, 0.011)) == "10 (9 to 11)"
    assert interval_text(0.01, None) == "10"
    assert interval_text(None, (0.1, 0.2)) == "-"
    parts = ["4", "3", "3", "-", "-"]
    assert part_texts(FIGURES) == parts
    assert program_row(FIGURES) == ["3", "10 (9 to 11)", *parts]
    assert program_row(StepFigures())[0] == "-"
    assert steps_row("a", run()) == ["a", "model", "2", "10 (9 to 11)", *parts]
    assert steps_row("a", run(variant="x", ranks=0))[:3] == ["a: x", "model", "-"]
    assert steps_row("a", run(StepFigures(), status="failed"))[3] == "failed"
    assert steps_row("a", run(StepFigures()))[3] == "-"
    assert steps_row("a", run(status="failed"))[3] == "10 (9 to 11)"


@pytest.mark.parametrize(
    ("step_s", "note"),
    [(0.01, ""), (0.0095, "+5 % compared"), (0.009, "+11 % compared"), (0.0112, "-11 % compared")],
)
def test_parts_that_do_not_add_up_are_noted(step_s, note):
    figures = replace(FIGURES, step_s=step_s, profiled_s=0.01)
    notes = step_notes(figures)
    assert [note in one for one in notes] == ([True] if note else [])
    assert step_notes(replace(figures, reason="why"))[0] == "why"
