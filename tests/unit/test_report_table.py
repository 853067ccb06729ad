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
from cclmark.results.journal import Journal
from cclmark.results.schema import Footer, Paths, TransferSummary, Verification
from reports import case_text, exported

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "h200x4"
SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
OUT, IN, OUT_NEXT, WRONG, SKIPPED = SAMPLE.results[:5]
END = Footer("", 0, 0.0)
NAMES = ("barrier", OUT.case.operation)


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


def in_cycle(result, cycle):
    return msgspec.structs.replace(result, cycle=cycle)


def test_rows_name_their_cycle_where_there_are_several():
    sweep = (OUT, IN, OUT_NEXT, WRONG)
    results = [in_cycle(result, cycle) for cycle in range(2) for result in sweep]
    text = export(case_text(), results, header(cycles=2))
    head, *rows = table_rows(text)
    assert head.split()[:2] == ["cycle", "size"]
    assert [row.split()[0] for row in rows] == ["0", "0", "1", "1"]
    assert {len(line) for line in (head, rows[0])} == {len(head)}
    once = export(case_text(), sweep, header(cycles=1))
    assert "cycle" not in once


def test_markdown_rows_name_their_cycle_where_there_are_several():
    results = [in_cycle(result, cycle) for cycle in range(2) for result in (OUT, IN)]
    text = export(case_text(markdown=True), results, header(cycles=0))
    head, rule, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert head.split()[:4] == ["|", "cycle", "|", "size"]
    assert [row.split()[1] for row in rows] == ["0", "1"]
    assert {len(line.split("|")) for line in (head, rule, *rows)} == {len(head.split("|"))}
    assert "cycle" not in export(case_text(markdown=True), results[:2], header(cycles=1))


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


def test_a_large_number_of_wrong_elements_is_rounded():
    results = [with_wrong(OUT, wrong) for wrong in (1025, 262_144, 1 << 24)]
    _, *rows = table_rows(export(case_text("out-of-place"), results))
    assert [row.split()[-2] for row in rows] == ["1025", "262k", "17M"]


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


def test_a_narrow_terminal_has_a_line_for_each_placement():
    text = export(case_text(columns=80), [OUT, IN, OUT_NEXT, WRONG])
    _, head, *lines = text.split("\n\n")[1].splitlines()
    assert head.split()[:4] == ["size", "dtype", "place", "time"]
    rows = [line.split() for line in lines if "wrong:" not in line]
    assert [row[:3] for row in rows[::2]] == [["1", "KiB", "fp32"], ["256", "KiB", "fp32"]]
    assert [row[3] for row in rows[::2]] == ["out", "out"]
    assert rows[0][5] == f"{OUT.device.summary.time_s * 1e6:.2f}"
    assert [row[0] for row in rows[1::2]] == ["in", "in"]
    assert [row[-2] for row in rows] == ["0", "0", "0", "1025"], "the figures are in their lines"


def test_a_wider_terminal_has_the_count_as_well():
    text = export(case_text(columns=110), [OUT, IN])
    assert table_rows(text)[0].split()[:3] == ["size", "count", "dtype"]


@pytest.mark.parametrize("columns", [FULL_COLUMNS, 400])
def test_a_wide_terminal_changes_nothing(columns):
    anywhere = table_rows(export(case_text(), SAMPLE.results))
    assert table_rows(export(case_text(columns=columns), SAMPLE.results)) == anywhere
    assert max(map(len, anywhere)) == FULL_COLUMNS


def test_one_placement_needs_no_second_line():
    head, *rows = table_rows(export(case_text("in-place", columns=80), [IN, WRONG]))
    assert head.split()[:4] == ["size", "dtype", "op", "time"]
    assert [row.split()[:2] for row in rows] == [["1", "KiB"], ["256", "KiB"]]


def test_on_a_narrow_terminal_a_skipped_size_says_why():
    in_place = msgspec.structs.replace(
        SKIPPED, case=msgspec.structs.replace(SKIPPED.case, in_place=True)
    )
    text = export(case_text(columns=80), [SKIPPED, in_place])
    assert text.count(f"  skipped: {SKIPPED.reason}\n") == 1


def test_a_placement_that_was_left_out_says_why_below_its_row():
    left_out = msgspec.structs.replace(
        IN, status="skipped", reason="needs more memory", summary=None, verification=None
    )
    text = export(case_text(), [OUT, left_out])
    assert "in-place skipped: needs more memory" in text


def test_a_barrier_has_no_columns_of_gbit_per_second():
    replace = msgspec.structs.replace
    barrier = replace(
        OUT, case=replace(OUT.case, operation="barrier", size_bytes=0, reduction=None)
    )
    shown = case_text("out-of-place", gbps=True)
    own = export(shown, [barrier, OUT]).split("\n\n")
    of_barrier, of_all_reduce = (next(one for one in own if f"{name} ·" in one) for name in NAMES)
    assert "Gbps" not in of_barrier
    assert of_barrier == next(
        one
        for one in export(case_text("out-of-place"), [barrier]).split("\n\n")
        if "barrier ·" in one
    )
    head, *rows = [line for line in of_all_reduce.splitlines() if line.strip()][2:]
    assert head.endswith("  alg Gbps  bus Gbps")
    rate = OUT.summary.busbw_bytes_per_s * 8 / 1e9
    assert float(rows[0].split()[-1]) == pytest.approx(rate, abs=0.05)


def test_a_row_without_a_placement_stays_in_its_columns():
    """Of a run cut short, or with a damaged line: figures in place are never out-of-place."""
    journal = Journal(SAMPLE.header, [OUT, IN, WRONG], footer=END)
    for name in ("table", "markdown"):
        text = exported(exporter_of(KINDS[COLLECTIVE], name, View(journal)), journal)
        assert text.count("all_reduce · nccl,") == 1
        (row,) = [line for line in text.splitlines() if "256 KiB" in line and "fp32" in line]
        (full,) = [line for line in text.splitlines() if "1 KiB" in line and "fp32" in line]
        assert row.index("1025") > len(full) // 2


def test_a_long_figure_does_not_change_the_columns_of_its_row():
    slow = msgspec.structs.replace(
        OUT, summary=msgspec.structs.replace(OUT.summary, time_s=123.456), converged=False
    )
    text = export(case_text(columns=FULL_COLUMNS), [OUT, IN, slow, IN])
    rows = table_rows(text)
    assert len(rows) == 3
    assert " out " not in rows[2]


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


def test_copies_that_failed_are_in_the_outcome():
    journal = read_journal(RESULTS / "p2p.jsonl")
    died = msgspec.structs.replace(
        journal.results[0], status="died", reason="rank 1 died", summary=None, verification=None
    )
    journal = dataclasses.replace(journal, results=[died, *journal.results[1:]])
    text = exported(exporter_of(KINDS[P2P], "table", View(journal)), journal)
    assert ", 1 died\n" in text
    assert "1 case died: rank 1 died" in text


def test_json_of_an_interrupted_run_says_so_first():
    exporter = exporter_of(KINDS[COLLECTIVE], "json", View())
    text = exporter.begin(header(planned_cases=14)) + exporter.add(OUT)
    stopped = Footer("", 130, 1.0, message="interrupted")
    first, *_ = json.loads(text + exporter.end(stopped))["findings"]
    assert first["severity"] == "look"
    assert first["sentence"] == "the run ended early after 1 of 14 cases: interrupted"
