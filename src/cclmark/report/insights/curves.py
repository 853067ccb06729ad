"""Irregular curves, and comparisons of libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.analysis.irregularities import dips, placement_gaps
from cclmark.analysis.kinks import alternatives, kinks
from cclmark.analysis.library_comparison import LibraryComparison, comparisons
from cclmark.plan.libraries import title_of
from cclmark.plan.library_settings import algorithm_settings
from cclmark.plan.sizes import format_size
from cclmark.document.insight_words import (
    MOST_NAMED,
    Insight,
    listed,
    of_all_ranks,
    on_host_alone,
    rate_words,
)
from cclmark.document.reference_notes import ReferenceNotes, verdict_of
from cclmark.document.text import format_time_us
from cclmark.results.journal import Journal
from cclmark.results.item_results import CaseResult

_LEAST_TIMES = 1.1  # times the time of the fastest library


def of_courses(journal: Journal, notes: ReferenceNotes) -> Iterator[Insight]:
    """Reports kinks, bandwidth that falls as messages grow, and placements that differ."""
    results = of_all_ranks(journal)
    yield from of_kinks(journal, notes)
    several = len({one.case.ccl for one in results}) > 1
    gaps = [
        f"{gap.in_place.case.operation}{f' ({gap.in_place.case.ccl})' * several} "
        f"{max(gap.ratio, 1 / gap.ratio):.2f} times as long "
        f"{'in-place' if gap.ratio > 1 else 'out-of-place'} at "
        f"{format_size(gap.in_place.case.size_bytes)}"
        for gap in placement_gaps(results)
    ]
    if gaps:
        yield Insight("note", f"The placements differ: {listed(gaps[:6], len(gaps))}.")


def of_kinks(journal: Journal, notes: ReferenceNotes) -> Iterator[Insight]:
    """Reports sizes that take longer than their neighbours suggest, and bandwidth that falls."""
    results = of_all_ranks(journal)
    odd = kinks(results)
    for kink in odd[:MOST_NAMED]:
        case, below, above = kink.at.case, kink.below.case, kink.above.case
        text = (
            f"{_curve_words(kink.at)}: {format_size(case.size_bytes)} take "
            f"{format_time_us(kink.time_s)} µs ({rate_words(kink.at.summary)} GB/s), "
            f"{kink.share:.0%} less bandwidth than {format_size(below.size_bytes)} and "
            f"{format_size(above.size_bytes)} suggest{_ran(kink.at, kink.above)}"
            f"{_instead(kink.at, results)}"
        )
        yield _odd(journal, notes, kink.at, text)
    named = {kink.at.case.series() for kink in odd}
    for dip in [one for one in dips(results) if one.at.case.series() not in named][:MOST_NAMED]:
        at, best = dip.at, dip.best
        text = (
            f"{_curve_words(at)}: bus bandwidth falls to {rate_words(at.summary)} GB/s at "
            f"{format_size(at.case.size_bytes)}, after {rate_words(best.summary)} at "
            f"{format_size(best.case.size_bytes)}{_ran(at, best)}{_instead(at, results)}"
        )
        yield _odd(journal, notes, at, text)


def _ran(at: CaseResult, other: CaseResult) -> str:
    """What the library ran at both sizes, if that is known and differs."""
    here, there = at.explanation, other.explanation
    if here is None or there is None or not here.choice or not there.choice:
        return ""
    if here.choice == there.choice:
        return ""
    return f" ({here.choice} ran there, {there.choice} at {format_size(other.case.size_bytes)})"


def _odd(journal: Journal, notes: ReferenceNotes, at: CaseResult, text: str) -> Insight:
    """Returns a note if the reference has the same figure for that size, else a finding."""
    match = notes.match(at, journal.header)
    if match is not None and verdict_of(match) == "normal":
        return Insight("note", f"{text}; the reference has {match.figure} there too.")
    return Insight("look", f"{text}.", _course_advice(journal, at))


def _instead(at: CaseResult, results: Sequence[CaseResult]) -> str:
    """Describes other sizes that would be a better choice; empty if there are none."""
    words = []
    for one in alternatives(at, results):
        size = format_size(one.result.case.size_bytes)
        if one.number > 1:
            summary = one.result.summary
            assert summary is not None
            words.append(
                f"{one.number:.0f} messages of {size} of {format_time_us(summary.time_s)} µs each "
                f"add up to {format_time_us(one.time_s)} µs"
            )
        else:
            words.append(
                f"messages of {size} are faster per byte ({rate_words(one.result.summary)} GB/s): "
                "combine smaller ones"
            )
    return f"; {'; '.join(words)}" if words else ""


def _course_advice(journal: Journal, at: CaseResult) -> str:
    if on_host_alone(journal):
        return "Messages may leave a cache there, or other programs were at work."
    variables = [one.name for one in algorithm_settings(at.case.ccl, at.case.operation)]
    title = title_of(at.case.ccl.rpartition(":")[2])
    own = f" (for {title}: {', '.join(variables)})" if variables else ""
    return (
        "The library may change its algorithm or protocol there: compare other choices with "
        f"`cclmark compare`{own}."
    )


def of_libraries(journal: Journal) -> Iterator[Insight]:
    """Reports how much longer libraries take than the fastest one, for small and large messages."""
    sweeps: dict[str, LibraryComparison] = {}
    for sweep in comparisons(of_all_ranks(journal)):
        # Of placements, types and roots, the first with most libraries is used: the others are
        # similar.
        known = sweeps.setdefault(sweep.case.operation, sweep)
        if len(sweep.ccls) > len(known.ccls):
            sweeps[sweep.case.operation] = sweep
    for operation, sweep in sweeps.items():
        common = [
            (size_bytes, [time_s for time_s in times_s if time_s is not None])
            for size_bytes, times_s in sweep.rows
            if all(time_s is not None and time_s > 0 for time_s in times_s)
        ]
        ends = common[:: len(common) - 1] if len(common) > 1 else common
        texts = [_beside_fastest(sweep.ccls, times_s, size) for size, times_s in ends]
        if found := [text for text in texts if text]:
            yield Insight("note", f"{operation}: {'; '.join(found)}.")


def _beside_fastest(ccls: Sequence[str], times_s: Sequence[float], size_bytes: int) -> str:
    """Describes the slower libraries; empty if all take about the same time."""
    fastest_s = min(times_s)
    slower = sorted(
        (
            (time_s, ccl)
            for ccl, time_s in zip(ccls, times_s, strict=True)
            if time_s >= _LEAST_TIMES * fastest_s
        ),
        reverse=True,
    )
    if not slower:
        return ""
    name = ccls[times_s.index(fastest_s)]
    words = [
        f"{time_s / fastest_s:.3g} times{' as long' * (not place)} by {ccl}"
        for place, (time_s, ccl) in enumerate(slower)
    ]
    return (
        f"{format_size(size_bytes)} take {format_time_us(fastest_s)} µs by {name}, "
        f"{listed(words[:MOST_NAMED], len(words))}"
    )


def _curve_words(result: CaseResult) -> str:
    return f"{result.case.operation} {result.case.placement}, {result.case.ccl}"
