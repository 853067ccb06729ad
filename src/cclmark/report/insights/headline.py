"""The main figure of a run, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.findings import OperationFindings
from cclmark.analysis.limits import link_limit
from cclmark.analysis.pair_results import sweeps
from cclmark.analysis.statistics import median
from cclmark.plan.operations import moves_data
from cclmark.plan.pair_cases import Pair
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.references.match import LEAST_JUDGED_BYTES
from cclmark.document.naming import Run
from cclmark.document.insight_words import amount
from cclmark.document.remarks import convergence_text, half_peak_text
from cclmark.document.text import BYTES_PER_GB, format_time_us
from cclmark.results.schema import Relation

_MOST_APART = 2.0  # ratio of the rates of links of one kind, for a range


def headline_of_collectives(run: Run) -> str:
    """Returns the highest peak of all operations and the smallest message's time."""
    journal, of_operations = run.journal, run.findings
    limit = link_limit(journal.header.links, journal.header.hosts)
    found = [one for one in of_operations if moves_data(one.operation)]
    # Of several operations all_reduce is the best known.
    usual = [one for one in found if one.operation == "all_reduce"] or found
    rates = [
        (one.peak.summary.busbw_bytes_per_s, place)
        for place, one in enumerate(usual)
        if one.peak.summary is not None and one.largest_bytes >= LEAST_JUDGED_BYTES
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
    return f"{text}; {size} take {format_time_us(latency.time_s)} µs{unsure}."


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
    return f"{best.name} of {size} takes {format_time_us(time_s)} µs{unsure}."


def headline_of_pairs(run: Run) -> str:
    """Returns the bandwidth between two devices."""
    journal = run.journal
    found = sweeps([one for one in journal.cases if one.case.pair is not None])
    usual = [one for one in found if one.series.operation == "all_reduce"] or found
    for sweep in usual:
        if not sweep.measured:
            continue
        point = sweep.measured[-1]
        rates = sorted(one.algbw_bytes_per_s / BYTES_PER_GB for one in point.once.values())
        if rates and point.bytes_per_s:
            return (
                f"{sweep.series.operation} between two devices: "
                f"{point.bytes_per_s / BYTES_PER_GB:.1f} GB/s at {format_size(point.size_bytes)}, "
                f"the median of {amount(len(rates), 'pair')}, from {rates[0]:.1f} to "
                f"{rates[-1]:.1f}."
            )
    return ""


def headline_of_copies(run: Run) -> str:
    """Returns the fastest copies in one direction between two devices, by kind of link."""
    journal = run.journal
    by_series: dict[Transfer, list[tuple[Pair, float]]] = {}
    for one in journal.transfers:
        summary, transfer = one.summary, one.transfer
        if summary is None or one.status != "ok" or not summary.flow_bytes_per_s:
            continue
        start, end = transfer.flows[0]
        if (transfer.scope, transfer.measure) == ("pairs", "unidirectional") and start != end:
            figure = (start, end), summary.flow_bytes_per_s[0]
            by_series.setdefault(transfer.series(), []).append(figure)
    if not by_series:
        return ""
    series = max(by_series, key=lambda one: max(rate for _, rate in by_series[one]))
    what = f"{series.means}, {series.direction}, {format_size(series.size_bytes)}"
    kinds = _by_kind(by_series[series], journal.header.relations)
    texts = []
    for kind, figures in kinds.items():
        over = f" over {(kind or 'unknown links')}" if len(kinds) > 1 else ""
        texts.append(f"{_span([rate for rate, _ in figures])}{over}{_of_limit(figures)}")
    return f"The fastest copies between two devices ({what}) run at {'; '.join(texts)}."


def _by_kind(
    figures: Sequence[tuple[Pair, float]], relations: Sequence[Relation]
) -> dict[str, list[tuple[float, float]]]:
    """Returns rates, each with the limit of its link, by kind of link, the fastest kind first.

    Pairs with an unknown kind of link share one entry; an unknown limit is 0.
    """
    known = {(one.first, one.second): one for one in relations}
    found: dict[str, list[tuple[float, float]]] = {}
    for pair, rate in figures:
        one = known.get(pair)
        kind, limit = ("", 0.0) if one is None else (one.kind, one.limit_bytes_per_s)
        found.setdefault(kind, []).append((rate, limit))
    return dict(sorted(found.items(), key=lambda entry: -max(entry[1])[0]))


def _span(rates: Sequence[float]) -> str:
    """Formats rates as a range, or as the median if they differ too much."""
    low, high = min(rates) / BYTES_PER_GB, max(rates) / BYTES_PER_GB
    if high > _MOST_APART * low:
        middle = median(rates) / BYTES_PER_GB
        return f"{middle:.1f} GB/s (the median of {amount(len(rates), 'pair')})"
    ends = dict.fromkeys((f"{low:.1f}", f"{high:.1f}"))
    return f"{' to '.join(ends)} GB/s"


def _of_limit(figures: Sequence[tuple[float, float]]) -> str:
    """The share of the fastest rate in its own limit; the limit too if all have the same."""
    rate, limit = max(figures)
    if not limit:
        return ""
    if len({own for _, own in figures}) > 1:
        return f", the fastest {rate / limit:.0%} of its limit"
    return f", {rate / limit:.0%} of the {limit / 1e9:.0f} GB/s limit"
