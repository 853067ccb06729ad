"""JUnit XML for continuous integration: a suite for each command, a case for each test."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from xml.etree import ElementTree

from cclmark.suites.checks import (
    ERROR,
    FAIL,
    SKIPPED,
    CommandVerdict,
    SuiteVerdict,
    Verdict,
)
from cclmark.suites.words import details

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
