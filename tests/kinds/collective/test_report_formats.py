"""Every format against a stored text, and what holds of formats for any results."""

import csv
import dataclasses
import io
import json
import math
import re
import sys

import msgspec
import pytest
from msgspec.structs import replace

from cclmark.document.document_text import document_of
from cclmark.document.exporters import exporter_of
from cclmark.document.naming import NamedRun
from cclmark.document.placement_rows import RowCollector
from cclmark.document.report_kind import View
from cclmark.journal import schema
from cclmark.kinds.collective.nccl_tests import fit
from cclmark.kinds.registry import KINDS, read_journal, report_kind
from cclmark.work.items import COLLECTIVE, P2P, PAIRS
from commands import completed
from goldens import GOLDEN, require_golden
from places import H200X4
from reports import case_text

SAMPLE = read_journal(GOLDEN / "sample.jsonl")
OUT, IN, OUT_NEXT, WRONG, SKIPPED = SAMPLE.results[:5]
END = schema.Footer("", 0, 0.0)
FILES = {
    **{"csv": "sample.csv", "json": "sample.json", "markdown": "sample.md"},
    **{name: f"sample.{name}.txt" for name in ("nccl-tests", "flagcx", "hccl")},
}


def export(exporter, results, of=SAMPLE.header, footer=SAMPLE.footer):
    return exporter.begin(of) + "".join(map(exporter.add, results)) + exporter.end(footer)


def exported_as(name, results=SAMPLE.results, of=SAMPLE.header, footer=SAMPLE.footer):
    return export(exporter_of(KINDS[COLLECTIVE], name), results, of, footer)


def header(*, planned_cases=0, **settings):
    changed = replace(SAMPLE.header.settings, **settings)
    return replace(SAMPLE.header, planned_cases=planned_cases, settings=changed)


@pytest.mark.parametrize("name", FILES)
def test_a_whole_run_reads_as_stored(name):
    require_golden(FILES[name], exported_as(name))
    cut = exported_as(name, SAMPLE.results[:1], footer=None)
    assert "1024" in cut or "1 KiB" in cut
    assert cut.endswith("\n")
    assert exported_as(name, [], footer=None).endswith("\n")


def test_no_kind_imports_its_formats():
    """A run imports only the format that it writes."""
    code = (
        "import sys; from cclmark.kinds.registry import KINDS, report_kind\n"
        "[report_kind(kind) for kind in KINDS]\n"
        "print(*(name for name in sys.modules if name.startswith(('cclmark.', 'jinja2'))))"
    )
    done = completed([sys.executable, "-c", code], check=True)
    heavy = ("nccl_tests", "flagcx", "hccl", "pictures", "jinja2")
    assert not [name for name in done.stdout.split() if name.endswith(heavy)]


def without_numbers():
    summary = replace(OUT.summary, p99_s=math.nan, busbw_bytes_per_s=math.inf)
    return replace(OUT, summary=summary)


def test_csv_has_no_text_where_there_is_no_number_and_no_formula():
    results = [without_numbers(), replace(SKIPPED, reason="=HYPERLINK(1)", route=" -1+1")]
    first, second = csv.DictReader(io.StringIO(exported_as("csv", results)))
    assert (first["p99_us"], first["busbw_gbps"]) == ("", "")
    assert (second["reason"], second["route"]) == ("'=HYPERLINK(1)", "' -1+1")


def test_json_holds_everything_that_the_journal_holds():
    document = json.loads(exported_as("json"))
    assert msgspec.convert(document["header"], schema.Header) == SAMPLE.header
    (case,) = json.loads(exported_as("json", [without_numbers()]))["cases"]  # no NaN
    assert (case["summary"]["p99_s"], case["summary"]["busbw_bytes_per_s"]) == (None, None)
    assert case["samples"] == msgspec.to_builtins(OUT.samples)


def test_json_of_a_soak_holds_no_later_results():
    of = header(cycles=0, duration_s=60.0)
    exporter = exporter_of(KINDS[COLLECTIVE], "json")
    times_s = [1e-5] * 6 + [2e-5] * 6
    cycles = [
        replace(OUT, cycle=number, summary=replace(OUT.summary, time_s=time_s))
        for number, time_s in enumerate(times_s)
    ]
    document = json.loads(export(exporter, cycles, of, END))
    assert len(exporter._results) == 1
    (drift,) = [one for one in document["findings"] if one["id"] == "drift"]
    assert drift["severity"] == "look"
    assert drift["sentence"].startswith("drift: 1 case of 1 slower at the end, beyond the 95 %")
    figures = [(one["name"], one["value"], one["limit"]) for one in drift["evidence"]]
    assert figures == [("time_us", 20.0, 10.0), ("ratio", 2.0, 1.0)]
    assert [one["status"] for one in document["cases"]] == ["ok"] * 12


@pytest.mark.parametrize(
    ("kind", "place"), [(COLLECTIVE, "collectives"), (P2P, "p2p"), (PAIRS, "report/pairs")]
)
def test_json_has_the_findings_of_the_document(kind, place):
    journal = read_journal(H200X4 / f"{place}.jsonl")
    loud = schema.Paths("nccl", "log", messages=["the library says so"])
    journal = dataclasses.replace(journal, paths=[loud])
    exporter = exporter_of(KINDS[kind], "json", View(journal))
    exporter.connect(loud)
    text = export(exporter, journal.results, journal.header, journal.footer)
    found = json.loads(text)["findings"]
    document = document_of(report_kind(kind).document, NamedRun("", journal))
    own = [one["sentence"] for one in found if one["sentence"] not in journal.header.notices]
    assert sorted(own) == sorted(one.sentence for one in document.findings)
    order = ["bad", "look", "good", "note"]
    assert found == sorted(found, key=lambda one: order.index(one["severity"]))
    assert "nccl reports: the library says so" in own or kind == P2P


@pytest.mark.parametrize(
    ("planned", "cycles", "results", "expected"),
    [
        (14, 1, [], "0 of 14 cases measured, 0 checked"),  # at once
        (2, 3, [OUT, IN], "2 of 6 cases measured, 2 checked, 0 wrong"),
        (9, 1, [WRONG, SKIPPED], "1 of 9 cases measured, 1 checked, 1 wrong, 1 skipped"),
        (0, 1, [OUT], "1 of 1 cases checked, 0 wrong"),  # not noted
    ],
)
def test_tables_tell_how_much_of_the_plan_was_measured(planned, cycles, results, expected):
    of = header(planned_cases=planned, cycles=cycles)
    assert f"  {expected}\n" in export(case_text(), results, of, END)


FULL_COLUMNS = 151  # with the time of the devices beside the cost of a call


@pytest.mark.parametrize("columns", [79, 91, 92, 110, FULL_COLUMNS - 1])
@pytest.mark.parametrize("placements", ["both", "in-place"])
@pytest.mark.parametrize("cycles", [1, 2])
def test_no_row_is_wider_than_the_terminal(columns, placements, cycles):
    results = (OUT, IN, OUT_NEXT, WRONG) if placements == "both" else (IN, WRONG)
    text = export(case_text(placements, columns=columns), results, header(cycles=cycles))
    lines = text[text.index("\n\n") :].splitlines()
    assert all(len(line) <= max(columns, 80) for line in lines if "wrong:" not in line)


NUMBERS = r"\s+(\d+\.?\d*(?:e\+\d+)?)" * 3 + r"\s+(\d+|N/A)"
ROW = re.compile(r"^\s+(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)" + NUMBERS * 2 + "$")


def test_rows_match_the_regular_expression_that_scripts_use():
    text = exported_as("nccl-tests", [OUT, IN, OUT_NEXT, WRONG])
    matches = [match for match in map(ROW.match, text.splitlines()) if match]
    assert [int(match[1]) for match in matches] == [1024, 262144]
    assert (float(matches[1][8]), float(matches[1][12])) == (19.82, 19.55)


def test_numbers_give_up_decimals_before_they_outgrow_their_column():
    """Expected texts come from nccl-tests' own getFloatStr, compiled."""
    for value, expected in (
        *((0.0, "  0.00"), (12.345, "  12.35"), (999.995, "1000.0"), (9999.95, "9999.95")),
        *((9999.995, "10000.0"), (123456.78, " 123457"), (99999.96, "100000")),
        *((1234567.0, " 1e+06"), (12345678.0, "1.2e+07"), (float("nan"), "   nan")),
    ):
        assert fit(value, len(expected)) == expected


OF_OTHER = [replace(one, case=replace(one.case, operation="alltoallv")) for one in (OUT, OUT_NEXT)]
OF_BARRIER = replace(OUT, case=replace(OUT.case, operation="barrier"))
IN_LATER = replace(IN, cycle=1)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([OUT, IN], [[], [(OUT, IN)], []]),
        # One placement is noticed after the first row.
        ([OUT, OUT_NEXT, OUT], [[], [(OUT, None), (OUT_NEXT, None)], [(OUT, None)], []]),
        # What one operation lacks is not held against the next.
        ([*OF_OTHER, OUT, IN], [[], [(one, None) for one in OF_OTHER], [], [(OUT, IN)], []]),
        # What cannot have a second placement comes at once.
        ([OF_BARRIER], [[(OF_BARRIER, None)], []]),
        ([IN], [[], [(None, IN)]]),
        ([OUT, IN_LATER], [[], [(OUT, None), (None, IN_LATER)], []]),  # cycles do not mix
        ([OUT, OUT], [[], [(OUT, None), (OUT, None)], []]),
    ],
)
def test_rows_of_placements(results, expected):
    collector = RowCollector()
    found = [*map(collector.add, results), collector.finish()]
    assert [[(row.out_of_place, row.in_place) for row in rows] for rows in found] == expected
