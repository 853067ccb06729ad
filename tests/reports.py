"""Reports of journals as tests need them: without a name, and without references unless given."""

from __future__ import annotations

from cclmark.report.charts.naming import Run
from cclmark.report.insights.insight_words import Insight
from cclmark.report.overview import headline, insights
from cclmark.report.wording.reference_notes import ReferenceNotes
from cclmark.results.journal import Journal


def insights_on(journal: Journal, notes: ReferenceNotes | None = None) -> list[Insight]:
    """The statements about a run."""
    return insights(Run("", journal, notes or ReferenceNotes()))


def headline_of(journal: Journal) -> str:
    """The figure of a run to remember."""
    return headline(Run("", journal))
