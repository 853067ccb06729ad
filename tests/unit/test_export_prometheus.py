"""Prometheus' text, read back by Prometheus' own parsers."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.plan.checks import Check
from cclmark.report.prometheus import METRICS, prometheus
from cclmark.report.text import plain
from cclmark.results.journal import read_journal
from cclmark.results.schema import CheckResult

openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
text_format = pytest.importorskip("prometheus_client.parser")

TESTS = Path(__file__).parents[1]
FILES = [
    TESTS / "golden" / "sample.jsonl",
    *sorted((TESTS.parent / "benchmarks" / "results").rglob("*.jsonl")),
]


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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_both_parsers_read_it(file):
    journal = read_journal(file)
    found = parsed(prometheus([journal]))
    assert {name for name, _ in found} <= set(METRICS)
    times = [value for (name, _), value in found.items() if name == "cclmark_time_seconds"]
    last = {one.case: one.summary.time_s for one in journal.results if one.summary is not None}
    assert sorted(times) == sorted(last.values())
    copies = [
        value for (name, _), value in found.items() if name == "cclmark_transfer_time_seconds"
    ]
    measured = [one.summary.time_s for one in journal.transfers if one.summary is not None]
    assert sorted(copies) == sorted(measured)


def test_the_figures_of_a_case():
    journal = read_journal(FILES[0])
    found = parsed(prometheus([journal]))
    wrong = {
        dict(labels)["placement"]: value
        for (name, labels), value in found.items()
        if name == "cclmark_wrong_elements" and value
    }
    assert wrong == {"in-place": 1025}
    # A skipped case says nothing, a failed one that it is not fine.
    fine = [value for (name, _), value in found.items() if name == "cclmark_case_ok"]
    statuses = [one.status for one in journal.results if one.status != "skipped"]
    assert fine.count(0) == sum(status != "ok" for status in statuses)
    stamp = next(value for (name, _), value in found.items() if name.endswith("timestamp_seconds"))
    assert stamp == 1793871000


def test_the_newest_result_stands_for_its_series():
    old, new = read_journal(FILES[0]), read_journal(FILES[0])
    new.header.started_at = "2026-11-06T00:00:00+00:00"
    new.results[0].summary.time_s = 1.5
    for order in ([old, new], [new, old]):
        values = parsed(prometheus(order))
        assert 1.5 in values.values()
        assert len(values) == len(parsed(prometheus([old])))


def test_a_check_that_is_not_supported_says_nothing():
    journal = read_journal(FILES[0])
    journal.results = []
    for index, status in enumerate(("ok", "failed", "unsupported")):
        journal.checks.append(CheckResult(index, Check(f"c{index}", "nccl"), status))
    found = parsed(prometheus([journal]))
    assert [value for (name, _), value in found.items() if name == "cclmark_check_ok"] == [1, 0]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_no_name_breaks_the_text(host, device):
    journal = read_journal(FILES[0])
    journal.header.machine.hostname = host
    journal.header.devices = [msgspec.structs.replace(journal.header.devices[0], name=device)]
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
