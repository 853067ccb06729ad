"""One report of a file of each tool that can be imported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cclmark.errors import UsageError
from cclmark.importing.header import Given, Origin
from cclmark.importing.importers import IMPORTERS, import_text
from cclmark.report.charts.naming import Run
from cclmark.report.page.page import render
from cclmark.report.page.run_page import page_of
from cclmark.results.journal import read_journal

FILES = Path(__file__).parents[1] / "foreign"
MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "h200x4" / "report"
# What texts of these tools do not contain.
LACKING = {
    "flagcx-a800.txt": {"operation": "all_reduce"},
    "hccl-test.txt": {"ranks": 8},
    "nccom-test.json": {"operation": "all_reduce"},
}
OUR_OWN = {"cclmark-json"}  # which `cclmark --format json` prints


@pytest.fixture(scope="module")
def journals():
    """A journal of the first file of each format, by format and name."""
    found = {}
    for path in sorted(FILES.iterdir()):
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


def test_there_is_a_file_of_each_tool(journals):
    assert set(journals) == set(IMPORTERS) - OUR_OWN


def test_one_report_holds_all(journals):
    runs = [Run(name, journal) for name, journal in journals.values()]
    page = render(page_of(runs))
    summary = re.sub(r"<[^>]+>", " ", page)
    for name, journal in journals.values():
        assert name in page
        tool = journal.header.imported.tool
        assert tool in page
    assert not re.search(r"\d × +(?:,|of|and)", summary), "a device without a name"


def _runs(journals, *kinds):
    return [Run(name, one) for name, one in journals.values() if one.kind in kinds]


def test_the_title_names_all_kinds_whatever_their_order(journals):
    copies, collectives = _runs(journals, "p2p"), _runs(journals, "collective")
    operations = page_of(collectives).title
    assert operations.startswith("all_reduce, alltoallv, ")
    assert page_of(copies).title == "copies between devices"
    assert page_of([*copies, *collectives]).title == f"copies between devices; {operations}"
    assert page_of([*collectives, *copies]).title == f"{operations}; copies between devices"


def test_the_title_of_many_kinds_names_the_kinds():
    names = ("collectives", "p2p", "pairs")
    runs = [Run(one, read_journal(MEASURED / f"{one}.jsonl")) for one in names]
    assert page_of(runs).title == (
        "collectives, copies between devices (p2p) and pairs of ranks on 4 × NVIDIA H200"
    )
