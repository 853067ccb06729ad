"""Insights for each kind of work."""

from __future__ import annotations

from cclmark.analysis.copies import checks_of
from cclmark.analysis.limits import link_limit
from cclmark.document.naming import Run
from cclmark.report.insights.beside import of_limits, of_references, of_restrictions
from cclmark.report.insights.curves import of_courses, of_libraries
from cclmark.document.insight_words import Insight
from cclmark.report.insights.noise import of_noise
from cclmark.report.insights.ran import of_what_ran
from cclmark.document.soundness import of_checks, of_completeness, of_data
from cclmark.report.insights.standing_out import of_copies, of_pairs, of_ranks
from cclmark.document.deviations import checks_text
from cclmark.document.launches import all_launches_in_words

_LAUNCH_ADVICE = "The time of a call includes the host's work to start it; graphs avoid that cost."


def insights_on_collectives(run: Run) -> list[Insight]:
    """Returns insights on collectives of all ranks."""
    journal, notes, operations = run.journal, run.notes, run.findings
    beside = list(of_references(journal, notes, operations))
    found = [
        *of_data(journal, journal.cases),
        *of_completeness(journal, journal.cases),
        *of_ranks(journal, operations),
        *of_what_ran(journal),
        *of_limits(journal, notes, operations),
        *beside,
        *of_restrictions(journal, notes, operations),
        *of_courses(journal, notes),
        *of_libraries(journal),
        *of_noise(journal),
    ]
    if launches := all_launches_in_words(operations):
        found.append(Insight("note", launches, _LAUNCH_ADVICE))
    return [*found, *_nothing_wrong(run, found, compared=bool(beside))]


def insights_on_pairs(run: Run) -> list[Insight]:
    """Returns insights on collectives of pairs."""
    journal = run.journal
    found = [
        *of_data(journal, journal.cases),
        *of_completeness(journal, journal.cases),
        *of_pairs(journal),
        *of_what_ran(journal),
        *of_noise(journal),
    ]
    return [*found, *_nothing_wrong(run, found)]


def insights_on_copies(run: Run) -> list[Insight]:
    """Returns insights on copies and latencies."""
    journal = run.journal
    checks = checks_of(journal.transfers)
    unverifiable = f" ({checks_text(checks)})" if checks.unverifiable else ""
    found = [
        *of_data(journal, journal.transfers, unverifiable),
        *of_completeness(journal, journal.transfers),
        *of_copies(journal, run.notes),
    ]
    return [*found, *_nothing_wrong(run, found)]


def insights_on_checks(run: Run) -> list[Insight]:
    """Returns insights on checks."""
    return [*of_checks(run.journal.checks), *of_completeness(run.journal, [])]


def _nothing_wrong(run: Run, found: list[Insight], *, compared: bool = False) -> list[Insight]:
    """Returns the insight that nothing needs attention, or that nothing was comparable."""
    if any(one.kind in ("bad", "look") for one in found):
        return []
    header = run.journal.header
    if not any(result.is_measured for result in run.journal.results):
        return []
    if compared or header.relations or link_limit(header.links, header.hosts) is not None:
        return [Insight("good", "Nothing needs a look.")]
    text = "There is no link limit and no reference to hold these against."
    return [Insight("note", text)]
