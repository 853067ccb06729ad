"""Whether the data was correct and the results are complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cclmark.analysis.irregularities import NOISY_SPREAD, noisy, spread_of, tails
from cclmark.analysis.links import path_warnings
from cclmark.analysis.outliers import times_mean_little
from cclmark.analysis.summary import converged
from cclmark.base.errors import EXIT_INTERRUPTED
from cclmark.base.grouping import abridged
from cclmark.base.printable import plain
from cclmark.document.blocks import Evidence, Finding, Severity
from cclmark.document.insight_words import MOST_NAMED, amount, described, first_line, listed
from cclmark.document.remarks import ending, left_out, planned_results, problems, unsettled_width
from cclmark.document.text import counted, format_time_us, precision_text
from cclmark.journal.item_results import CaseResult, Result, TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header, Settings, Verification


def of_data(
    journal: Journal,
    timed: Sequence[CaseResult | TransferResult],
    unverifiable: str = "",
    *,
    with_elements: bool = True,
) -> Iterator[Finding]:
    """Reports whether the outputs of the results with times were correct.

    ``unverifiable``: the results without an output, in words. ``with_elements``: also the first
    wrong element of each.
    """
    results = [one for one in timed if one.is_checkable]
    measured = [one for one in results if one.summary is not None]
    checked = [one for one in measured if one.verification is not None]
    wrong = [one for one in results if one.status == "wrong"]
    if wrong:
        words = _wrong_words if with_elements else described
        names = [words(one) for one in wrong[:MOST_NAMED]]
        yield Finding(
            "wrong-data",
            "bad",
            f"wrong data in {amount(len(wrong), 'case')}: {listed(names, len(wrong))}",
            advice=advice_on_wrong_data(journal.header),
            evidence=wrong_elements((described(one), one.verification) for one in wrong),
        )
    elif checked:
        share = f"{len(checked)} of {len(measured)} outputs were"
        kind: Severity = "note"
        if len(checked) == len(measured):
            unmeasured = sum(one.status != "skipped" for one in results) > len(measured)
            unmeasured |= len(journal.results) < planned_results(journal.header)
            share = "every measured output was" if unmeasured else "every output was"
            kind = "note" if unmeasured else "good"
        how = "checked in full" if journal.header.imported is None else "checked by that tool"
        yield Finding("data-checked", kind, f"{share} {how}; none was wrong{unverifiable}")
    elif measured:
        off = journal.header.imported is None and journal.header.settings.check == 0
        yield Finding(
            "data-not-checked",
            "look",
            "no output was checked: the figures do not show whether the data was correct",
            advice="Leave out -c 0." if off else "",
        )


def wrong_elements(of: Iterable[tuple[str, Verification | None]]) -> tuple[Evidence, ...]:
    """Returns the numbers of wrong elements of the first checks, each with its place."""
    known = [(at, checked.wrong) for at, checked in of if checked is not None and checked.wrong]
    return tuple(Evidence.of("wrong", wrong, at, 0) for at, wrong in known[:MOST_NAMED])


def wrong_data(text: str, wrong: int, at: str, name: str = "wrong") -> Finding:
    """Returns a finding on the wrong elements of one output. Safe to print."""
    return Finding("wrong-data", "bad", plain(text), evidence=(Evidence.of(name, wrong, at, 0),))


def or_unlocated(found: Iterable[Finding], results: Iterable[Result]) -> list[Finding]:
    """Returns ``found``, or a finding on each wrong result if its wrong elements are unknown."""
    wrong = (one.item.describe() for one in results if one.status == "wrong")
    return [*found] or [Finding("wrong-data", "bad", plain(f"wrong data in {at}")) for at in wrong]


def of_checked(results: Sequence[Result], sentence: str) -> Finding:
    """Returns ``sentence``, good only if every result that was not skipped was checked."""
    missing = sum(not one.is_checked and one.status != "skipped" for one in results)
    if not missing:
        return Finding("data-checked", "good", sentence)
    text = f"{sentence}, of those that were checked: {missing} of {len(results)} were not"
    return Finding("data-checked", "note", text)


def advice_on_wrong_data(header: Header) -> str:
    """Returns what to do about wrong data."""
    if header.settings.inject:
        return "The fault was injected by --inject."
    return (
        "Do not use this library and hardware for anything until the cause is known. Run the case "
        "again alone; if the error persists, find the device with `cclmark p2p` and `cclmark "
        "pairs`, and look for memory errors (on NVIDIA: nvidia-smi -q -d ECC)."
    )


def _wrong_words(result: CaseResult | TransferResult) -> str:
    """Describes the case and its first wrong element."""
    found = problems(result) if isinstance(result, CaseResult) else []
    return f"{described(result)} ({found[0]})" if found else described(result)


def of_completeness(
    journal: Journal, results: Sequence[CaseResult | TransferResult], *, with_end: bool = True
) -> Iterator[Finding]:
    """Reports missing results and the run's notices. ``with_end``: also why the run ended early."""
    yield from of_statuses(results)
    if with_end:
        yield from _ending(journal, len(journal.results))
    yield from (Finding("figures-left-out", "look", text) for text in left_out(journal))
    yield from (Finding("notice", "note", text) for text in journal.header.notices)


def of_statuses(results: Sequence[CaseResult | TransferResult]) -> Iterator[Finding]:
    """Reports results without figures by their status, with the usual reason."""
    by_status: dict[str, list[str]] = {}
    for one in results:
        if one.status not in ("ok", "wrong"):
            reason = first_line(one.reason) or one.status
            by_status.setdefault(one.status, []).append(reason)
    for status, reasons in by_status.items():
        usual, times = Counter(reasons).most_common(1)[0]
        skipped = status == "skipped"
        more = "" if times == len(reasons) else f" ({times} of them)"
        yield Finding(
            "skipped-cases" if skipped else "failed-cases",
            "note" if skipped else "bad",
            f"{amount(len(reasons), 'case')} {status}: {usual}{more}",
            advice=""
            if skipped
            else "The journal contains a report of the state of every rank: see the case in the "
            "table.",
        )


def _ending(journal: Journal, done: int) -> Iterator[Finding]:
    planned = planned_results(journal.header)
    footer = journal.footer
    ended = ending(footer and msgspec.structs.replace(footer, message=first_line(footer.message)))
    if not ended or (planned and done >= planned and footer is not None):
        return
    of = f" after {done} of {planned} cases" if planned > done else ""
    from_outside = footer is None or footer.exit_code == EXIT_INTERRUPTED
    imported = journal.header.imported is not None
    yield Finding(
        "ended-early",
        "look" if from_outside else "bad",
        f"the {'journal' if imported else 'run'} ended early{of}: {ended}",
        advice="Import the text again."
        if imported
        else "The same command with --resume JOURNAL measures the missing cases.",
    )


def nothing_wrong(
    journal: Journal,
    found: Sequence[Finding],
    *,
    compared: bool,
    lacking: str,
    unjudged: Sequence[str] = (),
) -> list[Finding]:
    """Returns the insight that nothing needs attention, or that figures cannot be judged.

    ``compared``: whether any figures were compared. ``lacking``: what is not there to compare
    others with, in words. ``unjudged``: their names, if some were compared.
    """
    if any(one.severity in ("bad", "look", "unknown") for one in found):
        return []
    if not any(result.is_measured for result in journal.results):
        return []
    if times_mean_little(journal.header):
        text = "ranks share processors: these figures cannot be judged"
        return [Finding("shared-processors", "unknown", text)]
    if compared and not unjudged:
        is_partial = left_out(journal) or any(_ending(journal, len(journal.results)))
        return [] if is_partial else [Finding("nothing-found", "good", "nothing needs a look")]
    which = (
        f"those of {listed(unjudged[:MOST_NAMED], len(unjudged))}" if compared else "these figures"
    )
    text = f"there is {lacking} to compare {which} with"
    return [Finding("nothing-to-compare-with", "unknown", text)]


def of_paths(journal: Journal) -> Iterator[Finding]:
    """Reports how libraries connect the ranks, if that stands out, and what they say about it."""
    for paths in journal.paths:
        for text in path_warnings(journal.header, paths):
            yield Finding("unusual-path", "look", f"{paths.ccl}: {text}")
        for text in paths.messages:
            yield Finding("library-message", "note", f"{paths.ccl} reports: {text}")


def of_what_ran(journal: Journal) -> Iterator[Finding]:
    """Reports the reasons of explanations; nothing without any."""
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
        yield Finding("choice-of-library", "note", f"{reason}: {names}")
    if len(unknown) > MOST_NAMED:  # of many operations, each with its own variables
        cases = amount(sum(map(len, unknown.values())), "case")
        first = next(iter(unknown))
        yield Finding(
            "unknown-choice",
            "unknown",
            f"what ran is unknown in {cases}, for {len(unknown)} reasons in the column "
            f"`explanation` below, for example: {first}",
        )
        return
    for reason, results in unknown.items():
        yield Finding(
            "unknown-choice",
            "unknown",
            f"what ran is unknown in {amount(len(results), 'case')}: {reason}",
        )


_LEAST_UNSURE = 0.05  # of a median: half the width of its 95 % interval
_LONGER = "Measure longer (--max-time), or with nothing else at work on the machine."
# cclmark trace measures for a fixed time and has no --max-time.
_SHORT = "A trace measures only briefly: measure the case with its own command for a better median."
_UNKNOWN = 0.5  # a less certain median is not usable, even if most others are


def of_noise(journal: Journal) -> Iterator[Finding]:
    """Reports the uncertainty of medians and the spread of samples, in one finding."""
    measured = [one for one in journal.cases if one.summary is not None]
    unsure = _unsure(journal, measured)
    sentences: list[str] = []
    evidence: list[Evidence] = []
    severity: Severity = "note"
    rule = advice = ""
    if 2 * len(unsure) > len(measured) or (unsure and unsure[0][0] > _UNKNOWN):
        width, worst = unsure[0]
        severity, rule = "look", "uncertain-medians"
        unsure_from = _unsure_from(journal)
        evidence.append(Evidence.of("half_width", width, described(worst), unsure_from))
        sentences.append(
            f"the medians of {amount(len(unsure), 'case')} of {len(measured)} are known to no "
            f"better than {precision_text(unsure_from, 2)} (95 %), the worst that of "
            f"{described(worst)}: {precision_text(width, 2)}"
        )
        longer = _SHORT if journal.traces else _LONGER
        advice = f"Smaller differences are not significant. {longer}"
    noisy_cases = noisy(measured)
    if noisy_cases:
        first = noisy_cases[0]
        assert first.summary is not None
        spread = spread_of(first.summary)
        evidence.append(Evidence.of("spread", spread, described(first), NOISY_SPREAD))
        sentences.append(
            f"the middle half of the samples is wider than 10 % of the median in "
            f"{amount(len(noisy_cases), 'case')} of {len(measured)}, most in {described(first)} "
            f"({spread:.0%}){'' if sentences else _yet_known(noisy_cases)}"
        )
    settings = journal.header.settings
    fixed = journal.header.imported is not None or settings.iterations is not None
    unsettled = [one for one in measured if not converged(one)]
    if unsettled and not (fixed or journal.traces):
        sentences.append(_unsettled_text(settings, unsettled))
        evidence += [
            Evidence.of("half_width", own, described(one), settings.precision)
            for one in unsettled[:MOST_NAMED]
            if (own := unsettled_width(one)) is not None
        ]
        rule = rule or "not-converged"
        advice = advice or f"--max-time gives {'it' if len(unsettled) == 1 else 'them'} longer."
    if sentences:
        yield Finding(
            rule or "varying-samples",
            severity,
            "; ".join(sentences),
            advice=advice,
            evidence=tuple(evidence),
        )


_EARLY = 0.1  # of the samples: outliers among these alone came at the beginning
_TOGETHER = 0.1  # of the samples: outliers within so many came together


def of_tails(journal: Journal) -> Iterator[Finding]:
    """Reports cases with outliers, which medians do not show: how many, how long, and when."""
    measured = [one for one in journal.cases if one.summary is not None]
    found = tails(measured)
    if not found:
        return
    first = found[0]
    assert first.summary is not None
    own = first.summary
    ratio, p99 = own.max_s / own.time_s, format_time_us(own.p99_s)
    times = f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"
    yield Finding(
        "outlying-samples",
        "note",
        f"at least 1 % of the samples are outliers in {amount(len(found), 'case')} of "
        f"{len(measured)}; most {described(first)}: {own.outliers} of {own.samples}"
        f"{_when(own.outlier_span)}, p99 {p99} µs, the longest {times} × the median",
        advice="They are of no influence on medians. A program that waits for each call has them.",
        evidence=(Evidence.of("outliers", own.outliers, described(first)),),
    )


def _when(span: tuple[float, float] | None) -> str:
    """When outliers came, by the shares of the samples before the first and the last of them."""
    if span is None:
        return ""
    first, last = span
    if last < _EARLY:
        return " at the beginning"
    if last - first < _TOGETHER:
        return f" together, {first:.0%} into the measurement"
    return " throughout the measurement"


def _unsettled_text(settings: Settings, found: Sequence[CaseResult]) -> str:
    """Describes medians, of calls and of device times, without the requested precision."""
    names = [
        f"{described(one)}, {one.case.ccl}{' (device time)' if one.converged else ''}"
        for one in found
    ]
    return (
        f"{counted(len(found), 'case')} did not get to ±{settings.precision * 100:.3g} % of the "
        f"median within --max-time {settings.max_time_s:g} s: {abridged(names, MOST_NAMED, '; ')}"
    )


def _unsure_from(journal: Journal) -> float:
    """The half width of uncertain medians, never below the precision that the run requested."""
    return max(_LEAST_UNSURE, journal.header.settings.precision)


def _unsure(journal: Journal, measured: Sequence[CaseResult]) -> list[tuple[float, CaseResult]]:
    """Returns the results with an uncertain median and its half width, the worst first."""
    least = _unsure_from(journal)
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
    precision = precision_text(max(known), 2)
    if len(known) == 1:
        return f"; its median is known to {precision}"
    if max(known) > _LEAST_UNSURE:
        return f"; the worst of their medians is known to {precision}"
    return f"; their medians are known to {precision} or better"
