"""Texts of results and verdicts against stored ones, below the head that all tables have."""

import dataclasses
import math
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from cclmark.base.printable import printable
from cclmark.cli.rerun.rerunning import repeat_lines
from cclmark.comparison.figures import Side, compare
from cclmark.comparison.words import Comparison, comparison_json
from cclmark.document.exporters import exporter_of
from cclmark.document.report_kind import View
from cclmark.document.why import prediction_tables
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Condition, Explanation, Footer, Verification, WrongOutput
from cclmark.kinds.collective.document import exporter_of_cases
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.suites.checks import Judgement, Verdict
from cclmark.suites.suite import parse_suite
from cclmark.suites.words import VerdictTable, describe_suite, junit_xml, verdict_markdown
from cclmark.work.items import COLLECTIVE
from goldens import outline, require_golden
from places import H200X4, TESTS
from reports import case_text, comparison_text, exported
from verdicts import SLOW, SUITE, held

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
OUT, IN, OUT_NEXT, WRONG, SKIPPED = SAMPLE.results[:5]
END = Footer("", 0, 0.0)


def header(*, planned_cases=0, **settings):
    changed = replace(SAMPLE.header.settings, **settings)
    return replace(SAMPLE.header, planned_cases=planned_cases, settings=changed)


def of_case(result, **changes):
    return replace(result, case=replace(result.case, **changes))


LEFT_OUT = replace(
    IN, status="skipped", reason="needs more memory", summary=None, verification=None
)
BARRIER = of_case(OUT, operation="barrier", size_bytes=0, reduction=None)
SLOW_ONE = replace(OUT, summary=replace(OUT.summary, time_s=123.456), converged=False)
CYCLES = [replace(one, cycle=cycle) for cycle in (0, 1) for one in (OUT, IN, OUT_NEXT, WRONG)]
OUT_OF_PLACE, IN_PLACE = {"placements": "out-of-place"}, {"placements": "in-place"}
MARKDOWN, NARROW = {"markdown": True}, {"columns": 80}
#: Of collectives: the options of the table, the settings of the run, and its results.
CASES = {
    "cycles": ({}, {"cycles": 2}, CYCLES),
    "cycles.md": (MARKDOWN, {"cycles": 0}, CYCLES),
    "once.md": (MARKDOWN, {}, [OUT, IN]),
    "many-wrong": (
        *(OUT_OF_PLACE, {}),
        [replace(OUT, verification=Verification(one)) for one in (1025, 262_144, 1 << 24)],
    ),
    "80-columns": (NARROW, {}, [OUT, IN, OUT_NEXT, WRONG]),
    "110-columns": ({"columns": 110}, {}, [OUT, IN]),
    "one-placement": ({**IN_PLACE, **NARROW}, {}, [IN, WRONG]),
    "skipped": (NARROW, {}, [SKIPPED, of_case(SKIPPED, in_place=True)]),
    "left-out": ({}, {}, [OUT, LEFT_OUT]),
    "gbps": ({**OUT_OF_PLACE, "gbps": True}, {}, [BARRIER, OUT]),
    "long-figure": ({"columns": 151}, {}, [OUT, IN, SLOW_ONE, IN]),
}


def below_head(text):
    """What follows the lines of the head, in which escape sequences are visible."""
    return text[text.index("\n\n") :].replace("\x1b", "␛")


@pytest.mark.parametrize("name", CASES)
def test_tables_of_cases(name):
    shown, settings, results = CASES[name]
    text = exported(case_text(**shown), Journal(header(**settings), results, footer=END))
    require_golden(f"texts/cases-{name}.txt", below_head(text))


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_a_row_without_a_placement_stays_in_its_columns(format):
    """Of a run cut short, or with a damaged line: figures in place are never out-of-place."""
    journal = Journal(SAMPLE.header, [OUT, IN, WRONG], footer=END)
    text = exported(exporter_of(KINDS[COLLECTIVE], format, View(journal)), journal)
    require_golden(f"texts/cases-lone.{format}.txt", below_head(text))


def of_soak(cycle, time_s=1e-5, at_s=0.0, **changes):
    summary = replace(OUT.summary, time_s=time_s)
    changes = {"cycle": cycle, "summary": summary, "started_at_s": 1e9 + at_s} | changes
    return replace(OUT, duration_s=1.0, samples=None, **changes)


def sizes(cycle, numbers):
    return [of_soak(cycle, case=replace(OUT.case, size_bytes=1024 * one)) for one in numbers]


FEW = [one for cycle in range(2) for one in sizes(cycle, range(1, 45))]
SHM = replace(OUT.case, ccl="shm")
DRIFT = [1e-5] * 20 + [5e-5] + [1e-5] * 19 + [1.2e-5] * 20
FOUND = Verification(3, [WrongOutput(1, 3, 5, "2\x1b[2J", "7")])
SOAKS = {
    "usual": [of_soak(cycle, at_s=cycle * 0.1) for cycle in range(50)],
    "ever-less-often": [of_soak(cycle, at_s=10.0 * cycle) for cycle in range(400)],
    "slower": [of_soak(cycle, 1e-5 * (1 + (cycle > 20)), cycle) for cycle in range(60)],
    "drift": [of_soak(cycle, time_s) for cycle, time_s in enumerate(DRIFT)],
    "one-of-many-cycles": [*FEW, *(one for cycle in range(2, 12) for one in sizes(cycle, [1]))],
    "wrong": [of_soak(0), of_soak(4, status="wrong", verification=FOUND)],
    "libraries": [of_soak(0), of_soak(1), of_soak(0, case=SHM), of_soak(1, case=SHM)],
}


def condition(clock_hz, temperature_c, reasons):
    known = (clock_hz, 3.2e9, temperature_c, 400.0, reasons, int(temperature_c))
    return Condition(1, 0, 0, 0.0, *known)


@pytest.mark.parametrize("name", SOAKS)
@pytest.mark.parametrize("every_s", [0.0, 600.0])
def test_texts_of_soaks(name, every_s):
    """One table, then summaries, ever less often or as requested, and the drift."""
    exporter = exporter_of_cases(View(), every_s=every_s)
    text = exporter.begin(header(cycles=0, duration_s=5400.0))
    text += "".join(exporter.add(printable(one)) for one in SOAKS[name])
    for one in (condition(1.98e9, 30.0, []), condition(1.3e9, 67.0, ["power cap\x1b"])):
        exporter.observe(printable(one))
    text += exporter.end(SAMPLE.footer)
    assert "\x1b" not in text
    assert "  soak       1:30:00\n" in text
    if every_s and name != "ever-less-often":
        return
    require_golden(f"texts/soak-{name}{'-600-s' if every_s else ''}.txt", below_head(text))


def explained(size_bytes, time_s, protocol, predicted_s, **more):
    found = Explanation(0, "plug-in", "ring", "RING", protocol, 2, predicted_s=predicted_s)
    summary = replace(OUT.summary, time_s=time_s)
    one = replace(of_case(OUT, size_bytes=size_bytes), summary=summary, device=None)
    return replace(one, explanation=replace(found, **more))


BOTH = {"RING LL": 10e-6, "RING SIMPLE": 20e-6}
SMALL = explained(1024, 11e-6, "LL", BOTH)
MIDDLE = explained(2048, 12e-6, "LL", BOTH)
LARGE = explained(4096, 44e-6, "SIMPLE", {"RING LL": 40e-6, "RING SIMPLE": 22e-6})
BY_DEVICE = replace(SMALL, device=replace(OUT.device, summary=replace(OUT.summary, time_s=10e-6)))
SYMMETRIC = explained(1024, 5e-6, "", BOTH, algorithm="AGxLL_R", kernel="symmetric")
EXPLAINED = {
    "predicted": [LARGE, SMALL],
    "by-device": [BY_DEVICE],
    "not-predicted": [SYMMETRIC],
    "without-a-tuner": [explained(1024, 1e-6, "LL", {})],
    "same-choice": [SMALL, MIDDLE, LARGE],
    "differing-ranks": [SMALL, explained(2048, 12e-6, "LL", BOTH, reason="rank 1 ran tree")],
    "unexplained": [OUT],
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_ran_beside_predictions(name):
    results = EXPLAINED[name]
    parts = [outline([prediction_tables(results)])]
    for shown in ({"why": True}, {"why": True, "markdown": True}, {}):
        text = exported(case_text(**shown), Journal(SAMPLE.header, results, footer=SAMPLE.footer))
        parts.append(below_head(text) if shown or name == "predicted" else "")
    require_golden(f"texts/explained-{name}.txt", "".join(parts))


def test_a_comparison_says_where_something_else_ran():
    def compared(before, after):
        sides = [Side("run", [Journal(SAMPLE.header, [one])]) for one in (before, after)]
        return Comparison(*sides, [], compare(*sides))

    same, other = (explained(1024, 11e-6, protocol, BOTH) for protocol in ("LL", "SIMPLE"))
    text = ""
    for before, after in ((SMALL, other), (SMALL, same), (replace(SMALL, explanation=None), other)):
        shown = compared(before, after)
        text += comparison_text(shown) + comparison_text(shown, markdown=True)
        text += "".join(re.findall(r'.*"ran_.*\n', comparison_json([shown])))
    require_golden("texts/comparison-ran.txt", text)


MISSES = [held(f"case {number}", 1e9, 100e9, -number / 100) for number in range(1, 21)]
NO_NUMBER = Judgement("c", [math.nan], math.nan, math.nan, 1e9, math.nan, False)


def verdict_of(*judgements):
    verdict = Verdict("x", "fail", "", 1, "busbw", [*judgements])
    return replace(SUITE, commands=[replace(SUITE.commands[0], verdicts=[verdict])])


VERDICTS = {
    "usual": SUITE,
    "interrupted": replace(SUITE, interrupted=True),
    "many-misses": verdict_of(*MISSES),
    "no-number": verdict_of(SLOW, NO_NUMBER),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_texts_of_verdicts(name):
    suite, shown = VERDICTS[name], VerdictTable()
    table = "".join([*map(shown.add, suite.commands), shown.end(suite)])
    text = "\n".join([table, verdict_markdown(suite), junit_xml(suite)])
    require_golden(f"texts/verdicts-{name}.txt", text)


def test_what_a_suite_would_run():
    text = (TESTS / "document" / "suite.toml").read_bytes()
    suite = parse_suite(text, "mine.toml", Path("there"))
    require_golden("texts/suite.txt", describe_suite(suite) + "\n")


def stored(name):
    return read_journal(H200X4 / "runs" / f"{name}.jsonl")


def of(journal, results):
    return dataclasses.replace(journal, results=results)


USUAL = stored("default-1")
BY_HOST = [replace(one, summary=replace(one.summary, clock="host")) for one in USUAL.results]
LIBRARIES = read_journal(H200X4 / "libraries.jsonl")
REPEATED = {
    "noise": (USUAL, stored("default-2")),
    "slower": (USUAL, stored("ctas8")),
    # Of many, only those that differ are shown.
    "many": (stored("collectives/b-1"), stored("collectives/b-2")),
    "libraries": (LIBRARIES, LIBRARIES),
    "clocks": (USUAL, of(USUAL, BY_HOST)),
    "nothing-in-common": (of(USUAL, USUAL.results[:20]), of(USUAL, USUAL.results[20:])),
}


@pytest.mark.parametrize("name", REPEATED)
def test_lines_of_a_repeated_run(name):
    then, now = REPEATED[name]
    compared = compare(Side("then", [then]), Side("now", [now]))
    lines = repeat_lines(compared, "a.jsonl")
    require_golden(f"texts/repeated-{name}.txt", "\n".join([*lines, ""]))
    every = repeat_lines(compared, "a.jsonl", numbers=True)
    known = sum(one.ratio is not None for one in compared)
    assert len(every) == known + 2 or not known
    assert repeat_lines([], "a.jsonl") == [
        "  nothing that was measured now can be compared with a.jsonl"
    ]
