"""All insights of a run, sorted by their importance."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.findings import OperationFindings, findings
from cclmark.analysis.limits import link_limit
from cclmark.report.insights.beside import of_limits, of_references, of_restrictions
from cclmark.report.insights.curves import of_courses, of_libraries
from cclmark.report.insights.insight_words import Insight, Kind, of_all_ranks
from cclmark.report.insights.noise import of_noise
from cclmark.report.insights.soundness import of_completeness, of_data
from cclmark.report.insights.standing_out import of_copies, of_pairs, of_ranks
from cclmark.report.wording.launches import all_launches_in_words
from cclmark.report.wording.reference_notes import ReferenceNotes
from cclmark.results.journal import Journal

_ORDER: dict[Kind, int] = {"bad": 0, "look": 1, "good": 2, "note": 3}

_LAUNCH_ADVICE = (
    "The time of a call includes what the process does to start it; graphs avoid that cost."
)


def insights(
    journal: Journal,
    notes: ReferenceNotes | None = None,
    of_operations: Sequence[OperationFindings] | None = None,
) -> list[Insight]:
    """The gravest first, then what is in order, then what is only worth knowing.

    ``notes`` knows what others reached; ``of_operations`` are the findings of the collectives of
    all ranks, where they are known already.
    """
    notes = notes or ReferenceNotes()
    if of_operations is None:
        of_operations = findings(of_all_ranks(journal))
    beside = list(of_references(journal, notes, of_operations))
    found = [
        *of_data(journal),
        *of_completeness(journal),
        *of_ranks(journal, of_operations),
        *of_pairs(journal),
        *of_copies(journal, notes),
        *of_limits(journal, notes, of_operations),
        *beside,
        *of_restrictions(journal, notes, of_operations),
        *of_courses(journal, notes),
        *of_libraries(journal),
        *of_noise(journal),
    ]
    if launches := all_launches_in_words(of_operations):
        found.append(Insight("note", launches, _LAUNCH_ADVICE))
    measured = any(one.summary is not None for one in journal.cases)
    measured |= any(one.summary is not None for one in journal.transfers)
    if measured and not any(one.kind in ("bad", "look") for one in found):
        header = journal.header
        held = beside or header.relations or link_limit(header.links, header.hosts) is not None
        found.append(
            Insight("good", "Nothing needs a look.")
            if held
            else Insight("note", "There is no link limit and no reference to hold these against.")
        )
    return sorted(found, key=lambda one: _ORDER[one.kind])
