"""What is printed of a suite's verdicts, and the JUnit XML, whatever strings are in them."""

import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.json_format import encode
from cclmark.printable import printable
from cclmark.suites.checks import CommandVerdict, Judgement, SuiteVerdict, Verdict
from cclmark.suites.suite import parse_suite
from cclmark.suites.words import VerdictTable, describe_suite, junit_xml, quantity, verdict_markdown


def held(case, value, bound, margin, values=()):
    return Judgement(case, list(values) or [value], value, value, bound, margin, margin >= 0)


SLOW = held("all_reduce 1 MiB", 80e9, 100e9, -0.2, [70e9, 80e9, 90e9])
GOOD = held("all_reduce 2 MiB", 101e9, 100e9, 0.01)
LATE = held("all_reduce 8 B", 9e-6, 10e-6, 0.1)
SUITE = SuiteVerdict(
    "mine",
    "A title",
    "node7",
    "2026-01-02T03:04:05.678+00:00",
    12.5,
    False,
    4,
    [
        CommandVerdict(
            "large",
            ["all_reduce", "-b", "8"],
            ["quick"],
            3,
            10.0,
            ["runs/01-large.1.jsonl"],
            [
                Verdict("ran", "pass"),
                Verdict("data", "pass", "6 checked, none wrong"),
                Verdict("busbw at least 100 GB/s", "fail", "", 1, "busbw", [SLOW, GOOD]),
                Verdict("time at most 10 us", "pass", "", 0, "time", [LATE]),
            ],
        ),
        CommandVerdict(
            "p2p",
            ["p2p"],
            [],
            1,
            2.5,
            [],
            [
                Verdict("ran", "error", "exit code 4: rank 1 died", 4),
                Verdict("latency at most 5 us", "skipped", "not measured", 0, "latency"),
            ],
        ),
    ],
)


def table(verdict=SUITE):
    shown = VerdictTable()
    return "".join([*map(shown.add, verdict.commands), shown.end(verdict)])


def test_the_table_says_what_failed_by_how_much_and_what_was_near():
    assert table() == (
        "\n"
        "large  10.0 s, 3 runs\n"
        "  cclmark all_reduce -b 8\n"
        "  pass     ran\n"
        "  pass     data\n"
        "           6 checked, none wrong\n"
        "  FAIL     busbw at least 100 GB/s\n"
        "           1 of 2 cases miss it\n"
        "           all_reduce 1 MiB: 80.00 GB/s, at least 100.00 GB/s (20.0 % worse); worst of 3: "
        "80.00 GB/s\n"
        "  pass     time at most 10 us\n"
        "           all_reduce 8 B: 9.00 µs, at most 10.00 µs (10.0 % better)\n"
        "\n"
        "p2p  2.5 s\n"
        "  cclmark p2p\n"
        "  ERROR    ran\n"
        "           exit code 4: rank 1 died\n"
        "  skipped  latency at most 5 us\n"
        "           not measured\n"
        "\n"
        "  3 pass, 1 FAIL, 1 skipped, 1 ERROR; exit code 4\n"
        "  furthest off: large, all_reduce 1 MiB: 80.00 GB/s, at least 100.00 GB/s (20.0 % worse); "
        "worst of 3: 80.00 GB/s\n"
        "  tightest that passed: large, all_reduce 2 MiB: 101.00 GB/s, at least 100.00 GB/s "
        "(1.0 % better)\n"
    )


def test_of_many_misses_the_worst_are_shown():
    misses = [held(f"case {number}", 1e9, 100e9, -number / 100) for number in range(1, 21)]
    verdict = Verdict("x", "fail", "", 1, "busbw", misses)
    command = msgspec.structs.replace(SUITE.commands[0], verdicts=[verdict])
    text = VerdictTable().add(command)
    assert "20 of 20 cases miss it" in text
    assert "case 20:" in text
    assert "case 12:" not in text
    assert "and 12 more" in text
    suite = msgspec.structs.replace(SUITE, commands=[command])
    assert "case 1:" in junit_xml(suite)


def test_no_number_is_the_furthest_off_and_shown_as_none():
    bad = Judgement("c", [math.nan], math.nan, math.nan, 1e9, math.nan, False)
    command = msgspec.structs.replace(
        SUITE.commands[0], verdicts=[Verdict("x", "fail", "", 1, "busbw", [SLOW, bad])]
    )
    suite = msgspec.structs.replace(SUITE, commands=[command])
    assert "furthest off: large, c: no number, at least 1.00 GB/s (-)" in table(suite)
    spelt = json.loads(encode(suite))
    judgements = spelt["commands"][0]["verdicts"][0]["judgements"]
    assert [one["value"] for one in judgements] == [80e9, None]


def test_quantities_have_their_units():
    assert quantity(12e-6, "time") == quantity(12e-6, "latency") == "12.00 µs"
    assert quantity(3e6, "busbw") == "0.003 GB/s"
    assert quantity(300e9, "bandwidth") == "300.00 GB/s"


def test_an_interruption_is_told():
    assert "interrupted" in table(msgspec.structs.replace(SUITE, interrupted=True))


def test_junit_counts_and_names_every_test():
    root = ElementTree.fromstring(junit_xml(SUITE).encode())
    assert root.tag == "testsuites"
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    large, p2p = root.findall("testsuite")
    assert (large.get("tests"), large.get("failures"), large.get("time")) == ("4", "1", "10.000")
    assert large.get("timestamp") == "2026-01-02T03:04:05.678+00:00"
    properties = {one.get("name"): one.get("value") for one in large.iter("property")}
    assert properties == {
        "command": "cclmark all_reduce -b 8",
        "tag": "quick",
        "journal": "runs/01-large.1.jsonl",
    }
    names = [case.get("name") for case in large.findall("testcase")]
    assert names == ["ran", "data", "busbw at least 100 GB/s", "time at most 10 us"]
    assert [case.get("classname") for case in large.findall("testcase")] == ["mine.large"] * 4
    (failure,) = large.iter("failure")
    assert failure.get("message") == "1 of 2 cases miss it"
    assert "20.0 % worse" in failure.text
    assert [one.get("message") for one in p2p.iter("error")] == ["exit code 4: rank 1 died"]
    assert [one.get("message") for one in p2p.iter("skipped")] == ["not measured"]


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
        draw(hostile), [draw(hostile)], [draw(hostile)], 1, 1.0, [draw(hostile)], [verdict]
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


def test_what_would_be_run_is_shown():
    text = """
    title = "A title"
    [[command]]
    name = "large"
    run = "all_reduce -b '8 '"
    tags = ["quick"]
    repeats = 2
    optional = true
    baseline = "b.jsonl"
    [[command.threshold]]
    busbw_at_least = "0.95 of baseline"
    [[command]]
    run = "torch check"
    """
    suite = parse_suite(text.encode(), "mine.toml", Path("there"))
    assert describe_suite(suite) == (
        "mine: A title\n"
        "\n"
        "large  [tags quick; 2 runs; optional]\n"
        "  cclmark all_reduce -b '8 '\n"
        "    busbw at least 0.95 of baseline\n"
        "    baseline there/b.jsonl\n"
        "\n"
        "torch check\n"
        "  cclmark torch check"
    )
