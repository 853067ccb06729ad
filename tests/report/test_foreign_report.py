"""One report of a file of each tool that can be imported."""

import re
from dataclasses import replace

import pytest

from cclmark.base.errors import UsageError
from cclmark.document.chart_model import Lines
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import render
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.references.reference_store import shipped_references
from cclmark.report.run_page import page_of
from cclmark_importers.importers import import_text
from cclmark_importers.run import Given, Origin
from foreign_texts import LACKING, TEXTS


@pytest.fixture(scope="module")
def journals():
    """A journal of the first file of each format, by format and name."""
    found = {}
    for path in sorted(TEXTS.iterdir()):
        command = ["cclmark", "import", path.name]
        origin = Origin(path.name, "0" * 64, 1.7e9, command, "0.1.0")
        given = Given(**LACKING.get(path.name, {}))
        try:
            name, journal = import_text(path.read_bytes(), path.name, None, given, origin)
        except UsageError:
            if path.name in LACKING:
                raise
            continue  # another file of the same tool lacks nothing
        found.setdefault(name, (path.name, journal))
    return found


def test_one_report_holds_all(journals):
    runs = [NamedRun(name, journal) for name, journal in journals.values()]
    page = render(page_of(runs))
    summary = re.sub(r"<[^>]+>", " ", page)
    for name, journal in journals.values():
        assert name in page
        tool = journal.header.imported.tool
        assert tool in page
    assert not re.search(r"\d × +(?:,|of|and)", summary), "a device without a name"
    # What concerns all runs is not below what each of many measured.
    assert page.index("Compare only figures of one definition") < page.index('<ul class="runs">')
    few = render(page_of(runs[:3]))
    assert '<ul class="runs">' not in few
    assert few.count('<p class="lead">') > 3  # and one for viewers without JavaScript


def test_the_summary_has_all_numbers_of_ranks(journals):
    name, journal = journals["imb"]
    assert {one.case.ranks for one in journal.cases} == {2, 4, 8}
    assert " on 2 to 8 ranks, imported from" in page_of([NamedRun(name, journal)]).lead[0]


def _runs(journals, *kinds):
    return [NamedRun(name, one) for name, one in journals.values() if one.kind in kinds]


def test_the_title_names_all_kinds_whatever_their_order(journals):
    copies, collectives = _runs(journals, "p2p"), _runs(journals, "collective")
    operations = page_of(collectives).title
    assert operations.startswith("all_reduce, alltoallv, ")
    assert page_of(copies).title == "copies between devices"
    assert page_of([*copies, *collectives]).title == f"copies between devices; {operations}"
    assert page_of([*collectives, *copies]).title == f"{operations}; copies between devices"


def _imported(*names, given=None):
    runs = []
    for name in names:
        origin = Origin(name, "0" * 64, 1.7e9, ["cclmark", "import", name], "0.1.0")
        own = (given or {}).get(name, Given(**LACKING.get(name, {})))
        _, journal = import_text((TEXTS / name).read_bytes(), name, None, own, origin)
        runs.append(NamedRun(name, journal, ReferenceNotes(shipped_references)))
    return runs


def _findings(page):
    return [one for _, group in page.insights for one in group]


def test_figures_with_different_definitions_are_not_compared_in_silence():
    runs = _imported("nccl-tests-2.19.txt", "osu-collectives.txt", "hccl-test.txt")
    means = "the mean of the tool's iterations"
    ranks = "the mean over ranks of each rank's mean of the tool's iterations, each between two"
    page = page_of(runs)
    (found,) = [
        one for one in _findings(page) if one.sentence.startswith("Times of all_reduce have")
    ]
    assert found.sentence.startswith(
        "Times of all_reduce have 2 definitions: nccl-tests 2.19.6 and hccl_test: a time is "
        f"{means}; OSU micro-benchmarks 7.4: a time is {ranks}"
    )
    assert found.advice == "Compare only figures of one definition."
    assert not any("Measured differently" in one.sentence for one in _findings(page))
    section = next(one for one in page.sections if one.title.startswith("all_reduce"))
    assert section.words[1] == f"nccl-tests 2.19.6 and hccl_test: a time is {means}."
    for chart in section.charts:
        assert "The highest" not in chart.says and "The shortest" not in chart.says
        (note,) = chart.notes
        assert "have 2 definitions of a time: those of nccl-tests 2.19.6 and hccl_test; O" in note
        assert f"{note}." in chart.says
    assert any("different definitions" in note for note in page.peaks.notes)


def test_figures_with_one_definition_are_compared():
    page = page_of(_imported("nccl-tests-2.19.txt", "hccl-test.txt"))
    assert not any("definitions" in one.sentence for one in _findings(page))
    section = next(one for one in page.sections if one.title.startswith("all_reduce"))
    assert section.words == []
    assert "The highest is" in section.charts[0].says
    assert not any("definitions" in note for note in page.peaks.notes)


def test_many_definitions_are_in_the_sections(journals):
    page = page_of(_runs(journals, "collective"))
    (found,) = [
        one for one in _findings(page) if one.sentence.startswith("Times of all_reduce have")
    ]
    assert ", nccom-test, " in found.sentence and "a time is" not in found.sentence
    assert found.sentence.count("nccom-test") == 1
    section = next(one for one in page.sections if one.title.startswith("all_reduce float32"))
    assert any(one.startswith("ucc_perftest: a time is that of") for one in section.words)


def test_a_reference_of_another_tool_decides_nothing_and_both_are_named():
    (copies,) = _imported("nvbandwidth-0.8.txt")
    (found,) = [
        one.sentence
        for one in _findings(page_of([copies]))
        if "bandwidth, read, CE" in one.sentence
    ]
    assert "; a figure of p2pBandwidthLatencyTest there, of nvbandwidth 0.8 here)" in found
    (collectives,) = _imported("nccl-tests-2.19.txt")
    words = [one.sentence for one in _findings(page_of([collectives]))]
    assert any("of the reference" in one for one in words)
    assert not any("a figure of" in one for one in words)


def _legends(page):
    return {
        chart.key: [one.name for one in chart.series if not one.faint]
        for section in page.sections
        for chart in section.charts
        if isinstance(chart, Lines)
    }


def test_legends_name_ranks_and_tools_that_differ():
    given = {"deepep-internode.txt": Given(ranks=16)}
    names = ("deepep-elastic.txt", "deepep-internode.txt", "deepep-low-latency.txt")
    legends = _legends(page_of(_imported(*names, given=given)))["alltoallv-fp8e4m3-time"]
    assert {(one.split()[0], one.split(" ", 2)[2]) for one in legends} == {
        (names[0], "4 ranks"),
        (names[1], "16 ranks"),
        (names[2], "8 ranks"),
    }
    runs = _imported("hccl-test.txt", "nccl-tests-2.19.txt", "osu-collectives.txt")
    runs = [
        replace(run, name=name) for run, name in zip(runs, ("a", "nccl-tests", "c"), strict=True)
    ]
    assert _legends(page_of(runs))["all_reduce-float32-sum-bandwidth"] == [
        "a (hccl_test) 8 ranks out-of-place",
        "nccl-tests 4 ranks out-of-place",
        "nccl-tests 4 ranks in-place",
        "c (OSU micro-benchmarks) 8 ranks out-of-place",
    ]


def test_legends_leave_out_what_all_curves_have_in_common():
    legends = _legends(page_of(_imported("flagcx-a800.txt", "flagcx-c550.txt")))
    assert legends["all_reduce-float32-sum-time"] == ["flagcx-a800.txt", "flagcx-c550.txt"]
