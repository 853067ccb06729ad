"""What a soak says: the first cycle as a table, progress meanwhile, the drift at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from cclmark.base.statistics import median
from cclmark.document.blocks import (
    SEVERITY_ORDER,
    Block,
    Document,
    Evidence,
    Facts,
    Finding,
    TableColumn,
    table_of,
)
from cclmark.document.document_text import DocumentText
from cclmark.document.insight_words import amount, listed
from cclmark.document.remarks import problems
from cclmark.document.text import clock_text, counted, format_time_us
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Header
from cclmark.kinds.collective.figures import Drift, SoakFigures
from cclmark.work.cases import Case

_FIRST_SUMMARY_S = 10.0
_MOST_BETWEEN_S = 600.0
_MOST_UNKNOWN = 8  # cases with too few cycles that have their own line
_MOST_NAMED = 8


def of_first_cycle(header: Header) -> Header:
    """The header with which the first cycle is shown."""
    settings = msgspec.structs.replace(header.settings, cycles=1, duration_s=0.0)
    return msgspec.structs.replace(header, settings=settings, planned_cases=0)


def with_drift(document: Document, soak: SoakFigures, header: Header) -> Document:
    """The document of a first cycle, with what the later ones show."""
    text = f"{soak.checked} of {soak.statuses.total()} results checked, "
    text += f"{soak.statuses['wrong']} wrong"
    others = {one: number for one, number in soak.statuses.items() if one not in ("ok", "wrong")}
    findings = [*_drift(soak, header), *document.findings]
    return replace(
        document,
        opening=[Facts([("soak", clock_text(header.settings.duration_s))])],
        closing=[*_tables(soak, header), *document.closing],
        findings=sorted(findings, key=lambda one: SEVERITY_ORDER[one.severity]),
        outcome=text + "".join(f", {number} {status}" for status, number in others.items()),
        is_wrong=bool(soak.statuses["wrong"]),
        figures=[f"{one}, first cycle" for one in document.figures],
    )


def _tables(soak: SoakFigures, header: Header) -> Iterator[Block]:
    """The drift of each case."""
    drifts = soak.drifts()
    if sum(drift.apart is None for drift in drifts.values()) > _MOST_UNKNOWN:
        drifts = {case: drift for case, drift in drifts.items() if drift.apart is not None}
    names = _names(drifts, header)
    if drifts:
        yield table_of(
            f"drift: the {_parts([*drifts.values()])}, medians",
            [
                TableColumn("case", lambda case: names[case]),
                TableColumn("cycles", lambda case: str(drifts[case].cycles), ">"),
                TableColumn("first µs", lambda case: format_time_us(drifts[case].first_s), ">"),
                TableColumn("last µs", lambda case: format_time_us(drifts[case].last_s), ">"),
                TableColumn("ratio", lambda case: f"{drifts[case].ratio:.3f}", ">"),
                TableColumn("worst", lambda case: _worst(drifts[case], soak.times[case].cycles)),
                TableColumn(
                    "",
                    lambda case: _verdict(drifts[case]),
                    look=lambda case: "look" if drifts[case].apart else "",
                ),
            ],
            [*drifts],
        )


def _drift(soak: SoakFigures, header: Header) -> Iterator[Finding]:
    """Which cases became slower or faster beyond their intervals, and which cannot be judged."""
    drifts = soak.drifts()
    names = _names(drifts, header)
    unknown = sum(drift.apart is None for drift in drifts.values())
    apart = {case: drift for case, drift in drifts.items() if drift.apart}
    known = len(drifts) - unknown
    for word in ("slower", "faster"):
        own = {case: drift for case, drift in apart.items() if _verdict(drift) == word}
        named = listed([names[case] for case in [*own][:_MOST_NAMED]], len(own))
        if own:
            yield Finding(
                "drift",
                "look" if word == "slower" else "note",
                f"drift: {amount(len(own), 'case')} of {known} {word} at the end, beyond the 95 % "
                f"intervals: {named}",
                evidence=tuple(
                    figure
                    for case, drift in [*own.items()][:_MOST_NAMED]
                    for figure in _evidence(names[case], drift)
                ),
            )
    if known and not apart:
        text = f"drift: none of {counted(known, 'case')} is slower or faster at the end, beyond the"
        yield Finding("drift", "good", f"{text} 95 % intervals")
    if unknown:
        text = f"drift: {amount(unknown, 'case')} of {len(drifts)} with too few cycles for "
        yield Finding("drift", "unknown", f"{text}intervals")


def _evidence(name: str, drift: Drift) -> tuple[Evidence, Evidence]:
    """The last median beside the first one, and their ratio."""
    return (
        Evidence.of("time_us", drift.last_s, name, drift.first_s),
        Evidence.of("ratio", drift.ratio, name, 1.0),
    )


def _names(cases: Mapping[Case, Any], header: Header) -> dict[Case, str]:
    several = len({library.name for library in header.libraries}) > 1
    return {case: f"{case.ccl} {case.describe()}" if several else case.describe() for case in cases}


def _verdict(drift: Drift) -> str:
    if not drift.apart:
        return ""
    return "slower" if drift.ratio > 1 else "faster"


def _worst(drift: Drift, cycles: Sequence[int]) -> str:
    return f"× {drift.worst_ratio:.2f} in cycle {cycles[drift.worst] + 1}"


def _parts(drifts: list[Drift]) -> str:
    parts = {drift.part for drift in drifts}
    if parts == {1}:
        return "first and the last cycle"
    number = f"{min(parts)} to {max(parts)}" if len(parts) > 1 else str(max(parts))
    return f"first and the last {number} cycles"


class SoakText(DocumentText):
    """A document, of a soak with its progress: problems of later cycles, and summaries."""

    def __init__(self, *arguments: Any, every_s: float, **named: Any) -> None:
        """``every_s``: the interval of summaries, 0 for a growing interval."""
        super().__init__(*arguments, **named)
        self._every_s = every_s
        self._due_s = every_s or _FIRST_SUMMARY_S

    def add(self, result: CaseResult) -> str:
        """Returns a row of a first cycle; later only problems, and a summary if one is due."""
        text = super().add(result)
        soak = self._reduction
        if result.cycle == 0 or not isinstance(soak, SoakFigures):
            return text
        when = clock_text(soak.elapsed_s)
        for problem in problems(result):
            line = f"  {when}  cycle {result.cycle + 1}, {self._name(result.case)}: {problem}"
            text += self._view.paint(line, "red") + "\n"
        if soak.elapsed_s < self._due_s:
            return text
        if self._every_s:
            self._due_s = self._every_s * (soak.elapsed_s // self._every_s + 1)
        else:
            self._due_s = soak.elapsed_s + min(soak.elapsed_s, _MOST_BETWEEN_S)
        return f"{text}  {when}  cycle {result.cycle + 1}: {self._summary(soak)}\n"

    def _summary(self, soak: SoakFigures) -> str:
        text = f"{soak.checked} results checked, {soak.statuses['wrong']} wrong"
        if ratios := soak.ratios():
            most, case = max(ratios, key=lambda one: one[0])
            text += f"; time over that at first: median {median([one for one, _ in ratios]):.3f}, "
            text += f"most {most:.3f} ({self._name(case)})"
        hottest = [one.temperature_c.most for one in self._conditions.devices.values()]
        degrees = [one for one in hottest if one is not None]
        return text + (f"; up to {max(degrees):.0f} °C" if degrees else "")

    def _name(self, case: Case) -> str:
        assert self._header is not None
        return _names({case: None}, self._header)[case]
