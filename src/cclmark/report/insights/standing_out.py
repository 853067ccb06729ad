"""Ranks and pairs of devices that are far from the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.analysis.findings import findings
from cclmark.analysis.outliers import LEAST_VALUES
from cclmark.analysis.pairs import PairDeviation, PairSweep, pair_deviations, sweeps
from cclmark.analysis.transfers import deviations, figures
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.report.charts.cells import device_names
from cclmark.report.insights.words import (
    MOST_NAMED,
    Insight,
    device_words,
    of_all_ranks,
    on_host_alone,
)
from cclmark.report.matrix import figure
from cclmark.report.text import BYTES_PER_GB, US_PER_S, format_time_us, plain
from cclmark.results.journal import Journal

_LATENCY_BYTES = 64 << 10
_LATENCY_ADVICE = (
    "With messages this small the processors that launch operations decide, more than links: "
    "that says nothing against a link."
)


def of_ranks(journal: Journal) -> Iterator[Insight]:
    """Those that are slower than the others, or come late, in most cases."""
    host = on_host_alone(journal)
    for found in findings(of_all_ranks(journal)):
        name = plain(found.name)
        if found.slowest_rank is not None:
            device = device_words(journal, found.slowest_rank)
            yield Insight(
                "look",
                f"{name}: rank {found.slowest_rank}{device} is slower than the others in most "
                "cases.",
                "A collective is as fast as its slowest rank. "
                + (
                    "Look for what else runs on its processor."
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
                "Look for what else runs on its processor cores, and at how ranks are bound to "
                "cores and memory.",
            )


def of_pairs(journal: Journal) -> Iterator[Insight]:
    """Pairs whose collectives take longer than those of pairs linked in the same way."""
    found = sweeps([one for one in journal.results if one.case.pair is not None])
    names = device_names(journal.header)
    far = [
        one for one in pair_deviations(found, journal.header.relations) if one.time_s > one.usual_s
    ]
    if not far and any(_enough(sweep) for sweep in found):
        yield Insight("good", "No pair of devices stands out among those linked in the same way.")
    far.sort(key=lambda one: one.usual_s / one.time_s)
    large = [one for one in far if one.size_bytes >= _LATENCY_BYTES]
    small = [one for one in far if one.size_bytes < _LATENCY_BYTES]
    for one in large[:MOST_NAMED]:
        yield Insight("look", f"{_far_words(one, names)}.", _link_advice(journal))
    if small:
        more = f" (and {len(small) - 1} more like that)" if len(small) > 1 else ""
        yield Insight("note", f"{_far_words(small[0], names)}{more}.", _LATENCY_ADVICE)


def _far_words(one: PairDeviation, names: Sequence[str]) -> str:
    first, second = (names[rank] for rank in one.pair)
    return (
        f"{first} and {second} need {format_time_us(one.time_s)} µs for "
        f"{plain(one.series.operation)} of {format_size(one.size_bytes)}; pairs linked by "
        f"{plain(one.kind)} usually need {format_time_us(one.usual_s)} µs"
    )


def _enough(sweep: PairSweep) -> bool:
    return any(len(point.once) >= LEAST_VALUES for point in sweep.measured)


def of_copies(journal: Journal) -> Iterator[Insight]:
    """The same of copies."""
    by_series: dict[Transfer, int] = {}
    for result in journal.transfers:
        if result.transfer.scope in ("pairs", "all-pairs"):
            series = result.transfer.series()
            by_series[series] = by_series.get(series, 0) + len(figures(result))
    names = device_names(journal.header)
    far = [one for one in deviations(journal.transfers, journal.header.relations) if one.worse]
    if not far and any(count >= LEAST_VALUES for count in by_series.values()):
        yield Insight("good", "Copies: no pair stands out among those linked in the same way.")
    far.sort(key=lambda one: min(one.value / one.usual, one.usual / one.value))
    for one in far[:MOST_NAMED]:
        latency = one.transfer.measure == "latency"
        scale, unit = (US_PER_S, "µs") if latency else (1 / BYTES_PER_GB, "GB/s")
        start, end = (names[rank] for rank in one.pair)
        yield Insight(
            "look",
            f"Copies from {start} to {end}: {figure(one.value * scale)} {unit}, where pairs linked "
            f"by {plain(one.kind)} usually have {figure(one.usual * scale)} "
            f"({plain(one.transfer.means)}, {plain(one.transfer.measure)}).",
            _link_advice(journal),
        )


def _link_advice(journal: Journal) -> str:
    if journal.header.settings.inject:
        return "That may be what --inject put in."
    if on_host_alone(journal):
        return (
            "Measure it again alone. Between processes of a host it is the load of other programs "
            "and the memory's NUMA node that decide, before any link."
        )
    return (
        "Measure it again alone (`cclmark p2p`). If it stays: look for errors and the width and "
        "speed of that link (on NVIDIA: nvidia-smi nvlink -s and -e), reseat or swap cable or "
        "module."
    )
