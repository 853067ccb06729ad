"""What every format does with a run: a beginning, a case at a time, an end.

An exporter is fed while the run goes on, so that what was measured is on the screen before the next
case starts, and in the same way from a journal. It returns text and touches nothing else.
"""

from __future__ import annotations

from typing import Protocol

from cclmark.results.schema import CaseResult, Footer, Header


class Exporter(Protocol):
    """Turns results into one text format. Each method returns text to append (maybe none)."""

    def begin(self, header: Header) -> str:
        """What comes before the first case."""
        ...

    def case(self, result: CaseResult) -> str:
        """What one more result adds. Results of one size come next to each other."""
        ...

    def end(self, footer: Footer | None) -> str:
        """What closes the text; ``footer`` is None for a run that did not end by itself."""
        ...
