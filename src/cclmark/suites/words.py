"""The outcome of a suite: a line for each test, and the distances of figures from their bounds."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree

from cclmark.base.printable import plain
from cclmark.base.version import VERSION
from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import BYTES_PER_GB, escape, format_time_us
from cclmark.suites.checks import (
    ERROR,
    FAIL,
    PASS,
    SKIPPED,
    CommandVerdict,
    Judgement,
    SuiteVerdict,
    Verdict,
    order_of,
)
from cclmark.suites.suite import Suite


def describe_suites(suites: Iterable[Suite]) -> str:
    """Returns a line for each suite, and its description."""
    lines = []
    for suite in suites:
        lines.append(f"{suite.name:<8}  {suite.title}")
        lines += [f"{'':8}  {line}" for line in map(plain, suite.description.strip().splitlines())]
    return "\n".join(lines)


def describe_suite(suite: Suite) -> str:
    """Returns every command with its tags, repeats and thresholds."""
    lines = [f"{suite.name}: {suite.title}" if suite.title else suite.name]
    lines += [f"needs {suite.needs}"] if suite.needs else []
    for command in suite.commands:
        notes = [f"tags {', '.join(command.tags)}"] if command.tags else []
        notes += [f"{command.repeats} runs"] if command.repeats > 1 else []
        notes += ["optional"] if command.optional else []
        remark = f"  [{'; '.join(notes)}]" if notes else ""
        lines += ["", (command.name + remark)]
        lines.append(f"  cclmark {shlex.join(command.arguments)}")
        lines += [f"    {one.describe()}" for one in command.thresholds]
        if command.baseline is not None:
            lines.append(f"    baseline {command.baseline}")
    return "\n".join(lines)


_WORDS = {PASS: "pass", FAIL: "FAIL", SKIPPED: "skipped", ERROR: "ERROR"}
_STYLES = {PASS: "green", FAIL: "red", SKIPPED: "yellow", ERROR: "red"}
_WIDTH = max(map(len, _WORDS.values()))
_MOST_MISSED = 8
_MANY = 10  # times a bound: larger margins are printed as factors, not in percent
_TIMES = ("time", "latency")


class VerdictTable:
    """Prints a paragraph for each finished command, and the outcome at the end."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        self._paint = paint

    def begin(self, suite: Suite) -> str:
        """Returns the suite's name and title."""
        title = f": {suite.title}" if suite.title else ""
        name = f"cclmark {VERSION}"
        return f"{self._paint(name, 'bold')}  suite {suite.name}{title}\n"

    def add(self, command: CommandVerdict) -> str:
        """Returns the verdicts of one command."""
        runs = f", {command.runs} runs" if command.runs > 1 else ""
        head = f"{self._paint(command.name, 'bold')}  {command.duration_s:.1f} s{runs}"
        lines = ["", head, self._paint(f"  cclmark {shlex.join(command.arguments)}", "dim")]
        for verdict in command.verdicts:
            word = self._paint(f"{_WORDS[verdict.status]:<{_WIDTH}}", _STYLES[verdict.status])
            lines.append(f"  {word}  {verdict.test}")
            lines += [f"{'':{_WIDTH + 4}}{line}" for line in details(verdict, _MOST_MISSED)]
        return "\n".join(lines) + "\n"

    def end(self, verdict: SuiteVerdict) -> str:
        """Returns the counts, the worst failed case and the tightest passed one."""
        lines = ["", *(f"  {line}" for line in summary(verdict))]
        style = "green" if verdict.exit_code == 0 else "red"
        lines[1] = self._paint(lines[1], style)
        return "\n".join(lines) + "\n"


def details(verdict: Verdict, most: int | None = None) -> list[str]:
    """Returns the lines below a verdict: the cases that miss the bound, or the one nearest to it.

    Of many misses, the ``most`` furthest are shown. Safe to print.
    """
    lines = []
    missed, tightest = verdict.missed, verdict.tightest
    if missed:
        number = len(verdict.judgements)
        if number > 1:
            lines.append(f"{len(missed)} of {number} cases miss it")
        lines += [_held(one, verdict.figure) for one in missed[:most]]
        left_out = len(missed) - len(missed[:most])
        lines += [f"and {left_out} more"] if left_out else []
    elif tightest is not None:
        count = f"{len(verdict.judgements)} cases, tightest " if len(verdict.judgements) > 1 else ""
        lines.append(count + _held(tightest, verdict.figure))
    lines += _undecided(verdict.undecided, verdict.figure)
    if verdict.reason:
        lines.append(verdict.reason)
    return lines


def summary(verdict: SuiteVerdict) -> list[str]:
    """Returns the counts, the margins at both ends, and any interruption. Safe to print."""
    every = [(command, one) for command in verdict.commands for one in command.verdicts]
    counts = Counter(one.status for _, one in every)
    words = [f"{counts[status]} {_WORDS[status]}" for status in _WORDS if counts[status]]
    lines = [f"{', '.join(words)}; exit code {verdict.exit_code}"]
    judged = [(command, one, held) for command, one in every for held in one.judgements]
    failing = [entry for entry in judged if not entry[2].passed]
    passing = [entry for entry in judged if entry[2].passed]
    for label, entries in (("furthest off", failing), ("tightest that passed", passing)):
        if entries:
            command, one, held = min(entries, key=lambda entry: order_of(entry[2]))
            lines.append(f"{label}: {command.name}, {_held(held, one.figure)}")
    if uncertain := sum(held.decided is False for _, _, held in judged):
        lines.append(f"not certain: {uncertain} of {len(judged)} judgements of cases")
    if verdict.interrupted:
        lines.append("interrupted: skipped commands were not completed")
    return lines


def verdict_markdown(verdict: SuiteVerdict) -> str:
    """Returns a table of all tests, for issues and pull requests."""
    lines = [f"## Suite {escape(verdict.suite)}", ""]
    lines += [escape(verdict.title), ""] if verdict.title else []
    lines += [f"On {escape(verdict.hostname)}, {escape(verdict.started_at)}.", ""]
    lines += ["| command | test | verdict | details |", "|---|---|---|---|"]
    for command in verdict.commands:
        for one in command.verdicts:
            told = "; ".join(details(one, _MOST_MISSED))
            cells = [command.name, one.test, _WORDS[one.status], told]
            lines.append("| " + " | ".join(map(escape, cells)) + " |")
    lines += ["", *(f"- {escape(line)}" for line in summary(verdict))]
    return "\n".join(lines) + "\n"


def _undecided(found: Sequence[Judgement], figure: str) -> Iterator[str]:
    """A line for each reason for which cases are not certain, with the nearest case."""
    for reason, of_runs in (
        ("runs are on both sides of the bound", True),
        ("the bound is within the 95 % interval of the samples", False),
    ):
        own = [one for one in found if _differ(one) == of_runs]
        if not own:
            continue
        nearest = own[0]
        ends = (min(nearest.values), max(nearest.values)) if of_runs else nearest.interval
        between = " to ".join(quantity(end, figure) for end in ends or () if end < math.inf)
        between += " or more" * (" to " not in between)
        more = f", and {len(own) - 1} more" if len(own) > 1 else ""
        yield f"not certain, as {reason}: {nearest.case} ({between}){more}"


def _differ(held: Judgement) -> bool:
    """Whether runs are on both sides of the bound."""
    return len({held.bound <= value for value in held.values if value != held.bound}) > 1


def _held(held: Judgement, figure: str) -> str:
    """Describes a case: its figure, the bound, the margin, and the worst run."""
    side = "at most" if figure in _TIMES else "at least"
    text = (
        f"{held.case}: {quantity(held.value, figure)}, {side} "
        f"{quantity(held.bound, figure)} ({_percent(held.margin)})"
    )
    if len(held.values) > 1:
        text += f"; worst of {len(held.values)}: {quantity(held.worst, figure)}"
    return text


def quantity(value: float, figure: str) -> str:
    """Formats a bandwidth or a time, as tables do."""
    if math.isnan(value):
        return "no number"
    if figure in _TIMES:
        return f"{format_time_us(value)} µs"
    bandwidth = value / BYTES_PER_GB
    return f"{bandwidth:.2f} GB/s" if bandwidth >= 0.1 else f"{bandwidth:.3g} GB/s"


def _percent(margin: float) -> str:
    """Returns ``20.0 % worse`` or better: the side of the bound, for times and bandwidths alike."""
    if math.isnan(margin):
        return "-"
    if margin >= _MANY:
        return f"{margin + 1:.0f} times that: better"
    if margin == 0:
        return "just met"
    return f"{abs(margin) * 100:.1f} % {'better' if margin > 0 else 'worse'}"


_ELEMENTS = {FAIL: "failure", ERROR: "error", SKIPPED: "skipped"}


def junit_xml(verdict: SuiteVerdict) -> str:
    """Returns the document. Characters that XML does not support are escaped as text."""
    every = [one for command in verdict.commands for one in command.verdicts]
    attributes = {"name": verdict.suite, **_counts(every, verdict.duration_s)}
    root = ElementTree.Element("testsuites", attributes)
    for command in verdict.commands:
        root.append(_suite(verdict, command))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(verdict: SuiteVerdict, command: CommandVerdict) -> ElementTree.Element:
    element = ElementTree.Element(
        "testsuite",
        {
            "name": command.name,
            **_counts(command.verdicts, command.duration_s),
            "hostname": verdict.hostname,
            "timestamp": verdict.started_at,
        },
    )
    properties = ElementTree.SubElement(element, "properties")
    values = [("command", shlex.join(["cclmark", *command.arguments]))]
    values += [("tag", tag) for tag in command.tags]
    values += [("journal", journal) for journal in command.journals]
    for name, value in values:
        ElementTree.SubElement(properties, "property", {"name": name, "value": value})
    for one in command.verdicts:
        element.append(_case(verdict, command, one))
    if command.findings:
        lines = (
            f"run {one.run}: {one.severity}: {one.sentence} {one.advice}"
            for one in command.findings
        )
        ElementTree.SubElement(element, "system-out").text = "\n".join(map(str.rstrip, lines))
    return element


def _case(verdict: SuiteVerdict, command: CommandVerdict, one: Verdict) -> ElementTree.Element:
    # The first test, on the end of the command, has the command's duration.
    time_s = command.duration_s if one is command.verdicts[0] else 0.0
    element = ElementTree.Element(
        "testcase",
        {
            "classname": f"{verdict.suite}.{command.name}",
            "name": one.test,
            "time": f"{time_s:.3f}",
        },
    )
    told = details(one)
    if one.status in _ELEMENTS:
        message = told[0] if told else one.status
        outcome = ElementTree.SubElement(element, _ELEMENTS[one.status], {"message": message})
        outcome.text = "\n".join(told)
    elif told:
        ElementTree.SubElement(element, "system-out").text = "\n".join(told)
    return element


def _counts(verdicts: Sequence[Verdict], duration_s: float) -> dict[str, str]:
    statuses = [one.status for one in verdicts]
    return {
        "tests": str(len(statuses)),
        "failures": str(statuses.count(FAIL)),
        "errors": str(statuses.count(ERROR)),
        "skipped": str(statuses.count(SKIPPED)),
        "time": f"{duration_s:.3f}",
    }
