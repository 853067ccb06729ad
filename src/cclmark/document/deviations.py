"""Pairs that stand out, in words shared by all formats."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.outliers import LEAST_VALUES
from cclmark.document.blocks import Finding
from cclmark.document.insight_words import amount, on_host_alone
from cclmark.document.text import figure
from cclmark.journal.journal_file import Journal

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


def least_span(values: Sequence[Sequence[float | None]]) -> float:
    """Returns the smallest range of a matrix's colour scale."""
    known = sorted(value for line in values for value in line if value is not None)
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
