"""Figures of runs with several cycles say what they are of, and cases are counted once."""

import pytest
from msgspec.structs import replace

from cclmark.api import Run
from cclmark.document.naming import NamedRun
from cclmark.document.peaks import peaks_of
from cclmark.journal.journal_file import Journal
from cclmark.kinds.collective.charts import collective_sections
from cclmark.kinds.registry import read_journal
from places import TESTS

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
FIRST = SAMPLE.results[0]


def run_of(cycles, *, duration_s=0.0, operations=("all_reduce",)):
    results = [
        replace(FIRST, cycle=cycle, case=replace(FIRST.case, operation=operation))
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


@pytest.mark.parametrize("cycles", [1, 2])
def test_curves_say_that_points_are_medians(cycles):
    (section,) = collective_sections([NamedRun("a", run_of(cycles))])
    assert ("Points are medians of all cycles." in section.words) == (cycles > 1)
