"""The verdict on a run in three lines: the answer, what stands out, and the next command."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from cclmark.document.blocks import SEVERITY_ORDER, Document, Finding, Severity
from cclmark.document.naming import NamedRun
from cclmark.document.soundness import of_completeness

#: In a command of a verdict, where the path of the run's journal belongs.
JOURNAL = "JOURNAL"

# The rules that judge figures by something outside of the run: of several the most severe is the
# answer, and a part that is unknown is never normal.
_JUDGING: Mapping[str, str] = {
    **dict.fromkeys(("below-reference", "high-latency", "slow-pair"), "not normal"),
    **dict.fromkeys(("above-reference", "above-link-limit"), "not normal"),
    "below-link-limit": "to check",  # healthy libraries do not reach it in every operation
    **dict.fromkeys(("normal-peaks", "normal-copies", "plausible-latencies"), "normal"),
    "pairs-alike": "normal",
    "reference-not-comparable": "not judged",
}
# The answers of kinds that compare or count, the most important first, and of kinds without one.
_ANSWERING: Mapping[str, str] = {
    "checks-undecided": "undecided",
    "checks-passed": "passed",
    "proven-gain": "gain",
    "artifact-withheld": "no gain",
    "no-gain": "no gain",
    "too-noisy": "inconclusive",
    "faster-variant": "gain",
    "nothing-faster": "no gain",
    "no-proof": "not certain",
    "smallest-value": "result",
    "replay-beside-program": "result",
    "share-of-communication": "result",
    "steps-of-variants": "result",
    "overlap-of-largest": "result",
    "pieces-beside-whole": "result",
    "cost-of-objects": "result",
    "cost-of-flags": "result",
    "memory-of-library": "result",
    "drift": "drift",
    "network-not-enough": "not enough",
    "no-rate-enough": "not enough",
    "network-enough": "enough",
    "network-not-used": "result",
    "needed-network": "result",
    "predicted-step": "result",
    "fastest-layout": "result",
    "does-not-fit": "does not fit",
    "predicted-time": "result",
    "nothing-said": "cannot say",
    "simulated-collective": "result",
    "failed-host-check": "to fix",
    "harmful-difference": "to fix",
    "no-fault-found": "no fault found",
    "fleet-verdict": "no fault found",
}
# Words for some severities of the same rules, or of all rules with a word.
_BY_SEVERITY: Mapping[str, Mapping[Severity, str]] = {
    "result": {"unknown": "inconclusive"},
    "drift": {"good": "steady", "unknown": "not certain"},
    "fleet-verdict": {"unknown": "not judged", "look": "to check"},
}
# Failures, the gravest first; of others the first one counts.
_FAILED = {
    "wrong-data": "wrong",
    "failed-checks": "failed checks",
    "failed-cases": "failed",
    "failing-settings": "failed",
    "failed-host-check": "not healthy",
    "fleet-verdict": "slow",
}
# The finding of a rule that is the answer has the largest of these figures.
_FIGURES = {
    "memory-of-library": ("library_device_bytes", "library_pss_bytes", "library_rss_bytes"),
}
_NORMAL = re.compile(r"^\w+ are normal: ")  # what the word of the verdict says
# What a measurement does for plans and predictions.
_ASSUMED, _MISSING = "measures what is assumed", "measures what is missing"
_PLANNING = {
    **dict.fromkeys(("needed-network", "network-not-used"), f"on the GPUs: {_ASSUMED}"),
    **dict.fromkeys(("nothing-said", "prediction-error"), f"on more nodes: {_MISSING}"),
}
# The answers after which a report is the next step.
_REPORTED = (
    *("normal", "gain", "result", "passed", "steady", "enough", "not enough", "no fault found"),
)
_CORRECT = ("data-checked", "nothing-found")
#: Commands that advice names without their arguments.
INCOMPLETE = ("cclmark compare", "cclmark rerun", "cclmark report", "cclmark export")
_REPORT = (f"cclmark report {JOURNAL}", "charts and details")
_RERUN = (f"cclmark rerun {JOURNAL}", "measures again and compares with this run")
_RESUME = (f"the same command with --resume {JOURNAL}", _MISSING)
_COMPARE = (f"cclmark compare EARLIER {JOURNAL}", "with another run of the same")
_MOST_LENGTH = 240  # of a line, before it is folded


@dataclass(frozen=True)
class RunVerdict:
    """``word``: the answer, and ``answer`` in a sentence. ``outstanding``: what stands out most.

    ``command``: what to run next, with JOURNAL for the path of the journal; ``purpose``: why.
    """

    severity: Severity
    word: str
    answer: str
    outstanding: str
    command: str
    purpose: str

    def rows(
        self, journal: str = JOURNAL, *, can_rerun: bool = True, on_page: bool = False
    ) -> list[tuple[str, str]]:
        """Returns the lines with their labels. ``journal``: the path, ready for a shell.

        ``can_rerun``: whether cclmark measured the run. ``on_page``: whether its report exists.
        """
        command, purpose = self.next_step(can_rerun=can_rerun, on_page=on_page)
        command = command.replace(JOURNAL, journal)
        return [
            ("verdict", f"{self.word}: {self.answer}"),
            ("notable", self.outstanding),
            ("next", f"{command}  ({purpose})" if purpose else command),
        ]

    def next_step(self, *, can_rerun: bool, on_page: bool = False) -> tuple[str, str]:
        """Returns the command and its purpose. The arguments are those of ``rows``."""
        command, purpose = self.command, self.purpose
        if not can_rerun and command in (_RERUN[0], _RESUME[0]):
            command, purpose = _REPORT
        if on_page and command == _REPORT[0]:
            command, purpose = _RERUN if can_rerun else _COMPARE
        return command, purpose


def verdict_on(findings: Sequence[Finding], headline: str = "") -> RunVerdict:
    """Returns the verdict that follows from all findings on a run.

    ``headline``: its main figure, for runs in which nothing judges the figures.
    """
    by_severity = sorted(findings, key=lambda one: SEVERITY_ORDER[one.severity])
    figure = headline.rstrip(".") or "this run"
    severity, word, text = _answer_of(by_severity) or (
        "unknown",
        "not judged",
        f"{figure} ({_why_not_judged(by_severity)})",
    )
    rest = [
        one
        for one in by_severity
        if one.severity in ("bad", "look") and text not in _text(one) and one.id not in _CORRECT
    ]
    outstanding = _text(rest[0]) if rest else _nothing_outstanding(by_severity)
    command, purpose = _next(by_severity, word)
    ids = {one.id for one in findings}
    if word == "normal" and "ended-early" in ids:
        word = "normal so far"
    elif word == "normal" and "data-not-checked" in ids:
        word = "normal figures of unchecked data"
    return RunVerdict(severity, word, text, outstanding, command, purpose)


def verdict_of(
    document: Document, run: NamedRun, headline: Callable[[NamedRun], str]
) -> RunVerdict:
    """Returns the verdict on a run with this document. ``headline``: see ReportKind."""
    missing = of_completeness(run.journal, [], with_end=not document.states_end)
    return verdict_on([*document.findings, *missing], headline(run))


def _answer_of(findings: Sequence[Finding]) -> tuple[Severity, str, str] | None:
    """The severity, the word and the sentence of the answer; None if no finding has one."""
    bad = [one for one in findings if one.severity == "bad"]
    for rule in (*_FAILED, *(one.id for one in bad)):
        if of_rule := [one for one in bad if one.id == rule]:
            return "bad", _FAILED.get(rule, "failed"), _text(of_rule[0])
    for rule, word in _ANSWERING.items():
        if of_rule := [one for one in findings if one.id == rule]:
            names = _FIGURES.get(rule, ())
            first = max(of_rule, key=lambda one: _largest(one, names))
            by_severity = _BY_SEVERITY.get(rule) or _BY_SEVERITY.get(word, {})
            return first.severity, by_severity.get(first.severity, word), _text(first)
    # A note on a pair is about sizes at which times mean little.
    judged = [one for one in findings if one.id in _JUDGING and one.severity != "note"]
    if judged:
        alike = [one for one in judged if one.severity == judged[0].severity]
        first = next((one for one in alike if _JUDGING[one.id] == "not normal"), alike[0])
        is_known = first.severity in ("look", "good")
        text = _NORMAL.sub("", _text(first))
        return first.severity, _JUDGING[first.id] if is_known else "not judged", text
    return None


def _largest(finding: Finding, names: Collection[str]) -> float:
    return max((one.value for one in finding.evidence if one.name in names), default=-math.inf)


def _why_not_judged(findings: Sequence[Finding]) -> str:
    reasons = (
        one for one in findings if one.id in ("shared-processors", "nothing-to-compare-with")
    )
    return _text(first) if (first := next(reasons, None)) else "nothing in this run judges it"


def _nothing_outstanding(findings: Sequence[Finding]) -> str:
    """What was in order, if nothing needs a look."""
    checked = [one for one in findings if one.id == "data-checked" and one.severity == "good"]
    return f"nothing; {_text(checked[0])}" if checked else "nothing"


def _next(findings: Sequence[Finding], word: str) -> tuple[str, str]:
    """The command to run next, and what it is for."""
    for one in findings:
        usable = [command for command in one.commands if command not in INCOMPLETE]
        if one.severity in ("bad", "look") and usable:
            return usable[0], ""
    if any(one.id == "ended-early" for one in findings):
        return _RESUME
    for one in findings:
        if one.id in _PLANNING and one.commands:
            return one.commands[0], _PLANNING[one.id]
    if word in _REPORTED:
        return _REPORT
    return _RERUN


def _text(one: Finding) -> str:
    """The sentence with its subject, at most as long as a verdict may be."""
    text = f"{one.subject}: {one.sentence}" if one.subject else one.sentence
    if len(text) <= _MOST_LENGTH:
        return text
    return f"{text[:_MOST_LENGTH].rpartition(' ')[0]} …"
