"""Executed operations: paths that are worse than necessary, and ranks that differ."""

from __future__ import annotations

from collections.abc import Iterator

from cclmark.analysis.path_warnings import path_warnings
from cclmark.document.insight_words import (
    MOST_NAMED,
    Insight,
    amount,
    described,
    listed,
    sentence,
)
from cclmark.results.journal import Journal
from cclmark.results.item_results import CaseResult


def of_what_ran(journal: Journal) -> Iterator[Insight]:
    """Yields the findings of the pass that explains; nothing without one."""
    for paths in journal.paths:
        for text in path_warnings(journal.header, paths):
            yield Insight("look", f"{paths.ccl}: {text}.")
        for text in paths.messages:
            yield Insight("note", f"{paths.ccl} reports: {text}.")
    differing: dict[str, list[CaseResult]] = {}
    unknown: dict[str, list[CaseResult]] = {}
    for result in journal.cases:
        found = result.explanation
        if found is None or not found.reason:
            continue
        of = unknown if found.source == "unknown" else differing
        of.setdefault(found.reason, []).append(result)
    for reason, results in differing.items():
        names = listed([described(one) for one in results[:MOST_NAMED]], len(results))
        yield Insight("note", sentence(f"{reason}: {names}"))
    if len(unknown) > MOST_NAMED:  # of many operations, each with its own variables
        cases = amount(sum(map(len, unknown.values())), "case")
        first = next(iter(unknown))
        yield Insight(
            "note",
            f"What ran is unknown in {cases}, for {len(unknown)} reasons in the column "
            f"`explanation` below, for example: {first}.",
        )
        return
    for reason, results in unknown.items():
        yield Insight("note", f"What ran is unknown in {amount(len(results), 'case')}: {reason}.")
