import json
import math
import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.printable import printable
from cclmark.document.json_format import encode
from cclmark.suites.checks import CommandVerdict, RunFinding, SuiteVerdict, Verdict
from cclmark.suites.words import VerdictTable, junit_xml, verdict_markdown
from verdicts import SUITE, held


def table(verdict=SUITE):
    shown = VerdictTable()
    return "".join([*map(shown.add, verdict.commands), shown.end(verdict)])


hostile = st.one_of(
    st.sampled_from(
        (
            "]]>",
            "<b>&\"'</b>",
            "\x00\x01\x1b[2J",
            "\ud800\ufffe\uffff",
            "a\r\n\tb\u2028\u0085",
            '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y "z">]>&y;',
            "| a |\n|---|",
            "",
        )
    ),
    st.text(alphabet=st.characters(), max_size=30),
)
values = st.floats(min_value=1e-9, max_value=1e13) | st.just(math.nan)


@st.composite
def suites(draw):
    """Verdicts all of whose strings are hostile."""
    judgements = [held(draw(hostile), draw(values), 1e9, draw(st.sampled_from((-0.5, 0.5))))]
    verdict = Verdict(
        draw(hostile),
        draw(st.sampled_from(("pass", "fail", "skipped", "error"))),
        draw(hostile),
        1,
        "busbw",
        draw(st.sampled_from(([], judgements))),
    )
    command = CommandVerdict(
        *(draw(hostile), [draw(hostile)], [draw(hostile)], 1, 1.0, [draw(hostile)], [verdict]),
        findings=[RunFinding(1, "wrong-data", "bad", draw(hostile), draw(hostile))],
    )
    return SuiteVerdict(
        draw(hostile), draw(hostile), draw(hostile), draw(hostile), 1.0, False, 1, [command]
    )


@given(suites())
def test_junit_is_well_formed_whatever_the_names_are(verdict):
    text = junit_xml(printable(verdict))
    root = ElementTree.fromstring(text.encode("utf-8"))
    (case,) = root.iter("testcase")
    words = {"fail": "failure", "skipped": "skipped", "error": "error"}
    outcomes = [child.tag for child in case if child.tag != "system-out"]
    status = verdict.commands[0].verdicts[0].status
    assert outcomes == ([words[status]] if status != "pass" else [])
    assert {child.tag for child in root.iter()} <= {
        *("testsuites", "testsuite", "properties", "property", "testcase"),
        *("failure", "error", "skipped", "system-out"),
    }


@given(suites())
def test_nothing_reaches_a_terminal_raw(verdict):
    verdict = printable(verdict)
    for text in (table(verdict), verdict_markdown(verdict)):
        assert all(line.isprintable() for line in text.splitlines() if line)
        text.encode("utf-8")
    rows = [line for line in verdict_markdown(verdict).splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert all(len(re.findall(r"\|", row)) == 5 for row in rows)
    assert json.loads(encode(verdict))["suite"] == verdict.suite
