"""Peaks and latencies compared with links' limits and with references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.analysis.findings import OperationFindings
from cclmark.analysis.limits import link_limit
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
from cclmark.references.match import LEAST_JUDGED_BYTES
from cclmark.references.restrictions import restrictions
from cclmark.document.insight_words import Insight, InsightKind, listed
from cclmark.document.reference_notes import (
    ReferenceNotes,
    latency_text,
    share_text,
    verdict_of,
    verdict_text,
)
from cclmark.document.remarks import convergence_text
from cclmark.results.journal import Journal

_LOW_SHARE = 0.6  # of the link limit, at the best size of a large sweep
_HIGH_SHARE = 1.05  # more than links can carry
_LARGE_BYTES = 64 << 20
_MOST_LISTED = 6


def of_limits(
    journal: Journal, notes: ReferenceNotes, of_operations: Sequence[OperationFindings]
) -> Iterator[Insight]:
    """Compares peaks with the link limit if messages were large enough.

    A peak that is normal by a reference needs no attention, whatever its share of the limit.
    """
    limit = link_limit(journal.header.links, journal.header.hosts)
    if limit is None:
        return
    low: list[str] = []
    high: list[str] = []
    usual: list[str] = []
    for found in of_operations:
        peak = found.peak
        if peak.summary is None or not moves_data(found.operation):
            continue
        share = peak.summary.busbw_bytes_per_s / limit
        route = "" if peak.route == "native" else f" ({peak.route})"
        text = f"{found.name} {_share_words(share)}{route}{convergence_text(peak)}"
        is_normal = verdict_of(notes.match(peak, journal.header)) == "normal"
        if share > _HIGH_SHARE and not is_normal:
            high.append(text)
        if found.largest_bytes >= _LARGE_BYTES and share < _LOW_SHARE:
            (usual if is_normal else low).append(text)
    rate = f"the {limit / 1e9:.0f} GB/s link limit"
    if low:
        yield Insight(
            "look",
            f"Less than {_LOW_SHARE:.0%} of {rate} even with large messages: "
            f"{listed(low[:_MOST_LISTED], len(low))}.",
            "Measure the links with `cclmark p2p`. If copies reach the limit, look at the choice "
            "of algorithm and channels, and whether the library goes through the host's memory; "
            "if not, look at the links.",
        )
    if usual:
        yield Insight(
            "note",
            f"Less than {_LOW_SHARE:.0%} of {rate}, as in the reference: "
            f"{listed(usual[:_MOST_LISTED], len(usual))}.",
        )
    if high:
        yield Insight(
            "look",
            f"More than {rate}: {listed(high[:_MOST_LISTED], len(high))}.",
            "No link carries that. The library may reduce in the switch (multicast), or data may "
            "stay in a cache: look at small messages and --cache warm first.",
        )


def of_references(
    journal: Journal, notes: ReferenceNotes, of_operations: Sequence[OperationFindings]
) -> Iterator[Insight]:
    """Compares peaks and latencies with references for the same devices."""
    found = [one for one in of_operations if moves_data(one.operation)]
    yield from _peaks(found, journal, notes)
    yield from _latencies(found, journal, notes)


def _peaks(
    found: list[OperationFindings], journal: Journal, notes: ReferenceNotes
) -> Iterator[Insight]:
    normal: dict[str, list[str]] = {}
    for one in found:
        if one.peak.case.size_bytes < LEAST_JUDGED_BYTES:
            continue
        name = one.name
        match = notes.match(one.peak, journal.header)
        verdict = verdict_of(match)
        if match is not None and verdict == "normal":
            text = f"{name} {share_text(match.share)}{convergence_text(one.peak)}"
            normal.setdefault(match.name, []).append(text)
        elif text := verdict_text(match):
            text += convergence_text(one.peak)
            advice = {
                "low": "`cclmark references check` shows every case.",
                "high": "Far more than others reached: check that the sizes are the intended ones, "
                "and that outputs were checked.",
            }
            kind: InsightKind = "look" if verdict in advice else "note"
            yield Insight(kind, f"{name} is {text}.", advice.get(verdict, ""))
    for name, shares in normal.items():
        yield Insight("good", f"Peaks are normal: {listed(shares)} of the reference ({name}).")


def _latencies(
    found: list[OperationFindings], journal: Journal, notes: ReferenceNotes
) -> Iterator[Insight]:
    plausible: dict[tuple[float, str, str], list[str]] = {}
    for one in found:
        verdict = notes.latency(one.latency, journal.header)
        if verdict is None:
            continue
        name, size_bytes = one.name, one.latency.case.size_bytes
        if verdict.slow:
            yield Insight(
                "look",
                f"{name}: {latency_text(verdict, size_bytes)}.",
                "Check the settings that restrict the library's protocols, the processors' clocks, "
                "the cores and memory to which ranks are bound, and other processes there.",
            )
            continue
        whose = "time of the device" if verdict.by_device else "cost of a call"
        key = (verdict.most, whose, verdict.match.name)
        plausible.setdefault(key, []).append(
            f"{name} {verdict.ratio:.2f} times ({format_size(size_bytes)})"
            f"{convergence_text(one.latency)}"
        )
    for (most, whose, reference), words in plausible.items():
        why = "" if whose.endswith("device") else ", because it depends on the host's processors"
        yield Insight(
            "good",
            f"Latencies are plausible: {whose} of smallest messages relative to the reference "
            f"({reference}): {listed(words)}; up to {most:g} times counts as plausible{why}.",
        )


def of_restrictions(
    journal: Journal, notes: ReferenceNotes, of_operations: Sequence[OperationFindings]
) -> Iterator[Insight]:
    """Reports restrictions by the environment, and whether the reference has the same ones."""
    affected: dict[str, list[str]] = {}
    for one in of_operations:
        peak = one.peak
        match = notes.match(peak, journal.header)
        for found in restrictions(journal.header, one.operation, peak.case.ccl):
            beside = "" if match is None else f"; {found.beside(match)}"
            text = f"{found.words} ({found.setting}){beside}"
            affected.setdefault(text, []).append(one.name)
    for text, names in affected.items():
        about = listed(names[:_MOST_LISTED], len(names))
        yield Insight("note", f"{text[0].upper()}{text[1:]}: {about}.")


def _share_words(share: float) -> str:
    """Formats a percentage; a positive share is never printed as 0."""
    return f"{share:.0%}" if share >= 0.005 or share <= 0 else f"{share:.1%}"
