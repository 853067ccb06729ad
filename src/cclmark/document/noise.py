"""The uncertainty of the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.analysis.irregularities import noisy
from cclmark.analysis.links import path_warnings
from cclmark.analysis.summary import converged
from cclmark.document.insight_words import MOST_NAMED, Insight, amount, described, listed, sentence
from cclmark.document.remarks import unsettled_text
from cclmark.results.item_results import CaseResult
from cclmark.results.journal import Journal


def of_what_ran(journal: Journal) -> Iterator[Insight]:
    """Yields the findings of the pass that explains; nothing without one."""
    for paths in journal.paths:
        for text in path_warnings(journal.header, paths):
            yield Insight("look", f"{paths.ccl}: {text}.")
        for text in paths.messages:
            yield Insight("note", f"{paths.ccl} reports: {text}.")
    differing: dict[str, list[CaseResult]] = {}
    unknown: dict[str, list[CaseResult]] = {}
    for result in journal.cases:
        found = result.explanation
        if found is None or not found.reason:
            continue
        of = unknown if found.source == "unknown" else differing
        of.setdefault(found.reason, []).append(result)
    for reason, results in differing.items():
        names = listed([described(one) for one in results[:MOST_NAMED]], len(results))
        yield Insight("note", sentence(f"{reason}: {names}"))
    if len(unknown) > MOST_NAMED:  # of many operations, each with its own variables
        cases = amount(sum(map(len, unknown.values())), "case")
        first = next(iter(unknown))
        yield Insight(
            "note",
            f"What ran is unknown in {cases}, for {len(unknown)} reasons in the column "
            f"`explanation` below, for example: {first}.",
        )
        return
    for reason, results in unknown.items():
        yield Insight("note", f"What ran is unknown in {amount(len(results), 'case')}: {reason}.")


_LEAST_UNSURE = 0.05  # of a median: half the width of its 95 % interval
_LONGER = "Measure longer (--max-time), or with nothing else at work on the machine."
# cclmark trace measures for a fixed time and has no --max-time.
_SHORT = "A trace measures only briefly: measure the case with its own command for a better median."
_UNKNOWN = 0.5  # a less certain median is not usable, even if most others are


def of_noise(journal: Journal) -> Iterator[Insight]:
    """Reports the uncertainty of medians and the spread of samples."""
    measured = [one for one in journal.cases if one.summary is not None]
    unsure = _unsure(journal, measured)
    if 2 * len(unsure) > len(measured) or (unsure and unsure[0][0] > _UNKNOWN):
        width, worst = unsure[0]
        yield Insight(
            "look",
            f"The medians of {amount(len(unsure), 'case')} of {len(measured)} are known to no "
            f"better than ±{_two_digits(_unsure_from(journal))} % (95 %), the worst that of "
            f"{described(worst)}: ±{width:.0%}.",
            f"Smaller differences are not significant. {_SHORT if journal.traces else _LONGER}",
        )
    noisy_cases = noisy(measured)
    if noisy_cases:
        first = noisy_cases[0]
        assert first.summary is not None
        verb = "varies" if len(noisy_cases) == 1 else "vary"
        yield Insight(
            "note",
            f"{amount(len(noisy_cases), 'case')} of {len(measured)} {verb} by more than 10 % from "
            f"sample to sample, most {described(first)} ({first.summary.cv:.0%})"
            f"{_yet_known(noisy_cases)}.",
        )
    settings = journal.header.settings
    fixed = journal.header.imported is not None or settings.iterations is not None
    if fixed or journal.traces:
        return
    if text := unsettled_text(settings, measured):
        one = sum(not converged(result) for result in measured) == 1
        yield Insight(
            "note",
            f"{text}.",
            f"--max-time gives {'it' if one else 'them'} longer.",
        )


def _unsure_from(journal: Journal) -> float:
    """Returns the half width in percent from which on a median counts as uncertain.

    It is never below the precision that the run requested.
    """
    return max(_LEAST_UNSURE, journal.header.settings.precision) * 100


def _unsure(journal: Journal, measured: Sequence[CaseResult]) -> list[tuple[float, CaseResult]]:
    """Returns the results with an uncertain median and its half width, the worst first."""
    least = _unsure_from(journal) / 100
    found = [
        (one.summary.half_width, one)
        for one in measured
        if one.summary is not None
        and one.summary.half_width is not None
        and one.summary.half_width > least
    ]
    return sorted(found, key=lambda entry: -entry[0])


def _yet_known(noisy_cases: Sequence[CaseResult]) -> str:
    """Describes the uncertainty of the medians of noisy cases; empty if one of them is unknown."""
    widths = [one.summary.half_width for one in noisy_cases if one.summary is not None]
    known = [width for width in widths if width is not None]
    if len(known) < len(widths):
        return ""
    percent = _two_digits(max(known) * 100)
    if len(known) == 1:
        return f"; its median is known to ±{percent} %"
    if max(known) > _LEAST_UNSURE:
        return f"; the worst of their medians is known to ±{percent} %"
    return f"; their medians are known to ±{percent} % or better"


def _two_digits(percent: float) -> str:
    """Formats two significant digits without an exponent."""
    return f"{float(f'{percent:.2g}'):.15g}"
