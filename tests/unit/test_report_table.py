"""The table for people: what its rows and its last lines say."""

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest

from cclmark.document.document_text import document_of
from cclmark.document.exporters import exporter_of
from cclmark.document.naming import NamedRun
from cclmark.document.report_kind import View
from cclmark.kinds.registry import KINDS, read_journal, report_kind
from cclmark.plan.items import COLLECTIVE, P2P, PAIRS
from cclmark.plan.transfers import Transfer
from cclmark.results.item_results import TransferResult
from cclmark.results.schema import Footer, Paths, TransferSummary, Verification
from reports import case_text

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "h200x4"
SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
OUT, IN, OUT_NEXT, WRONG, SKIPPED = SAMPLE.results[:5]
END = Footer("", 0, 0.0)


def header(*, planned_cases=0, **settings):
    settings = msgspec.structs.replace(SAMPLE.header.settings, **settings)
    return msgspec.structs.replace(SAMPLE.header, planned_cases=planned_cases, settings=settings)


def export(exporter, results, of=SAMPLE.header, footer=END):
    return exporter.begin(of) + "".join(map(exporter.add, results)) + exporter.end(footer)


@pytest.mark.parametrize(
    ("of", "results", "expected"),
    [
        (header(planned_cases=14), [OUT], "1 of 14 cases measured, 1 checked, 0 wrong"),
        (header(planned_cases=14), [], "0 of 14 cases measured, 0 checked"),
        (header(planned_cases=2, cycles=3), [OUT, IN], "2 of 6 cases measured, 2 checked, 0 wrong"),
        (
            header(planned_cases=9),
            [WRONG, SKIPPED],
            "1 of 9 cases measured, 1 checked, 1 wrong, 1 skipped",
        ),
        (header(planned_cases=2), [OUT, IN], "2 of 2 cases checked, 0 wrong"),
        (header(planned_cases=9, cycles=0), [OUT, IN], "2 of 2 cases checked, 0 wrong"),
        (header(), [OUT], "1 of 1 cases checked, 0 wrong"),
    ],
    ids=["early", "at once", "cycles", "skipped", "whole", "endless", "not noted"],
)
def test_tells_how_much_of_the_plan_was_measured(of, results, expected):
    assert export(case_text(), results, of).splitlines()[-1].strip() == expected


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (6, "1 of 6 transfers measured, 1 checked, 0 wrong"),
        (1, "1 of 1 copies checked, 0 wrong"),
    ],
)
def test_the_matrices_tell_how_much_of_the_plan_was_measured(planned, expected):
    transfer = Transfer("unidirectional", "pairs", "CE", "write", ((0, 1),), 1 << 20)
    summary = TransferSummary(1e-3, 1e-3, 1e-3, 9, bytes_per_s=1e9, flow_bytes_per_s=[1e9])
    result = TransferResult(0, transfer, "ok", summary=summary, verification=Verification(0))
    table = exporter_of(KINDS[P2P], "table")
    text = export(table, [result], header(planned_cases=planned), Footer("", 0, 1.0))
    assert text.splitlines()[-1].strip() == expected


def table_rows(text):
    """The lines of the table: its head, and its rows, which are all of float32."""
    return [line for line in text.splitlines() if "fp32" in line or "dtype" in line]


def with_count(result, count):
    case = msgspec.structs.replace(result.case, size_bytes=count, count=count)
    return msgspec.structs.replace(result, case=case)


def with_wrong(result, wrong):
    verification = msgspec.structs.replace(result.verification, wrong=wrong)
    return msgspec.structs.replace(result, verification=verification)


def with_spread(result, share):
    summary = msgspec.structs.replace(result.summary, cv=share)
    return msgspec.structs.replace(result, summary=summary)


@pytest.mark.parametrize("largest", [10**11, 10**12, (1 << 50) - 1])
def test_columns_stay_aligned_whatever_is_counted(largest):
    exporter = case_text("out-of-place")
    results = [
        OUT,
        with_count(OUT, largest),
        with_spread(OUT, 9.9999),
        with_spread(OUT, 123.4),
        *(with_wrong(OUT, wrong) for wrong in (99_999, 100_000, 9_999_600, 10**12, 4 * largest)),
    ]
    head, *rows = table_rows(export(exporter, results, header(end_bytes=largest)))
    assert len(rows) == len(results)
    assert {len(row) for row in rows} == {len(head)}
    assert str(largest) in rows[1]


FULL_COLUMNS = 151  # with the time of the devices beside the cost of a call


@pytest.mark.parametrize("columns", [79, 80, 91, 92, 100, 110, 120, FULL_COLUMNS - 1])
@pytest.mark.parametrize("placements", ["both", "in-place"])
@pytest.mark.parametrize("cycles", [1, 2])
def test_no_row_is_wider_than_the_terminal(columns, placements, cycles):
    exporter = case_text(placements, columns=columns)
    results = (OUT, IN, OUT_NEXT, WRONG) if placements == "both" else (IN, WRONG)
    text = export(exporter, results, header(cycles=cycles))
    lines = text[text.index("\n\n") :].splitlines()
    assert all(len(line) <= max(columns, 80) for line in lines if "wrong:" not in line)


@pytest.mark.parametrize("columns", [FULL_COLUMNS, 400])
def test_a_wide_terminal_changes_nothing(columns):
    anywhere = table_rows(export(case_text(), SAMPLE.results))
    assert table_rows(export(case_text(columns=columns), SAMPLE.results)) == anywhere
    assert max(map(len, anywhere)) == FULL_COLUMNS


@pytest.mark.parametrize("kind", [COLLECTIVE, P2P, PAIRS])
def test_json_has_the_findings_of_the_document(kind):
    place = {COLLECTIVE: "collectives", P2P: "p2p", PAIRS: "report/pairs"}[kind]
    journal = read_journal(RESULTS / f"{place}.jsonl")
    loud = Paths("nccl", "log", messages=["the library says so"])
    journal = dataclasses.replace(journal, paths=[loud])
    exporter = exporter_of(KINDS[kind], "json", View(journal))
    text = exporter.begin(journal.header) + "".join(map(exporter.add, journal.results))
    exporter.connect(loud)
    found = json.loads(text + exporter.end(journal.footer))["findings"]
    document = document_of(report_kind(kind).document, NamedRun("", journal))
    own = [one["sentence"] for one in found if one["sentence"] not in journal.header.notices]
    assert sorted(own) == sorted(one.sentence for one in document.findings)
    order = ["bad", "look", "good", "note"]
    assert found == sorted(found, key=lambda one: order.index(one["severity"]))
    assert "nccl reports: the library says so" in [one["sentence"] for one in found] or kind == P2P


def test_json_of_a_soak_holds_no_results():
    of = header(cycles=0, duration_s=60.0)
    exporter = exporter_of(KINDS[COLLECTIVE], "json", View())
    text = exporter.begin(of) + "".join(map(exporter.add, [OUT, IN])) + exporter.end(END)
    assert json.loads(text)["findings"] is None
    assert [one["status"] for one in json.loads(text)["cases"]] == ["ok", "ok"]
