"""What a run says in plain words: what was measured, what stands out, what to do about it.

Safe to print: see report.text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from cclmark.analysis.findings import findings
from cclmark.analysis.irregularities import dips, noisy, placement_gaps
from cclmark.analysis.limits import link_limit
from cclmark.analysis.pairs import pair_deviations, sweeps
from cclmark.analysis.transfers import deviations
from cclmark.errors import EXIT_INTERRUPTED
from cclmark.plan.sizes import format_size
from cclmark.report.head import origin_of
from cclmark.report.matrix import figure, labels
from cclmark.report.reference_notes import (
    ReferenceNotes,
    share_text,
    verdict_of,
    verdict_text,
)
from cclmark.report.remarks import ending, planned_results
from cclmark.report.text import BYTES_PER_GB, US_PER_S, format_time_us, plain
from cclmark.results.journal import Journal
from cclmark.results.schema import CaseResult, Summary, TransferResult

Kind = Literal["good", "note", "look", "bad"]

_LOW_SHARE = 0.6  # of the link limit, at the best size of a large sweep
_LARGE_BYTES = 64 << 20
_LATENCY_BYTES = 64 << 10
_MOST_NAMED = 3


@dataclass(frozen=True)
class Insight:
    """A sentence, how grave it is, and what to do, empty where there is nothing to do."""

    kind: Kind
    text: str
    advice: str = ""


def measured_words(journal: Journal) -> str:
    """What was measured, in a sentence."""
    header = journal.header
    names = Counter(plain(device.name) for device in header.devices)
    devices = " and ".join(f"{count} × {name}" for name, count in names.items())
    hosts = [plain(one.machine.hostname) for one in header.hosts]
    where = f"{len(hosts)} hosts" if len(hosts) > 1 else plain(header.machine.hostname)
    parts = []
    all_ranks = [one for one in journal.results if one.case.pair is None]
    if all_ranks:
        operations = {one.case.operation for one in all_ranks}
        parts.append(f"{_count(len(all_ranks), 'case')} of {_listed(sorted(operations))}")
    if len(journal.results) > len(all_ranks):
        number = len(journal.results) - len(all_ranks)
        parts.append(f"{_count(number, 'case')} between single pairs of devices")
    if journal.transfers:
        parts.append(_count(len(journal.transfers), "copy", "copies") + " between devices")
    if journal.checks:
        parts.append(_count(len(journal.checks), "check") + " of a framework's backend")
    libraries = _listed([f"{plain(one.name)} {plain(one.version)}" for one in header.libraries])
    by = f" with {libraries}" if libraries else ""
    if header.imported is not None:
        devices = devices or f"{header.imported.ranks} ranks"
        by += f", imported {origin_of(header.imported)}"
    of = f" of {where}" if where else ""
    return f"{_listed(parts) or 'Nothing yet'} on {devices or 'no device'}{of}{by}."


def headline(journal: Journal) -> str:
    """The figure to remember, in a sentence; empty where nothing was measured."""
    limit = link_limit(journal.header.links, journal.header.hosts)
    found = [one for one in findings(_of_all_ranks(journal)) if one.operation != "barrier"]
    # Of several operations all_reduce is the one that people know by heart.
    usual = [one for one in found if one.operation == "all_reduce"] or found
    best = max(usual, key=lambda one: _busbw(one.peak.summary), default=None)
    if best is not None and best.peak.summary is not None and best.latency.summary is not None:
        rate = _busbw(best.peak.summary)
        share = f", {rate / limit:.0%} of the {limit / 1e9:.0f} GB/s link limit" if limit else ""
        return (
            f"{plain(best.name)} reaches {rate / BYTES_PER_GB:.1f} GB/s bus bandwidth at "
            f"{format_size(best.peak.case.size_bytes)}{share}; "
            f"{format_size(best.latency.case.size_bytes)} take "
            f"{format_time_us(best.latency.summary.time_s)} µs."
        )
    rates = sorted(
        (one.summary.flow_bytes_per_s[0], one.transfer)
        for one in journal.transfers
        if one.summary is not None
        and one.summary.flow_bytes_per_s
        and one.status == "ok"
        and (one.transfer.scope, one.transfer.measure) == ("pairs", "unidirectional")
    )
    if not rates:
        return ""
    (low, _), (high, fastest) = rates[0], rates[-1]
    most = max((one.limit_bytes_per_s for one in journal.header.relations), default=0.0)
    share = f", {high / most:.0%} of the {most / 1e9:.0f} GB/s that its links carry" if most else ""
    return (
        f"The fastest copy between two devices runs at {high / BYTES_PER_GB:.1f} GB/s ("
        f"{plain(fastest.means)}, {plain(fastest.direction)}{share}), the slowest at "
        f"{low / BYTES_PER_GB:.1f}."
    )


def _busbw(summary: Summary | None) -> float:
    return 0.0 if summary is None else summary.busbw_bytes_per_s


def insights(journal: Journal, notes: ReferenceNotes | None = None) -> list[Insight]:
    """The gravest first, then what is in order, then what is only worth knowing.

    ``notes`` knows what others reached.
    """
    found = [
        *_data(journal),
        *_completeness(journal),
        *_ranks(journal),
        *_pairs(journal),
        *_copies(journal),
        *_bandwidth(journal),
        *_normal(journal, notes or ReferenceNotes()),
        *_courses(journal),
        *_noise(journal),
    ]
    if not any(one.kind in ("bad", "look") for one in found):
        found.append(Insight("good", "Nothing stands out that would need a look."))
    order: dict[Kind, int] = {"bad": 0, "look": 1, "good": 2, "note": 3}
    return sorted(found, key=lambda one: order[one.kind])


def _data(journal: Journal) -> Iterator[Insight]:
    """Whether what arrived was right."""
    # Latencies that are no copies have nothing to check.
    copies = [one for one in journal.transfers if one.transfer.method in ("", "copy")]
    results: list[CaseResult | TransferResult] = [*journal.results, *copies]
    checked = [one for one in results if one.verification is not None]
    wrong = [one for one in results if one.status == "wrong"]
    if wrong:
        names = [_described(one) for one in wrong[:_MOST_NAMED]]
        yield Insight(
            "bad",
            f"Wrong data in {_count(len(wrong), 'case')}: {_listed(names, len(wrong))}.",
            "Do not use this library and hardware for anything until you know why. Run the case "
            "again alone; if it stays, find the device with `cclmark p2p` and `cclmark pairs`, and "
            "look for memory errors (on NVIDIA: nvidia-smi -q -d ECC).",
        )
    elif checked:
        whole = len(checked) == len(results)
        share = "Every output was" if whole else f"{len(checked)} of {len(results)} outputs were"
        yield Insight("good", f"{share} checked in full; none was wrong.")
    elif results:
        yield Insight(
            "look",
            "No output was checked: the figures say nothing about whether the data was right.",
            "Leave out -c 0." if journal.header.imported is None else "",
        )
    failed = [one for one in journal.checks if one.status == "failed"]
    if failed:
        names = [plain(one.check.name) for one in failed[:_MOST_NAMED]]
        yield Insight("bad", f"Checks that failed: {_listed(names, len(failed))}.")
    elif journal.checks:
        yield Insight("good", "No check of the backend failed.")


def _completeness(journal: Journal) -> Iterator[Insight]:
    """Whether all that was asked for is there."""
    results: list[CaseResult | TransferResult] = [*journal.results, *journal.transfers]
    by_status: dict[str, list[str]] = {}
    for one in results:
        if one.status not in ("ok", "wrong"):
            reason = plain(_first_line(one.reason)) or one.status
            by_status.setdefault(one.status, []).append(reason)
    for status, reasons in by_status.items():
        usual, times = Counter(reasons).most_common(1)[0]
        kind: Kind = "note" if status == "skipped" else "bad"
        more = "" if times == len(reasons) else f" ({times} of them)"
        yield Insight(
            kind,
            f"{_count(len(reasons), 'case')} {status}: {usual}{more}.",
            ""
            if status == "skipped"
            else "The journal holds a report of what every rank was doing: see the case in the "
            "table below.",
        )
    planned = planned_results(journal.header)
    footer = journal.footer
    ended = ending(footer and msgspec.structs.replace(footer, message=_first_line(footer.message)))
    if ended and (planned == 0 or len(results) < planned or journal.footer is None):
        of = f" after {len(results)} of {planned} cases" if planned > len(results) else ""
        from_outside = footer is None or footer.exit_code == EXIT_INTERRUPTED
        yield Insight(
            "look" if from_outside else "bad",
            f"The run ended early{of}: {ended}.",
            "The same command with --resume JOURNAL measures what is missing.",
        )
    if journal.damaged_lines:
        yield Insight(
            "look",
            f"{_count(journal.damaged_lines, 'line')} of the journal could not be read.",
        )


def _ranks(journal: Journal) -> Iterator[Insight]:
    for found in findings(_of_all_ranks(journal)):
        name = plain(found.name)
        if found.slowest_rank is not None:
            device = _device(journal, found.slowest_rank)
            yield Insight(
                "look",
                f"{name}: rank {found.slowest_rank}{device} is slower than the others in most "
                "cases.",
                "A collective is as fast as its slowest rank. Compare the clocks, temperature and "
                "links of that device (`cclmark p2p`; on NVIDIA: nvidia-smi -q -d "
                "PERFORMANCE,CLOCK).",
            )
        if found.late_rank is not None:
            device = _device(journal, found.late_rank)
            yield Insight(
                "look",
                f"{name}: rank {found.late_rank}{device} comes late, the others wait for it.",
                "Look for what else runs on its processor cores, and at how ranks are bound to "
                "cores and memory.",
            )


def _pairs(journal: Journal) -> Iterator[Insight]:
    results = [one for one in journal.results if one.case.pair is not None]
    names = labels(journal.header.devices)
    far = [
        one
        for sweep in sweeps(results)
        for one in pair_deviations(sweep, journal.header.relations)
        if one.time_s > one.usual_s
    ]
    if not far and results:
        yield Insight("good", "No pair of devices stands out among those linked in the same way.")
    far.sort(key=lambda one: (one.size_bytes < _LATENCY_BYTES, one.usual_s / one.time_s))
    for one in far[:_MOST_NAMED]:
        first, second = (names[rank] for rank in one.pair)
        small = one.size_bytes < _LATENCY_BYTES
        yield Insight(
            "note" if small else "look",
            f"{first} and {second} need {format_time_us(one.time_s)} µs for "
            f"{one.series.operation} of {format_size(one.size_bytes)}; pairs linked by "
            f"{plain(one.kind)} usually need {format_time_us(one.usual_s)} µs.",
            _LATENCY_ADVICE if small else _LINK_ADVICE,
        )


def _copies(journal: Journal) -> Iterator[Insight]:
    if not journal.transfers:
        return
    names = labels(journal.header.devices)
    far = [one for one in deviations(journal.transfers, journal.header.relations) if one.worse]
    if not far:
        yield Insight("good", "Copies: no pair stands out among those linked in the same way.")
    far.sort(key=lambda one: min(one.value / one.usual, one.usual / one.value))
    for one in far[:_MOST_NAMED]:
        latency = one.transfer.measure == "latency"
        scale, unit = (US_PER_S, "µs") if latency else (1 / BYTES_PER_GB, "GB/s")
        start, end = (names[rank] for rank in one.pair)
        yield Insight(
            "look",
            f"Copies from {start} to {end}: {figure(one.value * scale)} {unit}, where pairs linked "
            f"by {plain(one.kind)} usually have {figure(one.usual * scale)} ({one.transfer.means}, "
            f"{one.transfer.measure}).",
            _LINK_ADVICE,
        )


_LATENCY_ADVICE = (
    "With messages this small the processors that launch operations decide, more than links: "
    "measure it again, and look at where ranks run."
)
_LINK_ADVICE = (
    "Measure it again alone (`cclmark p2p`). If it stays: look for errors and the width and speed "
    "of that link (on NVIDIA: nvidia-smi nvlink -s and -e), reseat or swap cable or module."
)


def _bandwidth(journal: Journal) -> Iterator[Insight]:
    """Peak against what the links allow, where messages were large enough to tell."""
    limit = link_limit(journal.header.links, journal.header.hosts)
    if limit is None:
        return
    low = []
    for found in findings(_of_all_ranks(journal)):
        summary = found.peak.summary
        if summary is None or found.operation == "barrier":
            continue
        if found.peak.case.size_bytes < _LARGE_BYTES or found.peak.route != "native":
            continue
        share = summary.busbw_bytes_per_s / limit
        if share < _LOW_SHARE:
            low.append(f"{plain(found.name)} {share:.0%}")
    if low:
        yield Insight(
            "look",
            f"Less than {_LOW_SHARE:.0%} of the {limit / 1e9:.0f} GB/s link limit even with large "
            f"messages: {_listed(low[:6], len(low))}.",
            "See whether `cclmark p2p` reaches the limit: if it does, the library's choice of "
            "algorithm or channels is the next place to look; if not, the links are.",
        )


def _normal(journal: Journal, notes: ReferenceNotes) -> Iterator[Insight]:
    """Peaks beside what others reached with such devices."""
    normal: dict[str, list[str]] = {}
    for found in findings(_of_all_ranks(journal)):
        name = plain(found.name)
        match = notes.match(found.peak, journal.header)
        verdict = verdict_of(match)
        if match is not None and verdict in ("normal", "high"):
            normal.setdefault(plain(match.name), []).append(f"{name} {share_text(match.share)}")
        elif text := verdict_text(match):
            low = verdict == "low"
            advice = "`cclmark references check` shows every case." if low else ""
            yield Insight("look" if low else "note", f"{name} is {text}.", advice)
    for name, shares in normal.items():
        yield Insight("good", f"Peaks are normal: {_listed(shares)} of the reference ({name}).")


def _courses(journal: Journal) -> Iterator[Insight]:
    results = _of_all_ranks(journal)
    for dip in dips(results)[:_MOST_NAMED]:
        at, best = dip.at, dip.best
        yield Insight(
            "look",
            f"{_curve_words(at)}: bus bandwidth falls to {_rate(at.summary)} GB/s at "
            f"{format_size(at.case.size_bytes)}, after {_rate(best.summary)} at "
            f"{format_size(best.case.size_bytes)}.",
            "The library changes its algorithm or protocol there: with `cclmark compare` see what "
            "other choices do (for NCCL: NCCL_ALGO, NCCL_PROTO).",
        )
    for gap in placement_gaps(results)[:_MOST_NAMED]:
        slow, fast = ("in-place", "out-of-place")[:: 1 if gap.ratio > 1 else -1]
        yield Insight(
            "note",
            f"{plain(gap.in_place.case.operation)} takes {max(gap.ratio, 1 / gap.ratio):.2f} times "
            f"as long {slow} as {fast} at {format_size(gap.in_place.case.size_bytes)}.",
        )


def _noise(journal: Journal) -> Iterator[Insight]:
    noisy_cases = noisy(journal.results)
    if noisy_cases:
        worst = noisy_cases[0]
        assert worst.summary is not None
        yield Insight(
            "note",
            f"{_count(len(noisy_cases), 'case')} of {len(journal.results)} vary by more than 10 % "
            f"from sample to sample, most {_described(worst)} ({worst.summary.cv:.0%}).",
            "The median is what counts; look for other programs on this machine if most are noisy.",
        )
    unsettled = sum(not one.converged for one in journal.results)
    if unsettled and journal.header.imported is None:
        settings = journal.header.settings
        yield Insight(
            "note",
            f"{_count(unsettled, 'case')} did not get to ±{settings.precision * 100:.3g} % of the "
            f"median within {settings.max_time_s:g} s.",
            "--max-time gives them longer.",
        )


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def _of_all_ranks(journal: Journal) -> list[CaseResult]:
    return [one for one in journal.results if one.case.pair is None]


def _device(journal: Journal, rank: int) -> str:
    for device in journal.header.devices:
        if device.rank == rank:
            return f" ({plain(device.runtime)}:{device.index} of {plain(device.host)})"
    return ""


def _described(result: CaseResult | TransferResult) -> str:
    thing = result.case if isinstance(result, CaseResult) else result.transfer
    return plain(thing.describe())


def _curve_words(result: CaseResult) -> str:
    return plain(f"{result.case.operation} {result.case.placement}, {result.case.ccl}")


def _rate(summary: Summary | None) -> str:
    return "?" if summary is None else f"{summary.busbw_bytes_per_s / BYTES_PER_GB:.1f}"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _listed(words: Sequence[str], of: int | None = None) -> str:
    """a, b and c; with ``of``: how many there are in all."""
    more = (of or 0) - len(words)
    parts = [*words, f"{more} more"] if more > 0 else list(words)
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""
