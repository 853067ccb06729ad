"""What a run of copies says: its main figure, and what stands out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.analysis.copies import checks_of, outliers_of
from cclmark.analysis.statistics import median
from cclmark.document.cells import device_names
from cclmark.document.deviations import checks_text, deviation_text, link_advice, series_title
from cclmark.document.insight_words import MOST_NAMED, Insight, InsightKind, amount
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes, share_text, verdict_of, verdict_text
from cclmark.document.soundness import nothing_wrong, of_completeness, of_data
from cclmark.document.text import BYTES_PER_GB
from cclmark.plan.pair_cases import Pair
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.references.copy_matching import slowest_matches
from cclmark.results.journal import Journal
from cclmark.results.schema import Relation


def insights_on_copies(run: NamedRun) -> list[Insight]:
    """Returns insights on copies and latencies."""
    journal = run.journal
    checks = checks_of(journal.transfers)
    unverifiable = f" ({checks_text(checks)})" if checks.unverifiable else ""
    found = [
        *of_data(journal, journal.transfers, unverifiable),
        *of_completeness(journal, journal.transfers),
        *of_copies(journal, run.notes),
    ]
    return [*found, *nothing_wrong(run, found)]


_MOST_APART = 2.0  # ratio of the rates of links of one kind, for a range


def headline_of_copies(run: NamedRun) -> str:
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


def of_copies(journal: Journal, notes: ReferenceNotes) -> Iterator[Insight]:
    """Reports copies that stand out, and whether the slowest ones are normal."""
    header = journal.header
    names = device_names(header)
    found = outliers_of(journal.transfers, header)
    if not found.far and found.compared:
        yield Insight("good", "Copies: no pair stands out among those linked in the same way.")
    for one in found.worse[:MOST_NAMED]:
        yield Insight("look", f"Copies: {deviation_text(one, names)}.", link_advice(journal))
    quick = [one for one in found.far if not one.worse]
    for one in quick[:MOST_NAMED]:
        yield Insight("note", f"Copies: {deviation_text(one, names)}.")
    normal: dict[str, list[float]] = {}
    for series, match in slowest_matches(journal.transfers, header, notes.match_transfer).items():
        verdict = verdict_of(match)
        if verdict == "normal":
            normal.setdefault(match.name, []).append(match.share)
        elif text := verdict_text(match):
            kind: InsightKind = "look" if verdict else "note"
            advice = link_advice(journal) if verdict == "low" else ""
            yield Insight(kind, f"{series_title(series)}: the slowest pair, {text}.", advice)
    for name, shares in normal.items():
        ends = " to ".join(dict.fromkeys((share_text(min(shares)), share_text(max(shares)))))
        matrices = amount(len(shares), "matrix", "matrices")
        yield Insight(
            "good",
            f"Copies are normal: in {matrices} the slowest pair reaches {ends} of the reference "
            f"({name}).",
        )
