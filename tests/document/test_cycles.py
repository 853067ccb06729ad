"""Figures of several cycles say what they are of, and those that include a copy are marked."""

import pytest
from msgspec.structs import replace

from cclmark.analysis.findings import findings
from cclmark.api import Run
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import render
from cclmark.document.peaks import peaks_of
from cclmark.document.remarks import staged_mark
from cclmark.journal.journal_file import Journal
from cclmark.kinds.collective.charts import collective_sections
from cclmark.kinds.registry import read_journal
from cclmark.report.run_page import page_of
from cclmark.work.operations import OPERATIONS
from places import H200X4, TESTS
from reports import case_text, exported

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
COLLECTIVES = read_journal(H200X4 / "collectives.jsonl")
PAIRS = read_journal(H200X4 / "report" / "pairs.jsonl")


def run_of(cycles, *, duration_s=0.0, operations=("all_reduce",)):
    first = SAMPLE.results[0]
    results = [
        replace(first, cycle=cycle, case=replace(first.case, operation=operation))
        for cycle in range(cycles)
        for operation in operations
    ]
    settings = replace(SAMPLE.header.settings, cycles=cycles, duration_s=duration_s)
    return Journal(replace(SAMPLE.header, settings=settings), results, footer=SAMPLE.footer)


@pytest.mark.parametrize(
    ("cycles", "cases", "figure"),
    [(1, "1 case of all_reduce on", ""), (3, "1 case of all_reduce in 3 cycles on", "3 cycles.")],
)
def test_a_run_counts_cases_and_says_what_its_figure_is_of(cycles, cases, figure):
    first, *lines = repr(Run(run_of(cycles), "a")).splitlines()
    (headline,) = [line for line in lines if "all_reduce of 1 KiB takes" in line]
    assert first.startswith(cases)
    assert headline.endswith(figure)
    assert ("medians of" in headline) == (cycles > 1)
    (section,) = collective_sections([NamedRun("a", run_of(cycles))])
    assert ("Points are medians of all cycles." in section.words) == (cycles > 1)


@pytest.mark.parametrize(
    ("cycles", "duration_s", "of"),
    [(1, 0.0, ""), (3, 0.0, ", medians of 3 cycles"), (3, 60.0, ", first cycle")],
)
def test_the_peak_of_a_text_is_of_the_first_cycle_or_of_all(cycles, duration_s, of):
    text = Run(run_of(cycles, duration_s=duration_s), "a").text()
    (line,) = [one for one in text.splitlines() if "peak bus bandwidth" in one]
    assert line.endswith(f"1 KiB{of}")


def test_peaks_of_several_operations_say_what_they_are_of():
    both = ("all_reduce", "broadcast")
    title = "Peak bus bandwidth and time of the smallest message"
    assert f"{title}, first cycle\n" in Run(run_of(2, duration_s=9.0, operations=both), "").text()
    assert f"{title}\n" in Run(run_of(1, operations=both), "").text()
    runs = [NamedRun(str(cycles), run_of(cycles)) for cycles in (1, 2, 3)]
    assert "cycles" not in str(peaks_of(runs[:1]).notes)
    assert "Figures are medians of several cycles: 2." in peaks_of(runs[1:2]).notes
    assert "Figures are medians of several cycles: 2 of 2, 3 of 3." in peaks_of(runs).notes


# In place, some operations include a copy of the input.


def of(operation, change=lambda one: one):
    results = [change(one) for one in COLLECTIVES.results if one.case.operation == operation]
    return Journal(COLLECTIVES.header, results, footer=COLLECTIVES.footer)


def test_the_table_of_operations_agrees_with_what_the_engine_did():
    for result in [*COLLECTIVES.results, *PAIRS.results]:
        staged = result.case.in_place and OPERATIONS[result.case.operation].staged_in_place
        assert result.route.startswith("copy aside") == staged, result.case.describe()
        assert (staged_mark(result) == "*") == staged
        for other in (replace(result, route=""), replace(result, summary=None)):
            assert staged_mark(other) == ""


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

    def slower(one):
        if one.case.in_place:
            return one
        times = {"time_s": one.summary.time_s * 10}
        times["busbw_bytes_per_s"] = one.summary.busbw_bytes_per_s / 10
        return replace(one, converged=False, summary=replace(one.summary, **times))

    journal = of("alltoall", slower)
    in_place = [one for one in journal.results if one.case.in_place]
    plain = [one.summary.busbw_bytes_per_s for one in journal.results if not one.case.in_place]
    (found,), (alone,) = findings(journal.results), findings(in_place)
    assert not (found.peak.case.in_place or found.latency.case.in_place)
    assert found.peak.summary.busbw_bytes_per_s == max(plain)
    assert alone.peak.case.in_place and alone.latency.case.in_place
    text = exported(case_text(), journal)
    (line,) = [one for one in text.splitlines() if "peak bus bandwidth" in one]
    assert "out-of-place (not converged, ±" in line
    assert "in-place" not in line
    assert "*" not in line


def test_the_page_explains_it_beside_the_charts_and_above_the_cases():
    page = page_of([NamedRun("", COLLECTIVES)])
    marked = {section.title for section in page.sections if section.words and section.charts}
    assert marked == {"alltoall", "alltoallv", "sendrecv"}
    shown = render(page).split("<script", 1)[0]
    assert shown.count("copying the input aside") == 4
    assert page_of([NamedRun("", of("all_reduce"))]).rows.notes == []
