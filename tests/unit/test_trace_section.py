"""Traces on a page: stages as bars, and where the timeline is."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.naming import NamedRun
from cclmark.document.page.drawings import stage_bars
from cclmark.document.page.page import render
from cclmark.kinds.registry import read_journal
from cclmark.report.run_page import page_of
from cclmark.results.journal import JournalWriter
from cclmark.results.schema import Trace, TracedStage
from reports import COLLECTIVES

STAGES = {
    0: [TracedStage("start-up", 0.0, 0.02), TracedStage("tracing", 0.02, 0.08, 1 << 20)],
    1: [TracedStage("start-up", 0.01, 0.01), TracedStage("tracing", 0.02, 0.06, 1 << 20)],
}
TRACE = Trace("runs/t.pftrace", "perfetto", 20, STAGES, ["a summary", "  indented"])


def traced(trace=TRACE):
    return dataclasses.replace(COLLECTIVES, traces=[trace])


def test_very_many_ranks_are_not_all_drawn():
    drawn = stage_bars("Stages", "rank", dict.fromkeys(range(100), STAGES[0]))
    assert len(drawn.rows) == 64
    assert drawn.note.startswith("36 more")


seconds = st.floats(-1e99, 1e99)


@given(st.lists(st.builds(TracedStage, st.text(), seconds, seconds, st.integers(0, 1 << 60))))
def test_any_stages_of_a_journal_can_be_drawn(stages):
    drawn = stage_bars("Stages", "rank", {0: stages})
    assert len(drawn.bars) == len(stages)
    assert len(drawn.ticks) < 20


def test_texts_of_a_trace_stay_text():
    text = "<svg onload=alert(1)></pre></script>"
    stages = {0: [TracedStage(text, 0.0, 1.0)]}
    hostile = render(page_of([NamedRun("run", traced(Trace(text, text, 1, stages, [text])))]))
    usual = render(
        page_of([NamedRun("run", traced(Trace("f", "f", 1, {0: STAGES[0][:1]}, ["s"])))])
    )
    for tag in ("<svg", "</pre", "</script"):
        assert hostile.count(tag) == usual.count(tag)


def test_a_journal_keeps_a_trace(tmp_path):
    writer = JournalWriter(tmp_path / "t.jsonl")
    for line in (COLLECTIVES.header, COLLECTIVES.results[0], TRACE):
        writer.write(line)
    writer.close(keep=True)
    journal = read_journal(tmp_path / "t.jsonl")
    assert journal.traces == [TRACE]
    assert journal.damaged_lines == 0
