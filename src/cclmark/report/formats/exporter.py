"""What every format does with a run: a beginning, a result at a time, an end.

An exporter is fed while the run goes on, so that what was measured is on the screen before the next
case starts, and in the same way from a journal. It returns text and touches nothing else.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

from cclmark.results.schema import Condition, Footer, Header

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


@runtime_checkable
class Observer(Protocol):
    """An exporter that has a use for the condition of devices."""

    def observe(self, condition: Condition) -> None:
        """Takes what was seen of a device after a case."""
        ...
