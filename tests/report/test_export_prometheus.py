"""Prometheus' text, read back by Prometheus' own parsers."""

import re

import pytest
from msgspec.structs import replace

from cclmark.journal.schema import Verification
from cclmark.kinds.registry import read_journal
from cclmark.report.exports import METRICS, prometheus, replaced_runs
from measured_results import each_journal
from places import TESTS

openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
text_format = pytest.importorskip("prometheus_client.parser")


def parsed(*journals):
    """Their text by both parsers, which must agree: {(name, labels): value}."""
    text, both = prometheus(journals), []
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


def values(found, metric):
    """The values of a metric by labels, in order."""
    return [(dict(labels), value) for (name, labels), value in found.items() if name == metric]


def sample(*results, later=True, **settings):
    """A run of the same host with these results, newer than the stored one."""
    journal = read_journal(TESTS / "golden" / "sample.jsonl")
    if later:
        journal.header.started_at = "2026-11-06T00:00:00+00:00"
    journal.header.settings = replace(journal.header.settings, **settings)
    journal.results = [*results] or journal.results
    return journal


OLD = sample(later=False)
FIRST = OLD.results[0]
WRONG = replace(FIRST, status="wrong", verification=Verification(7))


@each_journal
def test_both_parsers_read_it(file):
    journal = read_journal(file)
    found = parsed(journal)
    assert {name for name, _ in found} <= set(METRICS)
    times = [value for _, value in values(found, "cclmark_time_seconds")]
    last = {one.case: one.summary.time_s for one in journal.cases if one.summary is not None}
    assert sorted(times) == sorted(last.values())
    copies = [value for _, value in values(found, "cclmark_transfer_time_seconds")]
    measured = [one.summary.time_s for one in journal.transfers if one.summary is not None]
    assert sorted(copies) == sorted(measured)


def test_the_newest_result_stands_for_its_series():
    new = sample()
    new.results[0].summary.time_s = 1.5
    for order in ([OLD, new], [new, OLD]):
        found = parsed(*order)
        assert found == parsed(new)
        (labels,) = [labels for labels, one in values(found, "cclmark_time_seconds") if one == 1.5]
        assert labels["size_bytes"] == str(FIRST.case.size_bytes)
        assert labels["placement"] == FIRST.case.placement


def of_first_case(*journals):
    """The metrics of the case of the first result, by name."""
    names = ("operation", "ccl", "dtype", "placement", "size_bytes")
    wanted = {(name, str(getattr(FIRST.case, name))) for name in names}
    return {name: value for (name, own), value in parsed(*journals).items() if wanted <= {*own}}


def test_a_wrong_cycle_is_not_made_good_by_the_next_but_by_a_newer_run():
    good = replace(FIRST, cycle=1)
    for cycles in ((WRONG, good), (good, WRONG)):
        found = of_first_case(sample(*cycles))
        assert found["cclmark_case_ok"] == 0
        assert found["cclmark_wrong_elements"] == 7
    assert of_first_case(sample(WRONG, later=False), sample(good))["cclmark_case_ok"] == 1


def test_nothing_of_an_older_run_stays_beside_a_newer_one():
    assert "cclmark_time_p95_seconds" in of_first_case(OLD)
    hung = replace(FIRST, status="timeout", summary=None, verification=None)
    assert of_first_case(OLD, sample(hung)) == {"cclmark_case_ok": 0}
    single = replace(FIRST, summary=replace(FIRST.summary, samples=1))
    found = of_first_case(OLD, sample(single))
    assert found["cclmark_case_samples"] == 1
    assert "cclmark_time_p95_seconds" not in found


def test_an_older_run_of_which_figures_are_left_out_is_named():
    new, kept = sample(*OLD.results[:2]), sample()
    kept.header.machine.hostname = "elsewhere"
    # Two cases and the figures of the run as a whole.
    (text,) = replaced_runs([("new", new), ("old", OLD), ("kept", kept)])
    assert text.startswith("old: the figures of 3 label sets are left out, because a newer run")
    assert replaced_runs([("old", OLD), ("kept", kept)]) == []


def test_names_end_in_their_unit_and_are_documented():
    page = (TESTS.parent / "docs" / "reference" / "prometheus.md").read_text()
    for name, metric in METRICS.items():
        assert re.fullmatch(r"cclmark_[a-z0-9_]+", metric.name)
        assert metric.name.endswith(metric.unit)
        assert f"`{name}`" in page
