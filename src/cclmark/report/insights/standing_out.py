"""Ranks and pairs of devices that are far from the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.analysis.copies import outliers_of
from cclmark.analysis.findings import OperationFindings
from cclmark.analysis.meaning import times_mean_little
from cclmark.analysis.outliers import LEAST_VALUES
from cclmark.analysis.pair_results import PairDeviation, PairSweep, pair_outliers, sweeps
from cclmark.plan.sizes import format_size
from cclmark.references.copy_matching import slowest_matches
from cclmark.document.cells import device_names
from cclmark.document.insight_words import (
    MOST_NAMED,
    Insight,
    InsightKind,
    amount,
    device_words,
    on_host_alone,
)
from cclmark.document.deviations import deviation_text, relative, series_title
from cclmark.document.reference_notes import (
    ReferenceNotes,
    share_text,
    verdict_of,
    verdict_text,
)
from cclmark.document.text import format_time_us
from cclmark.results.journal import Journal

_LATENCY_BYTES = 64 << 10
_LATENCY_ADVICE = (
    "With messages this small the time depends more on the processors that launch operations than "
    "on links. It does not indicate a slow link."
)


def of_ranks(journal: Journal, of_operations: Sequence[OperationFindings]) -> Iterator[Insight]:
    """Reports ranks that are slower than the others, or late, in most cases."""
    host = on_host_alone(journal)
    for found in of_operations:
        name = found.name
        if found.slowest_rank is not None:
            device = device_words(journal, found.slowest_rank)
            yield Insight(
                "look",
                f"{name}: rank {found.slowest_rank}{device} is slower than the others in most "
                "cases.",
                "A collective is as fast as its slowest rank. "
                + (
                    "Look for other processes on its processor."
                    if host
                    else "Compare the clocks, temperature and links of that device (`cclmark "
                    "p2p`; on NVIDIA: nvidia-smi -q -d PERFORMANCE,CLOCK)."
                ),
            )
        if found.late_rank is not None:
            device = device_words(journal, found.late_rank)
            yield Insight(
                "look",
                f"{name}: rank {found.late_rank}{device} comes late, the others wait for it.",
                "Look for other processes on its processor cores, and at how ranks are bound to "
                "cores and memory.",
            )


def of_pairs(journal: Journal) -> Iterator[Insight]:
    """Reports pairs that are slower in collectives than pairs with the same kind of link."""
    found = sweeps([one for one in journal.cases if one.case.pair is not None])
    names = device_names(journal.header)
    outliers = pair_outliers(found, journal.header)
    far = [one for one in outliers if one.time_s > one.usual_s]
    quick = [one for one in reversed(outliers) if one.time_s <= one.usual_s]
    compared = any(_enough(sweep) for sweep in found)
    if not outliers and compared and not times_mean_little(journal.header):
        yield Insight("good", "No pair of devices stands out among those linked in the same way.")
    large = [one for one in far if one.size_bytes >= _LATENCY_BYTES]
    small = [one for one in far if one.size_bytes < _LATENCY_BYTES]
    for one in large[:MOST_NAMED]:
        yield Insight("look", f"{_far_words(one, names)}.", _link_advice(journal))
    if small:
        more = f" (and {len(small) - 1} more like that)" if len(small) > 1 else ""
        yield Insight("note", f"{_far_words(small[0], names)}{more}.", _LATENCY_ADVICE)
    if quick:
        more = f" (and {len(quick) - 1} more)" if len(quick) > 1 else ""
        yield Insight("note", f"{_far_words(quick[0], names)}{more}.")


def _far_words(one: PairDeviation, names: Sequence[str]) -> str:
    first, second = (names[rank] for rank in one.pair)
    return (
        f"{first} and {second} need {format_time_us(one.time_s)} µs for "
        f"{one.series.operation} of {format_size(one.size_bytes)}; pairs linked by "
        f"{one.kind} usually need {format_time_us(one.usual_s)} µs "
        f"({relative(one.time_s, one.usual_s, lower_is_better=True)})"
    )


def _enough(sweep: PairSweep) -> bool:
    return any(len(point.once) >= LEAST_VALUES for point in sweep.measured)


def of_copies(journal: Journal, notes: ReferenceNotes) -> Iterator[Insight]:
    """Reports copies that stand out, and whether the slowest ones are normal."""
    header = journal.header
    names = device_names(header)
    found = outliers_of(journal.transfers, header)
    if not found.far and found.compared:
        yield Insight("good", "Copies: no pair stands out among those linked in the same way.")
    for one in found.worse[:MOST_NAMED]:
        yield Insight("look", f"Copies: {deviation_text(one, names)}.", _link_advice(journal))
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
            advice = _link_advice(journal) if verdict == "low" else ""
            yield Insight(kind, f"{series_title(series)}: the slowest pair, {text}.", advice)
    for name, shares in normal.items():
        ends = " to ".join(dict.fromkeys((share_text(min(shares)), share_text(max(shares)))))
        matrices = amount(len(shares), "matrix", "matrices")
        yield Insight(
            "good",
            f"Copies are normal: in {matrices} the slowest pair reaches {ends} of the reference "
            f"({name}).",
        )


def _link_advice(journal: Journal) -> str:
    if journal.header.settings.inject:
        return "The cause may be the fault injected by --inject."
    if on_host_alone(journal):
        return (
            "Measure it again alone. Between processes of a host, the load of other programs "
            "and the memory's NUMA node have more effect than any link."
        )
    return (
        "Measure it again alone (`cclmark p2p`). If it stays: look for errors and the width and "
        "speed of that link (on NVIDIA: nvidia-smi nvlink -s and -e), reseat or swap cable or "
        "module."
    )
