"""Pairs that stand out, in words shared by all formats."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.outliers import LEAST_VALUES
from cclmark.analysis.transfer_results import Checks, Deviation
from cclmark.document.blocks import Finding
from cclmark.document.insight_words import amount, on_host_alone
from cclmark.document.matrix import Matrix
from cclmark.document.text import BYTES_PER_GB, US_PER_S, figure
from cclmark.journal.journal_file import Journal
from cclmark.work.transfers import Transfer

#: What is not there to compare figures of pairs with.
TOO_FEW_PAIRS = f"no reference and no group of {LEAST_VALUES} or more pairs linked in the same way"
#: The names of figures that are not compared with others of the same link.
OTHER_LINKS = ("other links",)
_LEAST_SPAN = 0.20  # of the median: a narrower scale would turn noise into a pattern


def pairs_alike(words: str, rest: int) -> Finding:
    """Returns that ``words`` stand out, good unless ``rest`` figures could not be compared."""
    text = f"{words} stands out among those linked in the same way"
    if not rest:
        return Finding("pairs-alike", "good", text)
    few = f"{amount(rest, 'figure')} of links with fewer than {LEAST_VALUES} were not compared"
    return Finding("pairs-alike", "note", f"{text}; {few}")


def _known(values: Sequence[Sequence[float | None]]) -> list[float]:
    return sorted(value for line in values for value in line if value is not None)


def least_span(values: Sequence[Sequence[float | None]]) -> float:
    """Returns the smallest range of a matrix's colour scale."""
    known = _known(values)
    return known[len(known) // 2] * _LEAST_SPAN if known else 0.0


def extremes(
    values: Sequence[Sequence[float | None]],
    unit: str,
    rows: Sequence[str],
    columns: Sequence[str],
) -> str:
    """Describes the smallest and the largest value with their places."""
    cells = [
        (value, f"{rows[row]}, {columns[column]}")
        for row, line in enumerate(values)
        for column, value in enumerate(line)
        if value is not None
    ]
    if not cells:
        return "There is no figure."
    low, high = min(cells), max(cells)
    return f"From {figure(low[0])} ({low[1]}) to {figure(high[0])} {unit} ({high[1]})."


def relative(value: float, usual: float, *, lower_is_better: bool) -> str:
    """Returns ``43% lower, worse``: the difference from the usual value, and whether it is good.

    A value that is not 0 is never 100% lower: ``a factor of 812 lower``.
    """
    lower = value < usual
    word = "better" if lower == lower_is_better else "worse"
    share = f"{abs(value / usual - 1):.0%}"
    if lower and value > 0 and share == "100%":
        share = f"a factor of {float(f'{usual / value:.3g}'):,.0f}"
    return f"{share} {'lower' if lower else 'higher'}, {word}"


def deviation_text(one: Deviation, names: Sequence[str]) -> str:
    """Describes a copy that stands out: the measured value and the usual one."""
    latency = one.transfer.measure == "latency"
    scale, unit = (US_PER_S, "µs") if latency else (1 / BYTES_PER_GB, "GB/s")
    start, end = (names[rank] for rank in one.pair)
    share = relative(one.value, one.usual, lower_is_better=latency)
    return (
        f"{start} → {end}: {figure(one.value * scale)} {unit}, usual for {one.kind} "
        f"{figure(one.usual * scale)} {unit} ({share}): {series_title(one.transfer.series())}"
    )


def series_title(series: Transfer) -> str:
    """Describes the series, as the heading of its matrix."""
    figure_of = "latency" if series.measure == "latency" else "bandwidth"
    return Matrix(series, figure_of, [], []).title


def checks_text(checks: Checks) -> str:
    """Returns the number of checked transfers, and of results without an output to check."""
    what = "copies"
    if checks.messages:
        what = "messages" if checks.messages == checks.copies else "copies and messages"
    text = f"{checks.checked} of {checks.copies} {what} checked, {checks.wrong} wrong"
    if not checks.unverifiable:
        return text
    latencies = "latency" if checks.unverifiable == 1 else "latencies"
    return f"{text}; {checks.unverifiable} {latencies} of loads and stores have no output to check"


def link_advice(journal: Journal) -> str:
    """Returns what to look at when links are slow, as an advice of findings."""
    if journal.header.settings.inject:
        return "the cause may be the fault injected by --inject"
    if on_host_alone(journal):
        return (
            "measure it again alone. Between processes of a host, the load of other programs "
            "and the memory's NUMA node have more effect than any link"
        )
    return (
        "measure it again alone (`cclmark p2p`). If it stays: look for errors and the width and "
        "speed of that link (on NVIDIA: nvidia-smi nvlink -s and -e), reseat or swap cable or "
        "module"
    )
