"""Prometheus' text, read back by Prometheus' own parsers."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.printable import plain, printable
from cclmark.journal.schema import Verification
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.report.exports import METRICS, prometheus, replaced_runs
from cclmark_training.check.plan import Check
from cclmark_training.check.result import CheckResult
from examples import examples
from measured_results import each_journal
from places import TESTS

openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
text_format = pytest.importorskip("prometheus_client.parser")

SAMPLE = TESTS / "golden" / "sample.jsonl"


def parsed(text):
    """By both parsers, which must agree: {(name, labels): value}."""
    both = []
    for parser in (text_format, openmetrics):
        found = {}
        for family in parser.text_string_to_metric_families(text):
            assert family.type == "gauge"
            for one in family.samples:
                assert one.timestamp is None  # node_exporter's collector refuses them
                key = (one.name, tuple(sorted(one.labels.items())))
                assert key not in found
                found[key] = one.value
        both.append(found)
    assert both[0] == both[1]
    return both[0]


@each_journal
def test_both_parsers_read_it(file):
    journal = read_journal(file)
    found = parsed(prometheus([journal]))
    assert {name for name, _ in found} <= set(METRICS)
    times = [value for (name, _), value in found.items() if name == "cclmark_time_seconds"]
    last = {one.case: one.summary.time_s for one in journal.cases if one.summary is not None}
    assert sorted(times) == sorted(last.values())
    copies = [
        value for (name, _), value in found.items() if name == "cclmark_transfer_time_seconds"
    ]
    measured = [one.summary.time_s for one in journal.transfers if one.summary is not None]
    assert sorted(copies) == sorted(measured)


def test_trials_of_an_experiment():
    journal = read_journal(TESTS / "journals" / "experiment.jsonl")
    found = parsed(prometheus([journal]))
    times = {
        (*map(dict(labels).get, ("variant", "round", "size_bytes")), value)
        for (name, labels), value in found.items()
        if name == "cclmark_trial_time_seconds"
    }
    measured = [one for one in journal.of(TrialResult) if one.summary is not None]
    assert len(measured) > 1
    trials = [(one.trial, one.summary.time_s) for one in measured]
    assert times == {
        (trial.variant.describe(), str(trial.round + 1), str(trial.case.size_bytes), time_s)
        for trial, time_s in trials
    }


def test_the_newest_result_stands_for_its_series():
    old, new = read_journal(SAMPLE), read_journal(SAMPLE)
    new.header.started_at = "2026-11-06T00:00:00+00:00"
    new.results[0].summary.time_s = 1.5
    for order in ([old, new], [new, old]):
        values = parsed(prometheus(order))
        assert values == parsed(prometheus([new]))
        times = {key: one for key, one in values.items() if key[0] == "cclmark_time_seconds"}
        changed = [key for key, one in times.items() if one == 1.5]
        case = new.results[0].case
        assert len(changed) == 1
        assert dict(changed[0][1])["size_bytes"] == str(case.size_bytes)
        assert dict(changed[0][1])["placement"] == case.placement


def later(*results):
    """A newer run of the same host with these results."""
    journal = read_journal(SAMPLE)
    journal.header.started_at = "2026-11-06T00:00:00+00:00"
    journal.results = list(results)
    return journal


def of_first_case(journals):
    """The metrics of the case of the first result, by name."""
    case = read_journal(SAMPLE).results[0].case
    wanted = {"size_bytes": str(case.size_bytes), "placement": case.placement, "ccl": case.ccl}
    wanted["operation"], wanted["dtype"] = case.operation, case.dtype
    return {
        name: value
        for (name, labels), value in parsed(prometheus(journals)).items()
        if wanted.items() <= dict(labels).items()
    }


def test_a_wrong_cycle_is_not_made_good_by_the_next():
    first = read_journal(SAMPLE).results[0]
    bad = replace(first, status="wrong", verification=Verification(7))
    good = replace(first, cycle=1)
    for cycles in ((bad, good), (good, bad)):
        found = of_first_case([later(*cycles)])
        assert found["cclmark_case_ok"] == 0
        assert found["cclmark_wrong_elements"] == 7
    # A newer run where all is well does make it good.
    old = read_journal(SAMPLE)
    old.results = [bad]
    assert of_first_case([old, later(good)])["cclmark_case_ok"] == 1


def test_nothing_of_an_older_run_stays_beside_a_newer_one():
    first = read_journal(SAMPLE).results[0]
    assert "cclmark_time_p95_seconds" in of_first_case([read_journal(SAMPLE)])
    hung = replace(first, status="timeout", summary=None, verification=None)
    found = of_first_case([read_journal(SAMPLE), later(hung)])
    assert found == {"cclmark_case_ok": 0}
    once = replace(first.summary, samples=1)
    single = replace(first, summary=once)
    found = of_first_case([read_journal(SAMPLE), later(single)])
    assert found["cclmark_case_samples"] == 1
    assert "cclmark_time_p95_seconds" not in found


def test_an_older_run_of_which_figures_are_left_out_is_named():
    old, new = read_journal(SAMPLE), later(*read_journal(SAMPLE).results[:2])
    kept = later(*read_journal(SAMPLE).results)
    kept.header.machine.hostname = "elsewhere"
    # Two cases and the figures of the run as a whole.
    (text,) = replaced_runs([("new", new), ("old", old), ("kept", kept)])
    assert text.startswith("old: the figures of 3 label sets are left out, because a newer run")
    assert replaced_runs([("old", old), ("kept", kept)]) == []


def test_runs_of_another_method_stand_beside_each_other():
    old, new = read_journal(SAMPLE), later(*read_journal(SAMPLE).results)
    new.header.settings = replace(new.header.settings, timing="blocking")
    other = later(*read_journal(SAMPLE).results)
    other.header.settings = replace(other.header.settings, across_ranks="min")
    times = [
        sum(name == "cclmark_time_seconds" for name, _ in parsed(prometheus(runs)))
        for runs in ([old], [old, new], [old, new, other])
    ]
    assert times[1:] == [2 * times[0], 3 * times[0]]


def test_a_check_that_is_not_supported_says_nothing():
    journal = read_journal(SAMPLE)
    journal.results = []
    for index, status in enumerate(("ok", "failed", "unsupported")):
        journal.results.append(CheckResult(index, Check(f"c{index}", "nccl"), status))
    found = parsed(prometheus([journal]))
    assert [value for (name, _), value in found.items() if name == "cclmark_check_ok"] == [1, 0]


@settings(max_examples=examples(150), deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_no_name_breaks_the_text(host, device):
    journal = read_journal(SAMPLE)
    journal.header.machine.hostname = host
    journal.header.devices = [replace(journal.header.devices[0], name=device)]
    journal.header = printable(journal.header)
    journal.results = journal.results[:3]
    labels = [dict(labels) for name, labels in parsed(prometheus([journal])) if "time_s" in name]
    assert {one.get("host", "") for one in labels} == {plain(host)}
    assert {one.get("device", "") for one in labels} == {plain(device)}


def test_names_end_in_their_unit():
    for metric in METRICS.values():
        assert re.fullmatch(r"cclmark_[a-z0-9_]+", metric.name)
        assert metric.name.endswith(metric.unit)


def test_every_metric_is_documented():
    page = (TESTS.parent / "docs" / "reference" / "prometheus.md").read_text()
    assert [name for name in METRICS if f"`{name}`" not in page] == []
