"""Which flat table journals come into: all of one kind, cases of pairs and of all ranks alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cclmark.errors import UsageError
from cclmark.report.flat.flat_cases import case_table, check_table, transfer_table
from cclmark.report.flat.flat_table import Table
from cclmark.report.flat.samples import sample_table, transfer_sample_table
from cclmark.report.replay import kind_of
from cclmark.results.journal import Journal

_TABLES: dict[tuple[str, str], Callable[[Sequence[Journal]], Table]] = {
    ("cases", "cases"): case_table,
    ("cases", "samples"): sample_table,
    ("transfers", "cases"): transfer_table,
    ("transfers", "samples"): transfer_sample_table,
    ("checks", "cases"): check_table,
}


def chosen_table(journals: Sequence[tuple[str, Journal]], name: str) -> Table:
    """The table ``cases`` or ``samples`` of journals, each with its name.

    Raises UsageError for journals of different kinds, and for samples where there are none.
    """
    kinds = {title: kind_of(journal).replace("pairs", "cases") for title, journal in journals}
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{title} holds {kind}" for title, kind in kinds.items())
        raise UsageError(f"one table holds one kind of results, and {told}: export them apart")
    kind = next(iter(kinds.values()))
    runs = [journal for _, journal in journals]
    if name == "samples" and not any(_has_samples(run) for run in runs):
        raise UsageError(
            f"{', '.join(kinds)}: no raw samples in there; --table cases has what there is"
        )
    return _TABLES[kind, name](runs)


def _has_samples(run: Journal) -> bool:
    cases = any(result.samples is not None for result in run.cases)
    return cases or any(result.samples is not None for result in run.transfers)
