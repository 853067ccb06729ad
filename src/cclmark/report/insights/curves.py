"""Bandwidth against limits and references, odd courses, noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.analysis.findings import findings
from cclmark.analysis.irregularities import dips, noisy, placement_gaps
from cclmark.analysis.libraries import Comparison, comparisons
from cclmark.analysis.limits import link_limit
from cclmark.analysis.reference_match import LEAST_JUDGED_BYTES
from cclmark.plan.sizes import format_size
from cclmark.report.insights.words import (
    MOST_NAMED,
    Insight,
    Kind,
    counted,
    described,
    listed,
    of_all_ranks,
    on_host_alone,
    rate_words,
)
from cclmark.report.reference_notes import ReferenceNotes, share_text, verdict_of, verdict_text
from cclmark.report.text import format_time_us, plain
from cclmark.results.journal import Journal
from cclmark.results.schema import CaseResult

_LOW_SHARE = 0.6  # of the link limit, at the best size of a large sweep
_HIGH_SHARE = 1.05  # more than links carry
_LARGE_BYTES = 64 << 20
_LEAST_UNSURE = 0.05  # of a median, for its 95 % interval to each side
_LEAST_TIMES = 1.1  # as long as the fastest library


def of_limits(journal: Journal) -> Iterator[Insight]:
    """Peaks against what the links allow, where messages were large enough to tell."""
    limit = link_limit(journal.header.links, journal.header.hosts)
    if limit is None:
        return
    low, high = [], []
    for found in findings(of_all_ranks(journal)):
        summary = found.peak.summary
        if summary is None or found.operation == "barrier":
            continue
        share = summary.busbw_bytes_per_s / limit
        route = "" if found.peak.route == "native" else f" ({plain(found.peak.route)})"
        text = f"{plain(found.name)} {_share_words(share)}{route}"
        if share > _HIGH_SHARE:
            high.append(text)
        if found.largest_bytes >= _LARGE_BYTES and share < _LOW_SHARE:
            low.append(text)
    rate = f"the {limit / 1e9:.0f} GB/s link limit"
    if low:
        yield Insight(
            "look",
            f"Less than {_LOW_SHARE:.0%} of {rate} even with large messages: "
            f"{listed(low[:6], len(low))}.",
            "See whether `cclmark p2p` reaches the limit: if it does, the library's choice of "
            "algorithm or channels is the next place to look, or that it goes through the host's "
            "memory; if not, the links are.",
        )
    if high:
        yield Insight(
            "look",
            f"More than {rate}: {listed(high[:6], len(high))}.",
            "No link carries that. The library may reduce in the switch (multicast), or data may "
            "stay in a cache: look at small messages and --cache warm first.",
        )


def of_references(journal: Journal, notes: ReferenceNotes) -> Iterator[Insight]:
    """Peaks beside what others reached with such devices."""
    normal: dict[str, list[str]] = {}
    for found in findings(of_all_ranks(journal)):
        if found.peak.case.size_bytes < LEAST_JUDGED_BYTES:
            continue
        name = plain(found.name)
        match = notes.match(found.peak, journal.header)
        verdict = verdict_of(match)
        if match is not None and verdict == "normal":
            normal.setdefault(plain(match.name), []).append(f"{name} {share_text(match.share)}")
        elif text := verdict_text(match):
            advice = {
                "low": "`cclmark references check` shows every case.",
                "high": "Far more than others reached: see that the sizes are what you think, and "
                "that outputs were checked.",
            }
            kind: Kind = "look" if verdict in advice else "note"
            yield Insight(kind, f"{name} is {text}.", advice.get(verdict, ""))
    for name, shares in normal.items():
        yield Insight("good", f"Peaks are normal: {listed(shares)} of the reference ({name}).")


def of_courses(journal: Journal) -> Iterator[Insight]:
    """Bandwidth that falls as messages grow, placements that differ."""
    results = of_all_ranks(journal)
    several = len({one.case.ccl for one in results}) > 1
    for dip in dips(results)[:MOST_NAMED]:
        at, best = dip.at, dip.best
        yield Insight(
            "look",
            f"{_curve_words(at)}: bus bandwidth falls to {rate_words(at.summary)} GB/s at "
            f"{format_size(at.case.size_bytes)}, after {rate_words(best.summary)} at "
            f"{format_size(best.case.size_bytes)}.",
            _dip_advice(journal, at),
        )
    gaps = [
        f"{plain(gap.in_place.case.operation)}{f' ({plain(gap.in_place.case.ccl)})' * several} "
        f"{max(gap.ratio, 1 / gap.ratio):.2f} times as long "
        f"{'in-place' if gap.ratio > 1 else 'out-of-place'} at "
        f"{format_size(gap.in_place.case.size_bytes)}"
        for gap in placement_gaps(results)
    ]
    if gaps:
        yield Insight("note", f"The placements differ: {listed(gaps[:6], len(gaps))}.")


def _dip_advice(journal: Journal, at: CaseResult) -> str:
    if on_host_alone(journal):
        return "That may be where messages leave a cache; or other programs were at work."
    library = at.case.ccl.rpartition(":")[2]
    own = " (for NCCL: NCCL_ALGO, NCCL_PROTO)" if library == "nccl" else ""
    return (
        "The library may change its algorithm or protocol there: with `cclmark compare` see what "
        f"other choices do{own}."
    )


def of_libraries(journal: Journal) -> Iterator[Insight]:
    """How much longer libraries take than the fastest of the same cases, small and large."""
    sweeps: dict[str, Comparison] = {}
    for sweep in comparisons(of_all_ranks(journal)):
        # Of placements, types and roots the first that most libraries have: others say the same.
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
            yield Insight("note", f"{plain(operation)}: {'; '.join(found)}.")


def _beside_fastest(ccls: Sequence[str], times_s: Sequence[float], size_bytes: int) -> str:
    """Empty where all take about as long."""
    fastest_s = min(times_s)
    slower = sorted(
        (
            (time_s, plain(ccl))
            for ccl, time_s in zip(ccls, times_s, strict=True)
            if time_s >= _LEAST_TIMES * fastest_s
        ),
        reverse=True,
    )
    if not slower:
        return ""
    name = plain(ccls[times_s.index(fastest_s)])
    words = [
        f"{time_s / fastest_s:.3g} times{' as long' * (not place)} by {ccl}"
        for place, (time_s, ccl) in enumerate(slower)
    ]
    return (
        f"{format_size(size_bytes)} take {format_time_us(fastest_s)} µs by {name}, "
        f"{listed(words[:MOST_NAMED], len(words))}"
    )


def of_noise(journal: Journal) -> Iterator[Insight]:
    """How sure the figures are: how well medians are known, and how far samples scatter."""
    measured = [one for one in journal.results if one.summary is not None]
    unsure = _unsure(journal, measured)
    if 2 * len(unsure) > len(measured):
        width, worst = unsure[0]
        yield Insight(
            "look",
            f"The medians of {counted(len(unsure), 'case')} of {len(measured)} are known to no "
            f"better than ±{_unsure_from(journal):.2g} % (95 %), the worst that of "
            f"{described(worst)}: ±{width:.0%}.",
            "Smaller differences say nothing. Measure longer (--max-time), or with nothing else "
            "at work on the machine.",
        )
    noisy_cases = noisy(measured)
    if noisy_cases:
        first = noisy_cases[0]
        assert first.summary is not None
        yield Insight(
            "note",
            f"{counted(len(noisy_cases), 'case')} of {len(measured)} vary by more than 10 % from "
            f"sample to sample, most {described(first)} ({first.summary.cv:.0%})"
            f"{_yet_known(noisy_cases)}.",
            "" if unsure else "The median is what counts.",
        )
    settings = journal.header.settings
    if journal.header.imported is not None or settings.iterations is not None:
        return
    unsettled = sum(not one.converged for one in measured)
    if unsettled:
        yield Insight(
            "note",
            f"{counted(unsettled, 'case')} did not get to ±{settings.precision * 100:.3g} % of the "
            f"median within {settings.max_time_s:g} s.",
            "--max-time gives them longer.",
        )


def _unsure_from(journal: Journal) -> float:
    """Percent of a median: what the run did not ask for is not asked of it."""
    return max(_LEAST_UNSURE, journal.header.settings.precision) * 100


def _unsure(journal: Journal, measured: Sequence[CaseResult]) -> list[tuple[float, CaseResult]]:
    """Those whose median is not known well, with its half width, the worst first."""
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
    """How well the medians of what scatters are known, where that is told of all of them."""
    widths = [one.summary.half_width for one in noisy_cases if one.summary is not None]
    known = [width for width in widths if width is not None]
    if len(known) < len(widths):
        return ""
    return f"; their medians are known to ±{max(known) * 100:.2g} % or better"


def _share_words(share: float) -> str:
    """A percentage that is not 0 is not called so."""
    return f"{share:.0%}" if share >= 0.005 or share <= 0 else f"{share:.1%}"


def _curve_words(result: CaseResult) -> str:
    return plain(f"{result.case.operation} {result.case.placement}, {result.case.ccl}")
