"""One report of a file of each tool that can be imported."""

import pytest

from cclmark.document.chart_model import Lines
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.references.reference_store import shipped_references
from cclmark.report.run_page import page_of
from cclmark_importers.importers import import_text
from cclmark_importers.run import Given, Origin
from foreign_texts import LACKING, TEXTS
from goldens import require_golden


def imported(name, **given):
    """The format and the journal of a file."""
    origin = Origin(name, "0" * 64, 1.7e9, ["cclmark", "import", name], "0.1.0")
    facts = Given(**(given or LACKING.get(name, {})))
    return import_text((TEXTS / name).read_bytes(), name, None, facts, origin)


def said(page):
    """The words of a page: of its head and findings, and beside its charts."""
    yield from (page.title, *page.lead, *(page.peaks.notes if page.peaks else ()))
    for _, group in page.insights:
        for one in group:
            yield f"{one.severity}: {one.sentence} {one.advice}".rstrip()
    for section in page.sections:
        yield from ("", section.title, *section.words)
        for chart in section.charts:
            curves = chart.series if isinstance(chart, Lines) else ()
            legend = ", ".join(one.name for one in curves if not one.faint)
            yield f"{chart.key}: {legend}".rstrip()
            yield from (f"  {note}" for note in chart.notes)
            yield from (f"  {text}" for text in [chart.says] if "est is" in text)


RUNS = {
    "definitions": ["nccl-tests-2.19.txt", "osu-collectives.txt", "hccl-test.txt"],
    "one-definition": ["nccl-tests-2.19.txt", "hccl-test.txt"],
    "numbers-of-ranks": ["imb-mpi1.txt"],
    "unlike-ranks": ["deepep-elastic.txt", "deepep-internode.txt", "deepep-low-latency.txt"],
    "equal-ranks": ["flagcx-a800.txt", "flagcx-c550.txt"],
    "copies": ["nvbandwidth-0.8.txt"],
    "two-kinds": ["nvbandwidth-0.8.txt", "nccl-tests-2.19.txt"],
    "two-kinds-reversed": ["nccl-tests-2.19.txt", "nvbandwidth-0.8.txt"],
}


@pytest.mark.parametrize("name", RUNS)
def test_what_a_page_says_of_figures_of_other_tools(name):
    """Figures of different definitions, and of a reference of another tool, decide nothing."""
    ranks = {"deepep-internode.txt": {"ranks": 16}}
    runs = [
        NamedRun(file, imported(file, **ranks.get(file, {}))[1], ReferenceNotes(shipped_references))
        for file in RUNS[name]
    ]
    require_golden(f"pages/foreign-{name}.txt", "\n".join([*said(page_of(runs)), ""]))
