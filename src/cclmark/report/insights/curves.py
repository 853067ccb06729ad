"""Bandwidth against limits and references, odd courses, noise."""

from __future__ import annotations

from collections.abc import Iterator

from cclmark.analysis.findings import findings
from cclmark.analysis.irregularities import dips, noisy, placement_gaps
from cclmark.analysis.limits import link_limit
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
from cclmark.report.text import plain
from cclmark.results.journal import Journal
from cclmark.results.schema import CaseResult

_LOW_SHARE = 0.6  # of the link limit, at the best size of a large sweep
_HIGH_SHARE = 1.05  # more than links carry
_LARGE_BYTES = 64 << 20
_LEAST_JUDGED_BYTES = 1 << 20  # below, a reference is of another processor as much as of a device


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
        text = f"{plain(found.name)} {share:.0%}"
        if share > _HIGH_SHARE:
            high.append(text)
        large = found.peak.case.size_bytes >= _LARGE_BYTES and found.peak.route == "native"
        if large and share < _LOW_SHARE:
            low.append(text)
    rate = f"the {limit / 1e9:.0f} GB/s link limit"
    if low:
        yield Insight(
            "look",
            f"Less than {_LOW_SHARE:.0%} of {rate} even with large messages: "
            f"{listed(low[:6], len(low))}.",
            "See whether `cclmark p2p` reaches the limit: if it does, the library's choice of "
            "algorithm or channels is the next place to look; if not, the links are.",
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
        if found.peak.case.size_bytes < _LEAST_JUDGED_BYTES:
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


def of_noise(journal: Journal) -> Iterator[Insight]:
    """How sure the figures are."""
    measured = [one for one in journal.results if one.summary is not None]
    noisy_cases = noisy(measured)
    if noisy_cases:
        worst = noisy_cases[0]
        assert worst.summary is not None
        most = 2 * len(noisy_cases) > len(measured)
        yield Insight(
            "look" if most else "note",
            f"{counted(len(noisy_cases), 'case')} of {len(measured)} vary by more than 10 % from "
            f"sample to sample, most {described(worst)} ({worst.summary.cv:.0%}).",
            "Something else is at work on this machine: these figures are not its own."
            if most
            else "The median is what counts.",
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


def _curve_words(result: CaseResult) -> str:
    return plain(f"{result.case.operation} {result.case.placement}, {result.case.ccl}")
