"""In place, some operations include a copy of the input: every format that people read marks it."""

import pytest
from msgspec.structs import replace

from cclmark.analysis.findings import findings
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import render
from cclmark.document.remarks import staged_mark
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal
from cclmark.report.run_page import page_of
from cclmark.work.operations import OPERATIONS
from places import H200X4
from reports import case_text, exported

COLLECTIVES = read_journal(H200X4 / "collectives.jsonl")
PAIRS = read_journal(H200X4 / "report" / "pairs.jsonl")


def of(operation):
    results = [one for one in COLLECTIVES.results if one.case.operation == operation]
    return Journal(COLLECTIVES.header, results, footer=COLLECTIVES.footer)


def test_the_table_of_operations_agrees_with_what_the_engine_did():
    for result in [*COLLECTIVES.results, *PAIRS.results]:
        staged = result.case.in_place and OPERATIONS[result.case.operation].staged_in_place
        assert result.route.startswith("copy aside") == staged, result.case.describe()
        assert (staged_mark(result) == "*") == staged


def test_figures_of_another_tool_are_not_marked():
    (result,) = [one for one in of("sendrecv").results if one.case.in_place][:1]
    assert staged_mark(result) == "*"
    assert staged_mark(replace(result, route="")) == ""
    assert staged_mark(replace(result, summary=None)) == ""


@pytest.mark.parametrize(
    ("view", "mark"),
    [({}, " *"), ({"columns": 80}, " *"), ({"markdown": True}, " &#42;")],
)
def test_a_text_marks_the_time_and_explains_the_mark(view, mark):
    text = exported(case_text(**view), of("sendrecv"))
    in_place = [one for one in of("sendrecv").results if one.case.in_place]
    assert text.count(mark) == len(in_place) + 1
    for one in in_place:
        assert f"{mark}{one.summary.time_s * 1e6:.2f}" in text or one.summary.time_s >= 1e-3
    assert f"{mark} the time includes copying the input aside" in text
    assert mark not in exported(case_text(**view), of("all_reduce"))


def test_a_row_with_the_copy_is_no_headline_where_a_plain_one_exists():
    """Not even where the plain one did not converge and is slower."""
    journal = of("alltoall")
    results = [
        one
        if one.case.in_place
        else replace(
            one,
            converged=False,
            summary=replace(
                one.summary,
                time_s=one.summary.time_s * 10,
                busbw_bytes_per_s=one.summary.busbw_bytes_per_s / 10,
            ),
        )
        for one in journal.results
    ]
    (found,) = findings(results)
    assert not found.peak.case.in_place
    assert not found.latency.case.in_place
    assert found.peak.summary.busbw_bytes_per_s == max(
        one.summary.busbw_bytes_per_s for one in results if not one.case.in_place
    )
    text = exported(case_text(), Journal(journal.header, results, footer=journal.footer))
    (line,) = [one for one in text.splitlines() if "peak bus bandwidth" in one]
    assert "out-of-place (not converged, ±" in line
    assert "in-place" not in line
    assert "*" not in line
    (alone,) = findings([one for one in results if one.case.in_place])
    assert alone.peak.case.in_place
    assert alone.latency.case.in_place


def test_the_page_explains_it_beside_the_charts_and_above_the_cases():
    page = page_of([NamedRun("", COLLECTIVES)])
    marked = {section.title for section in page.sections if section.words and section.charts}
    assert marked == {"alltoall", "alltoallv", "sendrecv"}
    shown = render(page).split("<script", 1)[0]
    assert shown.count("copying the input aside") == 4
    assert page_of([NamedRun("", of("all_reduce"))]).rows.notes == []
