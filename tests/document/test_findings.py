"""Findings as data: ids, evidence, gains and commands, the same in JSON, on pages and in Python."""

import ast
import json
import math
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import cclmark
from cclmark.analysis.ratio import RatioEstimate
from cclmark.document.blocks import SEVERITY_ORDER
from cclmark.document.finding_rules import FIGURES, FINDINGS
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.kinds.tune.document import document_of_result
from cclmark.kinds.tune.plan import Choice
from cclmark.kinds.tune.result import (
    Dropped,
    EnvironmentProof,
    EnvironmentResult,
    OperationResult,
    Proof,
    RulesResult,
)
from cclmark.kinds.tune.search import Rule
from cclmark.references.reference_store import shipped_references
from cclmark.report.exports import replayed
from cclmark_training.objects.plan import FLAG
from experiments import QUIET, journal_of_trials, numbered
from places import REPOSITORY, TESTS
from reports import insights_on

#: In ascending order.
SPEED_UPS = ("least_speed_up", "speed_up", "most_speed_up")
RESULTS = REPOSITORY / "benchmarks" / "results" / "h200x4" / "report"
DEVICE_TIMES = REPOSITORY / "benchmarks" / "results" / "h200x2" / "all_reduce.jsonl"
JOURNALS = sorted(
    [*(TESTS / "journals").glob("*.jsonl"), *RESULTS.glob("*.jsonl")],
    key=lambda path: path.name,
)


def findings_of(journal):
    return insights_on(journal, ReferenceNotes(shipped_references))


def test_the_list_has_every_rule_and_no_other():
    texts: set[str] = set()
    first: set[str] = set()
    for path in Path(cclmark.__file__).parent.parent.glob("cclmark*/**/*.py"):
        source = path.read_text()
        listed = r'^    "[a-z-]+":' if path.name == "finding_rules.py" else r"^$"
        texts |= {*re.findall('"([a-z-]+)"', re.sub(listed, "", source, flags=re.MULTILINE))}
        if "Finding(" not in source:
            continue
        for call in ast.walk(ast.parse(source)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Finding":
                first |= set(re.findall(r"'([a-z-]+)'", ast.unparse(call.args[0])))
    assert first <= set(FINDINGS)
    composed = {f"{one}-as-reference" for one in ("slow-size", "falling-bandwidth")}
    assert set(FINDINGS) - composed <= texts


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_every_finding_has_a_rule_and_json_has_the_same_in_the_same_order(path):
    journal = read_journal(path)
    stated = json.loads("".join(replayed(journal, "json")))["findings"]
    if stated is None:  # of a soak
        return
    found = insights_on(journal)
    assert {one.id for one in found} <= set(FINDINGS)
    assert [one["id"] for one in stated] == [one.id for one in found]
    assert [one["commands"] for one in stated] == [one.commands for one in found]
    order = [SEVERITY_ORDER[one.severity] for one in found]
    assert order == sorted(order)


def test_evidence_is_a_figure_of_the_run_beyond_its_limit():
    run = read_journal(RESULTS / "collectives.jsonl")
    slow = [
        replace(
            one,
            summary=replace(one.summary, busbw_bytes_per_s=0.3 * one.summary.busbw_bytes_per_s),
        )
        for one in run.results
    ]
    run.results[:] = slow
    below = [one for one in findings_of(run) if one.id == "below-reference"]
    assert below
    for one in below:
        (figure,) = one.evidence
        assert (figure.name, figure.unit, figure.comparison) == ("of_reference_percent", "%", "<")
        assert 0 < figure.value < figure.limit == 90
        assert f"{figure.value:.0f}% of the reference" in one.sentence
        assert one.commands == ["cclmark references check"]


def test_the_gain_of_the_fastest_variant_is_that_of_its_sentence():
    times = [0.5, 0.501, 0.5]
    journal = journal_of_trials({**QUIET, numbered(8): (times, times)})
    found = [one for one in insights_on(journal) if one.id == "faster-variant"]
    assert len(found) == 2
    for one in found:
        assert one.gain.unit == "times as fast"
        assert 1.9 < one.gain.low <= one.gain.value <= one.gain.high < 2.1
        assert f"{one.gain.value:.3f} ({one.gain.low:.3f} to {one.gain.high:.3f})" in one.sentence
    assert found[1].gain.at.endswith("64 KiB")


def stored(name):
    return read_journal(TESTS / "journals" / f"{name}.jsonl")


def one_of(found, rule):
    (finding,) = [one for one in found if one.id == rule]
    return finding


@pytest.mark.parametrize("field", ["slowest_rank", "late_rank"])
def test_a_rank_stands_out_in_more_than_half_of_the_cases(field):
    run = read_journal(RESULTS / "collectives.jsonl")
    run.results[:] = [one for one in run.results if one.case.operation == "all_gather"]
    least = len(run.results) // 2 + 1
    for place, one in enumerate(run.results):
        ranks = {field: 2 if place < least else None}
        run.results[place] = replace(one, summary=replace(one.summary, **ranks))
    (figure,) = one_of(findings_of(run), field.replace("est", "").replace("_", "-")).evidence
    assert figure.value == pytest.approx(100 * least / len(run.results))
    assert (figure.limit, figure.at) == (50, "all_gather, rank 2")


def test_the_cost_of_a_flag_is_a_gain_only_beyond_its_interval():
    run = stored("objects")
    one = next(result for result in run.results if result.figures is not None)
    flag = replace(one, call=replace(one.call, operation="flag", content=FLAG))
    for low in (1.2, 0.9):
        figures = replace(one.figures, object_s=3e-4, tensor_s=2e-4, ratio=1.5, ratio_low=low)
        run.results[:] = [replace(flag, figures=figures)]
        found = one_of(insights_on(run), "cost-of-flags")
        assert (found.evidence[0].value, found.evidence[0].limit) == pytest.approx((300, 200))
        assert (found.gain is not None) == (low > 1)


def test_graphs_are_worth_the_cost_of_calls():
    one = one_of(insights_on(read_journal(DEVICE_TIMES)), "launch-bound")
    (call,) = one.evidence
    assert "a call costs 8.66 µs, the device needs 5.77 µs" in one.sentence
    assert (call.value, call.limit) == pytest.approx((8.66, 5.77), abs=0.01)
    assert one.gain.value == pytest.approx(call.value / call.limit)


def test_calls_without_a_report_are_counted():
    run = stored("profile")
    run.results[0].figures[0].unreported = 3
    (figure,) = one_of(insights_on(run), "unreported-calls").evidence
    assert (figure.value, figure.unit, figure.comparison) == (3, "calls", ">")


def test_small_messages_are_not_called_good_by_a_limit_for_large_ones():
    run = read_journal(RESULTS / "collectives.jsonl")
    every = [
        one for one in run.results if one.summary.spread < 0.1 and one.case.operation != "sendrecv"
    ]
    run.results[:] = [one for one in every if one.case.size_bytes < 64 << 20]
    unknown = one_of(insights_on(run), "nothing-to-compare-with")
    assert "no link limit below 64 MiB, to compare these figures with" in unknown.sentence
    run.results[:] = [
        one for one in every if one.case.size_bytes < 64 << 20 or one.case.operation == "all_reduce"
    ]
    unknown = one_of(insights_on(run), "nothing-to-compare-with")
    assert unknown.severity == "unknown"
    assert "to compare those of all_gather" in unknown.sentence
    assert "all_reduce" not in unknown.sentence


def test_an_experiment_without_comparisons_has_no_verdict():
    for times, reason in (([0.5], "fewer than two rounds"), ([], "none was measured")):
        tried = {numbered(8): (times, times)} if times else {}
        journal = journal_of_trials({**QUIET, **tried})
        found = one_of(insights_on(journal), "nothing-faster")
        assert found.severity == "unknown"
        assert "no variant could be compared with the default at 1 KiB, 64 KiB" in found.sentence
        assert reason in found.sentence
    slow = journal_of_trials({**QUIET, numbered(8): ([2.0] * 3, [2.0] * 3)})
    found = one_of(insights_on(slow), "nothing-faster")
    assert found.severity == "note"
    values = {name: [] for name in FIGURES["nothing-faster"]}
    for one in found.evidence:
        values[one.name].append(one.value)
    assert values["speed_up"] == pytest.approx([0.5, 0.5], rel=0.02)
    for least, value, most in zip(*(values[name] for name in SPEED_UPS), strict=True):
        assert least < value < most < 1
    assert len(values["noise_percent"]) == 2
    assert 0 < max(values["noise_percent"]) < 10


def rule(variant=1):
    return Rule(8, 64, variant)


@pytest.mark.parametrize("operations", [["all_reduce"], ["all_reduce", "broadcast"]])
def test_no_gain_of_tuning_states_the_intervals_of_what_was_tried(operations):
    ratio = RatioEstimate(0.02, 0.01, None, 0.0)
    proof = Proof((), (Dropped(rule(), "slower", ratio), Dropped(rule(), "too few times")))
    cases = [replace(stored("collective").results[0].case, operation=name) for name in operations]
    tuned = [
        OperationResult(case, choices={1: Choice("ring", "simple", 2)}, proof=proof)
        for case in cases
    ]
    document = document_of_result(RulesResult(7, is_complete=True, operations=tuned))
    found = [one for one in document.findings if one.id == "no-gain"]
    assert len(found) == (1 if len(tuned) == 1 else 3)
    for one in found:
        assert [figure.name for figure in one.evidence[:3]] == ["speed_up", *SPEED_UPS[::2]]
        value, least, most = (figure.value for figure in one.evidence[:3])
        assert least < value < most
        assert value == pytest.approx(math.exp(-0.02))
        assert len(one.evidence) in (3, 3 * len(tuned))
        assert {figure.limit for figure in one.evidence} == {1}


@pytest.mark.parametrize("objection", ["", "noise"])
def test_no_gain_of_an_environment_states_its_interval(objection):
    proof = EnvironmentProof(RatioEstimate(0.02, 0.01, None, 0.0), objection=objection)
    document = document_of_result(EnvironmentResult(7, is_complete=True, proof=proof))
    found = [one for one in document.findings if one.id == "no-gain"]
    assert len(found) == 1 + bool(objection)
    for one in found:
        assert [figure.name for figure in one.evidence] == ["speed_up", *SPEED_UPS[::2]]
    (unproven,) = document_of_result(EnvironmentResult(7, is_complete=True)).findings
    assert (unproven.id, unproven.evidence) == ("no-gain", ())


@pytest.mark.parametrize("name", ["pairs", "p2p"])
def test_links_that_few_pairs_have_are_not_called_good(name):
    run = read_journal(RESULTS / f"{name}.jsonl")
    run.results[:] = [one for one in run.results if one.item.size_bytes > 32 << 20 or name == "p2p"]
    assert one_of(insights_on(run), "pairs-alike").severity == "good"
    assert one_of(insights_on(run), "nothing-found")
    first = {(0, 1), (1, 0)}
    relations = [
        replace(one, kind="SYS") if (one.first, one.second) in first else one
        for one in run.header.relations
    ]
    run.header = replace(run.header, relations=relations)
    found = insights_on(run)
    alike = one_of(found, "pairs-alike")
    assert alike.severity == "note"
    assert "of links with fewer than 4 were not compared" in alike.sentence
    unknown = one_of(found, "nothing-to-compare-with")
    assert "those of other links" in unknown.sentence
    assert not [one for one in found if one.id == "nothing-found"]


def test_a_replay_without_times_of_the_program_is_not_judged():
    run = stored("replay")
    for place, one in enumerate(run.results):
        original = replace(one.replay.original, communication_s=(), span_s=())
        run.results[place] = replace(one, replay=replace(one.replay, original=original))
    found = [
        one for one in insights_on(run) if "cannot be compared with the program" in one.sentence
    ]
    assert [one.severity for one in found] == ["unknown"]


@pytest.mark.parametrize("path", [DEVICE_TIMES, RESULTS / "collectives.jsonl"])
def test_a_figure_of_a_case_is_that_of_its_row(path):
    run = read_journal(path)
    layout = report_kind(run.kind).csv
    names = [column.name for column in layout.columns]
    rows_of = layout.rows_of(run.header, None)
    rows = {
        one.item.describe(): dict(zip(names, row, strict=True))
        for one in run.results
        for row in rows_of(one)
    }
    known = [figure for one in findings_of(run) for figure in one.evidence if figure.name in names]
    found = [figure for figure in known if figure.at.split(", ")[0] in rows]
    assert found
    for figure in found:
        assert figure.value == pytest.approx(rows[figure.at.split(", ")[0]][figure.name])
