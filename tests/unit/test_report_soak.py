"""A soak on the screen: one table, a few lines, the drift; not a row for every cycle."""

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.report_kind import View
from cclmark.kinds.collective.document import CaseView, table_of_cases
from cclmark.kinds.registry import read_journal
from cclmark.printable import printable

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
OK = SAMPLE.results[0]
HEADER = msgspec.structs.replace(
    SAMPLE.header,
    settings=msgspec.structs.replace(SAMPLE.header.settings, cycles=0, duration_s=5400.0),
)


def table(every_s=0.0):
    return table_of_cases(View(), CaseView(), is_soak=True, summary_every_s=every_s)


def result(cycle, time_s=1e-5, at_s=0.0, **changes):
    summary = msgspec.structs.replace(OK.summary, time_s=time_s)
    changes = {"cycle": cycle, "summary": summary, "started_at_s": 1e9 + at_s} | changes
    return msgspec.structs.replace(OK, duration_s=1.0, samples=None, **changes)


def soak(results, every_s=0.0, conditions=()):
    exporter = table(every_s)
    text = exporter.begin(HEADER)
    text += "".join(exporter.add(printable(it)) for it in results)
    for condition in conditions:
        exporter.observe(printable(condition))
    return text, exporter.end(SAMPLE.footer)


@given(
    st.lists(st.tuples(st.integers(-3, 9), st.floats(-1, 1e9), st.floats(-1e9, 1e10)), max_size=30)
)
def test_whatever_a_journal_holds_is_shown(entries):
    text, end = soak([result(cycle, time_s, at_s) for cycle, time_s, at_s in entries])
    assert f"of {len(entries)} results checked" in end
    assert all(character == "\n" or character.isprintable() for character in text + end)
