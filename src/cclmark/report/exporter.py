"""What every format does with a run: a beginning, a result at a time, an end.

An exporter is fed while the run goes on, so that what was measured is on the screen before the next
case starts, and in the same way from a journal. It returns text and touches nothing else.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from cclmark.results.schema import Footer, Header

Result_contra = TypeVar("Result_contra", contravariant=True)


class Exporter(Protocol[Result_contra]):
    """Turns results of one kind into one format. Each method returns text to append, if any."""

    def begin(self, header: Header) -> str:
        """What comes before the first result."""
        ...

    def add(self, result: Result_contra) -> str:
        """What one more result adds. Cases of one size come next to each other."""
        ...

    def end(self, footer: Footer | None) -> str:
        """What closes the text; ``footer`` is None for a run that did not end by itself."""
        ...
