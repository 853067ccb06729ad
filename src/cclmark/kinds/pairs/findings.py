"""What a run of pairs says: its main figure, and what stands out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.analysis.outliers import LEAST_VALUES, times_mean_little
from cclmark.analysis.pair_results import PairDeviation, PairSweep, pair_outliers, sweeps
from cclmark.document.cells import device_names
from cclmark.document.deviations import link_advice, relative
from cclmark.document.insight_words import MOST_NAMED, Insight, amount
from cclmark.document.naming import NamedRun
from cclmark.document.noise import of_noise, of_what_ran
from cclmark.document.soundness import nothing_wrong, of_completeness, of_data
from cclmark.document.text import BYTES_PER_GB, format_time_us
from cclmark.plan.sizes import format_size
from cclmark.results.journal import Journal


def insights_on_pairs(run: NamedRun) -> list[Insight]:
    """Returns insights on collectives of pairs."""
    journal = run.journal
    found = [
        *of_data(journal, journal.cases),
        *of_completeness(journal, journal.cases),
        *of_pairs(journal),
        *of_what_ran(journal),
        *of_noise(journal),
    ]
    return [*found, *nothing_wrong(run, found)]


def headline_of_pairs(run: NamedRun) -> str:
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


_LATENCY_BYTES = 64 << 10


_LATENCY_ADVICE = (
    "With messages this small the time depends more on the processors that launch operations than "
    "on links. It does not indicate a slow link."
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
        yield Insight("look", f"{_far_words(one, names)}.", link_advice(journal))
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
