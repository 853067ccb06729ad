"""Findings as data: ids, evidence, gains and commands, the same in JSON, on pages and in Python."""

import ast
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import cclmark
from cclmark.document.blocks import SEVERITY_ORDER
from cclmark.document.finding_rules import FINDINGS
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.kinds.registry import read_journal
from cclmark.references.reference_store import shipped_references
from cclmark.report.exports import replayed
from cclmark.report.overview import insights
from experiments import QUIET, journal_of_trials, numbered
from places import REPOSITORY, TESTS

RESULTS = REPOSITORY / "benchmarks" / "results" / "h200x4" / "report"
JOURNALS = sorted(
    [*(TESTS / "journals").glob("*.jsonl"), *RESULTS.glob("*.jsonl")],
    key=lambda path: path.name,
)


def findings_of(journal):
    return insights(NamedRun("run", journal, ReferenceNotes(shipped_references)))


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
    found = insights(NamedRun("run", journal))
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
    found = [one for one in insights(NamedRun("run", journal)) if one.id == "faster-variant"]
    assert len(found) == 2
    for one in found:
        assert one.gain.unit == "times as fast"
        assert 1.9 < one.gain.low <= one.gain.value <= one.gain.high < 2.1
        assert f"{one.gain.value:.3f} ({one.gain.low:.3f} to {one.gain.high:.3f})" in one.sentence
    assert found[1].gain.at.endswith("64 KiB")
