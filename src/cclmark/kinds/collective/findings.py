"""What a run of collectives says: its main figure, and what stands out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cclmark.analysis.findings import LibraryComparison, OperationFindings, comparisons
from cclmark.analysis.irregularities import alternatives, dips, kinks, placement_gaps
from cclmark.analysis.links import link_limit
from cclmark.document.blocks import Evidence, Finding, Gain, Severity
from cclmark.document.finding_rules import RULES_OF_REFERENCES, evidence_of_share
from cclmark.document.insight_words import (
    MOST_NAMED,
    device_words,
    listed,
    of_all_ranks,
    on_host_alone,
    rate_words,
)
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import (
    ReferenceNotes,
    latency_text,
    share_text,
    verdict_of,
    verdict_text,
)
from cclmark.document.remarks import (
    all_launches_in_words,
    convergence_text,
    cycles_text,
    half_peak_text,
)
from cclmark.document.soundness import (
    nothing_wrong,
    of_data,
    of_noise,
    of_paths,
    of_statuses,
    of_tails,
    of_what_ran,
)
from cclmark.document.text import BYTES_PER_GB, format_time_us
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.summaries import wanted_clock
from cclmark.references.match import LEAST_JUDGED_BYTES, LatencyVerdict, restrictions
from cclmark.work.libraries import title_of
from cclmark.work.library_settings import algorithm_settings
from cclmark.work.operations import moves_data
from cclmark.work.sizes import format_size

_LOW_SHARE = 0.6  # of the link limit, at the best size of a large sweep
_HIGH_SHARE = 1.05  # more than links can carry
_LARGE_BYTES = 64 << 20
_MOST_LISTED = 6
_OF_NCCL = ("nccl", "torch:nccl")


def of_limits(
    journal: Journal, notes: ReferenceNotes, of_operations: Sequence[OperationFindings]
) -> Iterator[Finding]:
    """Compares peaks with the link limit if messages were large enough.

    A peak that is normal by a reference needs no attention, whatever its share of the limit.
    """
    limit = link_limit(journal.header.links, journal.header.hosts)
    if limit is None:
        return
    low: dict[str, Evidence] = {}
    high: dict[str, Evidence] = {}
    usual: dict[str, Evidence] = {}
    for found in of_operations:
        peak = found.peak
        if peak.summary is None or not moves_data(found.operation):
            continue
        share = peak.summary.busbw_bytes_per_s / limit
        route = "" if peak.route == "native" else f" ({peak.route})"
        text = f"{found.name} {_share_words(share)}{route}{convergence_text(peak)}"
        is_normal = verdict_of(notes.match(peak, journal.header)) == "normal"
        if share > _HIGH_SHARE and not is_normal:
            high[text] = _share_of_limit(found, share, _HIGH_SHARE)
        if found.largest_bytes >= _LARGE_BYTES and share < _LOW_SHARE:
            (usual if is_normal else low)[text] = _share_of_limit(found, share, _LOW_SHARE)
    rate = f"the {limit / 1e9:.0f} GB/s link limit"
    less = f"less than {_LOW_SHARE:.0%} of {rate}"
    yield from _listing(
        "below-link-limit",
        "look",
        f"{less} even with large messages: ",
        low,
        advice="Measure the links with `cclmark p2p`. If copies reach the limit, look at the "
        "choice of algorithm and channels, and whether the library goes through the host's "
        "memory; if not, look at the links.",
    )
    text = f"{less}, as in the reference: "
    yield from _listing("below-link-limit-as-reference", "note", text, usual)
    yield from _listing(
        "above-link-limit",
        "look",
        f"more than {rate}: ",
        high,
        advice="No link carries that. The library may reduce in the switch (multicast), or "
        "data may stay in a cache: look at small messages and --cache warm first.",
    )


def _listing(
    rule: str,
    severity: Severity,
    text: str,
    figures: Mapping[str, Evidence],
    end: str = "",
    advice: str = "",
) -> Iterator[Finding]:
    """A finding with the figures after ``text``, all before an ``end``; none without any."""
    if figures:
        names = [*figures][: None if end else _MOST_LISTED]
        sentence = f"{text}{listed(names, len(figures))}{end}"
        evidence = tuple(figures[name] for name in names)
        yield Finding(rule, severity, sentence, advice=advice, evidence=evidence)


def of_expected(
    journal: Journal, notes: ReferenceNotes, of_operations: Sequence[OperationFindings]
) -> Iterator[Finding]:
    """Compares peaks of NCCL with what is expected of any devices with this kind of link."""
    for found in of_operations:
        peak, known = found.peak, notes.expected(found.operation, journal.header)
        is_large = found.largest_bytes >= _LARGE_BYTES and peak.case.ccl in _OF_NCCL
        if peak.summary is None or not known or not is_large:
            continue
        known.sort(key=lambda one: one.busbw_bytes_per_s or 0.0)
        rate = peak.summary.busbw_bytes_per_s
        parts = [
            f"{share_text(rate / (one.busbw_bytes_per_s or rate))} of the "
            f"{(one.busbw_bytes_per_s or 0.0) / BYTES_PER_GB:.0f} GB/s expected {one.conditions}"
            for one in known
        ]
        source = known[0].source
        yield Finding(
            "expected-of-links",
            "note",
            f"{found.name} peaks at {rate / BYTES_PER_GB:.1f} GB/s: {', '.join(parts)} "
            f"({source.title}, {source.published})",
            evidence=tuple(
                Evidence.of("busbw_gbps", rate, found.name, one.busbw_bytes_per_s) for one in known
            ),
        )


def _share_of_limit(found: OperationFindings, share: float, limit: float) -> Evidence:
    return Evidence.of("of_link_limit_percent", share, found.peak.case.describe(), limit)


def of_references(
    journal: Journal, notes: ReferenceNotes, of_operations: Sequence[OperationFindings]
) -> Iterator[Finding]:
    """Compares peaks and latencies with references for the same devices."""
    found = [one for one in of_operations if moves_data(one.operation)]
    yield from _peaks(found, journal, notes)
    yield from _latencies(found, journal, notes)


def _peaks(
    found: list[OperationFindings], journal: Journal, notes: ReferenceNotes
) -> Iterator[Finding]:
    normal: dict[str, dict[str, Evidence]] = {}
    for one in found:
        name = one.name
        match = notes.match(one.peak, journal.header)
        if match is None:
            continue
        verdict = verdict_of(match)
        share = evidence_of_share(match, one.peak.case.describe())
        if verdict == "normal":
            text = f"{name} {share_text(match.share)}{convergence_text(one.peak)}"
            normal.setdefault(match.name, {})[text] = share
        elif text := verdict_text(match):
            text += convergence_text(one.peak)
            advice = {
                "low": "`cclmark references check` shows every case.",
                "high": "Far more than others reached: check that the sizes are the intended ones, "
                "and that outputs were checked.",
            }
            kind: Severity = "look" if verdict in advice else "unknown"
            rule = RULES_OF_REFERENCES[verdict]
            about = f"{name} is {text}" if verdict else f"{name}, {text}"
            yield Finding(rule, kind, about, advice=advice.get(verdict, ""), evidence=(share,))
    for name, shares in normal.items():
        end = f" of the reference ({name})"
        yield from _listing("normal-peaks", "good", "peaks are normal: ", shares, end)


def _latencies(
    found: list[OperationFindings], journal: Journal, notes: ReferenceNotes
) -> Iterator[Finding]:
    plausible: dict[tuple[float, str, str], dict[str, Evidence]] = {}
    for one in found:
        verdict = notes.latency(one.latency, journal.header)
        if verdict is None:
            continue
        name, size_bytes = one.name, one.latency.case.size_bytes
        if verdict.slow:
            yield Finding(
                "high-latency",
                "look",
                f"{name}: {latency_text(verdict, size_bytes)}",
                advice="Check the settings that restrict the library's protocols, the processors' "
                "clocks, the cores and memory to which ranks are bound, and other processes there.",
                evidence=(_ratio_of_latency(verdict, one),),
            )
            continue
        whose = "time of the device" if verdict.by_device else "cost of a call"
        key = (verdict.most, whose, verdict.match.name)
        text = (
            f"{name} {verdict.ratio:.2f} times ({format_size(size_bytes)})"
            f"{convergence_text(one.latency)}"
        )
        plausible.setdefault(key, {})[text] = _ratio_of_latency(verdict, one)
    for (most, whose, reference), words in plausible.items():
        why = "" if whose.endswith("device") else ", because it depends on the host's processors"
        text = (
            f"latencies are plausible: {whose} of smallest messages relative to the reference "
            f"({reference}): "
        )
        end = f"; up to {most:g} times counts as plausible{why}"
        yield from _listing("plausible-latencies", "good", text, words, end)


def _ratio_of_latency(verdict: LatencyVerdict, one: OperationFindings) -> Evidence:
    at = one.latency.case.describe()
    return Evidence.of("latency_of_reference", verdict.ratio, at, verdict.most)


def of_restrictions(
    journal: Journal, notes: ReferenceNotes, of_operations: Sequence[OperationFindings]
) -> Iterator[Finding]:
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
        yield Finding("restricted-by-environment", "note", f"{text}: {about}")


def _share_words(share: float) -> str:
    """Formats a percentage; a positive share is never printed as 0."""
    return f"{share:.0%}" if share >= 0.005 or share <= 0 else f"{share:.1%}"


_LEAST_TIMES = 1.1  # times the time of the fastest library


def of_courses(journal: Journal, notes: ReferenceNotes) -> Iterator[Finding]:
    """Reports kinks, bandwidth that falls as messages grow, and placements that differ."""
    results = of_all_ranks(journal)
    yield from of_kinks(journal, notes)
    several = len({one.case.ccl for one in results}) > 1
    gaps = {
        f"{gap.in_place.case.operation}{f' ({gap.in_place.case.ccl})' * several} "
        f"{max(gap.ratio, 1 / gap.ratio):.2f} times as long "
        f"{'in-place' if gap.ratio > 1 else 'out-of-place'} at "
        f"{format_size(gap.in_place.case.size_bytes)}": _time_of(
            gap.in_place, _time_s(gap.in_place) / gap.ratio
        )
        for gap in placement_gaps(results)
    }
    yield from _listing("placements-differ", "note", "the placements differ: ", gaps)


def of_kinks(journal: Journal, notes: ReferenceNotes) -> Iterator[Finding]:
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
        usual = _busbw(kink.at) / (1 - kink.share)
        yield _odd("slow-size", journal, notes, kink.at, text, usual)
    named = {kink.at.case.series() for kink in odd}
    for dip in [one for one in dips(results) if one.at.case.series() not in named][:MOST_NAMED]:
        at, best = dip.at, dip.best
        text = (
            f"{_curve_words(at)}: bus bandwidth falls to {rate_words(at.summary)} GB/s at "
            f"{format_size(at.case.size_bytes)}, after {rate_words(best.summary)} at "
            f"{format_size(best.case.size_bytes)}{_ran(at, best)}{_instead(at, results)}"
        )
        yield _odd("falling-bandwidth", journal, notes, at, text, _busbw(best))


def _busbw(one: CaseResult) -> float:
    return 0.0 if one.summary is None else one.summary.busbw_bytes_per_s


def _time_of(one: CaseResult, limit_s: float) -> Evidence:
    return Evidence.of("time_us", _time_s(one), f"{one.case.describe()}, {one.case.ccl}", limit_s)


def _time_s(one: CaseResult) -> float:
    return 0.0 if one.summary is None else one.summary.time_s


def _ran(at: CaseResult, other: CaseResult) -> str:
    """What the library ran at both sizes, if that is known and differs."""
    here, there = at.explanation, other.explanation
    if here is None or there is None or not here.choice or not there.choice:
        return ""
    if here.choice == there.choice:
        return ""
    return f" ({here.choice} ran there, {there.choice} at {format_size(other.case.size_bytes)})"


def _odd(
    rule: str,
    journal: Journal,
    notes: ReferenceNotes,
    at: CaseResult,
    text: str,
    usual_bytes_per_s: float,
) -> Finding:
    """Returns a note if the reference has the same figure for that size, else a finding."""
    evidence = Evidence.of("busbw_gbps", _busbw(at), at.case.describe(), usual_bytes_per_s)
    match = notes.match(at, journal.header)
    if match is not None and verdict_of(match) == "normal":
        text = f"{text}; the reference has {match.figure} there too"
        return Finding(f"{rule}-as-reference", "note", text, evidence=(evidence,))
    return Finding(rule, "look", text, advice=_course_advice(journal, at), evidence=(evidence,))


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


def of_libraries(journal: Journal) -> Iterator[Finding]:
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
        found = [_beside_fastest(operation, sweep.ccls, times_s, size) for size, times_s in ends]
        if texts := [text for text, _ in found if text]:
            evidence = tuple(one for _, own in found for one in own)
            text = f"{operation}: {'; '.join(texts)}"
            yield Finding("libraries-differ", "note", text, evidence=evidence)


def _beside_fastest(
    operation: str, ccls: Sequence[str], times_s: Sequence[float], size_bytes: int
) -> tuple[str, list[Evidence]]:
    """Describes the slower libraries, with their times; empty if all take about the same."""
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
        return "", []
    size = format_size(size_bytes)
    name = ccls[times_s.index(fastest_s)]
    words = [
        f"{time_s / fastest_s:.3g} times{' as long' * (not place)} by {ccl}"
        for place, (time_s, ccl) in enumerate(slower)
    ]
    text = (
        f"{size} take {format_time_us(fastest_s)} µs by {name}, "
        f"{listed(words[:MOST_NAMED], len(words))}"
    )
    return text, [
        Evidence.of("time_us", time_s, f"{operation} {size}, {ccl}", fastest_s)
        for time_s, ccl in slower[:MOST_NAMED]
    ]


def _curve_words(result: CaseResult) -> str:
    return f"{result.case.operation} {result.case.placement}, {result.case.ccl}"


def of_launches(of_operations: Sequence[OperationFindings]) -> Iterator[Finding]:
    """Reports operations whose times launches determine; a device's time is that of a graph."""
    launches = all_launches_in_words(of_operations)
    if not launches:
        return
    times = [
        _time_of(one.latency, one.latency.device.summary.time_s)
        for one in of_operations
        if one.launch_bound is not None and one.latency.device is not None
    ][:_MOST_LISTED]
    gains = [
        Gain(one.value / one.limit, "times as fast", f"graph: {one.at}")
        for one in times
        if one.limit and one.comparison == ">"
    ]
    yield Finding(
        "launch-bound",
        "note",
        launches,
        advice="The time of a call includes the host's work to start it; graphs avoid that cost.",
        evidence=tuple(times),
        gain=next(iter(gains), None),
    )


def findings_on_collectives(run: NamedRun) -> list[Finding]:
    """Returns the findings on collectives of all ranks, the most severe first."""
    journal, notes, operations = run.journal, run.notes, run.findings
    # One rank communicates nothing: its times are those of launches and copies.
    judged = [one for one in operations if one.peak.case.ranks > 1]
    beside = list(of_references(journal, notes, judged))
    found = [
        *of_statuses(journal.cases),
        *of_clocks(journal, operations),
        *of_ranks(journal, operations),
        *of_paths(journal),
        *of_what_ran(journal),
        *of_limits(journal, notes, judged),
        *of_expected(journal, notes, judged),
        *beside,
        *of_restrictions(journal, notes, judged),
        *(of_courses(journal, notes) if judged else ()),
        *of_libraries(journal),
        *of_noise(journal),
        *of_tails(journal),
        *of_launches(operations),
    ]
    data = [*of_data(journal, journal.cases)]
    if operations and not judged:
        found.append(
            Finding(
                "nothing-to-compare-with",
                "unknown",
                "one rank communicates nothing: these are the times of launches and copies",
            )
        )
    comparable = [one for one in judged if moves_data(one.operation)]
    unjudged = [one.name for one in comparable if not _is_judged(one, journal, notes)]
    compared = len(unjudged) < len(comparable)
    lacking = "no link limit and no reference"
    if link_limit(journal.header.links, journal.header.hosts) is not None:
        lacking = f"no reference, and no link limit below {format_size(_LARGE_BYTES)},"
    last = nothing_wrong(
        journal, [*data, *found], compared=compared, unjudged=unjudged, lacking=lacking
    )
    return [*(replace(one, is_outcome=one.severity == "good") for one in data), *found, *last]


def _is_judged(one: OperationFindings, journal: Journal, notes: ReferenceNotes) -> bool:
    """Whether the peak or the smallest message of an operation is compared with anything."""
    header = journal.header
    return (
        (one.largest_bytes >= _LARGE_BYTES and link_limit(header.links, header.hosts) is not None)
        or verdict_of(notes.match(one.peak, header)) != ""
        or notes.latency(one.latency, header) is not None
    )


def headline_of_collectives(run: NamedRun) -> str:
    """Returns the highest peak of all operations and the smallest message's time."""
    journal, of_operations = run.journal, run.findings
    limit = link_limit(journal.header.links, journal.header.hosts)
    found = [one for one in of_operations if moves_data(one.operation)]
    # Of several operations all_reduce is the best known.
    usual = [one for one in found if one.operation == "all_reduce"] or found
    rates = [
        (one.peak.summary.busbw_bytes_per_s, place)
        for place, one in enumerate(usual)
        if one.peak.summary is not None
        and one.largest_bytes >= LEAST_JUDGED_BYTES
        and one.peak.case.ranks > 1
    ]
    if not rates:
        return _of_latencies(usual)
    rate, place = max(rates)
    best = usual[place]
    share = f", {rate / limit:.0%} of the {limit / 1e9:.0f} GB/s link limit" if limit else ""
    text = (
        f"{best.name} reaches {rate / BYTES_PER_GB:.1f} GB/s bus bandwidth at "
        f"{format_size(best.peak.case.size_bytes)}{convergence_text(best.peak)}{share}"
        f"{half_peak_text(best)}"
    )
    latency = best.latency.summary
    if latency is None:
        return f"{text}."
    size = format_size(best.latency.case.size_bytes)
    unsure = convergence_text(best.latency)
    return f"{text}; {size} take {format_time_us(latency.time_s)} µs{unsure}{cycles_text(best)}."


def _of_latencies(found: Sequence[OperationFindings]) -> str:
    """Returns the shortest latency, for runs whose messages are too small to judge by bandwidth."""
    known = [
        (one.latency.summary.time_s, place)
        for place, one in enumerate(found)
        if one.latency.summary is not None
    ]
    if not known:
        return ""
    time_s, place = min(known)
    best = found[place]
    size = format_size(best.latency.case.size_bytes)
    unsure = convergence_text(best.latency)
    alone = " on one rank, with nothing to communicate" if best.latency.case.ranks == 1 else ""
    time = f"{format_time_us(time_s)} µs{unsure}{alone}"
    return f"{best.name} of {size} takes {time}{cycles_text(best)}."


def of_clocks(journal: Journal, of_operations: Sequence[OperationFindings]) -> Iterator[Finding]:
    """Reports operations whose times are the host's although the devices' were requested."""
    header = journal.header
    if header.imported is not None or wanted_clock(header.settings) != "device":
        return
    names = [
        one.name
        for one in of_operations
        if one.peak.summary is not None and one.peak.summary.clock == "host"
    ]
    if names:
        about = listed(names[:_MOST_LISTED], len(names))
        text = f"{about}: by the host's clock: there are no times of the device"
        yield Finding("no-device-times", "note", text)


def of_ranks(journal: Journal, of_operations: Sequence[OperationFindings]) -> Iterator[Finding]:
    """Reports ranks that are slower than the others, or late, in most cases."""
    causes = (
        "Look for other processes on its processor."
        if on_host_alone(journal)
        else "Compare the clocks, temperature and links of that device (`cclmark p2p`; on NVIDIA: "
        "nvidia-smi -q -d PERFORMANCE,CLOCK)."
    )
    slow = f"A collective is as fast as its slowest rank. {causes}"
    late = (
        "Look for other processes on its processor cores, and at how ranks are bound to cores and "
        "memory."
    )
    for one in of_operations:
        for rule, found, words, advice in (
            ("slow-rank", one.slowest, "is slower than the others in most cases", slow),
            ("late-rank", one.late, "comes late, the others wait for it", late),
        ):
            if found is not None:
                rank, share = found
                text = f"{one.name}: rank {rank}{device_words(journal, rank)} {words}"
                evidence = Evidence.of("of_cases_percent", share, f"{one.name}, rank {rank}", 0.5)
                yield Finding(rule, "look", text, advice=advice, evidence=(evidence,))
